"""Lets lapse what is over: memories, suggestions, and what was only kept for a while. In bounded batches."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from memory_worker.gate import lapsing, proposals
from memory_worker.gate.act import Act, GateSettings
from memory_worker.store import TenantStore, Transaction, idempotency, inbox, memories, new_id
from memory_worker.store import suggestions as suggestion_rows

log = structlog.get_logger(__name__)

BATCH = 200
"""Most records that one transaction lets lapse: other writes pass between batches."""
BATCHES_MAX = 50
"""Most batches of one sweep and kind; the rest waits for the next sweep, which follows at once."""
INTERVAL_S = 60.0
"""Longest time between two sweeps, in seconds. Reads leave out what is over to the second, swept or not."""
DONE_TURN_DAYS = 30.0
"""Days for which it is remembered that a turn was read, so that a late redelivery changes nothing."""


class Swept(msgspec.Struct, frozen=True):
    """What one sweep let lapse; `more` when a bound was met and the next sweep should follow at once."""

    expired: int = 0
    suggestions: int = 0
    dropped: int = 0
    more: bool = False


class Sweeper:
    """Sweeps one tenant."""

    def __init__(
        self,
        store: TenantStore,
        settings: GateSettings,
        *,
        batch: int = BATCH,
        batches_max: int = BATCHES_MAX,
        interval_s: float = INTERVAL_S,
        done_turn_days: float = DONE_TURN_DAYS,
        expired: Callable[[int], None] = lambda count: None,
    ) -> None:
        """`expired` is told how many memories each sweep let lapse."""
        self._store = store
        self._settings = settings
        self._batch = batch
        self._batches_max = batches_max
        self._interval_s = interval_s
        self._done_turn_days = done_turn_days
        self._told = expired

    def apply(self, settings: GateSettings, batch: int, interval_s: float) -> None:
        """Change the bounds, from the next sweep on."""
        self._settings, self._batch, self._interval_s = settings, batch, interval_s

    async def sweep(self) -> Swept:
        """Let lapse what is over, at most `batches_max` batches of each kind."""
        cause = new_id("sweep")
        expired, more_memories = await self._batches(lambda tx: self._expire(tx, cause))
        self._told(expired)
        lapsed, more_suggestions = await self._batches(lambda tx: self._lapse(tx, cause))
        dropped, more_rows = await self._batches(self._drop)
        return Swept(expired, lapsed, dropped, more_memories or more_suggestions or more_rows)

    async def run(self) -> None:
        """Sweep until cancelled: when something is due, and at least every `interval_s`."""
        while True:
            try:
                pause = 0.0 if (await self.sweep()).more else await self._pause()
            except Exception as error:
                log.warning("gate.sweep_failed", error=type(error).__name__)
                pause = self._interval_s
            await asyncio.sleep(pause)

    async def _pause(self) -> float:
        due = await memories.next_due(self._store.readers)
        if due is None:
            return self._interval_s
        return min(self._interval_s, max(0.05, due - self._store.clock.now()))

    async def _batches(self, work: Callable[[Transaction], int]) -> tuple[int, bool]:
        total = 0
        for _ in range(self._batches_max):
            done = await self._store.write(work)
            total += done
            if done < self._batch:
                return total, False
        return total, True

    def _act(self, tx: Transaction, cause: str) -> Act:
        return lapsing.expiring(tx, self._store.tenant, self._settings, cause)

    def _expire(self, tx: Transaction, cause: str) -> int:
        act = self._act(tx, cause)
        rows = memories.due(tx, tx.now, self._batch)
        for row in rows:
            lapsing.lapse(act, row)
        return len(rows)

    def _lapse(self, tx: Transaction, cause: str) -> int:
        act = self._act(tx, cause)
        rows = suggestion_rows.lapsed(tx, tx.now, self._batch)
        for row in rows:
            proposals.settle(act, row, "expired")
        return len(rows)

    def _drop(self, tx: Transaction) -> int:
        replies = idempotency.drop_old(tx, tx.now - self._settings.idempotency_hours * 3_600, self._batch)
        turns = inbox.drop_old(tx, tx.now - self._done_turn_days * 86_400, self._batch)
        return max(replies, turns)
