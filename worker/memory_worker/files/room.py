"""The file room of one tenant: runs the mirror and the reading of hand edits, one at a time."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
import structlog

from memory_worker.clock import Clock
from memory_worker.files import layout
from memory_worker.files.disk import Disk
from memory_worker.files.edits import Edits, Read
from memory_worker.files.erasing import Announce, Erased, erase
from memory_worker.files.mirror import Mirror
from memory_worker.files.ports import Commands, Feed, FilesSettings, Ledger, Snapshot
from memory_worker.files.problems import Problems
from memory_worker.files.watch import Watch
from memory_worker.files.writer import Writer

log = structlog.get_logger(__name__)

EDITS_AT_ONCE = 50
"""Changed files read before the mirror gets its turn again."""
RETRY_MAX_S = 60.0
"""Longest time between two attempts at what the disk or the store refuses, in seconds."""
SETTLE_MAX = 10
"""Most settling times that reading waits while changes go on coming."""
PROBLEMS_SHOWN = 200
"""Most unreadable files that a status names; the count is of all."""


class UnreadFile(msgspec.Struct, frozen=True):
    """A file that is not read, and why."""

    path: str
    reason: str
    since: float


class FilesStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the files stand. Times are unix seconds; `lag_rows` counts journal rows that are not mirrored yet."""

    lag_rows: int
    lag_s: float
    last_sync_at: float | None
    last_scan_at: float | None
    files: int
    written: int
    watching: bool
    problems_total: int
    problems: list[UnreadFile]
    failures: dict[str, str]
    ignored: list[str]
    vanished: bool
    error: str | None


class FileRoom:
    """Keeps a tenant's folder and store together. Every call is safe beside every other."""

    def __init__(
        self,
        root: Path,
        *,
        feed: Feed,
        snapshot: Snapshot,
        ledger: Ledger,
        commands: Commands,
        clock: Clock,
        settings: FilesSettings | None = None,
    ) -> None:
        self.settings = settings or FilesSettings()
        self._clock = clock
        self._feed = feed
        self._ledger = ledger
        self._commands = commands
        self.disk = Disk(root, self.settings.file_max_bytes)
        self._writer = Writer(self.disk, ledger)
        self._mirror = Mirror(self.disk, self._writer, feed, snapshot, ledger, self.settings)
        self._problems = Problems(self.disk, ledger, commands, clock)
        self._edits = Edits(
            self.disk,
            self._writer,
            self._mirror,
            snapshot,
            ledger,
            commands,
            self._problems,
            clock,
            self.settings,
        )
        self._watch = Watch(self.disk, self._noticed, self._scan_soon)
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._due: set[str] = set()
        self._quiet = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] = _nothing
        self._last_sync: float | None = None
        self._last_scan: float | None = None
        self._behind_since: float | None = None
        self._error: str | None = None

    async def open(self) -> None:
        """Read what people changed while the worker was down, then mirror what the journal has.

        Hand edits come first: they were made against the files as they stand.
        """
        await asyncio.to_thread(self.disk.prepare)
        async with self._lock:
            await self._mirror.open()
            await self._problems.open()
            read = await self._edits.scan()
            self._due |= read.later
            self._last_scan = self._clock.now()
            await self._mirror.heal()
            await self._mirror_now()

    def start(self) -> None:
        """Follow the journal and the folder until `close`. The room must be open."""
        self._unsubscribe = self._feed.subscribe(lambda _: self._wake.set())
        self._wake.set()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._follow_journal(), name="files-mirror"),
            loop.create_task(self._follow_edits(), name="files-edits"),
            loop.create_task(self._watch.run(), name="files-watch"),
        ]

    async def close(self) -> None:
        """Stop following; what is not mirrored yet is mirrored at the next start."""
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        async with self._lock:
            pass  # a batch that is being written ends before the store closes

    # What people and other parts ask for

    async def sync(self) -> Read:
        """Bring store and files together now: read changed files, decide about vanished ones, write what is behind."""
        async with self._lock:
            await self._mirror_now()
            read = await self._scan(None, thorough=False, at_once=True)
            await self._mirror_now()
        return read

    async def reload(self, bank: str | None = None) -> Read:
        """Read every file again, unreadable ones too; gives how many were looked at and how many changed something."""
        async with self._lock:
            await self._mirror_now()
            read = await self._scan(bank, thorough=True, at_once=True)
            await self._mirror_now()
        return read

    async def rebuild(self, bank: str | None = None) -> int:
        """Write the files of one bank, or of all, from the records; gives the number of files written or removed."""
        async with self._lock:
            await self._mirror_now()
            await self._scan(bank, thorough=True, at_once=False)
            await self._mirror_now()
            written = await self._mirror.rebuild(bank)
            await self._read_suspects()
        return written

    async def drain(self) -> None:
        """Wait until everything committed so far is mirrored."""
        async with self._lock:
            await self._mirror_now()

    async def erase(
        self,
        memory_ids: Collection[str],
        words: Collection[str] = (),
        bank: str | None = None,
        announce: Announce | None = None,
        announced: Collection[str] = (),
    ) -> Erased:
        """Destroy every copy of those memories in files, trash and archives, and all files of a `bank` that is wiped.

        Gives the counts and the paths that still hold one of `words` (a forgotten person's names). `announce` is told
        every path that goes, or of which a note goes, before it does; `announced` are those of a try that broke off.
        """
        async with self._lock:
            await self._mirror_now()
            # The mirror empties the folder of a wiped bank before anybody else comes to it: the notes know what was in.
            noted = [] if bank is None else self._problems.below(layout.bank_folder(bank))

            async def told(paths: Sequence[str]) -> None:
                if announce is not None:
                    await announce(sorted({*paths, *noted}))

            erased = await erase(self.disk, self._ledger, memory_ids, words, bank, told)
            await self._problems.clear({*erased.paths, *noted, *announced})
        return msgspec.structs.replace(erased, paths=tuple(sorted({*erased.paths, *noted})))

    async def status(self) -> FilesStatus:
        """Tell how the files stand."""
        problems = self._problems.all()
        lag = self._feed.head() - self._feed.cursor()
        folders = await self._ledger.folders()
        return FilesStatus(
            lag_rows=lag,
            lag_s=self._clock.now() - self._behind_since if lag and self._behind_since is not None else 0.0,
            last_sync_at=self._last_sync,
            last_scan_at=self._last_scan,
            files=sum(count for folder, count in folders if folder.startswith(f"{layout.BANKS}/")),
            written=self._mirror.written,
            watching=self._watch.watching,
            problems_total=len(problems),
            problems=[UnreadFile(one.path, one.reason, one.at) for one in problems[:PROBLEMS_SHOWN]],
            failures={path: failure.reason for path, failure in list(self._writer.failures.items())[:PROBLEMS_SHOWN]},
            ignored=list(self._problems.remarks),
            vanished=self._edits.removals.waiting() or await self._ledger.any_held(),
            error=self._error,
        )

    # Under the lock

    async def _mirror_now(self) -> None:
        await self._mirror.catch_up()
        await self._read_suspects()
        self._last_sync = self._clock.now()
        self._behind_since = None
        self._error = None

    async def _read_suspects(self) -> None:
        """Read what the mirror found changed; what that leads to is mirrored with the next rows."""
        suspects, self._writer.suspects = self._writer.suspects, set()
        if suspects:
            self._due |= (await self._edits.read(suspects, rewrite=True)).later

    async def _scan(self, bank: str | None, *, thorough: bool, at_once: bool) -> Read:
        await self._mirror.retry()
        read = await self._edits.scan(bank, thorough=thorough)
        read.changed += await self._edits.removals.settle(at_once=at_once)
        await self._mirror.heal()
        await self._read_suspects()
        self._due |= read.later
        self._last_scan = self._clock.now()
        return read

    # Following

    async def _follow_journal(self) -> None:
        pause = self.settings.retry_s
        while True:
            await self._wake.wait()
            if self._behind_since is None:
                self._behind_since = self._clock.now()
            await asyncio.sleep(self.settings.coalesce_s)
            self._wake.clear()
            try:
                async with self._lock:
                    await self._mirror_now()
                pause = self.settings.retry_s
            except Exception as error:  # nothing may end the following: it is told, and tried again
                self._failed("files.mirror_failed", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_MAX_S)
                self._wake.set()

    def _scan_soon(self) -> None:
        self._last_scan = None
        self._quiet.set()

    def _noticed(self, paths: set[str]) -> None:
        if paths:
            self._due |= paths
            self._quiet.set()

    async def _follow_edits(self) -> None:
        pause = self.settings.retry_s
        while True:
            await self._await_quiet()
            try:
                if self._last_scan is None or self._clock.now() - self._last_scan >= self.settings.scan_s:
                    async with self._lock:
                        await self._scan(None, thorough=False, at_once=False)
                await self._read_due()
                async with self._lock:
                    await self._edits.removals.settle()
                pause = self.settings.retry_s
            except Exception as error:  # nothing may end the following: it is told, and tried again
                self._failed("files.reading_failed", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_MAX_S)

    async def _await_quiet(self) -> None:
        """Wait for notices and then until none has come for the settling time; vanished files wait for their own."""
        timeout = self.settings.vanish_settle_s if self._edits.removals.waiting() or self._due else self.settings.scan_s
        try:
            await asyncio.wait_for(self._quiet.wait(), timeout)
            # A folder that is written all the time, by our own mirror too, must not put off reading for ever.
            for _ in range(SETTLE_MAX):
                if not self._quiet.is_set():
                    return
                self._quiet.clear()
                await asyncio.sleep(self.settings.settle_s)
        except TimeoutError:
            return

    async def _read_due(self) -> None:
        noticed, self._due = self._due, set()
        due = await self._edits.differing(noticed)
        for start in range(0, len(due), EDITS_AT_ONCE):
            async with self._lock:
                read = await self._edits.read(due[start : start + EDITS_AT_ONCE])
            self._due |= read.later

    def _failed(self, event: str, error: Exception) -> None:
        self._error = f"{type(error).__name__}: {error.strerror}" if isinstance(error, OSError) else str(error)
        log.warning(event, error=type(error).__name__)


def _nothing() -> None:
    """Stands in for the way to stop a subscription that was not begun."""
