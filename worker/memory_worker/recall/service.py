"""Runs the index of one tenant: follows the journal, answers recalls off the event loop, embeds in the background."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import structlog

from memory_worker.recall.analysis import forget_cache
from memory_worker.recall.bank import spoken
from memory_worker.recall.embedder import BackgroundEmbedder, Embedder, InlineEmbedder
from memory_worker.recall.feed import IndexFeed
from memory_worker.recall.index import TenantIndex
from memory_worker.recall.query import Arm, ArmState, Hit, RecalledMemory, RecallOutcome, RecallQuery, RecallStatus
from memory_worker.recall.settings import RecallSettings
from memory_worker.recall.snapshot import SnapshotError, Snapshots

log = structlog.get_logger(__name__)

Floats = npt.NDArray[np.float32]
T = TypeVar("T")

SCAN_BATCH = 2_000
"""Memories read per step of a rebuild."""
SNAPSHOT_SHARE = 10
"""A snapshot is written no sooner than after a change to one row in this many."""
DROPPED_MAX = 100
"""Most texts that are dropped one by one; for more the index is built anew."""
RETRY_S = 5.0
"""Wait, in seconds, before a background step that failed is tried again."""


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Unix seconds."""


class RecallService:
    """Recall over one tenant's memories.

    One owned thread applies changes and searches, first come first served, so neither ever sees the other half done and
    the event loop is never blocked. Every recall first applies the journal rows up to `feed.head()`: an acknowledged
    write is always seen.
    """

    def __init__(
        self, feed: IndexFeed, settings: RecallSettings, clock: Clock, snapshot_dir: Path, embedder: Embedder | None
    ) -> None:
        self._feed = feed
        self._settings = settings
        self._clock = clock
        self._embedder = embedder
        self._index = TenantIndex(settings, embedder)
        self._snapshots = Snapshots(snapshot_dir)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recall")
        self._catching_up = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._writing: asyncio.Task[None] | None = None
        self._embed_now = asyncio.Event()
        self._ready = False
        self._problem: str | None = None
        self._since_snapshot = 0
        self._generation = 0

    async def start(self) -> None:
        """Loads the newest snapshot, or reads every memory when there is none, then catches up with the journal."""
        loaded = False
        try:
            loaded = await self._run(functools.partial(self._snapshots.load, self._index))
        except SnapshotError as error:
            self._problem = str(error)
        if not loaded:
            await self._build()
        self._ready = True
        await self.catch_up()
        self._snapshot_if_due()  # a worker that is killed again and again must not read everything each time
        self._tasks.append(asyncio.create_task(self._stay_near(), name="recall-near"))
        if isinstance(self._embedder, BackgroundEmbedder):
            self._tasks.append(asyncio.create_task(self._embed_rows(), name="recall-embed"))

    async def stop(self) -> None:
        """Stops background work and writes a snapshot when changes came since the last."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
        if self._writing is not None:
            await self._writing
        if self._ready and self._since_snapshot:
            await self._write_snapshot()
        self._thread.shutdown(wait=True)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _build(self) -> None:
        """Reads every memory of the store into an empty index."""
        # Taken before the scan: rows changed during it are applied again afterwards, which is harmless.
        seq = self._feed.head()
        await self._run(self._index.clear)
        after, read = "", 0
        while memories := await self._feed.scan(after, SCAN_BATCH):
            after = memories[-1].id
            read += len(memories)
            await self._run(functools.partial(self._index.put_all, memories))
        entities = await self._feed.entities()
        await self._run(functools.partial(self._index.apply, entities))
        self._index.seq = seq
        self._since_snapshot = max(1, read)

    async def catch_up(self) -> None:
        """Applies the journal rows after the cursor, up to the head at the time of the call."""
        head = self._feed.head()
        if self._index.seq >= head or not self._ready:
            return
        async with self._catching_up:
            while self._ready and self._index.seq < head:
                changes = await self._feed.changes_after(self._index.seq, self._settings.change_batch)
                if not changes:
                    break
                await self._run(functools.partial(self._index.apply, changes))
                self._since_snapshot += len(changes)
                if self._index.waiting:
                    self._embed_now.set()
        self._snapshot_if_due()

    def _snapshot_if_due(self) -> None:
        if self._snapshot_due() and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write_snapshot(), name="recall-snapshot")

    async def _stay_near(self) -> None:
        """Read unasked what has piled up, so that after many writes the next recall need not."""
        while True:
            await asyncio.sleep(self._settings.near_s)
            if self.lag() > self._settings.near_rows:
                try:
                    await self.catch_up()
                except Exception as error:  # a store that cannot be read now is asked again
                    log.warning("recall.catch_up_failed", error=type(error).__name__)

    def _snapshot_due(self) -> bool:
        """Tell whether enough changed: a share of the rows too, since writing holds recalls up (2 s at a million)."""
        rows = sum(bank.present for bank in self._index.banks.values())
        return self._since_snapshot >= max(self._settings.snapshot_changes, rows // SNAPSHOT_SHARE)

    async def _write_snapshot(self) -> None:
        self._since_snapshot = 0
        try:
            await self._run(self._save)
        except OSError as error:
            self._problem = f"snapshot not written: {error.strerror or type(error).__name__}"

    def _save(self) -> None:
        if self._ready:  # between a drop and the rebuild there is nothing worth keeping
            self._snapshots.save(self._index)

    async def recall(self, scope: Sequence[str], query: RecallQuery) -> RecallOutcome:
        """The memories of the banks in `scope` (nearest first) that are relevant to the query, best first."""
        late: str | None = None
        try:
            async with asyncio.timeout(self._settings.catch_up_ms / 1e3):
                await self.catch_up()
        except TimeoutError:
            late = f"changes after {self._index.seq}"
        if not self._ready:
            late = "the index is being built"
        vector, problem = await self._query_vector(scope, query)
        now = self._clock.now()
        result = await self._run(functools.partial(self._index.search, scope, query, now, vector))
        seq = self._index.seq
        memories = await self._hydrated(result.hits)
        arms = [
            Arm(name=a.name, state="down", model=a.model, embedded=a.embedded)
            if problem and a.name == "semantic"
            else a
            for a in result.arms
        ]
        cut = ", ".join(c for c in (result.cut, late, problem) if c)
        return RecallOutcome(memories=memories, mode=result.mode, arms=arms, cut=cut or None, seq=seq, left=result.left)

    async def _hydrated(self, hits: Sequence[Hit]) -> list[RecalledMemory]:
        """The found memories from the store; one that was erased since is left out."""
        if not hits:
            return []
        found = {m.id: m for m in await self._feed.memories([h.id for h in hits])}
        return [
            RecalledMemory(memory=memory, score=h.score, arms=h.arms, parts=h.parts)
            for h in hits
            if (memory := found.get(h.id)) is not None and memory.state in ("live", "superseded")
        ]

    async def _query_vector(self, scope: Sequence[str], query: RecallQuery) -> tuple[Floats | None, str | None]:
        embedder = self._embedder
        if embedder is None or isinstance(embedder, InlineEmbedder):
            return None, None
        wait_ms = self._settings.query_embed_ms if query.deadline_ms is None else query.deadline_ms
        try:
            async with asyncio.timeout(wait_ms / 1e3):
                text = await self._run(functools.partial(self._index.meaning_of, scope, query.text))
                vectors = await embedder.embed_async([text])
        except TimeoutError:
            return None, "no query vector in time"
        except Exception as error:
            return None, f"no query vector: {type(error).__name__}"
        if embedder.model_id != self._index.model_id:
            await self._run(functools.partial(self._index.adopt_model, embedder.model_id, embedder.dims))
            self._embed_now.set()
        return vectors[0], None

    async def similar(self, bank: str, text: str, k: int) -> list[RecalledMemory]:
        """The `k` nearest live memories of one bank to a text, best first, without a floor."""
        await self.catch_up()
        hits = await self._run(functools.partial(self._index.similar, bank, text, k, self._clock.now()))
        return await self._hydrated(hits)

    async def _embed_rows(self) -> None:
        """Gives rows their vectors, a batch at a time, whenever some wait."""
        embedder = self._embedder
        assert isinstance(embedder, BackgroundEmbedder)
        while True:
            batch = list(self._index.waiting)[: self._settings.embed_batch]
            if not batch:
                self._embed_now.clear()
                await self._embed_now.wait()
                continue
            generation = self._generation
            memories = await self._feed.memories(batch)
            try:
                vectors = await embedder.embed_async([spoken(m.text) for m in memories]) if memories else None
            except Exception as error:
                self._problem = f"rows not embedded: {type(error).__name__}"
                await asyncio.sleep(RETRY_S)
                continue
            self._problem = None
            if generation != self._generation:
                continue
            await self._run(functools.partial(self._index.adopt_model, embedder.model_id, embedder.dims))
            texts = {m.id: m.text for m in memories}
            await self._run(functools.partial(self._index.set_vectors, batch, texts, vectors))
            self._since_snapshot += 1

    def apply(self, settings: RecallSettings) -> None:
        """Change the bounds, from the next recall on."""
        self._settings = self._index.settings = settings

    async def rebuild(self) -> None:
        """Drops the index and its snapshots and reads every memory again."""
        await self.drop_all()
        await self._build()
        self._ready = True
        await self.catch_up()
        await self._write_snapshot()
        self._embed_now.set()

    async def drop(self, texts: Sequence[str]) -> None:
        """Leaves nothing in memory and on disk of memories that are gone from the store and said `texts`.

        A word of theirs stays only where a memory that is there is seen to have it. Costs a compaction and a snapshot,
        where `rebuild` reads and analyses every memory again.
        """
        if not self._ready or len(texts) > DROPPED_MAX:
            await self.rebuild()
            return
        await self.catch_up()
        async with self._catching_up:
            self._generation += 1
            await self._run(self._index.compact)
            for bank, words in (await self._run(functools.partial(self._index.spelled_in, texts))).items():
                ids = sorted({memory_id for proofs in words.values() for memory_id in proofs})
                memories = await self._feed.memories(ids)
                await self._run(functools.partial(self._index.drop_unproven, bank, words, memories))
            # First the old files: should the new ones not be written, nothing is left all the same.
            await self._run(self._snapshots.unlink_all)
            await self._run(forget_cache)
        await self._write_snapshot()

    async def drop_all(self) -> None:
        """Forgets everything held in memory and unlinks every snapshot file; recalls find nothing until `rebuild`."""
        self._ready = False
        async with self._catching_up:
            self._generation += 1
            await self._run(self._index.clear)
            await self._run(self._snapshots.unlink_all)

    def lag(self) -> int:
        """Journal rows that the index does not include yet."""
        return max(0, self._feed.head() - self._index.seq)

    def status(self) -> RecallStatus:
        """The state of the index, for `doctor` and metrics."""
        index = self._index
        embedded = index.embedded()
        semantic: ArmState = "off" if index.embedder is None else "ok" if embedded > 0 else "empty"
        if index.embedder is not None and self._problem and self._problem.startswith("rows not embedded"):
            semantic = "down"
        return RecallStatus(
            rows=sum(b.present for b in index.banks.values()),
            banks=len(index.banks),
            lag=self.lag(),
            ready=self._ready,
            model=index.model_id,
            embedded=embedded,
            arms={"lexical": "ok" if self._ready else "down", "semantic": semantic, "context": "ok"},
            bytes=index.nbytes,
            problem=self._problem,
        )
