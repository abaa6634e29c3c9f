"""What is over lapses by itself, exactly and in bounded batches, and a person is told of what a person had said."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_contracts.functions.banks import BankCreateRequest
from memory_contracts.functions.memories import GetRequest, SaveRequest
from memory_contracts.functions.review import NoticeAckRequest, NoticeListRequest
from memory_worker.clock import to_datetime
from memory_worker.gate import Sweeper
from memory_worker.gate.calendar import add_months
from tests.gate.conftest import ANA, CODER, CONSOLIDATE, World, said


@pytest.mark.parametrize(
    ("said_at", "months", "lapses_at"),
    [
        (datetime(2026, 1, 31, 9, tzinfo=UTC), 1, datetime(2026, 2, 28, 9, tzinfo=UTC)),
        (datetime(2024, 1, 31, 9, tzinfo=UTC), 1, datetime(2024, 2, 29, 9, tzinfo=UTC)),
        (datetime(2025, 11, 30, 9, tzinfo=UTC), 3, datetime(2026, 2, 28, 9, tzinfo=UTC)),
        (datetime(2024, 2, 29, 9, tzinfo=UTC), 12, datetime(2025, 2, 28, 9, tzinfo=UTC)),
    ],
)
def test_calendar_months(said_at: datetime, months: int, lapses_at: datetime) -> None:
    """A month is a calendar month, to the second, in UTC; the last day where that day does not exist."""
    assert add_months(said_at, months) == lapses_at


async def test_exact_to_the_second(world: World) -> None:
    """An asked-for expiry holds to the second: the list leaves it out then, before any sweep."""
    await world.save(ANA, "Parking ticket", expires_at=to_datetime(world.clock.at) + timedelta(seconds=10))
    world.clock.forward(seconds=9)
    assert "Parking ticket" in await world.live()
    world.clock.forward(seconds=1)
    assert await world.live() == {}


async def test_stated_lapse_is_told(world: World) -> None:
    """When a stated memory lapses a notice is there until acknowledged; an agent's note lapses silently."""
    memory = await world.save(ANA, "Ana likes tea")
    await world.save(CODER, "The build is slow")
    await world.save(ANA, "Ana is kind", pinned=True)
    world.clock.forward(days=100)
    swept = await world.sweeper.sweep()
    assert swept.expired == 2
    assert (await world.live()).keys() == {"Ana is kind"}
    listed = await world.review.notice_list(CONSOLIDATE, NoticeListRequest())
    assert [(one.kind, one.target) for one in listed.notices] == [("lapsed", memory.id)]
    assert "Ana likes tea" in listed.notices[0].text
    [row] = await world.changes(target=memory.id, cause_kind="expiry")
    assert (row.type, row.actor.principal) == ("memory.expired", "expiry")
    assert (await world.review.notice_ack(ANA, NoticeAckRequest(ids=[listed.notices[0].id, "ntc_x"]))).acked == 1
    assert (await world.review.notice_ack(ANA, NoticeAckRequest(ids=[listed.notices[0].id]))).acked == 0
    assert (await world.review.notice_list(ANA, NoticeListRequest())).total == 0
    kept = await world.review.notice_list(ANA, NoticeListRequest(include_acked=True))
    assert kept.total == 1


async def test_saying_it_again_puts_it_off(world: World) -> None:
    """What is said again begins its time anew, never an earlier one; an asked-for expiry stays as it was asked."""
    memory = await world.save(CODER, "Ana likes tea")
    asked = await world.save(CODER, "Until May", expires_at=to_datetime(world.clock.at) + timedelta(days=200))
    world.clock.forward(days=60)
    await world.turn("t1", said("Ana likes tea"), said("Until May"))
    world.clock.forward(days=60)
    await world.sweeper.sweep()
    assert (await world.live()).keys() == {"Ana likes tea", "Until May"}
    reply = await world.gate.reading.get(ANA, GetRequest(id=asked.id))
    assert reply.memory is not None
    assert reply.memory.expires_at == asked.expires_at
    assert memory.expires_at is not None


async def test_bank_decides_how_long(world: World) -> None:
    """A bank set to never keeps what it has; one set to a month lets it lapse after one."""
    for name, expiry in (("forever", "never"), ("short", "month")):
        await world.gate.bank_create(ANA, BankCreateRequest(name=name, expiry=expiry))  # type: ignore[arg-type]
        await world.save(CODER, "Ana likes tea", bank=name)
    world.clock.forward(days=32)
    await world.sweeper.sweep()
    assert len(await world.live(bank="forever")) == 1
    assert len(await world.live(bank="short")) == 0


async def test_bounded_batches(world: World) -> None:
    """A sweep lets lapse at most its batches, says that more is due, and the next goes on."""
    for n in range(25):
        await world.save(CODER, f"note {n}")
    world.clock.forward(days=100)
    sweeper = Sweeper(world.store, world.settings, batch=10, batches_max=2)
    first, second = await sweeper.sweep(), await sweeper.sweep()
    assert (first.expired, first.more) == (20, True)
    assert (second.expired, second.more) == (5, False)


async def test_lapsed_text_may_be_said_again(world: World) -> None:
    """A lapsed text said again is a memory of its own; the lapsed one stays in its history."""
    old = await world.save(CODER, "Ana likes tea")
    world.clock.forward(days=100)
    await world.sweeper.sweep()
    new = await world.save(CODER, "Ana likes tea")
    assert new.id != old.id


async def test_kept_for_a_while_only(world: World) -> None:
    """Replies by key are dropped after their day, and done turns after a month."""
    await world.gate.save(CODER, SaveRequest(text="one"), "k")
    await world.turn("t1", said("two"))
    world.clock.forward(days=2)
    await world.sweeper.sweep()
    counts = "SELECT (SELECT count(*) FROM idempotency), (SELECT count(*) FROM inbox)"
    assert await world.store.readers.one(counts) == (0, 1)
    world.clock.forward(days=29)
    await world.sweeper.sweep()
    assert await world.store.readers.one(counts) == (0, 0)
