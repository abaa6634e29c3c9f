"""Prints the worker's figures as small tables, each against a baseline of the same run (`make bench`)."""

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memory_contracts import TurnCompleted, TurnMessage
from memory_contracts.client import MemoryClient
from memory_worker.bus.server import free_port, server_binary
from tests.benchmarks.running import Running, fill, running_worker

CALLERS = (1, 16, 64)
OTHERS = ("bench_recall", "bench_context", "bench_files", "bench_consolidate")
"""Benchmarks of single rooms; each has a `main()` that prints its tables."""


def show(text: str = "") -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def cell(credentials: str, kind: str, callers: int, seconds: float) -> dict[str, float]:
    """Measure one cell from a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.load", credentials, kind]
    done = subprocess.run(
        [*command, "--callers", str(callers), "--seconds", str(seconds)], check=True, stdout=subprocess.PIPE
    )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@contextmanager
def echo_server() -> Iterator[str]:
    """The bare request-reply floor: a plain server and an echo, each a process of its own; gives its address."""
    port = free_port(0)
    server = subprocess.Popen([str(server_binary()), "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    url = f"nats://127.0.0.1:{port}"
    echo = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.load", url, "serve-echo"], stdout=subprocess.PIPE)
    assert echo.stdout is not None
    echo.stdout.readline()
    try:
        yield url
    finally:
        for process in (echo, server):
            process.kill()
            process.wait()


def requests(worker: Running, echo: str, seconds: float) -> None:
    """Echo, save, recall and context at 1, 16 and 64 callers."""
    show(f"{'function':<9}{'callers':>8}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'of echo':>9}{'commits/call':>14}")
    rates: dict[int, float] = {}
    for kind, credentials in (
        ("echo", echo),
        ("save", worker.credentials("human-me")),
        ("recall", worker.credentials("human-me")),
        ("context", worker.credentials("system-harness")),
    ):
        for callers in CALLERS:
            commits = worker.metric("memory_commit_seconds_count")
            asked = worker.metric("memory_requests_total")
            measured = cell(credentials, kind, callers, seconds)
            commits = worker.metric("memory_commit_seconds_count") - commits
            asked = worker.metric("memory_requests_total") - asked
            if kind == "echo":
                rates[callers] = measured["rate"]
            ratio = measured["rate"] / rates[callers]
            per_call = f"{commits / asked:14.3f}" if asked and kind != "recall" else f"{'-':>14}"
            show(
                f"{kind:<9}{callers:>8}{measured['p50']:>9.2f}{measured['p99']:>9.2f}{measured['rate']:>9.0f}"
                f"{ratio:>9.2f}{per_call}"
            )


async def ingest(worker: Running, turns: int) -> float:
    """Publish turns with nothing to keep, wait until all are read, and give turns per second."""
    async with await MemoryClient.connect(worker.credentials("system-harness")) as client:
        events = [
            TurnCompleted(
                turn_id=f"bench-{number}",
                session_id=f"bench-{number % 500}",
                status="completed",
                completed_at=datetime.now(UTC),
                messages=[
                    TurnMessage(id=f"u{number}", role="user", text="Can you show me how that loop works again?"),
                    TurnMessage(id=f"a{number}", role="assistant", text="Of course. It counts up and stops at ten."),
                ],
            )
            for number in range(turns)
        ]
        before = (await client.extraction_status()).done
        began = time.perf_counter()
        for start in range(0, turns, 500):
            await client.publish_turns(events[start : start + 500])
        while (await client.extraction_status()).done < before + turns:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        return turns / (time.perf_counter() - began)


def main() -> None:
    """Run everything, or the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="requests ingest size recall context files consolidate; default: all")
    parser.add_argument("--seconds", type=float, default=2.5, help="seconds per cell")
    parser.add_argument("--memories", type=int, default=10_000, help="memories in the store for requests")
    parser.add_argument("--size", type=int, default=100_000, help="memories in the store for start and memory")
    asked = parser.parse_args()
    parts = set(asked.parts) or {"requests", "ingest", "size", *(name.removeprefix("bench_") for name in OTHERS)}
    with tempfile.TemporaryDirectory(prefix="memory-bench-") as folder, (Path(folder) / "log").open("wb") as log:
        if parts & {"requests", "ingest"}:
            data_dir = Path(folder) / "requests"
            fill(data_dir, asked.memories)
            with running_worker(data_dir, log, MEMORY_FILES="false") as worker:
                worker.until_published()
                if "requests" in parts:
                    show(f"requests over the bus, {asked.memories} memories, synchronous=FULL")
                    with echo_server() as echo:
                        requests(worker, echo, asked.seconds)
                    show()
                if "ingest" in parts:
                    rate = asyncio.run(ingest(worker, 6_000))
                    show(f"turn ingest, nothing to keep: {rate:.0f} turns/s from publish to read\n")
        if "size" in parts:
            with running_worker(Path(folder) / "empty", log) as worker:
                show(f"empty store: ready in {worker.ready_seconds:.2f} s, {worker.rss_mib():.0f} MiB resident")
            data_dir = Path(folder) / "size"
            fill(data_dir, asked.size)
            with running_worker(data_dir, log, MEMORY_FILES="false"):
                pass  # the first start builds the index and leaves its snapshot
            with running_worker(data_dir, log, MEMORY_FILES="false") as worker:
                show(
                    f"{asked.size} memories: ready in {worker.ready_seconds:.2f} s, "
                    f"{worker.rss_mib():.0f} MiB resident\n"
                )
    for name in OTHERS:
        if name.removeprefix("bench_") in parts:
            importlib.import_module(f"tests.benchmarks.{name}").main()


if __name__ == "__main__":
    main()
