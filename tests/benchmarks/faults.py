"""Breaks a running worker in every way we know, under load, and prints what each fault cost.

`python -m tests.benchmarks.faults [FAULT…]`. Every save carries a key and is repeated with it until it is acknowledged,
so each text must be stored exactly once. Columns: acknowledged saves lost, duplicate effects, requests that got no
answer at all while the worker could answer, seconds until readiness said so (null: healed before it was asked),
seconds until all was well again, and the longest time in which no save was acknowledged.
"""

import asyncio
import contextlib
import json
import resource
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from memory_contracts import jetstream
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from memory_contracts.credentials import load_credentials
from memory_contracts.errors import FunctionError
from tests.cli.conftest import Running

CALLERS = 4
"""Savers at work side by side."""
CALL_S = 3.0
"""Time one attempt to save may take."""
SETTLE_S = 2.0
"""Load before and after each fault."""


class Cost(NamedTuple):
    """What one fault cost."""

    fault: str
    saved: int
    lost: int
    duplicates: int
    unanswered: int
    noticed_s: float | None
    recovered_s: float | None
    longest_pause_s: float


class Load:
    """Saves texts of its own without end, and knows which were acknowledged."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.acknowledged: list[str] = []
        self.last_ack = time.monotonic()
        self.longest_pause = 0.0
        self.unanswered = 0
        self.away = False
        self._stop = asyncio.Event()

    async def caller(self, number: int) -> None:
        """Save one text after the other, each until it is acknowledged."""
        client: MemoryClient | None = None
        count = 0
        while not self._stop.is_set():
            count += 1
            text = f"Saver {number} text {count}"
            while not self._stop.is_set():
                try:
                    if client is None or client.bus.closed.is_set():
                        folder = self.running.data_dir / "credentials"
                        client = await MemoryClient.connect(folder / "agent-default.json", wait=0.5)
                    await client.with_key(text).save(text=text)
                except FunctionError as error:
                    # No answer within the deadline, although nobody said that bus or worker were away.
                    self.unanswered += "in time" in error.message and not self.away
                    await asyncio.sleep(0.05)
                    continue
                self.acknowledged.append(text)
                now = time.monotonic()
                self.longest_pause = max(self.longest_pause, now - self.last_ack)
                self.last_ack = now
                break
        if client is not None:
            await client.close()

    async def acknowledged_since(self, moment: float, within: float = 60.0) -> float | None:
        """Seconds from `moment` until a save was acknowledged again."""
        deadline = time.monotonic() + within
        # What was on its way at that moment does not count.
        moment += 0.2
        while self.last_ack <= moment:
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.01)
        return round(self.last_ack - moment, 2)

    @contextlib.asynccontextmanager
    async def running_load(self) -> AsyncIterator[None]:
        """Save while the block runs."""
        tasks = [asyncio.create_task(self.caller(number)) for number in range(CALLERS)]
        await asyncio.sleep(SETTLE_S)
        try:
            yield
            await asyncio.sleep(SETTLE_S)
        finally:
            self._stop.set()
            await asyncio.gather(*tasks, return_exceptions=True)


def ready(running: Running) -> bool:
    """What readiness says; nobody there is not ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.ready['http_port']}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


async def unready_after(running: Running, moment: float, within: float = 30.0) -> float | None:
    """Seconds from `moment` until readiness turned."""
    while time.monotonic() < moment + within:
        if not await asyncio.to_thread(ready, running):
            return round(time.monotonic() - moment, 2)
        await asyncio.sleep(0.02)
    return None


def server(running: Running) -> psutil.Process:
    """The embedded nats-server."""
    for child in psutil.Process(running.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if Path(child.cmdline()[0]).name == "nats-server":
                return child
    raise RuntimeError("no server")


Fault = Callable[[Running, Load], Awaitable[tuple[float | None, float | None, Running]]]
"""Breaks and mends; gives the seconds to notice and to recover, and the worker that runs afterwards."""


async def disk_full(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """No file may grow for five seconds."""
    size = (running.data_dir / "local" / "memory.db-wal").stat().st_size
    at = time.monotonic()
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    noticed = await unready_after(running, at)
    await asyncio.sleep(5)
    mended = time.monotonic()
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return noticed, await load.acknowledged_since(mended), running


async def bus_killed(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """`kill -9` of the server; the worker starts it again."""
    at = time.monotonic()
    load.away = True
    server(running).kill()
    noticed, recovered = await asyncio.gather(unready_after(running, at, 5), load.acknowledged_since(at))
    load.away = False
    return noticed, recovered, running


async def bus_frozen(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """The server holds every connection and answers nothing for 25 seconds."""
    frozen = server(running)
    at = time.monotonic()
    load.away = True
    frozen.send_signal(signal.SIGSTOP)
    noticed = await unready_after(running, at, 25)
    await asyncio.sleep(max(0.0, at + 25 - time.monotonic()))
    mended = time.monotonic()
    frozen.send_signal(signal.SIGCONT)
    recovered = await load.acknowledged_since(mended)
    load.away = False
    return noticed, recovered, running


async def streams_deleted(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """Every stream and the consumer are deleted; recovered when the events stand in the stream again."""
    admin = await Bus.connect(load_credentials(running.data_dir / "credentials" / "admin.json"), name="faults")
    at = time.monotonic()
    for name in ("TURNS", "MEMORY-EVENTS-local", "MEMORY-PRIVATE-local"):
        await jetstream.call(admin, f"STREAM.DELETE.{name}")
    noticed = await unready_after(running, at)
    goal = len(load.acknowledged)
    while time.monotonic() < at + 90:
        with contextlib.suppress(jetstream.JetStreamError):
            info = await jetstream.call(admin, "STREAM.INFO.MEMORY-EVENTS-local")
            if info["state"]["messages"] >= goal:
                break
        await asyncio.sleep(0.1)
    recovered = round(time.monotonic() - at, 2)
    await admin.close()
    return noticed, recovered, running


async def worker_killed(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """`kill -9` of the worker, with its bus; started again at once."""
    return await _restarted(running, load, signal.SIGKILL)


async def worker_stopped(running: Running, load: Load) -> tuple[float | None, float | None, Running]:
    """SIGTERM under load; started again when it is gone."""
    return await _restarted(running, load, signal.SIGTERM)


async def _restarted(running: Running, load: Load, number: int) -> tuple[float | None, float | None, Running]:
    at = time.monotonic()
    running.process.send_signal(number)
    noticed = await unready_after(running, at)
    load.away = True
    await asyncio.to_thread(running.process.wait, 60)
    port = running.ready["url"].rsplit(":", 1)[1]
    again = await asyncio.to_thread(Running, running.data_dir, "--no-consolidate", "--port", port)
    load.running = again
    recovered = await load.acknowledged_since(at)
    load.away = False
    return noticed, recovered, again


FAULTS: dict[str, Fault] = {
    "disk full for 5 s": disk_full,
    "bus killed": bus_killed,
    "bus frozen for 25 s": bus_frozen,
    "streams and consumer deleted": streams_deleted,
    "worker killed -9": worker_killed,
    "worker stopped under load": worker_stopped,
}


async def cost_of(name: str, fault: Fault, folder: Path) -> Cost:
    """Break one worker in one way."""
    running = await asyncio.to_thread(Running, folder / "data", "--no-consolidate")
    load = Load(running)
    try:
        async with load.running_load():
            noticed, recovered, running = await fault(running, load)
        lost, duplicates = await _compare(running, load)
    finally:
        await asyncio.to_thread(running.stop)
    return Cost(
        name,
        len(load.acknowledged),
        lost,
        duplicates,
        load.unanswered,
        noticed,
        recovered,
        round(load.longest_pause, 2),
    )


async def _compare(running: Running, load: Load) -> tuple[int, int]:
    """Acknowledged texts that are not stored, and texts whose effect happened more than once."""
    stored: dict[str, int] = {}
    async with await MemoryClient.connect(running.data_dir / "credentials" / "human-me.json") as client:
        cursor = None
        while True:
            page = await client.list(limit=200, cursor=cursor)
            for memory in page.memories:
                stored[memory.text] = stored.get(memory.text, 0) + 1 + (memory.corroboration > 0)
            cursor = page.cursor
            if cursor is None:
                break
    return len(set(load.acknowledged) - set(stored)), sum(count > 1 for count in stored.values())


def main() -> int:
    """Run every fault and print the table."""
    chosen = sys.argv[1:] or list(FAULTS)
    costs = []
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="memory-faults-") as folder:
            costs.append(asyncio.run(cost_of(name, FAULTS[name], Path(folder))))
        print(json.dumps(costs[-1]._asdict()), flush=True)
    return int(any(cost.lost or cost.duplicates or cost.recovered_s is None for cost in costs))


if __name__ == "__main__":
    sys.exit(main())
