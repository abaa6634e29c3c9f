"""The journal becomes triggers: complete, in order, at least once, and gone when their time is over."""

import base64
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from memory_contracts import BankChanged, ItemChanged, Subjects
from memory_contracts import jetstream as js
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from memory_contracts.errors import FunctionError
from memory_worker.bus import Relay, create_streams, stream_state
from memory_worker.bus.erasing import next_message
from memory_worker.bus.server import running_pid
from memory_worker.clock import Clock
from memory_worker.store import Origin, TenantStore, Transaction
from tests.system.harness import TENANTS, BusUnderTest, a_memory, eventually, running_server

EVENTS, PRIVATE = "MEMORY-EVENTS-local", "MEMORY-PRIVATE-local"
ORIGIN = Origin("human", "me", "request", "req_1")


class SetClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[BusUnderTest]:
    with running_server(tmp_path / "bus") as running:
        yield running


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def worker(own_server: BusUnderTest) -> AsyncIterator[Bus]:
    async with own_server.bus("worker") as bus:
        yield bus


@pytest.fixture
async def admin(own_server: BusUnderTest) -> AsyncIterator[Bus]:
    async with own_server.bus("admin") as bus:
        yield bus


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[TenantStore]:
    store = TenantStore("local", tmp_path / "local", clock)
    await store.open()
    yield store
    await store.close()


def relay_of(bus: Bus, store: TenantStore, clock: Clock, **options: object) -> Relay:
    return Relay(bus, Subjects(), "local", store, clock, **options)  # type: ignore[arg-type]


def changed(tx: Transaction, number: int, *, type: str = "memory.created", owner: str | None = None) -> None:
    """Append the row of a change of one memory."""
    bank = owner.replace(".", "-") if owner else "main"
    memory = a_memory(f"mem_{number}", bank, f"text number {number} zanzibar")
    tx.append(type, memory.id, ORIGIN, bank=bank, owner=owner, after=msgspec.json.encode(memory))


async def write(store: TenantStore, numbers: range, **options: str) -> None:
    """Commit rows in one transaction."""

    def work(tx: Transaction) -> None:
        for number in numbers:
            changed(tx, number, **options)  # type: ignore[arg-type]

    await store.write(work)


async def caught_up(relay: Relay) -> None:
    await eventually(lambda: relay.lag == 0, "the relay's catching up")


async def held(bus: Bus, stream: str) -> int:
    return (await stream_state(bus, stream)).messages


async def stored(bus: Bus, stream: str) -> list[dict[str, object]]:
    """Every message of a stream, decoded."""
    found, sequence = [], 1
    while (one := await next_message(bus, stream, ">", sequence)) is not None:
        got = await js.call(bus, f"STREAM.MSG.GET.{stream}", {"seq": one.seq})
        found.append({"subject": one.subject, **msgspec.json.decode(base64.b64decode(got["message"]["data"]))})
        sequence = one.seq + 1
    return found


async def test_rows_become_typed_triggers(
    own_server: BusUnderTest, worker: Bus, store: TenantStore, clock: SetClock
) -> None:
    """A row arrives as the typed event of its kind, with the memory, who made it and what from."""
    async with (
        await MemoryClient.connect(own_server.credentials("human-me")) as ui,
        ui.on_item_changed(bank="main") as items,
        ui.on_bank_changed(bank="main") as banks,
    ):
        relay = relay_of(worker, store, clock)
        await relay.start()
        rule = b'{"bank":"main","name":"style","content":"be brief"}'
        await store.write(lambda tx: changed(tx, 7))
        await store.write(lambda tx: tx.append("rule.set", "main/style", ORIGIN, bank="main", after=rule))
        item: ItemChanged = await anext(items)
        bank: BankChanged = await anext(banks)
        await relay.stop()
    assert (item.event_type, item.bank, item.memory_id, item.seq, item.bank_seq) == ("created", "main", "mem_7", 1, 1)
    assert item.memory == a_memory("mem_7", "main", "text number 7 zanzibar")
    assert (item.actor.route, item.actor.principal, item.cause.kind, item.cause.id) == (
        "human",
        "me",
        "request",
        "req_1",
    )
    assert item.id.startswith("chg_")
    assert (bank.event_type, bank.rule, bank.seq, bank.bank_seq) == ("rules-changed", "style", 2, 2)


async def test_a_thousand_rows_arrive_in_order(
    own_server: BusUnderTest, worker: Bus, store: TenantStore, clock: SetClock
) -> None:
    """A backlog is relayed whole; a durable reader sees every row once, in order, without a gap in `bank_seq`."""
    await write(store, range(1_200))
    relay = relay_of(worker, store, clock)
    await relay.start()
    await caught_up(relay)
    async with (
        await MemoryClient.connect(own_server.credentials("human-me")) as ui,
        ui.on_item_changed(bank="main", durable="human-me") as events,
    ):
        seen = [(await anext(events)).bank_seq for _ in range(1_200)]
    await relay.stop()
    assert seen == list(range(1, 1_201))
    assert await held(worker, EVENTS) == 1_200


async def test_private_banks_go_to_the_private_stream(worker: Bus, store: TenantStore, clock: SetClock) -> None:
    """A private bank's triggers lie under its owner in the private stream, and nowhere else."""
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(1), owner="agent.coder")
    await write(store, range(1, 2))
    await caught_up(relay)
    await relay.stop()
    assert [one["subject"] for one in await stored(worker, PRIVATE)] == [
        "memory.v1.private-event.local.agent.coder.item-changed.agent-coder.mem_0"
    ]
    assert [one["subject"] for one in await stored(worker, EVENTS)] == ["memory.v1.event.local.item-changed.main.mem_1"]


@pytest.mark.parametrize(
    ("type", "include", "shown"),
    [
        ("memory.created", True, True),
        ("memory.created", False, False),
        ("memory.forgotten", True, False),
    ],
)
async def test_what_a_trigger_shows(
    worker: Bus, store: TenantStore, clock: SetClock, type: str, include: bool, shown: bool
) -> None:
    """A trigger carries the memory, unless it is forgotten or the worker is set to send ids alone."""
    relay = relay_of(worker, store, clock, include_memory=include)
    await relay.start()
    await write(store, range(1), type=type)
    await caught_up(relay)
    await relay.stop()
    (event,) = await stored(worker, EVENTS)
    assert (event["memory"] is not None) is shown
    assert event["memory_id"] == "mem_0"


async def test_restart_publishes_nothing_twice(worker: Bus, store: TenantStore, clock: SetClock) -> None:
    """A relay that starts again goes on where it was."""
    for round_ in range(3):
        relay = relay_of(worker, store, clock)
        await relay.start()
        await write(store, range(round_ * 10, round_ * 10 + 10))
        await caught_up(relay)
        await relay.stop()
        assert relay.published == 10
    assert await held(worker, EVENTS) == 30


async def test_crash_between_publish_and_cursor(worker: Bus, store: TenantStore, clock: SetClock) -> None:
    """Killed between publishing and its cursor's move, the relay publishes again and the stream drops the repeats."""

    class Killed(BaseException):
        pass

    def kill(name: str) -> None:
        assert name == "relay.published"
        raise Killed

    await write(store, range(20))
    dying = relay_of(worker, store, clock, failpoint=kill)
    await dying.start()
    task = dying._task
    assert task is not None
    await eventually(task.done)
    assert isinstance(task.exception(), Killed)
    assert (store.cursor("relay"), await held(worker, EVENTS)) == (0, 20)
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(20, 25))
    await caught_up(relay)
    await relay.stop()
    assert await held(worker, EVENTS) == 25


async def test_remade_stream_is_filled_again(
    own_server: BusUnderTest, worker: Bus, admin: Bus, store: TenantStore, clock: SetClock
) -> None:
    """When a stream was deleted and made again, everything within retention is published again."""
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(30))
    await caught_up(relay)
    await relay.stop()
    await js.call(admin, f"STREAM.DELETE.{EVENTS}")
    await create_streams(admin, own_server.subjects, TENANTS)
    again = relay_of(worker, store, clock)
    await again.start()
    await eventually(lambda: again.rewinds == 1)
    await caught_up(again)
    await again.stop()
    assert [one["bank_seq"] for one in await stored(worker, EVENTS)] == list(range(1, 31))


async def test_bus_that_is_down_only_delays(
    own_server: BusUnderTest, worker: Bus, store: TenantStore, clock: SetClock
) -> None:
    """Rows committed while the bus is away are published when it is back."""
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(5))
    await caught_up(relay)
    pid = running_pid(own_server.server.files)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not own_server.server.running)
    await write(store, range(5, 12))
    assert relay.lag == 7
    await own_server.server.revive()
    await caught_up(relay)
    await relay.stop()
    assert await held(worker, EVENTS) == 12


def on_disk(server: BusUnderTest, text: str) -> bool:
    """Whether the text stands anywhere in the bus's files."""
    return any(text.encode() in path.read_bytes() for path in server.server.files.store.rglob("*") if path.is_file())


async def test_retention_leaves_no_bytes(
    own_server: BusUnderTest, worker: Bus, store: TenantStore, clock: SetClock
) -> None:
    """Triggers past their retention are overwritten: their text is nowhere in the stream's files."""
    relay = relay_of(worker, store, clock, retention_days=7)
    await relay.start()
    await write(store, range(10))
    await caught_up(relay)
    await relay.stop()
    assert on_disk(own_server, "zanzibar")
    clock.ahead = 7 * 86_400 + 60.0
    later = relay_of(worker, store, clock, retention_days=7)
    await later.start()

    async def empty() -> bool:
        return await held(worker, EVENTS) == 0

    await eventually(empty, "the erasure")
    await later.stop()
    assert not on_disk(own_server, "zanzibar")


async def test_forgetting_erases_one_memorys_triggers(
    own_server: BusUnderTest, worker: Bus, store: TenantStore, clock: SetClock
) -> None:
    """Erasing a memory's triggers overwrites all of them in both streams and none of another's."""
    relay = relay_of(worker, store, clock)
    await relay.start()
    for type_ in ("memory.created", "memory.updated", "memory.pinned"):
        await write(store, range(3), type=type_)
    await write(store, range(2, 3), owner="agent.coder")
    await caught_up(relay)
    assert await relay.erase_memory("mem_2") == 4
    assert await relay.erase_memory("mem_2") == 0
    await relay.stop()
    assert {one["memory_id"] for one in await stored(worker, EVENTS)} == {"mem_0", "mem_1"}
    assert await held(worker, PRIVATE) == 0
    assert not on_disk(own_server, "text number 2 ")
    assert on_disk(own_server, "text number 1 ")


async def test_full_stream_makes_room(
    own_server: BusUnderTest, worker: Bus, admin: Bus, store: TenantStore, clock: SetClock
) -> None:
    """A full stream costs the oldest triggers, not the newest: they are erased by the worker and publishing goes on."""
    config = (await js.call(admin, f"STREAM.INFO.{EVENTS}"))["config"]
    await js.call(admin, f"STREAM.UPDATE.{EVENTS}", {**config, "max_bytes": 40_000})
    relay = relay_of(worker, store, clock)
    await relay.start()
    for start in range(0, 120, 10):
        await write(store, range(start, start + 10))
        await caught_up(relay)
    await relay.stop()
    kept = [one["bank_seq"] for one in await stored(worker, EVENTS)]
    assert kept[-1] == 120
    assert kept == list(range(kept[0], 121))


async def test_deleted_stream_is_waited_for(
    own_server: BusUnderTest, worker: Bus, admin: Bus, store: TenantStore, clock: SetClock
) -> None:
    """While its stream is gone the relay says so and waits; nothing is skipped."""
    await js.call(admin, f"STREAM.DELETE.{EVENTS}")
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(3))
    await eventually(lambda: relay.last_error)
    assert relay.lag == 3
    await create_streams(admin, own_server.subjects, TENANTS)
    await caught_up(relay)
    await relay.stop()
    assert await held(worker, EVENTS) == 3


async def test_a_store_that_cannot_be_written_does_not_end_the_relay(
    worker: Bus, store: TenantStore, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk under the relay's own state is full it waits; with room again it publishes what came."""
    full = True
    kept = store.set_meta

    async def set_meta(key: str, value: str) -> None:
        if full:
            raise FunctionError("storage_full", "the disk is full; nothing was written")
        await kept(key, value)

    monkeypatch.setattr(store, "set_meta", set_meta)
    relay = relay_of(worker, store, clock)
    await relay.start()
    await write(store, range(3))
    await eventually(lambda: relay.last_error is not None, "the relay's meeting the full disk")
    full = False
    await write(store, range(3, 6))
    await caught_up(relay)
    await eventually(lambda: not relay.refused, "the relay's going on")
    assert await held(worker, "MEMORY-EVENTS-local") == 6
    await relay.stop()
