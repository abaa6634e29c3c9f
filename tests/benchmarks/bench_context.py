"""Prints how long a turn's context takes over the bus, by callers and memories, against a bare echo (`make bench`)."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.benchmarks.bench import CALLERS, cell, echo_server, show
from tests.benchmarks.running import Running, fill, running_worker

SIZES = (100, 10_000, 100_000)
"""Memories in the bank."""


def cpu_seconds(worker: Running) -> float:
    """Processor time the worker has used: unlike the clock, it does not depend on who else is at work."""
    times = psutil.Process(worker.process.pid).cpu_times()
    return float(times.user + times.system)


def measure(size: int, seconds: float, folder: Path) -> None:
    """Print one line per number of callers for a bank of `size` memories."""
    data_dir = folder / str(size)
    fill(data_dir, size)
    with (
        (folder / f"{size}.log").open("wb") as log,
        running_worker(data_dir, log, MEMORY_FILES="false") as worker,
        echo_server() as echo,
    ):
        worker.until_published()
        for callers in CALLERS:
            floor = cell(echo, "echo", callers, seconds)
            before = cpu_seconds(worker)
            asked = worker.metric("memory_requests_total")
            found = cell(worker.credentials("system-harness"), "context", callers, seconds)
            spent = (cpu_seconds(worker) - before) / (worker.metric("memory_requests_total") - asked) * 1_000
            show(
                f"{size:>9}{callers:>8}{found['p50']:>9.2f}{found['p95']:>9.2f}{found['p99']:>9.2f}"
                f"{found['rate']:>9.0f}{found['rate'] / floor['rate']:>9.2f}{spent:>9.2f}"
            )


def main(sizes: Sequence[int] = SIZES, seconds: float = 2.5) -> None:
    """Print the table."""
    show("context over the bus; every turn is new; “of echo” in calls a second, “cpu” of the worker a call")
    show(f"{'memories':>9}{'callers':>8}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'per s':>9}{'of echo':>9}{'cpu ms':>9}")
    with tempfile.TemporaryDirectory(prefix="memory-bench-context-") as folder:
        for size in sizes:
            measure(size, seconds, Path(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, help="memories in the bank; default: 100, 10,000 and 100,000")
    parser.add_argument("--seconds", type=float, default=2.5, help="seconds per cell")
    asked = parser.parse_args()
    main(asked.sizes or SIZES, asked.seconds)
