"""The embedded bus with its streams: started with the worker, and put right again when something breaks it."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.subjects import Subjects
from memory_worker.bus import (
    Bus,
    BusError,
    EmbeddedServer,
    Layout,
    ServerError,
    StreamDrift,
    create_streams,
    verify_streams,
)

log = structlog.get_logger(__name__)

LOOK_S = 0.5
"""Pause between looks at the server's process."""
VERIFY_EVERY = 10
"""Looks between checks of the streams: somebody may delete one under a running server."""
REVIVE_PAUSE_S = 1.0
"""Pause after a failed attempt to start the server again; doubles up to `REVIVE_PAUSE_MAX_S`."""
REVIVE_PAUSE_MAX_S = 30.0
FULL_BYTES = 8 * 1_024 * 1_024
"""Free bytes under which the server may have failed to write; its streams then take nothing until it is restarted."""
ROOM_BYTES = 16 * 1_024 * 1_024
"""Free bytes from which a server that met a full disk is restarted."""
STUCK_S = 30.0
"""Time for which triggers find no acknowledgement on a connected bus before the server is restarted; doubles."""
STUCK_MAX_S = 1_800.0
"""Longest such time."""


class EmbeddedBus:
    """A server of our own. Its administration is ours as well, so what is missing is simply made again."""

    def __init__(self, server: EmbeddedServer, subjects: Subjects, tenants: Callable[[], Sequence[str]]) -> None:
        self._server = server
        self._subjects = subjects
        self._tenants = tenants
        self.revived = 0
        self._was_full = False
        self._stuck_since: float | None = None
        self._patience_s = STUCK_S

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        port: int,
        layout: Layout,
        subjects: Subjects,
        tenants: Callable[[], Sequence[str]],
        *,
        store_max_mb: int,
    ) -> "EmbeddedBus":
        """Start the server and make its streams. Raises ServerError and BusError."""
        server = await EmbeddedServer.start(data_dir, port=port, layout=layout, store_max_mb=store_max_mb)
        bus = cls(server, subjects, tenants)
        try:
            await bus._make_streams()
        except BaseException:
            await server.stop()
            raise
        return bus

    @property
    def credentials(self) -> Credentials:
        """The worker's own credentials on it."""
        return load_credentials(self._server.files.credentials_of("worker"))

    async def stop(self) -> None:
        """Stop the server."""
        await self._server.stop()

    async def keep(self, worker: Bus, refused: Callable[[], bool]) -> None:
        """Look after it for ever: a server that ended is started again, a stream that is gone is made again.

        `refused` tells whether triggers wait because the bus does not acknowledge them. A server that once failed to
        write takes no message more, freed disk or not, and says so nowhere: it is restarted.
        """
        pause = REVIVE_PAUSE_S
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            looks += 1
            try:
                if not self._server.running:
                    log.error("embedded.server_ended")
                    await self._server.revive()
                    await self._make_streams()
                    self.revived += 1
                    log.warning("embedded.server_revived", times=self.revived)
                elif self._cannot_write(worker.connected and refused()):
                    log.error("embedded.server_restarted")
                    await self._server.restart()
                    await self._make_streams()
                elif looks % VERIFY_EVERY == 0 and worker.connected:
                    await self._verify(worker)
                pause = REVIVE_PAUSE_S
            except (ServerError, BusError, OSError) as error:
                log.error("embedded.not_restored", error=type(error).__name__, again_in_s=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, REVIVE_PAUSE_MAX_S)

    def _cannot_write(self, refused: bool) -> bool:
        """Whether the server is to be restarted: its disk was full and has room again, or it takes nothing for long."""
        now = time.monotonic()
        self._stuck_since = (self._stuck_since or now) if refused else None
        if not refused:
            self._patience_s = STUCK_S
        free = shutil.disk_usage(self._server.files.data_dir).free
        self._was_full = self._was_full or free < FULL_BYTES
        if free < ROOM_BYTES:
            return False
        stuck = self._stuck_since is not None and now - self._stuck_since > self._patience_s
        if self._was_full or stuck:
            self._was_full, self._stuck_since = False, None
            self._patience_s = min(2 * self._patience_s, STUCK_MAX_S)
            return True
        return False

    async def _verify(self, worker: Bus) -> None:
        try:
            await verify_streams(worker, self._subjects, self._tenants())
        except StreamDrift as error:
            log.error("embedded.streams_differ", differs=str(error))
            await self._make_streams()

    async def _make_streams(self) -> None:
        admin = await Bus.connect(load_credentials(self._server.files.credentials_of("admin")), name="memory-admin")
        try:
            await create_streams(admin, self._subjects, self._tenants())
        finally:
            await admin.close()
