"""Measures recall in-process at growing sizes, beside FTS5 and a NumPy scan of all vectors in the same run.

    python -m tests.benchmarks.bench_recall [--sizes 1000,10000,100000] [--baseline-max 100000]

Memories are 20 words drawn by Zipf's law from the shipped vocabulary; a query is six words of one of them, framed as a
question. The baseline scores FTS5's best 200 with the same vectors, as a scan over all of them in float32.
"""

import argparse
import gc
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil

from memory_contracts.records import Memory, Source
from memory_worker.recall import RecallQuery, RecallSettings, StaticEmbedder, TenantIndex
from memory_worker.recall.languages import vocabulary
from memory_worker.recall.snapshot import Snapshots

SIZES = (1_000, 10_000, 100_000, 1_000_000)
BASELINE_MAX = 100_000
WORDS = 20
QUERIES = 200
SAVES = 500
BOAT = (
    ("mast", "was replaced in spring"),
    ("hull", "is painted dark blue"),
    ("anchor", "weighs eleven kilos"),
    ("rudder", "has a crack"),
    ("engine", "needs new oil"),
    ("cabin", "sleeps four people"),
    ("mooring", "costs ninety euros a month"),
    ("insurance", "ends in December"),
    ("sail", "was sewn in Brest"),
    ("radio", "listens on channel sixteen"),
)
BOAT_QUERIES = ("sailing boat marlin", "what does the mooring of the marlin cost", "marlin engine oil")
START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START.timestamp() + 86_400.0
SOURCE = Source(route="human", principal="me")


def texts(count: int, seed: int = 1) -> Iterator[str]:
    """Texts of WORDS words."""
    boat = set(" ".join((*map(" ".join, BOAT), *BOAT_QUERIES)).lower().split())
    words = [w for w in vocabulary() if w.isalpha() and len(w) > 2 and w not in boat][:20_000]
    rng = np.random.default_rng(seed)
    share = 1 / (np.arange(len(words)) + 5)
    share /= share.sum()
    for at in range(0, count, 10_000):
        for row in rng.choice(len(words), size=(min(10_000, count - at), WORDS), p=share):
            yield " ".join(words[i] for i in row)


def memory(number: int, text: str) -> Memory:
    """One memory."""
    return Memory(
        id=f"mem_{number:026d}",
        bank="main",
        text=text,
        kind="fact",
        tier="stated",
        source=SOURCE,
        created_at=START,
        updated_at=START,
        last_seen_at=START,
    )


def queries(count: int) -> list[str]:
    """Questions about the first memories."""
    rng = np.random.default_rng(5)
    asked = list(texts(min(count, 10_000)))[:: max(1, min(count, 10_000) // QUERIES)][:QUERIES]
    return [f"What did we say about {' '.join(rng.choice(t.split(), 6))}?" for t in asked]


def percentiles(seconds: list[float]) -> str:
    """Median and 95th percentile in milliseconds."""
    return f"{np.percentile(seconds, 50) * 1e3:8.2f}{np.percentile(seconds, 95) * 1e3:9.2f}"


def resident() -> int:
    """Resident memory of this process, in bytes."""
    gc.collect()
    return int(psutil.Process(os.getpid()).memory_info().rss)


def timed(call: object, asked: list[str]) -> list[float]:
    """Seconds of each call after five unmeasured ones."""
    assert callable(call)
    for query in asked[:5]:
        call(query)
    taken: list[float] = []
    for query in asked:
        started = time.perf_counter()
        call(query)
        taken.append(time.perf_counter() - started)
    return taken


def ours(count: int, folder: Path, embedder: StaticEmbedder) -> None:
    """One size of the product's index: built, written, loaded, asked, written to."""
    built = TenantIndex(RecallSettings(), embedder)
    started = time.perf_counter()
    batch: list[Memory] = []
    for number, text in enumerate(texts(count)):
        batch.append(memory(number, text))
        if len(batch) == 5_000:
            built.put_all(batch)
            batch = []
    built.put_all(batch)
    per_row = (time.perf_counter() - started) / count * 1e6
    Snapshots(folder).save(built)
    del built, batch
    before = resident()
    index = TenantIndex(RecallSettings(), embedder)
    started = time.perf_counter()
    Snapshots(folder).load(index)
    load = time.perf_counter() - started
    size = (resident() - before) / count
    taken = timed(lambda q: index.search(["main"], RecallQuery(text=q), NOW), queries(count))
    saves: list[float] = []
    for number, text in enumerate(texts(SAVES, seed=9)):
        started = time.perf_counter()
        index.put_all([memory(count + number, text)])
        saves.append(time.perf_counter() - started)
    bare = index.nbytes / count - embedder.dims - embedder.dims / 8
    print(
        f"{count:>10,}  recall {percentiles(taken)}   {load:7.2f}{per_row:9.0f}{np.percentile(saves, 50) * 1e6:9.0f}"
        f"{bare:9.0f}{size:9.0f}{drift(index, 2 * count):>8}"
    )


def drift(index: TenantIndex, first: int) -> str:
    """Ten rows about one boat put into a full bank: whether they are found as in a bank of their own."""
    rows = [memory(first + n, f"The {part} of the sailing boat Marlin {rest}") for n, (part, rest) in enumerate(BOAT)]
    alone = TenantIndex(RecallSettings(), index.embedder)
    for one in (alone, index):
        one.put_all(rows)
    asked = [RecallQuery(text=q, limit=10) for q in BOAT_QUERIES]
    found = [[[h.id for h in one.search(["main"], q, NOW).hits] for q in asked] for one in (alone, index)]
    return "same" if found[0] == found[1] else "moved"


def baseline(count: int, embedder: StaticEmbedder) -> None:
    """FTS5 over the same texts, and cosines of the query to every vector."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE m USING fts5(text, tokenize='porter unicode61')")
    db.executemany("INSERT INTO m (text) VALUES (?)", ((t,) for t in texts(count)))
    matrix = np.concatenate([embedder.embed([t]) for t in texts(count)])

    def ask(query: str) -> None:
        match = " OR ".join(f'"{w}"' for w in query.rstrip("?").split()[5:])
        rows = db.execute("SELECT rowid, rank FROM m WHERE m MATCH ? ORDER BY rank LIMIT 200", (match,)).fetchall()
        cosines = matrix @ embedder.embed([query])[0]
        points = np.zeros(count, np.float32)
        points[[r - 1 for r, _ in rows]] = [-score for _, score in rows]
        fused = points / (points.max() or 1) + cosines
        np.argpartition(-fused, min(8, count - 1))

    print(f"{count:>10,}  FTS5 + scan {percentiles(timed(ask, queries(count)))[3:]}")
    db.close()


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--baseline-max", type=int, default=BASELINE_MAX, help="largest size the baseline is run at")
    args = parser.parse_args(arguments)
    embedder = StaticEmbedder()
    embedder.embed(["warm"])
    print("recall, in-process, one thread")
    print(
        f"{'memories':>10}  {'':6} {'p50 ms':>8}{'p95 ms':>9}   {'load s':>7}{'build us':>9}{'save us':>9}"
        f"{'B/row':>9}{'rss/row':>9}{'drift':>8}   (B/row: index without the vector and its signs)"
    )
    for count in (int(s) for s in args.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            ours(count, Path(folder), embedder)
        if count <= args.baseline_max:
            baseline(count, embedder)


if __name__ == "__main__":
    main(sys.argv[1:])
