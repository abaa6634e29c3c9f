"""Tells which files changed, by the file system's own notices where it gives them."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog
from watchfiles import awatch

from memory_worker.files import layout
from memory_worker.files.disk import Disk
from memory_worker.files.naming import is_noise

log = structlog.get_logger(__name__)

STEP_MS = 50
"""Time without a further notice after which those so far are handed over, in milliseconds."""
DEBOUNCE_MS = 400
"""Longest time notices are gathered, in milliseconds."""
POLL_S = 10.0
"""Time between two attempts to watch again after the file system refused, in seconds."""


class Watch:
    """Watches every real folder of the banks and calls back with paths relative to the tenant's folder.

    Folders are watched one by one: a recursive watch would follow a link out of the folder, to the whole disk.
    """

    def __init__(self, disk: Disk, changed: Callable[[set[str]], None]) -> None:
        self._disk = disk
        self._changed = changed
        self.watching = False
        """Whether the file system gives notices now; otherwise changes are found by the regular scan alone."""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._once()
            except OSError as error:
                # Most often the system's limit of watches (fs.inotify.max_user_watches).
                log.warning("files.watch_failed", error=type(error).__name__, errno=error.errno)
                self.watching = False
                await asyncio.sleep(POLL_S)

    async def _once(self) -> None:
        """Watch the folders there are until folders come or go."""
        folders = await asyncio.to_thread(lambda: set(self._disk.folders(layout.BANKS)))
        root = str(self._disk.root)
        stop = asyncio.Event()
        self.watching = True
        try:
            async for changes in awatch(
                *(Path(root, folder) for folder in sorted(folders)),
                watch_filter=lambda _, path: not is_noise(path.rpartition("/")[2]),
                debounce=DEBOUNCE_MS,
                step=STEP_MS,
                stop_event=stop,
                recursive=False,
                raise_interrupt=False,
            ):
                paths = {path.removeprefix(root).strip("/") for _, path in changes}
                now = await asyncio.to_thread(lambda: set(self._disk.folders(layout.BANKS)))
                if now != folders:
                    # What was put into a new folder before it was watched is found by looking.
                    self._changed(paths | await asyncio.to_thread(self._files_of, now - folders))
                    return
                self._changed(paths)
        finally:
            self.watching = False
            stop.set()

    def _files_of(self, folders: set[str]) -> set[str]:
        return {path for folder in folders for path in self._disk.files(folder)}
