"""Measures recall while a tenth of a bank lapses at once, beside the same recalls before it, in one run.

    python -m tests.benchmarks.bench_expiry [--rows 1000000] [--share 0.1] [--stated 0.5]

Store, gate, recall index and sweeper are the product's, in one process and on one event loop, as in the worker; the
rows are written into the store directly. At a moment of an injected clock a share of the rows is over. Recalls go on
one after the other while the sweeper writes each lapse (and a notice for a stated one) and the index follows.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from memory_contracts.functions.memories import SaveRequest
from memory_contracts.records import Memory, Source
from memory_worker.clock import to_seconds
from memory_worker.feeds import StoreIndexFeed
from memory_worker.gate import Gate, GateSettings, KeyedVault, Sweeper
from memory_worker.recall import RecallQuery, RecallService, RecallSettings, StaticEmbedder
from memory_worker.store import Caller, TenantStore, Transaction, banks, memories, new_id
from tests.benchmarks.bench_recall import queries, texts

ROWS = 1_000_000
SHARE = 0.1
STATED = 0.5
BATCH = 5_000
"""Rows that one transaction writes while filling."""
QUIET_RECALLS = 400
"""Recalls measured before, and again after."""
START = datetime(2026, 1, 1, tzinfo=UTC)
OVER = START + timedelta(days=1)
ME = Caller("local", "human", "me")


class MovedClock:
    """A clock that stands at a moment."""

    def __init__(self) -> None:
        self.at = to_seconds(START) + 60.0

    def now(self) -> float:
        return self.at


def rows(count: int, share: float, stated: float) -> Iterator[Memory]:
    """The bank's memories: of each hundred `share` lapse, and of those `stated` were stated by a person."""
    source = Source(route="human", principal="me")
    every = round(1 / share)
    for number, text in enumerate(texts(count)):
        lapses = number % every == 0
        told = (number // every) % 100 < stated * 100
        yield Memory(
            id=new_id("mem"),
            bank="main",
            text=f"{text} {number}",
            kind="fact",
            tier="stated" if told else "inferred",
            source=source,
            created_at=START,
            updated_at=START,
            last_seen_at=START,
            expires_at=OVER if lapses else OVER + timedelta(days=365),
        )


async def fill(store: TenantStore, count: int, share: float, stated: float) -> None:
    """Write the rows, without a journal: the index reads the records."""
    batch: list[Memory] = []

    def write(tx: Transaction) -> None:
        bank = banks.find(tx, "main")
        assert bank is not None
        for memory in batch:
            memories.insert(tx, bank.n, memory, expires_set=False)

    for memory in rows(count, share, stated):
        batch.append(memory)
        if len(batch) == BATCH:
            await store.write(write)
            batch.clear()
    if batch:
        await store.write(write)


async def measured(recall: RecallService, asked: Sequence[str], until: "asyncio.Future[None] | None") -> list[float]:
    """Seconds of recalls one after the other: `QUIET_RECALLS` of them, or as many as there are `until` something is."""
    taken: list[float] = []
    while len(taken) < QUIET_RECALLS if until is None else not until.done():
        query = asked[len(taken) % len(asked)]
        began = time.perf_counter()
        await recall.recall(("main",), RecallQuery(text=query))
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(0)
    return taken


async def saved(gate: Gate, until: "asyncio.Future[None]") -> list[float]:
    """Seconds of saves beside the sweep, ten a second."""
    taken: list[float] = []
    while not until.done():
        began = time.perf_counter()
        await gate.save(ME, SaveRequest(text=f"said while others lapse, number {len(taken)}"))
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(0.1)
    return taken


def line(name: str, seconds: Sequence[float]) -> str:
    """Count, median and 95th percentile in milliseconds, worst."""
    if not seconds:
        return f"{name:<22}{0:>9}"
    p50, p95 = np.percentile(seconds, 50) * 1e3, np.percentile(seconds, 95) * 1e3
    return f"{name:<22}{len(seconds):>9,}{p50:>10.2f}{p95:>10.2f}{max(seconds) * 1e3:>10.2f}"


async def run(count: int, share: float, stated: float, folder: Path) -> None:
    """Fill, measure, let lapse, measure."""
    clock = MovedClock()
    store = TenantStore("local", folder / "local", clock)
    await store.open()
    gate = Gate(store, GateSettings(), KeyedVault(b"0" * 32), lambda bank, page, total: "")
    await gate.open()
    began = time.monotonic()
    await fill(store, count, share, stated)
    filled = time.monotonic() - began
    recall = RecallService(StoreIndexFeed(store), RecallSettings(), clock, folder / "index", StaticEmbedder())
    began = time.monotonic()
    await recall.start()
    indexed = time.monotonic() - began
    asked = queries(count)
    for query in asked[:20]:
        await recall.recall(("main",), RecallQuery(text=query))
    print(f"{count:,} memories filled in {filled:.0f} s, indexed in {indexed:.0f} s")
    print(f"{'recall':<22}{'n':>9}{'p50 ms':>10}{'p95 ms':>10}{'worst ms':>10}")
    before = await measured(recall, asked, None)
    print(line("before", before))
    clock.at = to_seconds(OVER)
    sweeper = Sweeper(store, gate.settings)
    began = time.monotonic()

    async def sweep() -> int:
        lapsed = 0
        while True:
            done = await sweeper.sweep()
            lapsed += done.expired
            if not done.more:
                return lapsed

    sweeping = asyncio.ensure_future(sweep())
    during, saves = await asyncio.gather(measured(recall, asked, sweeping), saved(gate, sweeping))  # type: ignore[arg-type]
    lapsed, took = await sweeping, time.monotonic() - began
    print(line("during the sweep", during))
    print(line("after", await measured(recall, asked, None)))
    print(line("saves during it", saves))
    ratio = np.percentile(during, 95) / np.percentile(before, 95)
    print(f"{lapsed:,} lapsed in {took:.1f} s ({lapsed / took:,.0f} a second); p95 during / before = {ratio:.2f}")
    await recall.stop()
    await store.close()


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--share", type=float, default=SHARE, help="share of the rows that lapses at once")
    parser.add_argument("--stated", type=float, default=STATED, help="share of those that a person had stated")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(args.rows, args.share, args.stated, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
