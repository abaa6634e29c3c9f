"""The faults of a worker with its embedded bus: each breaks, mends, and tells how long noticing and recovery took."""

import asyncio
import contextlib
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from memory_contracts import jetstream
from memory_contracts.connection import Bus
from memory_contracts.credentials import load_credentials
from tests.benchmarks.fault_load import Fault, Load, Setting, server, unready_after
from tests.cli.conftest import Running


@contextlib.contextmanager
def plain(folder: Path) -> Iterator[Running]:
    """`memory up` in a folder."""
    yield Running(folder / "data", "--no-consolidate")


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


FAULTS: dict[str, tuple[Setting, Fault]] = {
    "disk refuses growth for 5 s": (plain, disk_full),
    "bus killed": (plain, bus_killed),
    "bus frozen for 25 s": (plain, bus_frozen),
    "streams and consumer deleted": (plain, streams_deleted),
    "worker killed -9": (plain, worker_killed),
    "worker stopped under load": (plain, worker_stopped),
}
