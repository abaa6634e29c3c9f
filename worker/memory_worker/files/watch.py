"""Tells which files changed, by the file system's own notices where it gives them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from watchfiles import Change, awatch

from memory_worker.files import layout
from memory_worker.files.disk import Disk
from memory_worker.files.naming import is_noise

log = structlog.get_logger(__name__)

STEP_MS = 50
"""Time without a further notice after which those so far are handed over, in milliseconds."""
DEBOUNCE_MS = 400
"""Longest time notices are gathered, in milliseconds."""
BEAT_MS = 250
"""Time after which a watcher without notices says that it is there, in milliseconds."""
POLL_S = 10.0
"""Time between two attempts to watch again after the file system refused, in seconds."""


class Watch:
    """Watches every real folder of the banks and calls back with paths relative to the tenant's folder.

    Folders are watched one by one: a recursive watch would follow a link out of the folder, to the whole disk. When
    folders come or go a new watcher is at work before the old one ends, so that nothing passes between the two.
    """

    def __init__(self, disk: Disk, changed: Callable[[set[str]], None], began: Callable[[], None]) -> None:
        self._disk = disk
        self._changed = changed
        self._began = began
        """Called when watching begins: what changed before that was not seen."""
        self.watching = False
        """Whether the file system gives notices now; otherwise changes are found by the regular scan alone."""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._follow()
            except Exception as error:
                # Most often the system's limit of watches (fs.inotify.max_user_watches). Whatever it is, the regular
                # scan finds changes meanwhile.
                log.warning("files.watch_failed", error=type(error).__name__, errno=getattr(error, "errno", None))
                await asyncio.sleep(POLL_S)

    async def _follow(self) -> None:
        """Keep one watcher over the folders there are, taking the next when they change."""
        watched: set[str] | None = None
        current: _Watcher | None = None
        try:
            while True:
                folders = await asyncio.to_thread(self._folders)
                fresh = _Watcher(self._disk, folders, self._changed)
                try:
                    await fresh.until_live()
                except BaseException:
                    await fresh.close()
                    raise
                if current is not None:
                    await current.close()
                current = fresh
                self.watching = True
                if watched is None:
                    self._began()
                else:
                    self._changed(await asyncio.to_thread(self._files_of, folders - watched))
                watched = folders
                if await asyncio.to_thread(self._folders) == folders:
                    await current.until_folders_change()
        finally:
            self.watching = False
            if current is not None:
                await current.close()

    def _folders(self) -> set[str]:
        return set(self._disk.folders(layout.BANKS))

    def _files_of(self, folders: set[str]) -> set[str]:
        return {path for folder in folders for path in self._disk.files(folder)}


class _Watcher:
    """One watcher over a fixed set of folders."""

    def __init__(self, disk: Disk, folders: set[str], changed: Callable[[set[str]], None]) -> None:
        self._disk = disk
        self._folders = folders
        self._changed = changed
        self._stop = asyncio.Event()
        self._live = asyncio.Event()
        self._stale = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="files-watcher")

    async def _run(self) -> None:
        root = str(self._disk.root)
        async for changes in awatch(
            *(Path(root, folder) for folder in sorted(self._folders)),
            watch_filter=lambda _, path: not is_noise(path.rpartition("/")[2]),
            debounce=DEBOUNCE_MS,
            step=STEP_MS,
            rust_timeout=BEAT_MS,
            yield_on_timeout=True,
            stop_event=self._stop,
            recursive=False,
        ):
            self._live.set()
            if changes:
                found = [(kind, path.removeprefix(root).strip("/")) for kind, path in changes]
                self._changed({path for _, path in found})
                if any(self._moves_folder(kind, path) for kind, path in found):
                    self._stale.set()

    def _moves_folder(self, kind: Change, path: str) -> bool:
        if kind == Change.deleted:
            return path in self._folders
        return kind == Change.added and path not in self._folders and self._disk.folder(path) == "folder"

    async def until_live(self) -> None:
        """Wait until notices arrive; raises what kept the watcher from its work."""
        await self._first(self._live)

    async def until_folders_change(self) -> None:
        """Wait until a watched folder went or a new one came."""
        await self._first(self._stale)

    async def _first(self, event: asyncio.Event) -> None:
        waiting = asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done() and not event.is_set():
            self._task.result()
            raise OSError("the watcher ended")

    async def close(self) -> None:
        """Stop; the thread underneath ends within a step."""
        self._stop.set()
        await asyncio.gather(self._task, return_exceptions=True)
