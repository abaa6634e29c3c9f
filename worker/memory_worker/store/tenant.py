"""One tenant's store: opens it, writes in groups, reads beside, and tells readers of the journal."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from memory_worker.clock import Clock
from memory_worker.store import inbox, migrations, statements
from memory_worker.store import writer as writing
from memory_worker.store.journal import JournalRow, row_of
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction
from memory_worker.store.writer import Writer, WriterObserver

T = TypeVar("T")
log = structlog.get_logger(__name__)

_SQL = statements.load("journal")

TAIL_ROWS = 8_192
"""Newest journal rows kept in memory for the readers that keep up."""
CURSOR_FLUSH_S = 1.0
"""Longest time a moved cursor waits, in seconds: many moves share one write."""
DATABASE = "memory.db"
"""File name of the store in the tenant's directory."""


class TenantStore:
    """The records, the inbox and the journal of one tenant."""

    def __init__(
        self,
        tenant: str,
        directory: Path,
        clock: Clock,
        *,
        group_max: int = writing.GROUP_MAX,
        pending_max: int = writing.PENDING_MAX,
        observer: WriterObserver | None = None,
        failpoint: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.tenant = tenant
        self.directory = directory
        self.path = directory / DATABASE
        self.clock = clock
        self._group_max = group_max
        self._pending_max = pending_max
        self._observer = observer
        self._failpoint = failpoint
        self._tail: deque[JournalRow] = deque(maxlen=TAIL_ROWS)
        self._head = 0
        self.banks_version = 0
        """Rises with every change of a bank, for those who keep banks in memory."""
        self._subscribers: list[Callable[[int], None]] = []
        self._cursors: dict[str, int] = {}
        self._moved: dict[str, int] = {}
        self._flusher: asyncio.Task[None] | None = None
        self._writer: Writer | None = None
        self._connection: sqlite3.Connection | None = None
        self.readers = Readers(self.path)

    async def open(self) -> None:
        """Open the store, bring it to this release's version, and put interrupted turns back.

        Raises OSError when the directory cannot be written, `StoreTooNew`, and sqlite3.DatabaseError when the file
        is damaged.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        await asyncio.to_thread(self._open_writer)
        await self.readers.open()
        self._cursors = dict(await self.readers.all(_SQL["cursors"]))
        await self.write(inbox.recover)

    def _open_writer(self) -> None:
        connection = writing.connect(self.path)
        try:
            self.path.chmod(0o600)
            migrations.migrate(connection, self.path, self._failpoint)
            self._head = connection.execute(_SQL["head"]).fetchone()[0]
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._writer = Writer(
            connection,
            self.clock.now,
            self._committed,
            group_max=self._group_max,
            pending_max=self._pending_max,
            observer=self._observer,
            failpoint=self._failpoint,
        )

    async def close(self) -> None:
        """Write what waits, move the cursors, close every connection."""
        if self._flusher is not None:
            self._flusher.cancel()
            self._flusher = None
        if self._writer is not None:
            if self._moved:
                await self._flush()
            await asyncio.to_thread(self._writer.close)
        await self.readers.close()
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)
            self._connection = None

    # Writing

    @property
    def writer(self) -> Writer:
        """The writer of an open store."""
        assert self._writer is not None, "the store is not open"
        return self._writer

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on the writer thread in its own savepoint; gives its result after the commit is on disk."""
        return await self.writer.run(work)

    async def maintain(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writing connection outside any transaction."""
        return await self.writer.run_alone(work)

    def _committed(self, transaction: Transaction) -> Callable[[], None] | None:
        """On the writer thread, after a commit: the new head. Gives what is to run on the event loop."""
        rows = tuple(transaction.rows)
        if not rows:
            return None
        head = rows[-1].seq

        def tell() -> None:
            self._tail.extend(rows)
            self._head = head
            if any(row.type.startswith("bank.") for row in rows):
                self.banks_version += 1
            for subscriber in self._subscribers:
                subscriber(head)

        return tell

    # The journal

    @property
    def head(self) -> int:
        """Sequence of the last committed journal row."""
        return self._head

    def subscribe(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call `callback` with the new head after each commit, on the event loop; gives the way to stop."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    async def journal_after(self, seq: int, limit: int) -> Sequence[JournalRow]:
        """Give up to `limit` rows after `seq`, in order; from memory where the reader keeps up."""
        if seq >= self._head:
            return ()
        if self._tail and self._tail[0].seq <= seq + 1:
            skip = seq - self._tail[0].seq + 1
            if self._tail[-1].seq - self._tail[0].seq + 1 == len(self._tail):
                return [self._tail[i] for i in range(skip, min(skip + limit, len(self._tail)))]
        return [row_of(values) for values in await self.readers.all(_SQL["after"], (seq, limit))]

    def drop_tail(self) -> None:
        """Let go of the journal rows held in memory: what they held may have been destroyed on disk."""
        self._tail.clear()

    def cursor(self, reader: str) -> int:
        """How far a reader of the journal has come; 0 at first."""
        return self._cursors.get(reader, 0)

    def move_cursor(self, reader: str, seq: int) -> None:
        """Say how far a reader has come. It rides in a grouped commit within about `CURSOR_FLUSH_S`."""
        self._cursors[reader] = seq
        self._moved[reader] = seq
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(CURSOR_FLUSH_S)
        await self._flush()

    async def _flush(self) -> None:
        moved, self._moved = self._moved, {}

        def move(tx: Transaction) -> None:
            for reader, seq in moved.items():
                tx.move_cursor(reader, seq)

        try:
            await self.write(move)
        except Exception as error:  # a cursor that lags only repeats work; the next move tries again
            log.warning("store.cursor_flush_failed", error=type(error).__name__)
            self._moved = {**moved, **self._moved}

    def cursors(self) -> dict[str, int]:
        """Every reader's position."""
        return dict(self._cursors)

    async def meta(self, key: str) -> str | None:
        """Give a value kept under `key`."""
        row = await self.readers.one(_SQL["get_meta"], (key,))
        return None if row is None else str(row[0])

    async def set_meta(self, key: str, value: str) -> None:
        """Keep a value under `key`."""
        await self.write(lambda tx: tx.run(_SQL["set_meta"], key, value))

    async def counters(self) -> dict[str, int]:
        """Give every counter that outlives a restart."""
        return dict(await self.readers.all(_SQL["counters"]))
