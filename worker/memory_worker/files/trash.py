"""Destroys banks that have lain in the trash for as long as the setting says."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from memory_worker.clock import to_seconds
from memory_worker.store import TenantStore, banks, forgetting
from memory_worker.store.banks import BankRow

log = structlog.get_logger(__name__)

DAY_S = 86_400.0
INTERVAL_S = 3_600.0
"""Time between two looks into the trash, in seconds."""


class Trash:
    """The trash of one tenant. With `retention_days` 0 it keeps everything until a person wipes it."""

    def __init__(
        self, store: TenantStore, retention_days: float, destroy: Callable[[BankRow], Awaitable[object]]
    ) -> None:
        self._store = store
        self._retention_s = retention_days * DAY_S
        self._destroy = destroy

    def apply(self, retention_days: float) -> None:
        """Change how long the trash keeps, from its next look on."""
        self._retention_s = retention_days * DAY_S

    async def empty(self) -> int:
        """Destroy what has lain there long enough, folder and records; gives the number of banks."""
        if self._retention_s <= 0:
            return 0
        before = self._store.clock.now() - self._retention_s
        count = 0
        for row in await banks.read_all(self._store.readers):
            trashed_at = row.bank.trashed_at
            if trashed_at is None or to_seconds(trashed_at) > before:
                continue
            if await self._holds(row.n):
                await self._destroy(row)
                count += 1
        return count

    async def _holds(self, bank: int) -> bool:
        """Whether anything is left to destroy; a bank that was emptied stays in the list of what once was."""
        return await self._store.write(
            lambda tx: banks.holds(tx, bank) or next(iter(forgetting.memories(tx, bank)), None) is not None
        )

    async def run(self) -> None:
        """Look into the trash now and then, until cancelled."""
        while True:
            try:
                await self.empty()
            except Exception as error:
                log.warning("files.trash_failed", error=type(error).__name__)
            await asyncio.sleep(INTERVAL_S)
