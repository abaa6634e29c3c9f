"""Connects extraction to the store and the gate: claims from the inbox, commits through the gate."""

from collections.abc import Callable, Collection, Sequence

import msgspec

from memory_worker import extraction
from memory_worker.extraction import Candidate, Cursor
from memory_worker.gate import Gate, TurnCommit, TurnItem, TurnResult
from memory_worker.store import TenantStore, Transaction, inbox

_decode_cursor = msgspec.json.Decoder(Cursor).decode


class StoreInbox:
    """The turn inbox of a tenant, as extraction works it."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store

    async def claim(self, now: float, limit: int, exclude_sessions: Collection[str]) -> list[extraction.InboxTurn]:
        """Mark due turns as working, the oldest of each session, and count the attempt."""
        busy = frozenset(exclude_sessions)
        if await inbox.next_at(self._store.readers) is None:
            return []
        return await self._store.write(lambda tx: _claim(tx, limit, busy))

    async def wait(self, turn_id: str, next_at: float, reason: str) -> None:
        """Put a turn back and give its attempt back."""
        await self._store.write(lambda tx: inbox.wait(tx, turn_id, next_at, reason))

    async def retry(self, turn_id: str, next_at: float, reason: str) -> None:
        """Put a turn back for another attempt."""
        await self._store.write(lambda tx: inbox.retry(tx, turn_id, next_at, reason))

    async def park(self, turn_id: str, reason: str, raw: bytes | None) -> None:
        """Set a turn aside; what looks like a secret is masked in what is kept of it."""
        await self._store.write(lambda tx: inbox.park(tx, turn_id, reason, raw, extraction.mask_payload))

    async def next_due(self) -> float | None:
        """When the next waiting turn is due."""
        return await inbox.next_at(self._store.readers)


def _claim(tx: Transaction, limit: int, busy: Collection[str]) -> list[extraction.InboxTurn]:
    turns = []
    for turn in inbox.claim(tx, limit, busy):
        cursor = inbox.find_session_cursor(tx, turn.session_id)
        turns.append(
            extraction.InboxTurn(
                turn_id=turn.turn_id,
                session_id=turn.session_id,
                payload=turn.payload,
                attempts=turn.attempts,
                received_at=turn.received_at,
                cursor=None if cursor is None else _decode_cursor(cursor),
            )
        )
    return turns


class GateCommit:
    """The gate's side of a turn."""

    def __init__(self, gate: Gate, committed: Callable[[TurnResult], None]) -> None:
        """`committed` is told what became of each turn's items."""
        self._gate = gate
        self._committed = committed

    async def commit_turn(self, commit: extraction.TurnCommit) -> None:
        """Commit what a turn came to: everything or nothing."""
        found = commit.extraction
        result = await self._gate.commit_turn(
            TurnCommit(
                turn_id=commit.turn_id,
                session_id=commit.session_id,
                bank=commit.bank,
                items=items(found.items),
                learned=items(found.learned),
                suggested=items(found.suggested),
                cursor=None if found.cursor is None else msgspec.json.encode(found.cursor).decode(),
                refused=found.refused,
                ignored=found.ignored,
            )
        )
        self._committed(result)


def items(candidates: Sequence[Candidate]) -> tuple[TurnItem, ...]:
    """Candidates as the gate takes them."""
    return tuple(
        TurnItem(
            text=candidate.text,
            quote=candidate.quote,
            message_id=candidate.message_id,
            role=candidate.role,
            kind=candidate.kind,
            subject=candidate.subject,
            entities=candidate.entities,
            tags=candidate.tags,
            claim=candidate.claim,
            confidence=candidate.confidence,
            occurred_at=candidate.occurred_at,
            pattern=candidate.pattern,
            model=candidate.model,
        )
        for candidate in candidates
    )
