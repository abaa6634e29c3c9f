"""The tenants of a data directory: locked against a second worker, opened when addressed, bounded in number."""

import asyncio
import fcntl
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from memory_contracts.names import is_name

log = structlog.get_logger(__name__)

LOCK_FILE = "worker.lock"
"""File in the data directory that the one owner holds locked."""

O = TypeVar("O")  # noqa: E741 - an open tenant, whatever the application makes of it


class DataDirectoryInUse(Exception):
    """Another worker owns the data directory; stop it, or choose another directory with --data-dir."""


class DataDirectoryUnusable(Exception):
    """The data directory cannot be written; memory is never kept anywhere else instead."""


class DataDirectory:
    """A data directory held by this process alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def acquire(self) -> None:
        """Make the directory where needed and lock it.

        Raises `DataDirectoryUnusable` when it cannot be written and `DataDirectoryInUse` when another process has it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            probe = self.path / f".probe-{os.getpid()}"
            probe.write_bytes(b"")
            probe.unlink()
            handle = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirectoryUnusable(
                f"the data directory {self.path} cannot be written: {error.strerror}"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise DataDirectoryInUse(
                f"another worker owns the data directory {self.path}: stop it, or choose another with --data-dir"
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._lock = handle

    def release(self) -> None:
        """Let go of the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def known(self) -> list[str]:
        """Give the tenants that have a store here, by name."""
        return sorted(entry.parent.name for entry in self.path.glob("*/memory.db") if is_name(entry.parent.name))


class OpenTenants(Generic[O]):
    """Opens a tenant at its first use and closes the least used ones beyond a bound, unless they have work."""

    def __init__(
        self,
        open_one: Callable[[str], Awaitable[O]],
        close_one: Callable[[O], Awaitable[None]],
        busy: Callable[[O], bool],
        most: int,
    ) -> None:
        self._open_one = open_one
        self._close_one = close_one
        self._busy = busy
        self.most = most
        self._open: OrderedDict[str, asyncio.Future[O]] = OrderedDict()
        self._closing: dict[str, asyncio.Task[None]] = {}

    async def get(self, tenant: str) -> O:
        """Give the open tenant, opening it where needed."""
        known = self._open.get(tenant)
        if known is not None:
            self._open.move_to_end(tenant)
            return await asyncio.shield(known)
        closing = self._closing.get(tenant)
        if closing is not None:
            await asyncio.shield(closing)
            return await self.get(tenant)
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        self._open[tenant] = future
        try:
            opened = await self._open_one(tenant)
        except BaseException as error:
            del self._open[tenant]
            future.set_exception(error)
            future.exception()  # whoever waited has it; nobody waiting is no fault
            raise
        future.set_result(opened)
        self._close_beyond()
        return opened

    def opened(self) -> dict[str, O]:
        """Give the tenants that are open now."""
        return {
            tenant: future.result()
            for tenant, future in self._open.items()
            if future.done() and not future.cancelled() and future.exception() is None
        }

    def _close_beyond(self) -> None:
        for tenant, opened in list(self.opened().items()):
            if len(self._open) <= self.most:
                return
            if tenant == next(reversed(self._open)) or self._busy(opened):
                continue
            del self._open[tenant]
            task = asyncio.get_running_loop().create_task(self._close(tenant, opened))
            self._closing[tenant] = task

    async def _close(self, tenant: str, opened: O) -> None:
        try:
            await self._close_one(opened)
        except Exception as error:
            log.warning("tenants.close_failed", tenant=tenant, error=type(error).__name__)
        finally:
            self._closing.pop(tenant, None)

    async def close(self) -> None:
        """Close every tenant."""
        opened = list(self.opened().items())
        self._open.clear()
        await asyncio.gather(*(self._close(tenant, one) for tenant, one in opened))
        for task in list(self._closing.values()):
            await task
