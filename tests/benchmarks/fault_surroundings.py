"""The faults of what a worker stands on: a full or read-only disk, a clock that jumps, a bus of somebody else's."""

import asyncio
import contextlib
import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_contracts import jetstream
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus, BusError
from memory_contracts.credentials import load_credentials
from memory_contracts.errors import FunctionError
from memory_contracts.subjects import TURN_CONSUMER
from memory_contracts.turns import TurnCompleted, TurnMessage
from memory_worker.clock import to_datetime
from tests.benchmarks.fault_kinds import plain
from tests.benchmarks.fault_load import Fault, Load, Setting, server, unready_after
from tests.cli.breaking import Breakable, OwnBus, fill, small_disk
from tests.cli.conftest import START_S, Running

DISK_MIB = 160
"""Size of the disk that is filled."""
GONE_S = 60.0
"""How long the bus is gone."""
MONTH_S = 30 * 86_400
EVENTS = "MEMORY-EVENTS-local"


class OwnRunning:
    """A worker on a bus of the operator's own, as the load sees one."""

    def __init__(self, bus: OwnBus, folder: Path) -> None:
        self.bus = bus
        self.folder = folder
        self.data_dir = bus.home  # where the credentials lie
        self.begin()

    def begin(self) -> None:
        """Start the worker and wait until it serves."""
        self.process = self.bus.worker(self.folder / "worker", self.folder / "log")
        assert self.process.stdout is not None
        self.ready: dict[str, Any] = json.loads(self.process.stdout.readline())

    def stop(self) -> int:
        """End the worker."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(START_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextlib.contextmanager
def on_a_small_disk(folder: Path) -> Iterator[Running]:
    """A worker with its bus on a disk of its own, its log elsewhere on it too. Needs the right to mount."""
    with small_disk(folder / "disk", DISK_MIB) as disk:
        if disk is None:
            raise RuntimeError("this fault needs the right to mount a file system")
        yield Running(disk / "data", "--no-consolidate")


@contextlib.contextmanager
def breakable(folder: Path) -> Iterator[Breakable]:
    """A worker whose clock and stores can be broken."""
    yield Breakable(folder / "data", "--no-consolidate")


@contextlib.contextmanager
def own_bus(folder: Path) -> Iterator[OwnRunning]:
    """A worker on a server of its own."""
    bus = OwnBus(folder / "bus")
    bus.start()
    bus.make_streams()
    try:
        yield OwnRunning(bus, folder)
    finally:
        bus.stop()


async def published(running: Any, goal: int, within: float = 90.0) -> bool:
    """Wait until the event stream holds at least `goal` messages."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with contextlib.suppress(BusError):
            credentials = load_credentials(running.data_dir / "credentials" / "admin.json")
            async with await Bus.connect(credentials, name="faults", wait=2.0) as admin:
                info = await jetstream.call(admin, f"STREAM.INFO.{EVENTS}")
                if info["state"]["messages"] >= goal:
                    return True
        await asyncio.sleep(0.1)
    return False


async def turn_read(running: Any, name: str, within: float = 60.0) -> bool:
    """Publish a turn until the bus takes it, and wait until its memory is there."""
    text = f"Remember that the box {name} holds hazelnuts."
    message = TurnMessage(id=f"{name}-u", role="user", text=text)
    at = to_datetime(time.time())
    event = TurnCompleted(
        turn_id=name, session_id=name, status="completed", completed_at=at, metadata={"memory_bank": "main"},
        messages=[message],
    )  # fmt: skip
    deadline = time.monotonic() + within
    folder = running.data_dir / "credentials"
    sent = False
    while time.monotonic() < deadline:
        with contextlib.suppress(FunctionError, BusError):
            if not sent:
                async with await MemoryClient.connect(folder / "system-harness.json", wait=2.0) as harness:
                    await harness.publish_turn(event)
                    sent = True
            async with await MemoryClient.connect(folder / "human-me.json", wait=2.0) as person:
                found = await person.changes_list(cause=name)
                if found.changes:
                    return True
        await asyncio.sleep(0.1)
    return False


async def all_well(running: Any, load: Load, since: float) -> float | None:
    """Seconds since `since` until saves, triggers and turns go on; None when one of them does not."""
    saving = await load.acknowledged_since(since)
    triggers = await published(running, len(load.acknowledged))
    turns = await turn_read(running, f"turn-{int(time.time() * 1_000)}")
    return round(time.monotonic() - since, 2) if saving is not None and triggers and turns else None


async def disk_filled(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """No byte is left for store, bus and log for five seconds."""
    at = time.monotonic()
    ballast = await asyncio.to_thread(fill, running.data_dir.parent)
    noticed = await unready_after(running, at)
    await asyncio.sleep(5)
    load.away = True  # the bus is restarted once there is room
    mended = time.monotonic()
    ballast.unlink()
    recovered = await all_well(running, load, mended)
    load.away = False
    return noticed, recovered, running


async def store_readonly(running: Breakable, load: Load) -> tuple[float | None, float | None, Running]:
    """Every write to the store is refused for five seconds, as on a file system that was mounted read-only."""
    at = time.monotonic()
    running.tell("readonly")
    noticed = await unready_after(running, at)
    await asyncio.sleep(5)
    mended = time.monotonic()
    running.tell("writable")
    return noticed, await all_well(running, load, mended), running


async def clock_jumps(running: Breakable, load: Load) -> tuple[float | None, float | None, Running]:
    """The clock goes a month ahead, a month back, and right again: too little for what the load saves to lapse."""
    at = time.monotonic()
    for seconds in (MONTH_S, -MONTH_S, 0):
        running.tell(f"clock {seconds}")
        await asyncio.sleep(2)
    noticed = await unready_after(running, at, 1)
    return noticed, await all_well(running, load, time.monotonic()), running


async def store_of_the_bus_wiped(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """The server is killed and everything it stored is gone; the journal fills its streams again."""
    at = time.monotonic()
    load.away = True
    server(running).kill()
    await asyncio.to_thread(shutil.rmtree, running.data_dir / "nats" / "store", ignore_errors=True)
    noticed, recovered = await asyncio.gather(unready_after(running, at, 5), all_well(running, load, at))
    load.away = False
    return noticed, recovered, running


async def consumer_deleted(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """The consumer of the turns is deleted."""
    credentials = load_credentials(running.data_dir / "credentials" / "admin.json")
    async with await Bus.connect(credentials, name="faults") as admin:
        at = time.monotonic()
        await jetstream.call(admin, f"CONSUMER.DELETE.TURNS.{TURN_CONSUMER}")
    noticed, recovered = await asyncio.gather(unready_after(running, at, 15), all_well(running, load, at))
    return noticed, recovered, running


async def bus_gone(running: Any, load: Load) -> tuple[float | None, float | None, Any]:
    """The bus is gone for a minute."""
    at = time.monotonic()
    load.away = True
    running.bus.stop(kill=True)
    noticed = await unready_after(running, at)
    await asyncio.sleep(max(0.0, at + GONE_S - time.monotonic()))
    mended = time.monotonic()
    await asyncio.to_thread(running.bus.start)
    recovered = await all_well(running, load, mended)
    load.away = False
    return noticed, recovered, running


async def password_changed(running: Any, load: Load) -> tuple[float | None, float | None, Any]:
    """The worker's password is changed; it ends, and its supervisor starts it with the new file."""
    at = time.monotonic()
    load.away = True
    await asyncio.to_thread(running.bus.rotate, "worker")
    await asyncio.to_thread(running.process.wait, START_S)
    noticed = round(time.monotonic() - at, 2)
    running.stop()
    await asyncio.to_thread(running.begin)
    recovered = await all_well(running, load, at)
    load.away = False
    return noticed, recovered, running


async def stopped_twice(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """SIGTERM twice: the second does not wait; started again when it is gone."""
    at = time.monotonic()
    load.away = True
    for _ in range(2):
        running.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
    noticed = await unready_after(running, at)
    await asyncio.to_thread(running.process.wait, START_S)
    port = running.ready["url"].rsplit(":", 1)[1]
    again = await asyncio.to_thread(Running, running.data_dir, "--no-consolidate", "--port", port)
    load.running = again
    recovered = await all_well(again, load, at)
    load.away = False
    return noticed, recovered, again


FAULTS: dict[str, tuple[Setting, Fault]] = {
    "disk full to the last byte for 5 s": (on_a_small_disk, disk_filled),
    "store read-only for 5 s": (breakable, store_readonly),  # type: ignore[dict-item]
    "clock jumps": (breakable, clock_jumps),  # type: ignore[dict-item]
    "bus killed and its store wiped": (plain, store_of_the_bus_wiped),
    "consumer deleted": (plain, consumer_deleted),
    "bus gone for 60 s": (own_bus, bus_gone),
    "worker's password changed": (own_bus, password_changed),
    "worker stopped twice": (plain, stopped_twice),
}
