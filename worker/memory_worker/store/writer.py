"""The one thread that writes: whole functions, each in a savepoint, committed in groups."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import structlog

from memory_contracts.errors import FunctionError
from memory_worker.store.transaction import Transaction

T = TypeVar("T")
Work = Callable[[Transaction], Any]

log = structlog.get_logger(__name__)

GROUP_MAX = 256
"""Most functions that share one commit."""
PENDING_MAX = 10_000
"""Most functions that wait for the writer; one more is refused as `unavailable`."""
BUSY_TIMEOUT_S = 5.0
"""How long SQLite waits for a lock that another process holds (a backup, an inspection)."""


class WriterObserver(Protocol):
    """Is told about each commit."""

    def committed(self, functions: int, seconds: float) -> None:
        """`functions` shared a commit that took `seconds`."""
        ...


class _Job:
    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]") -> None:
        self.work = work
        self.loop = loop
        self.future = future


class _Alone(_Job):
    """A function that runs outside any transaction, such as VACUUM."""

    __slots__ = ()


def connect(path: Path) -> sqlite3.Connection:
    """Open the database with the settings that durability and erasure stand on."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_S)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute("PRAGMA cache_size=-32768")  # KiB
    return connection


def as_function_error(error: sqlite3.Error) -> Exception:
    """Turn SQLite's word for a full or unwritable disk into the contract's error; others stay."""
    text = str(error).lower()
    if "disk is full" in text or "database or disk is full" in text:
        return FunctionError(
            "storage_full", "the disk is full; nothing was written", hint="free space in the data directory and repeat"
        )
    if "readonly" in text or "disk i/o error" in text or "unable to open" in text:
        return FunctionError(
            "unavailable", "the store cannot be written; nothing was changed", hint="check the data directory's disk"
        )
    return error


class Writer:
    """Owns the writing connection. Functions run one after another; a group of them shares one fsync."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: Callable[[], float],
        committed: Callable[[Transaction], Callable[[], None] | None],
        *,
        group_max: int = GROUP_MAX,
        pending_max: int = PENDING_MAX,
        observer: WriterObserver | None = None,
        failpoint: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._connection = connection
        self._now = now
        self._committed = committed
        self._group_max = group_max
        self._pending_max = pending_max
        self._observer = observer
        self._failpoint = failpoint
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self.commits = 0
        """Commits since start."""
        self.functions = 0
        """Functions that were committed since start."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in its own savepoint and give its result after the commit.

        Raises what `work` raises (its savepoint is rolled back), `storage_full` when the disk is full, and
        `unavailable` when too many functions wait or the store is closed.
        """
        return cast(T, await self._submit(_Job, work))

    async def run_alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writing connection outside any transaction (VACUUM, checkpoint, backup)."""
        return cast(T, await self._submit(_Alone, cast(Work, work)))

    async def _submit(self, kind: type[_Job], work: Work) -> Any:
        if self._closed:
            raise FunctionError("unavailable", "the store is closed")
        if self._queue.qsize() >= self._pending_max:
            raise FunctionError("unavailable", "too many writes wait for the store", hint="repeat a little later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(kind(work, loop, future))
        return await future  # a caller that goes away takes nothing back: the function runs all the same

    def close(self) -> None:
        """Finish what waits and end the thread. The connection stays open for its owner to close."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            job = self._queue.get()
            if job is None:
                return
            if isinstance(job, _Alone):
                self._run_alone(job)
                continue
            group = [job]
            alone: _Alone | None = None
            while len(group) < self._group_max:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                    break
                if isinstance(following, _Alone):
                    alone = following
                    break
                group.append(following)
            self._run_group(group)
            if alone is not None:
                self._run_alone(alone)

    def _run_alone(self, job: _Job) -> None:
        work = cast(Callable[[sqlite3.Connection], Any], job.work)
        try:
            result, error = work(self._connection), None
        except sqlite3.Error as failure:
            result, error = None, as_function_error(failure)
        except Exception as failure:
            result, error = None, failure
        _settle([(job, result, error)], None)

    def _run_group(self, group: Sequence[_Job]) -> None:
        began = time.perf_counter()
        transaction = Transaction(self._connection, self._now(), self._failpoint)
        outcomes: list[tuple[_Job, Any, Exception | None]] = []
        after: Callable[[], None] | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes.extend((job, *self._run_one(transaction, job.work)) for job in group)
            transaction.write_counts()
            self._failpoint("before-commit")
            self._connection.execute("COMMIT")
            self._failpoint("after-commit")
            self.commits += 1
            self.functions += len(group)
            after = self._committed(transaction)
        except Exception as failure:
            error = as_function_error(failure) if isinstance(failure, sqlite3.Error) else failure
            log.warning("store.group_failed", functions=len(group), error=type(failure).__name__)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            outcomes = [(job, None, error) for job in group]
        if self._observer is not None:
            self._observer.committed(len(group), time.perf_counter() - began)
        _settle(outcomes, after)

    def _run_one(self, transaction: Transaction, work: Work) -> tuple[Any, Exception | None]:
        mark = transaction.mark()
        self._connection.execute("SAVEPOINT work")
        try:
            result = work(transaction)
        except Exception as failure:
            if isinstance(failure, sqlite3.Error) and not self._connection.in_transaction:
                raise  # SQLite rolled the whole group back itself (disk full, I/O error)
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            transaction.rewind(mark)
            return None, as_function_error(failure) if isinstance(failure, sqlite3.Error) else failure
        self._connection.execute("RELEASE work")
        return result, None


def _settle(outcomes: Sequence[tuple[_Job, Any, Exception | None]], after: Callable[[], None] | None) -> None:
    """Wake the waiting callers, one wake-up per event loop, after the readers of the journal were told."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Job, Any, Exception | None]]] = {}
    for outcome in outcomes:
        loops.setdefault(outcome[0].loop, []).append(outcome)

    def wake(batch: Sequence[tuple[_Job, Any, Exception | None]]) -> None:
        if after is not None:
            after()
        for job, result, error in batch:
            if job.future.done():
                continue
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)

    for loop, batch in loops.items():
        try:
            loop.call_soon_threadsafe(wake, batch)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            log.warning("store.caller_gone", functions=len(batch))
