"""The turn inbox: turns that were published and are not read yet, and how far each session was read.

The oldest turn of a session is `waiting`, then `working`; those behind it are `queued` until it is done or set aside.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memory_worker.clock import to_datetime
from memory_worker.store import statements
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("inbox")

CLAIM_BYTES = 16_777_216
"""Once this much text is claimed at a time, in bytes, the rest waits for the next claim."""


class NewTurn(msgspec.Struct, frozen=True):
    """A turn on its way in. With `parked` it cannot be read as it is; the bytes are kept with that reason."""

    turn_id: str
    session_id: str
    payload: bytes
    parked: str | None = None


class InboxTurn(msgspec.Struct, frozen=True):
    """A turn that was claimed for reading; `attempts` counts this one."""

    turn_id: str
    session_id: str
    payload: bytes
    attempts: int
    received_at: float


class Parked(msgspec.Struct, frozen=True):
    """A turn that could not be read, and why."""

    turn_id: str
    session_id: str
    reason: str
    at: datetime


class InboxStatus(msgspec.Struct, frozen=True):
    """How full the inbox is. `waiting` counts turns that wait for something, by reason."""

    backlog: int
    working: int
    oldest_at: float | None
    parked_total: int
    parked: list[Parked]
    waiting: dict[str, int]


def accept(tx: Transaction, turns: Sequence[NewTurn]) -> int:
    """Take turns in; one that is known already changes nothing. Gives the number of new ones."""
    added = 0
    for turn in turns:
        state = "parked" if turn.parked is not None else "queued" if _is_taken(tx, turn.session_id) else "waiting"
        added += tx.run(
            _SQL["insert"],
            turn.turn_id,
            turn.session_id,
            state,
            tx.now,
            tx.now,
            turn.parked,
            len(turn.payload),
            turn.payload,
        )
    return added


def _is_taken(tx: Transaction, session: str) -> bool:
    values = tx.one(_SQL["is_taken"], session)
    return values is not None and bool(values[0])


def claim(tx: Transaction, limit: int, busy_sessions: Collection[str]) -> list[InboxTurn]:
    """Take due turns to work and count the attempt: at most one of a session, and only the session's oldest."""
    claimed: list[InboxTurn] = []
    rows: list[int] = []
    size = 0
    for n, turn, session, payload, attempts, received_at in tx.each(_SQL["due"], tx.now):
        if session in busy_sessions:
            continue
        claimed.append(InboxTurn(turn, session, payload, attempts + 1, received_at))
        rows.append(n)
        size += len(payload)
        if len(claimed) >= limit or size >= CLAIM_BYTES:
            break
    for n in rows:
        tx.run(_SQL["work"], n)
    return claimed


def wait(tx: Transaction, turn_id: str, next_at: float, reason: str) -> None:
    """Put a turn back without counting the attempt: what it needs is away."""
    tx.run(_SQL["back"], 1, next_at, reason, turn_id)


def retry(tx: Transaction, turn_id: str, next_at: float, reason: str) -> None:
    """Put a turn back for another attempt at `next_at`."""
    tx.run(_SQL["back"], 0, next_at, reason, turn_id)


def park(tx: Transaction, turn_id: str, reason: str, raw: bytes | None, mask: Callable[[bytes], bytes] = bytes) -> None:
    """Set a turn aside with the reason, its bytes as `mask` leaves them, and the raw reply of a model."""
    values = tx.one(_SQL["payload"], turn_id)
    payload = None if values is None or values[0] is None else mask(values[0])
    tx.run(_SQL["park"], reason, raw, payload, turn_id)
    tx.run(_SQL["promote"], turn_id)


def done(tx: Transaction, turn_id: str, reason: str | None = None) -> None:
    """Mark a turn as read and drop its payload: the store is not a transcript."""
    tx.run(_SQL["done"], reason, turn_id)
    tx.run(_SQL["promote"], turn_id)


def state_of(tx: Transaction, turn_id: str) -> str | None:
    """Give a turn's state."""
    values = tx.one(_SQL["state_of"], turn_id)
    return None if values is None else str(values[0])


def recover(tx: Transaction) -> int:
    """After a crash: what was being worked on waits again."""
    recovered = tx.run(_SQL["recover"])
    reorder(tx)
    return recovered


def reorder(tx: Transaction) -> None:
    """Let the oldest turn of each session be the one that waits, after turns came back into it or left it unread."""
    tx.run(_SQL["demote_all"])
    tx.run(_SQL["promote_all"])


def unpark(tx: Transaction, turn_ids: Sequence[str] | None) -> int:
    """Put parked turns back to work, those of the ids or all."""
    if turn_ids is None:
        back = tx.run(_SQL["retry_all"], tx.now)
    else:
        back = sum(tx.run(_SQL["retry"], tx.now, turn_id) for turn_id in turn_ids)
    reorder(tx)
    return back


def set_session_cursor(tx: Transaction, session_id: str, mark: str) -> None:
    """Remember up to where a session was read."""
    tx.run(_SQL["set_session_cursor"], session_id, mark, tx.now)


def find_session_cursor(tx: Transaction, session_id: str) -> str | None:
    """Give the mark up to which a session was read."""
    values = tx.one(_SQL["session_cursor"], session_id)
    return None if values is None else str(values[0])


def drop_old(tx: Transaction, before: float, limit: int) -> int:
    """Drop up to `limit` turns that were read before a time, and cursors of sessions untouched since."""
    return tx.run(_SQL["drop_done"], before, limit) + tx.run(_SQL["drop_session_cursors"], before, limit)


async def depth(readers: Readers) -> tuple[int, int]:
    """Give the rows and bytes of turns that are not done."""
    values = await readers.one(_SQL["depth"])
    assert values is not None
    return int(values[0]), int(values[1])


async def next_at(readers: Readers) -> float | None:
    """Give the time at which the next waiting turn is due."""
    values = await readers.one(_SQL["next_at"])
    return None if values is None or values[0] is None else float(values[0])


async def status(readers: Readers, parked_limit: int) -> InboxStatus:
    """Tell how full the inbox is."""
    backlog = await _one(readers, "backlog")
    parked = await readers.all(_SQL["parked"], (parked_limit,))
    return InboxStatus(
        backlog=backlog[0],
        working=(await _one(readers, "working"))[0],
        oldest_at=backlog[1],
        parked_total=(await _one(readers, "parked_total"))[0],
        parked=[Parked(turn, session, reason or "", to_datetime(at)) for turn, session, reason, at in parked],
        waiting=dict(await readers.all(_SQL["waiting"])),
    )


async def _one(readers: Readers, name: str) -> tuple[Any, ...]:
    values = await readers.one(_SQL[name])
    assert values is not None
    return values
