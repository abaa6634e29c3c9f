"""Prints what the file mirror costs, how far it lags, and the time of writing, reading and carrying many files."""

import argparse
import asyncio
import hashlib
import itertools
import resource
import statistics
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog

from memory_contracts.functions.memories import SaveRequest
from memory_contracts.functions.operations import ExportRequest, ImportRequest, ValueRevealReply, ValueRevealRequest
from memory_contracts.records import Claim, Memory, Source
from memory_worker.clock import SystemClock
from memory_worker.files import Archives, FileRoom, GateCommands, StoreFeed, StoreLedger, StoreSnapshot
from memory_worker.gate import Gate, GateSettings, KeyedVault
from memory_worker.store import Caller, JournalRow, TenantStore

SAVERS = 64
PERSON = Caller("local", "human", "me")
TEXT = "Memory number {} says that the quarterly planning of the search team moved to the large room on Thursday"
"""A text of usual length: about a hundred characters."""
RUN = {"manifest.json", "journal.jsonl"}
"""Files of an archive that tell of the run it was made in."""


def show(text: str = "") -> None:
    """Print a line at once."""
    print(text, flush=True)


class TimedFeed(StoreFeed):
    """The journal, which notes for each row how long after its commit it was in the folder."""

    def __init__(self, store: TenantStore) -> None:
        super().__init__(store)
        self.lags: list[float] = []
        self._pending: list[JournalRow] = []

    async def rows(self, after_seq: int, limit: int) -> Sequence[JournalRow]:
        self._pending = list(await super().rows(after_seq, limit))
        return self._pending

    def move(self, seq: int) -> None:
        now = time.time()
        self.lags.extend(now - row.at for row in self._pending if row.seq <= seq)
        super().move(seq)


class Opened:
    """A tenant's store and gate, and its room where one is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SystemClock()
        self.store = TenantStore("local", root, self.clock)
        self.gate = Gate(self.store, GateSettings(), KeyedVault(bytes(32)), lambda bank, page, total: "")
        self.feed = TimedFeed(self.store)

    def room(self, snapshot: StoreSnapshot | None = None) -> FileRoom:
        """A file room over this tenant, or over other records."""
        return FileRoom(
            self.root,
            feed=self.feed,
            snapshot=snapshot or StoreSnapshot(self.store),
            ledger=StoreLedger(self.store),
            commands=GateCommands(self.gate, "human"),
            clock=self.clock,
        )

    async def save(self, count: int) -> None:
        """Save so many memories as fast as they go."""
        numbers = iter(range(count))

        async def saver() -> None:
            for n in numbers:
                await self.gate.save(PERSON, varied(n))

        await asyncio.gather(*(saver() for _ in range(SAVERS)))


def varied(n: int) -> SaveRequest:
    """A memory of which every label is set in some, so that a comparison meets all of them."""
    return SaveRequest(
        text=TEXT.format(n),
        kind=("fact", "person", "preference")[n % 3],
        subject=f"subject {n}" if n % 2 else None,
        entities=[f"Person {n % 500}"] if n % 3 == 1 else [],
        tags=[f"tag{n % 7}"],
        about=[f"repo:{n % 11}"] if n % 4 == 0 else [],
        claim=Claim(entity=f"Thing {n}", property="room", value=str(n)) if n % 5 == 0 else None,
        confidence=("low", "normal", "high")[n % 3],
        pinned=n % 50 == 0,
        occurred_at=datetime(2026, 1, 1 + n % 28, tzinfo=UTC) if n % 6 == 0 else None,
        expires_at=datetime(2030, 1, 1, tzinfo=UTC) if n % 50 == 1 else None,
    )


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[Opened]:
    """Give an open tenant, closed at the end."""
    made = Opened(root)
    await made.store.open()
    await made.gate.open()
    try:
        yield made
    finally:
        await made.store.close()


async def no_reveal(caller: Caller, request: ValueRevealRequest) -> ValueRevealReply:
    """Nothing here is protected."""
    raise AssertionError(request.ref)


def cpu() -> float:
    """Seconds of processor time this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def saving(root: Path, seconds: float, mirror: bool) -> tuple[float, float, float, float, list[float], float]:
    """Save for some seconds with 64 callers; gives saves a second, p50 and p95 in ms, CPU in ms a save, lags, rest."""
    async with opened(root) as made:
        room = made.room() if mirror else None
        if room is not None:
            await room.open()
            room.start()
        times: list[float] = []
        numbers = itertools.count()
        end = time.perf_counter() + seconds
        used = cpu()

        async def saver() -> None:
            while time.perf_counter() < end:
                begun = time.perf_counter()
                await made.gate.save(PERSON, SaveRequest(text=TEXT.format(next(numbers))))
                times.append(time.perf_counter() - begun)

        await asyncio.gather(*(saver() for _ in range(SAVERS)))
        saved = time.perf_counter()
        if room is not None:
            await room.drain()
        rest = time.perf_counter() - saved
        used = cpu() - used
        if room is not None:
            await room.close()
        rate = len(times) / seconds
        p50, p95 = statistics.median(times) * 1_000, percentile(times, 0.95) * 1_000
        return rate, p50, p95, used / len(times) * 1_000, made.feed.lags, rest


async def under_load(seconds: float) -> None:
    """Saves with the mirror off and on, twice each in turn, and how far the mirror lags."""
    show(f"{SAVERS} savers, {seconds:g} s each, off and on in turn")
    show("mirror   saves/s   p50 ms   p95 ms   CPU ms/save   lag p50 ms   lag p95 ms   caught up after s")
    for mirror in (False, True, False, True):
        with tempfile.TemporaryDirectory() as folder:
            rate, p50, p95, used, lags, rest = await saving(Path(folder) / "local", seconds, mirror)
        lag = f"{statistics.median(lags) * 1_000:10.0f}   {percentile(lags, 0.95) * 1_000:10.0f}" if lags else " " * 23
        state = "on " if mirror else "off"
        show(f"{state}      {rate:7.0f}   {p50:6.1f}   {p95:6.1f}   {used:11.3f}   {lag}   {rest:8.2f}")


async def one_by_one(count: int) -> None:
    """The lag of single saves, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "local") as made:
            room = made.room()
            await room.open()
            room.start()
            for n in range(count):
                await made.gate.save(PERSON, SaveRequest(text=TEXT.format(n)))
                await asyncio.sleep(0.1)
            await room.drain()
            await room.close()
            lags = made.feed.lags
    p50, p95 = statistics.median(lags) * 1_000, percentile(lags, 0.95) * 1_000
    show(f"one save at a time: lag p50 {p50:.0f} ms, p95 {p95:.0f} ms")


class ManyMemories(StoreSnapshot):
    """Records of a large bank without the hours it takes to say them: only the mirror is measured."""

    def __init__(self, store: TenantStore, count: int) -> None:
        super().__init__(store)
        self._count = count

    async def memories(self, bank: str, after_id: str, limit: int) -> tuple[Sequence[Memory], str | None]:
        start = int(after_id.removeprefix("mem_")) + 1 if after_id else 0
        page = [self._memory(n) for n in range(start, min(start + limit, self._count))]
        return page, page[-1].id if start + limit < self._count else None

    def _memory(self, n: int) -> Memory:
        at = datetime(2026, 11, 30, tzinfo=UTC)
        source = Source(route="human", principal="me")
        return Memory(
            id=f"mem_{n:026d}",
            bank="main",
            text=TEXT.format(n),
            kind="fact",
            tier="stated",
            source=source,
            created_at=at,
            updated_at=at,
            last_seen_at=at,
            tags=("planning",),
        )


async def from_scratch(count: int) -> None:
    """Write and read the folder of a large bank; every file is rendered, placed, synced and recorded."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "local") as made:
            room = made.room(ManyMemories(made.store, count))
            await room.open()
            for what, work in (("written from scratch", room.rebuild), ("read again, nothing changed", room.reload)):
                begun, used = time.perf_counter(), cpu()
                await work()
                took, used = time.perf_counter() - begun, cpu() - used
                show(f"{count:,} memories {what}: {took:.1f} s, {used:.1f} s of CPU, {count / took:,.0f} a second")
            await room.close()


async def records(of: Opened) -> dict[str, Memory]:
    """Every live memory by id."""
    found: dict[str, Memory] = {}
    after: str | None = ""
    while after is not None:
        page, after = await StoreSnapshot(of.store).memories("main", after, 1_000)
        found |= {memory.id: memory for memory in page}
    return found


def differing(first: Path, second: Path) -> list[str]:
    """Names of files that two archives do not have alike; manifest and journal tell of the run, and are left out."""
    one, two = ({member.name: hash_of(tar, member) for member in tar} for tar in map(tarfile.open, (first, second)))
    return sorted(name for name in (one.keys() | two.keys()) - RUN if one.get(name) != two.get(name))


def hash_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The hash of one file of an archive."""
    data = tar.extractfile(member)
    assert data is not None
    return hashlib.sha256(data.read()).digest()


async def round_trip(count: int) -> None:
    """Export, import into a fresh tenant, export again."""
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "one") as made:
            await made.save(count)
            archives = Archives(made.root, made.gate, made.clock, "bench", no_reveal, data_dir=made.root)
            begun = time.perf_counter()
            reply = await archives.export(PERSON, ExportRequest())
            show(f"{count:,} memories exported: {time.perf_counter() - begun:.1f} s, {reply.bytes / 2**20:.1f} MiB")
            async with opened(Path(folder) / "two") as other:
                others = Archives(other.root, other.gate, other.clock, "bench", no_reveal, data_dir=other.root)
                begun = time.perf_counter()
                await others.import_(PERSON, ImportRequest(path=reply.path, trust=True))
                show(f"{count:,} memories imported: {time.perf_counter() - begun:.1f} s")
                again = await others.export(PERSON, ExportRequest())
                here, there = await records(made), await records(other)
                differ = sum(there.get(id) != record for id, record in here.items()) + len(there.keys() - here.keys())
                show(f"compared record by record, every field: {len(here):,} and {len(there):,}, {differ} differ")
                apart = await asyncio.to_thread(differing, Path(reply.path), Path(again.path))
                show(f"exported again: {again.counts['memories']:,} memories, {len(apart)} files differ: {apart}")


async def run(seconds: float, memories: int, archived: int) -> None:
    """Print every figure."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    show("File mirror")
    await under_load(seconds)
    await one_by_one(30)
    await from_scratch(memories)
    await round_trip(archived)


def main() -> None:
    """Read the options and run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--memories", type=int, default=100_000)
    options.add_argument("--archived", type=int, default=10_000)
    chosen, _ = options.parse_known_args()
    asyncio.run(run(chosen.seconds, chosen.memories, chosen.archived))


if __name__ == "__main__":
    main()
