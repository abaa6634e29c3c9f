"""Finished turns reach the inbox: every one, once it is on disk, and nothing of them stays on the stream."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from memory_contracts import TurnCompleted
from memory_contracts import jetstream as js
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from memory_contracts.jetstream import Outgoing
from memory_worker.bus import Intake, Outcome, RawTurn, create_streams, secure_delete, stream_state
from memory_worker.clock import SystemClock
from tests.system.harness import TENANTS, BusUnderTest, eventually, running_server

NOW = datetime(2026, 11, 30, 3, 51, 42, tzinfo=UTC)


class Inbox:
    """Takes turns while it has room, or fails when told to."""

    def __init__(self, room: int = 1_000_000, failures: int = 0) -> None:
        self.room = room
        self.failures = failures
        self.turns: list[RawTurn] = []

    async def accept(self, turns: Sequence[RawTurn]) -> Sequence[Outcome]:
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        outcomes: list[Outcome] = []
        for turn in turns:
            fits = len(self.turns) < self.room
            outcomes.append("accepted" if fits else "full")
            if fits:
                self.turns.append(turn)
        return outcomes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BusUnderTest]:
    with running_server(tmp_path) as running:
        yield running


@pytest.fixture
async def worker(server: BusUnderTest) -> AsyncIterator[Bus]:
    async with server.bus("worker") as bus:
        yield bus


@pytest.fixture
async def harness(server: BusUnderTest) -> AsyncIterator[MemoryClient]:
    async with await MemoryClient.connect(server.credentials("system-harness")) as client:
        yield client


def turn(number: int, session: str = "s-1") -> TurnCompleted:
    return TurnCompleted(turn_id=f"turn-{number}", session_id=session, status="completed", completed_at=NOW)


async def held(bus: Bus) -> int:
    return (await stream_state(bus, "TURNS")).messages


async def emptied(bus: Bus) -> None:
    async def empty() -> bool:
        return await held(bus) == 0

    await eventually(empty, "the erasure of what was taken")


async def test_turns_arrive_and_leave_the_stream(server: BusUnderTest, worker: Bus, harness: MemoryClient) -> None:
    """Turns of every tenant reach the inbox as they were published; then their bytes are gone from the bus's files."""
    inbox = Inbox()
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    await harness.publish_turn(turn(1, "s/1 zanzibar"))
    async with await MemoryClient.connect(server.credentials("acme.system-harness")) as other:
        await other.publish_turn(turn(1))
    await eventually(lambda: len(inbox.turns) == 2)
    await emptied(worker)
    await intake.stop()
    first, second = sorted(inbox.turns, key=lambda one: one.tenant, reverse=True)
    assert (first.tenant, first.session_id) == ("local", "s/1 zanzibar")
    assert msgspec.json.decode(first.body, type=TurnCompleted) == turn(1, "s/1 zanzibar")
    assert second.tenant == "acme"
    files = [path for path in server.server.files.store.rglob("*.blk") if path.is_file()]
    assert files
    assert not any(b"s/1 zanzibar" in path.read_bytes() for path in files)


async def test_malformed_events_are_handed_over_as_they_are(
    server: BusUnderTest, worker: Bus, harness: MemoryClient
) -> None:
    """Whatever a harness publishes reaches the inbox with its bytes: the inbox parks it, nothing is dropped here."""
    bodies = [b"not json", b"\xff\xfe\x00", b"{}", b'{"turn_id": 3}', b'{"turn_id": "t", "bank_seq": 1}']
    inbox = Inbox()
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    for number, body in enumerate(bodies):
        await js.publish(harness.bus, Outgoing("turn.v1.local.completed.s-1", body, f"id-{number}"))
    await eventually(lambda: len(inbox.turns) == len(bodies))
    await intake.stop()
    assert [one.body for one in inbox.turns] == bodies
    assert intake.dropped == 0


async def test_full_inbox_stops_pulling_and_loses_nothing(
    server: BusUnderTest, worker: Bus, harness: MemoryClient
) -> None:
    """A full inbox takes no more; the turns wait on the stream and come, each once, when there is room."""
    await harness.publish_turns([turn(i) for i in range(400)])
    inbox = Inbox(room=50)
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    await eventually(lambda: intake.full)
    assert len(inbox.turns) == 50
    inbox.room = 1_000
    await eventually(lambda: len(inbox.turns) == 400)
    await emptied(worker)
    await intake.stop()
    ids = [msgspec.json.decode(one.body)["turn_id"] for one in inbox.turns]
    assert ids == [f"turn-{i}" for i in range(400)]
    assert not intake.full


async def test_failing_inbox_is_asked_again(server: BusUnderTest, worker: Bus, harness: MemoryClient) -> None:
    """Turns that could not be committed are not acknowledged and are offered again."""
    inbox = Inbox(failures=1)
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    await harness.publish_turn(turn(1))
    await eventually(lambda: len(inbox.turns) == 1)
    await emptied(worker)
    await intake.stop()
    assert intake.taken == 1


async def test_streams_of_others_are_left_alone(server: BusUnderTest, worker: Bus, harness: MemoryClient) -> None:
    """On a stream that is not ours, a taken turn is acknowledged and not deleted."""
    inbox = Inbox()
    intake = Intake(worker, server.subjects, inbox, SystemClock(), erase=False)
    await intake.start()
    await harness.publish_turn(turn(1))
    await eventually(lambda: len(inbox.turns) == 1)
    await intake.stop()
    await worker.flushed()
    info = await js.call(worker, "CONSUMER.INFO.TURNS.memory-worker")
    assert (info["num_ack_pending"], info["num_pending"], await held(worker)) == (0, 0, 1)


async def test_what_was_taken_before_a_crash_is_erased(
    server: BusUnderTest, worker: Bus, harness: MemoryClient
) -> None:
    """Turns acknowledged but not erased when the worker died are erased at the next start, and not taken again."""
    first = Inbox()
    dying = Intake(worker, server.subjects, first, SystemClock(), erase=False)
    await dying.start()
    await harness.publish_turns([turn(i) for i in range(30)])
    await eventually(lambda: len(first.turns) == 30)
    await dying.stop()
    assert await held(worker) == 30
    second = Inbox()
    intake = Intake(worker, server.subjects, second, SystemClock())
    await intake.start()
    await emptied(worker)
    await intake.stop()
    assert second.turns == []


async def test_lost_consumer_is_waited_for(server: BusUnderTest, worker: Bus, harness: MemoryClient) -> None:
    """When the consumer is deleted and made again by an admin, intake goes on by itself and no turn is missed."""
    inbox = Inbox()
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    async with server.bus("admin") as admin:
        await js.call(admin, "CONSUMER.DELETE.TURNS.memory-worker")
        await harness.publish_turns([turn(i) for i in range(3)])
        await create_streams(admin, server.subjects, TENANTS)
    await eventually(lambda: len(inbox.turns) == 3)
    await intake.stop()
    assert not intake.failed


async def test_stop_leaves_unfinished_turns_to_the_next(
    server: BusUnderTest, worker: Bus, harness: MemoryClient
) -> None:
    """A stop while the inbox is full is prompt and leaves the turns unacknowledged on the stream."""
    await harness.publish_turns([turn(i) for i in range(20)])
    inbox = Inbox(room=5)
    intake = Intake(worker, server.subjects, inbox, SystemClock())
    await intake.start()
    await eventually(lambda: intake.full)
    await asyncio.wait_for(intake.stop(), 20.0)
    assert len(inbox.turns) == 5
    info = await js.call(worker, "CONSUMER.INFO.TURNS.memory-worker")
    assert info["num_ack_pending"] == 15


async def test_erasing_what_is_gone_is_done(server: BusUnderTest, worker: Bus, harness: MemoryClient) -> None:
    """A sequence that is erased already, was never used, or lies before the stream's start counts as erased."""
    await harness.publish_turns([turn(i) for i in range(3)])
    assert [await secure_delete(worker, "TURNS", sequence) for sequence in (2, 2, 1, 1, 3, 3, 1, 99)] == [
        True,
        False,
        True,
        False,
        True,
        False,
        False,
        False,
    ]
