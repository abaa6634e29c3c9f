"""Loads a running worker for a long time, breaks its bus now and then, and shows that nothing grows or is lost.

`python -m tests.benchmarks.soak --minutes 30` (or `--seconds 30`). Prints what was done, the slope of memory, files,
threads, tasks and the write-ahead log, the error rate outside the faults, and p99 at the beginning and at the end.
Exits 1 when a bound is broken.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from memory_contracts.client import MemoryClient
from memory_contracts.connection import BusError
from memory_contracts.errors import FunctionError
from memory_contracts.turns import TurnCompleted, TurnMessage
from tests.cli.conftest import Running

CALLERS = 6
"""Clients at work side by side."""
TEXTS = 400
"""Distinct texts that are saved: the store stops growing when all are there, so what grows after that is a leak."""
FAULT_EVERY_S = 20.0
"""Pause between kills of the bus; the first comes after half of it."""
FAULT_GRACE_S = 12.0
"""Time after a kill during which an error is the fault's, not the worker's."""
WARM_UP = 0.5
"""Share of the run after which growth is measured: until then bounded caches fill."""
SLOPES_FROM_S = 600.0
"""Shortest run whose slopes are held to their bounds."""
RSS_SLOPE_MAX_MB = 2.0
"""Most growth of resident memory per minute, in MiB, once warm."""
WORDS = (
    *("amber", "basil", "copper", "dune", "ember", "fjord", "garnet", "harbor"),
    *("indigo", "juniper", "kelp", "lagoon", "maple", "nectar", "onyx", "pebble"),
)


class Sample(NamedTuple):
    """The worker's size at one moment; seconds since the start."""

    at: float
    rss_mb: float
    files: int
    threads: int
    tasks: int
    wal_mb: float


class Tally:
    """What the callers saw."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.in_fault: Counter[str] = Counter()
        self.times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.saved: set[str] = set()
        self.turns = 0
        self.events = 0
        self.faults: list[float] = []

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def excused(self, began: float) -> bool:
        """Whether a fault overlaps the time from `began` to now."""
        return any(began < fault + FAULT_GRACE_S and fault < self.now() for fault in self.faults)

    async def measure(self, name: str, call: Callable[[], Awaitable[Any]]) -> bool:
        """Run one call and count how it ended."""
        began = self.now()
        try:
            await call()
        except (FunctionError, BusError) as error:
            kind = f"{name} {getattr(error, 'code', type(error).__name__)}"
            (self.in_fault if self.excused(began) else self.errors)[kind] += 1
            await asyncio.sleep(0.2)
            return False
        self.done[name] += 1
        if not self.excused(began):
            self.times[name].append((began, self.now() - began))
        return True


def text_of(number: int) -> str:
    """One of the texts."""
    a, b, c = (WORDS[number // 16**power % 16] for power in range(3))
    return f"The {a} crate number {number} holds {b} and {c}"


async def caller(running: Running, tally: Tally, stop: asyncio.Event, seed: int) -> None:
    """Mix saves, recalls, contexts, lists and turns until told to stop."""
    rng = random.Random(seed)
    folder = running.data_dir / "credentials"
    agent = await MemoryClient.connect(folder / "agent-default.json")
    harness = await MemoryClient.connect(folder / "system-harness.json")
    numbers = itertools.count()
    while not stop.is_set():
        number = rng.randrange(TEXTS)
        text, kind = text_of(number), rng.random()
        session = f"soak-{seed}-{number % 8}"
        if kind < 0.35:
            if await tally.measure("save", lambda text=text: agent.save(text=text)):  # type: ignore[misc]
                tally.saved.add(text)
        elif kind < 0.6:
            query = " ".join(rng.sample(WORDS, 2))
            await tally.measure("recall", lambda query=query: agent.recall(query=query))  # type: ignore[misc]
        elif kind < 0.8:
            ask = {"session_id": session, "message": text, "turn_id": f"{session}-{next(numbers)}"}
            await tally.measure("context", lambda ask=ask: harness.context(**ask))  # type: ignore[misc]
        elif kind < 0.85:
            await tally.measure("list", lambda: agent.list(limit=50))
        else:
            turn = turn_of(f"{session}-turn-{next(numbers)}", session, text)
            if await tally.measure("turn", lambda turn=turn: harness.publish_turn(turn)):  # type: ignore[misc]
                tally.turns += 1
        await asyncio.sleep(rng.random() * 0.02)
    await agent.close()
    await harness.close()


def turn_of(turn_id: str, session: str, text: str) -> TurnCompleted:
    """A finished turn in which the user says something worth keeping."""
    now = datetime.now(UTC)
    message = TurnMessage(id=f"{turn_id}-u", role="user", text=f"Remember that {text[0].lower()}{text[1:]}.", at=now)
    return TurnCompleted(turn_id=turn_id, session_id=session, status="completed", completed_at=now, messages=[message])


async def subscribers(running: Running, tally: Tally, stop: asyncio.Event) -> None:
    """Subscribers come, see some events, and go."""
    while not stop.is_set():
        with contextlib.suppress(FunctionError, BusError, TimeoutError):
            client = await MemoryClient.connect(running.data_dir / "credentials" / "human-me.json")
            async with client, asyncio.timeout(3), client.on_item_changed() as events:
                async for _ in events:
                    tally.events += 1
        await asyncio.sleep(0.2)


async def faults(running: Running, tally: Tally, stop: asyncio.Event, every: float) -> None:
    """Kill the bus's server now and then."""
    pause = every / 2
    while not await _stopped(stop, pause):
        for child in psutil.Process(running.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if Path(child.cmdline()[0]).name == "nats-server":
                    tally.faults.append(tally.now())
                    child.kill()
        pause = every


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()


async def sampling(running: Running, tally: Tally, stop: asyncio.Event, samples: list[Sample], every: float) -> None:
    """Read the worker's size."""
    process = psutil.Process(running.process.pid)
    wal = running.data_dir / "local" / "memory.db-wal"
    while not stop.is_set():
        tasks = await asyncio.to_thread(metric, running, "memory_tasks")
        samples.append(
            Sample(
                tally.now(),
                process.memory_info().rss / 2**20,
                process.num_fds(),
                process.num_threads(),
                int(tasks),
                wal.stat().st_size / 2**20 if wal.exists() else 0.0,
            )
        )
        await _stopped(stop, every)


def metric(running: Running, name: str) -> float:
    """One sample of the worker's metrics."""
    url = f"http://127.0.0.1:{running.ready['http_port']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    return 0.0


def slope(samples: list[Sample], field: str) -> float:
    """Growth per minute, by least squares over the warm part of the run."""
    warm = [sample for sample in samples if sample.at >= samples[-1].at * WARM_UP]
    if len(warm) < 3:
        return 0.0
    return 60 * statistics.linear_regression([s.at for s in warm], [getattr(s, field) for s in warm]).slope


def percentile(times: list[tuple[float, float]], share: float, first: float, last: float) -> float:
    """A percentile in milliseconds of the calls that began between two moments."""
    chosen = sorted(took for began, took in times if first <= began < last)
    return 1_000 * chosen[int(len(chosen) * share)] if chosen else 0.0


async def soak(seconds: float, data_dir: Path, *, fault_after: float = FAULT_EVERY_S) -> dict[str, Any]:
    """Run the load and give the report."""
    running = Running(data_dir)
    busy = os.getloadavg()[0]
    tally, stop, samples = Tally(), asyncio.Event(), list[Sample]()
    works = [caller(running, tally, stop, seed) for seed in range(CALLERS)]
    works += [subscribers(running, tally, stop), sampling(running, tally, stop, samples, max(0.5, seconds / 200))]
    if fault_after:
        works.append(faults(running, tally, stop, fault_after))
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
            await asyncio.sleep(seconds)
            stop.set()
        lost = await missing(running, tally)
    finally:
        code = await asyncio.to_thread(running.stop)
    third = seconds / 3
    return {
        "seconds": seconds,
        "done": dict(tally.done),
        "events": tally.events,
        "faults": len(tally.faults),
        "errors outside faults": dict(tally.errors),
        "errors within faults": dict(tally.in_fault),
        "acknowledged saves lost": lost["saves"],
        "acknowledged turns lost": lost["turns"],
        "exit code": code,
        "rss_mb over time": [round(sample.rss_mb) for sample in samples[:: max(1, len(samples) // 20)]],
        "last": samples[-1]._asdict(),
        "per minute": {
            field: round(slope(samples, field), 3) for field in ("rss_mb", "files", "threads", "tasks", "wal_mb")
        },
        "load of the machine before and after": [round(busy, 1), round(os.getloadavg()[0], 1)],
        "p50 and p99 ms in the first and the last third": {
            name: [
                [round(percentile(times, share, first, last), 1) for share in (0.5, 0.99)]
                for first, last in ((0, third), (2 * third, seconds))
            ]
            for name, times in sorted(tally.times.items())
        },
    }


async def missing(running: Running, tally: Tally) -> dict[str, int]:
    """Count acknowledged saves that are not stored and acknowledged turns that were not read."""
    stored: set[str] = set()
    async with await MemoryClient.connect(running.data_dir / "credentials" / "human-me.json") as client:
        cursor = None
        while True:
            page = await client.list(limit=200, cursor=cursor)
            stored |= {memory.text for memory in page.memories}
            cursor = page.cursor
            if cursor is None:
                break
        deadline = time.monotonic() + 60
        while True:
            status = await client.extraction_status()
            turns = tally.turns - status.done - status.parked_total
            if turns <= 0 or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
    return {"saves": len(tally.saved - stored), "turns": max(0, turns)}


def broken(report: dict[str, Any], *, slopes: bool) -> list[str]:
    """Name the bounds that the run broke."""
    found = [name for name in ("acknowledged saves lost", "acknowledged turns lost", "exit code") if report[name]]
    if report["errors outside faults"]:
        found.append("errors outside faults")
    if slopes:
        per_minute = report["per minute"]
        found += ["rss"] if per_minute["rss_mb"] > RSS_SLOPE_MAX_MB else []
        found += [name for name in ("files", "threads", "tasks") if per_minute[name] > 1]
    return found


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--no-faults", action="store_true")
    chosen = parser.parse_args()
    seconds = chosen.seconds or chosen.minutes * 60
    with tempfile.TemporaryDirectory(prefix="memory-soak-") as folder:
        report = asyncio.run(soak(seconds, Path(folder) / "data", fault_after=0 if chosen.no_faults else FAULT_EVERY_S))
    print(json.dumps(report, indent=2))
    found = broken(report, slopes=seconds >= SLOPES_FROM_S)
    print("broken: " + ", ".join(found) if found else "all bounds hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
