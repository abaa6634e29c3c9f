"""Saves under faults: a load that knows what was acknowledged, and how readiness and recovery are timed."""

import asyncio
import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from memory_contracts.client import MemoryClient
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

Setting = Callable[[Path], AbstractContextManager[Any]]
"""Starts a worker in a folder and cleans up around it; the worker itself is stopped by whoever asked."""
