"""Times are kept in UTC, whatever zone they came in, and only those that every zone's calendar can show."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import SaveRequest, UpdateRequest
from memory_contracts.records import Bank, Memory, Source
from memory_worker.gate import importing
from memory_worker.store import Caller, Origin
from tests.gate.conftest import ANA, CODER, SENSOR, World

EAST, WEST = timezone(timedelta(hours=12)), timezone(timedelta(hours=-12))
BEFORE_THE_CALENDAR = datetime(1, 1, 1, tzinfo=EAST)
AFTER_THE_CALENDAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=WEST)


async def test_a_time_of_another_zone_is_kept_in_utc(world: World) -> None:
    """The same instant, shown in UTC: `2030-01-01T00:00:00+12:00` is noon of the day before."""
    memory = await world.save(
        ANA,
        "The lease begins",
        occurred_at=datetime(2020, 1, 1, tzinfo=EAST),
        expires_at=datetime(2030, 1, 1, tzinfo=EAST),
    )
    noon = datetime(2029, 12, 31, 12, tzinfo=UTC)
    assert memory.occurred_at is not None
    assert (memory.expires_at, memory.expires_at and memory.expires_at.tzinfo) == (noon, UTC)
    assert memory.occurred_at.isoformat() == "2019-12-31T12:00:00+00:00"
    later = datetime(2031, 1, 1, tzinfo=WEST)
    changed = (await world.gate.update(ANA, UpdateRequest(id=memory.id, expires_at=later))).memory
    assert changed is not None
    assert changed.expires_at is not None
    assert changed.expires_at.isoformat() == "2031-01-01T12:00:00+00:00"


@pytest.mark.parametrize("caller", [ANA, CODER, SENSOR])
@pytest.mark.parametrize("field", ["occurred_at", "expires_at"])
async def test_a_time_that_no_calendar_shows_is_refused(world: World, caller: Caller, field: str) -> None:
    """It would be saved and then be unreadable for every reader of the journal; the error names field and limits."""
    with pytest.raises(FunctionError) as refused:
        await world.gate.save(caller, SaveRequest(text="The end of days", **{field: AFTER_THE_CALENDAR}))
    assert (refused.value.code, refused.value.field) == ("invalid_input", field)
    assert "9999-12-30" in refused.value.message
    assert not await world.live()


async def test_a_time_before_the_calendar_is_refused(world: World) -> None:
    """The first day of the first year is not the same year everywhere."""
    with pytest.raises(FunctionError) as refused:
        await world.gate.save(ANA, SaveRequest(text="The beginning", occurred_at=BEFORE_THE_CALENDAR))
    assert (refused.value.code, refused.value.field) == ("invalid_input", "occurred_at")


async def test_an_update_to_such_a_time_is_refused(world: World) -> None:
    """A correction is held to the same limits as a save."""
    memory = await world.save(ANA, "The lease begins")
    with pytest.raises(FunctionError) as refused:
        await world.gate.update(ANA, UpdateRequest(id=memory.id, expires_at=AFTER_THE_CALENDAR))
    assert (refused.value.code, refused.value.field) == ("invalid_input", "expires_at")


@pytest.mark.parametrize("field", ["created_at", "updated_at", "last_seen_at", "occurred_at"])
async def test_an_archive_with_such_a_time_is_refused_by_record(world: World, field: str) -> None:
    """One record of an archive that no reader could show is refused by name; the others come in."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    source = Source(route="human", principal="ana")
    common = {"bank": "main", "kind": "fact", "tier": "stated", "source": source, "updated_at": now}
    times = {"created_at": now, "last_seen_at": now}
    good = Memory(id="mem_good", text="A good day", **common, **times)  # type: ignore[arg-type]
    bad = Memory(id="mem_bad", text="A bad day", **{**common, **times, field: BEFORE_THE_CALENDAR})  # type: ignore[arg-type]
    gate, origin = world.gate, Origin.of(ANA, "archive")
    done = await world.store.write(
        lambda tx: importing.import_memories(gate.act(tx, ANA, origin), "main", [bad, good], True, gate.vault)
    )
    assert [one.outcome for one in done] == ["refused", "created"]
    assert field in done[0].reason


@pytest.mark.parametrize("field", ["created_at", "updated_at"])
async def test_a_bank_with_such_a_time_is_refused(world: World, field: str) -> None:
    """A bank of an archive is held to the same limits as its memories."""
    now = datetime(2025, 1, 1, tzinfo=UTC)
    bank = Bank(name="old", **{"created_at": now, "updated_at": now, field: BEFORE_THE_CALENDAR})
    origin = Origin.of(ANA, "archive")
    with pytest.raises(FunctionError) as refused:
        await world.store.write(lambda tx: importing.import_bank(world.gate.act(tx, ANA, origin), bank))
    assert (refused.value.code, refused.value.field) == ("invalid_input", field)
