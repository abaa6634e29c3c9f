"""A memory lapses at its second, on every path at once, whatever the clock does; a person is told of what they said."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memory_contracts.functions.banks import BankCreateRequest, BankListRequest
from memory_contracts.functions.memories import (
    GetRequest,
    ListRequest,
    PinRequest,
    SaveRequest,
    TagsRequest,
    UpdateRequest,
)
from memory_contracts.functions.operations import ExportRequest
from memory_contracts.functions.review import (
    ChangesRevertRequest,
    EntityGetRequest,
    EntityListRequest,
    NoticeAckRequest,
    NoticeListRequest,
)
from memory_contracts.records import Claim
from memory_worker.clock import to_datetime
from memory_worker.files import Archives
from memory_worker.gate import Sweeper, noticing
from memory_worker.gate.looking import Looking
from memory_worker.recall import RecallQuery
from memory_worker.store import Origin
from tests.context.room import HARNESS, ME, SENSOR, Room, agent, room, texts
from tests.gate.conftest import ANA, CODER, World, code_of, said

DAY = 86_400.0
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Room]:
    """A tenant with recall and context."""
    async with room(tmp_path / "local") as opened:
        yield opened


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose local time changes by an hour in October and in March."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(world: World, moment: datetime) -> None:
    """Set the clock."""
    world.clock.at = moment.timestamp()


async def served(here: Room, memory_id: str, text: str) -> set[str]:
    """Every read path that still serves a memory as live."""
    reading = here.gate.reading
    looking = Looking(here.store, here.gate.directory)
    found: set[str] = set()
    got = await reading.get(ME, GetRequest(id=memory_id))
    assert got.memory is not None
    if got.memory.state == "live":
        found.add("get")
    if (await reading.list(ME, ListRequest())).total:
        found.add("list")
    if (await reading.list(ME, ListRequest(entity="Ana"))).memories:
        found.add("list by entity")
    if (await reading.list(ME, ListRequest(state="live", include_superseded=True))).memories:
        found.add("list by state")
    if (await reading.tags(ME, TagsRequest())).tags:
        found.add("tags")
    if (await here.recall.recall(("main",), RecallQuery(text=text))).memories:
        found.add("recall")
    if texts(await here.context(text, session_id=f"s{here.clock.at}")):
        found.add("context")
    if (await here.preview(text)).items:
        found.add("preview")
    if (await looking.entity_list(ME, EntityListRequest())).entities:
        found.add("entity.list")
    page = await looking.entity_get(ME, EntityGetRequest(entity="Ana"))
    if page.facts or page.mentions or page.total:
        found.add("entity.get")
    [bank] = (await reading.bank_list(ME, BankListRequest())).banks
    if bank.counts is not None and bank.counts.live:
        found.add("bank.list")
    archives = Archives(here.store.directory, here.gate, here.clock, "1", _no_reveal, data_dir=here.store.directory)
    if (await archives.export(ME, ExportRequest())).counts["memories"]:
        found.add("export")
    return found


async def _no_reveal(caller: object, ref: str) -> str:
    raise AssertionError("nothing is protected here")


PATHS = {
    *("get", "list", "list by entity", "list by state", "tags", "recall", "context", "preview"),
    *("entity.list", "entity.get", "bank.list", "export"),
}


async def test_no_path_serves_it_from_its_second_on(here: Room) -> None:
    """A second before, every read path has the memory; on its second none has, though no sweep has run."""
    text = "Ana parks her bicycle in the cellar"
    ends = to_datetime(here.clock.at) + timedelta(seconds=10)
    claim = Claim(entity="Ana", property="bicycle", value="cellar")
    memory = await here.save(text, tags=["bike"], entities=["Ana"], claim=claim, expires_at=ends)
    here.clock.at += 9
    assert await served(here, memory.id, text) == PATHS
    here.clock.at += 1
    assert await served(here, memory.id, text) == set()


async def test_what_is_over_stands_in_nobodys_way(world: World) -> None:
    """From its second on a memory is not reinforced, changed, pinned or contradicted, swept or not."""
    ends = to_datetime(world.clock.at) + timedelta(seconds=10)
    old = await world.save(ANA, "Ana lives in Rome", subject="home", expires_at=ends)
    same = await world.save(ANA, "Ana likes tea", expires_at=ends)
    world.clock.forward(seconds=10)
    assert await code_of(world.gate.update(ANA, UpdateRequest(id=old.id, text="x"))) == "conflict"
    assert await code_of(world.gate.pin(ANA, PinRequest(id=old.id, pinned=True))) == "conflict"
    reply = await world.gate.save(CODER, SaveRequest(text="Ana lives in Oslo", subject="home"))
    assert reply.outcome == "created"
    again = await world.gate.save(ANA, SaveRequest(text="Ana likes tea"))
    assert again.memory is not None
    assert (again.outcome, again.memory.id != same.id) == ("created", True)
    await world.sweeper.sweep()
    assert (await world.live()).keys() == {"Ana lives in Oslo", "Ana likes tea"}
    notices = (await world.review.notice_list(ANA, NoticeListRequest())).notices
    assert sorted(notice.target or "" for notice in notices) == sorted([old.id, same.id])


# What the clock does


@pytest.mark.usefixtures("in_berlin")
async def test_an_hour_that_comes_twice(world: World) -> None:
    """When clocks go back an hour, 02:30 summer time and 02:30 winter time are an hour apart."""
    at(world, datetime(2026, 10, 24, 12, tzinfo=UTC))
    twice = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    await world.save(ANA, "summer", expires_at=twice.replace(fold=0))
    await world.save(ANA, "winter", expires_at=twice.replace(fold=1))
    at(world, datetime(2026, 10, 25, 0, 29, 59, tzinfo=UTC))
    assert (await world.live()).keys() == {"summer", "winter"}
    at(world, datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert (await world.live()).keys() == {"winter"}
    at(world, datetime(2026, 10, 25, 1, 29, 59, tzinfo=UTC))
    assert (await world.live()).keys() == {"winter"}
    at(world, datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    assert (await world.live()).keys() == set()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(("said_on", "over_on"), [((2026, 3, 15), (2026, 4, 15)), ((2026, 10, 15), (2026, 11, 15))])
async def test_a_month_across_the_change_of_time(
    world: World, said_on: tuple[int, int, int], over_on: tuple[int, int, int]
) -> None:
    """A bank's month is a calendar month in UTC, not an hour more or less where the local clock changed in it."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="short", expiry="month"))
    at(world, datetime(*said_on, 9, 30, tzinfo=UTC))
    memory = await world.save(ANA, "Ana likes tea", bank="short")
    assert memory.expires_at == datetime(*over_on, 9, 30, tzinfo=UTC)
    at(world, datetime(*over_on, 9, 29, 59, tzinfo=UTC))
    assert len(await world.live(bank="short")) == 1
    at(world, datetime(*over_on, 9, 30, tzinfo=UTC))
    assert len(await world.live(bank="short")) == 0


@pytest.mark.parametrize(
    ("said_at", "expiry", "over_at"),
    [
        (datetime(2028, 1, 29, 8, tzinfo=UTC), "month", datetime(2028, 2, 29, 8, tzinfo=UTC)),
        (datetime(2028, 1, 31, 8, tzinfo=UTC), "month", datetime(2028, 2, 29, 8, tzinfo=UTC)),
        (datetime(2027, 1, 29, 8, tzinfo=UTC), "month", datetime(2027, 2, 28, 8, tzinfo=UTC)),
        (datetime(2028, 2, 29, 8, tzinfo=UTC), "month", datetime(2028, 3, 29, 8, tzinfo=UTC)),
        (datetime(2028, 2, 29, 8, tzinfo=UTC), "quarter", datetime(2028, 5, 29, 8, tzinfo=UTC)),
        (datetime(2027, 11, 30, 8, tzinfo=UTC), "quarter", datetime(2028, 2, 29, 8, tzinfo=UTC)),
        (datetime(2028, 2, 29, 8, tzinfo=UTC), "year", datetime(2029, 2, 28, 8, tzinfo=UTC)),
        (datetime(2027, 2, 28, 8, tzinfo=UTC), "year", datetime(2028, 2, 28, 8, tzinfo=UTC)),
    ],
)
async def test_leap_days(world: World, said_at: datetime, expiry: str, over_at: datetime) -> None:
    """From and to a 29 February a month, a quarter and a year end on the day of that number, or on the month's last."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="leap", expiry=expiry))  # type: ignore[arg-type]
    at(world, said_at)
    memory = await world.save(ANA, "Ana likes tea", bank="leap")
    assert memory.expires_at == over_at
    at(world, over_at - timedelta(seconds=1))
    assert (await world.sweeper.sweep()).expired == 0
    at(world, over_at)
    assert (await world.sweeper.sweep()).expired == 1


async def test_the_clock_is_set_back(world: World) -> None:
    """Set back by a day, nothing that lapsed comes back by itself, nothing lapses early, and no lease gets shorter."""
    ends = to_datetime(world.clock.at) + timedelta(days=2)
    over = await world.save(ANA, "over", expires_at=ends)
    kept = await world.save(CODER, "kept")
    world.clock.forward(days=2)
    assert (await world.sweeper.sweep()).expired == 1
    world.clock.forward(days=-1)
    await world.turn("t1", said("kept"))
    assert (await world.sweeper.sweep()).expired == 0
    live = await world.live()
    assert live.keys() == {"kept"}
    assert kept.expires_at is not None
    assert live["kept"].expires_at is not None
    assert live["kept"].expires_at >= kept.expires_at
    reply = await world.gate.reading.get(ANA, GetRequest(id=over.id))
    assert reply.memory is not None
    assert reply.memory.state == "expired"
    assert (await world.review.notice_list(ANA, NoticeListRequest())).total == 1
    world.clock.forward(days=1)
    assert (await world.sweeper.sweep()).expired == 0
    assert (await world.review.notice_list(ANA, NoticeListRequest())).total == 1, "told once"


async def test_the_clock_is_set_forward(world: World) -> None:
    """Set forward by a day by mistake, what lapsed can be brought back by a person once the clock is right again."""
    memory = await world.save(ANA, "Ana likes tea", expires_at=to_datetime(world.clock.at) + timedelta(hours=5))
    world.clock.forward(days=1)
    await world.sweeper.sweep()
    world.clock.forward(days=-1)
    assert await world.live() == {}
    [lapse] = await world.changes(target=memory.id, cause_kind="expiry")
    await world.review.changes_revert(ANA, ChangesRevertRequest(id=lapse.id))
    assert (await world.live()).keys() == {"Ana likes tea"}


# What puts it off


async def test_pinned_never_lapses(world: World) -> None:
    """A pinned memory outlives every period; un-pinned, its time begins then."""
    memory = await world.save(ANA, "Ana likes tea", pinned=True)
    later = await world.save(ANA, "Ana likes cake")
    await world.gate.pin(ANA, PinRequest(id=later.id, pinned=True))
    world.clock.forward(days=4_000)
    assert (await world.sweeper.sweep()).expired == 0
    assert (await world.live()).keys() == {"Ana likes tea", "Ana likes cake"}
    reply = await world.gate.pin(ANA, PinRequest(id=memory.id, pinned=False))
    assert reply.memory is not None
    assert reply.memory.expires_at is not None
    assert reply.memory.expires_at > to_datetime(world.clock.at) + timedelta(days=80)


async def test_saying_and_correcting_it_put_it_off(world: World) -> None:
    """Heard again in a turn, saved again and corrected: each begins its time anew."""
    memory = await world.save(CODER, "Ana likes tea")
    for number in range(4):
        world.clock.forward(days=80)
        if number == 0:
            await world.turn("t1", said("Ana likes tea"))
        elif number == 1:
            await world.gate.save(CODER, SaveRequest(text="Ana likes tea"), "again")
        elif number == 2:
            await world.gate.update(CODER, UpdateRequest(id=memory.id, tags=["food"]))
        await world.sweeper.sweep()
        assert (await world.live()).keys() == {"Ana likes tea"}
    world.clock.forward(days=13)
    assert (await world.sweeper.sweep()).expired == 1


# What a person is told


async def test_a_lapse_is_told_with_every_context_until_acknowledged(here: Room) -> None:
    """The next contexts of that bank say what was told, how long ago and that it is gone; another bank's do not."""
    await here.bank("work")
    memory = await here.save("Ana parks her bicycle in the cellar")
    await here.save("The build is slow", caller=agent("coder"))
    here.clock.at += 95 * DAY
    sweeper = Sweeper(here.store, here.gate.settings)
    assert (await sweeper.sweep()).expired == 2
    other = await here.context("bicycle", session_id="elsewhere", metadata={"memory_bank": "work"})
    assert other.notices == []
    for turn in ("t1", "t2"):
        reply = await here.context("bicycle", turn_id=turn)
        [notice] = reply.notices
        assert (notice.bank, notice.target) == ("main", memory.id)
        assert notice.text == (
            "You said this 3 months ago (2026-05-28), and I no longer keep it: Ana parks her bicycle in the cellar"
        )
        assert notice.text in reply.notices_text
    origin = Origin.of(HARNESS, "req_1")
    request = NoticeAckRequest(ids=[notice.id])
    acked = await here.store.write(lambda tx: noticing.acknowledge(here.gate.act(tx, HARNESS, origin), request))
    assert acked.acked == 1
    reply = await here.context("bicycle", turn_id="t3")
    assert (reply.notices, reply.notices_text) == ([], "")


async def test_it_comes_back_within_thirty_days(world: World) -> None:
    """Reverted on the thirtieth day a lapsed memory is live again with its text and tier; a day later it is refused."""
    first = await world.save(ANA, "Ana likes tea")
    second = await world.save(ANA, "Ana likes cake")
    world.clock.forward(days=95)
    await world.sweeper.sweep()
    lapses = {c.target: c for c in await world.changes(cause_kind="expiry") if c.type == "memory.expired"}
    world.clock.forward(days=30)
    done = await world.review.changes_revert(ANA, ChangesRevertRequest(id=lapses[first.id].id))
    assert (len(done.reverted), done.refused) == (1, [])
    back = (await world.live())["Ana likes tea"]
    assert (back.id, back.tier, back.state) == (first.id, "stated", "live")
    world.clock.forward(days=1)
    late = await world.review.changes_revert(ANA, ChangesRevertRequest(id=lapses[second.id].id))
    assert late.reverted == []
    assert "30 days" in late.refused[0].reason


# What does not grow


async def test_a_slot_is_one_row_however_often_it_is_read(world: World) -> None:
    """Two hundred readings of a sensor leave one memory, one wording, and as many labels as one reading has."""
    tables = ("memories", "wordings", "memory_tags", "memory_entities", "claims")
    sizes = []
    for number in range(200):
        world.clock.forward(seconds=30)
        await world.save(
            SENSOR, f"Ana was last seen in room {number}", slot="where", tags=["seen"], entities=["Ana"], about=["home"]
        )
        if number in (0, 199):
            counted = [await world.store.readers.one(f"SELECT count(*) FROM {table}") for table in tables]
            sizes.append(counted)
    assert sizes[0] == sizes[1]
    [memory] = (await world.live()).values()
    assert memory.text == "Ana was last seen in room 199"
    assert memory.expires_at is not None
    assert memory.expires_at > to_datetime(world.clock.at) + timedelta(days=80), "each reading puts it off"
