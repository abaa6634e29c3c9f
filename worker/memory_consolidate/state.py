"""What is remembered about each bank between runs, and changed by compare-and-set only."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import msgspec

from memory_consolidate.bucket import VALUE_MAX_BYTES, Bucket, Changed
from memory_contracts.functions.consolidating import ConsolidateReport

CONTENDED_MAX = 20
"""Times a change is tried again when somebody else was faster."""
REPORTS_MAX = 20
"""Reports kept per bank."""
TOLD_MAX = 2_000
"""Newest things kept per bank that a person was asked about and that no suggestion of the store would remember."""

Trigger = Literal["schedule", "manual"]


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who works on a bank, on which run, and until when others must keep away. Times are Unix seconds."""

    holder: str
    until: float
    run_id: str
    trigger: Trigger
    dry_run: bool
    started_at: float


class BankState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One bank. `changed_at` is its newest change that no scheduled run has seen; all times are Unix seconds."""

    changed_at: float | None = None
    ran_at: float | None = None
    carried: int = 0
    lease: Lease | None = None
    told: tuple[str, ...] = ()


class _Reports(msgspec.Struct):
    reports: list[ConsolidateReport]


Change = Callable[[BankState], BankState | None]
"""Gives the next state, or None to leave it as it is."""


class States:
    """Reads and changes bank states in the bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def get(self, bank: str) -> BankState:
        """Read a bank's state; a fresh one when nothing is known."""
        return (await self._read(bank))[0]

    async def change(self, bank: str, change: Change) -> BankState | None:
        """Apply `change` to the newest state; None when it declined. It may be called several times."""
        for _ in range(CONTENDED_MAX):
            state, revision = await self._read(bank)
            wanted = change(state)
            if wanted is None:
                return None
            if wanted == state:
                return state
            try:
                await self._bucket.put(msgspec.json.encode(wanted), revision, "bank", bank)
            except Changed:
                await asyncio.sleep(random.uniform(0, 0.05))  # noqa: S311 - jitter, not a secret
                continue
            return wanted
        raise Changed(f"bank {bank} is written by others all the time")

    async def reports(self, bank: str) -> list[ConsolidateReport]:
        """The last reports of a bank, newest first."""
        return (await self._read_reports(bank))[0]

    async def add_report(self, bank: str, report: ConsolidateReport) -> None:
        """Keep a report; the oldest ones go. A report of the same run replaces the earlier one."""
        for _ in range(CONTENDED_MAX):
            reports, revision = await self._read_reports(bank)
            others = [other for other in reports if other.run_id != report.run_id]
            kept = [report, *others][:REPORTS_MAX]
            encoded = msgspec.json.encode(_Reports(kept))
            while len(encoded) > VALUE_MAX_BYTES and len(kept) > 1:
                kept.pop()
                encoded = msgspec.json.encode(_Reports(kept))
            try:
                await self._bucket.put(encoded, revision, "reports", bank)
            except Changed:
                continue
            return
        raise Changed(f"reports of bank {bank} are written by others all the time")

    async def _read(self, bank: str) -> tuple[BankState, int]:
        entry = await self._bucket.get("bank", bank)
        return (msgspec.json.decode(entry.value, type=BankState) if entry.value else BankState()), entry.revision

    async def _read_reports(self, bank: str) -> tuple[list[ConsolidateReport], int]:
        entry = await self._bucket.get("reports", bank)
        return (msgspec.json.decode(entry.value, type=_Reports).reports if entry.value else []), entry.revision


def moment(seconds: float) -> datetime:
    """Unix seconds as an aware UTC datetime."""
    return datetime.fromtimestamp(round(seconds, 6), UTC)
