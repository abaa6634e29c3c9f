"""The append-only table of changes: rows, their order per bank, and reading them back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memory_contracts.records import Actor, Cause, Change
from memory_worker.clock import to_datetime
from memory_worker.store import statements
from memory_worker.store.readers import Readers

if TYPE_CHECKING:
    from memory_worker.store.transaction import Transaction

_SQL = statements.load("journal")

PUBLISHED_TYPES = frozenset(
    {
        "memory.created",
        "memory.reinforced",
        "memory.updated",
        "memory.pinned",
        "memory.superseded",
        "memory.deleted",
        "memory.expired",
        "memory.restored",
        "memory.forgotten",
        "bank.created",
        "bank.updated",
        "bank.trashed",
        "bank.restored",
        "bank.wiped",
        "rule.set",
        "suggestion.created",
        "suggestion.decided",
        "notice.created",
        "notice.acked",
    }
)
"""Row types that are published as triggers; the others (entities, properties) are read with `changes.list`."""


class JournalRow(msgspec.Struct, frozen=True, array_like=True):
    """One change. `before` and `after` are the JSON of the contract's record, None where there is none."""

    seq: int
    id: str
    at: float
    bank: str
    owner: str | None
    bank_seq: int | None
    type: str
    target: str
    actor_route: str
    actor_principal: str
    cause_kind: str
    cause_id: str
    session: str | None
    before: bytes | None
    after: bytes | None


def row_of(values: tuple[Any, ...]) -> JournalRow:
    """Make a row of a SELECT's columns, in the order of the fields."""
    return JournalRow(*values)


def change_of(row: JournalRow) -> Change:
    """Give the wire form of a row."""
    return Change(
        seq=row.seq,
        id=row.id,
        at=to_datetime(row.at),
        bank=row.bank,
        bank_seq=row.bank_seq,
        type=row.type,
        target=row.target,
        actor=Actor(route=row.actor_route, principal=row.actor_principal),  # type: ignore[arg-type]
        cause=Cause(kind=row.cause_kind, id=row.cause_id),  # type: ignore[arg-type]
        before=None if row.before is None else msgspec.json.decode(row.before),
        after=None if row.after is None else msgspec.json.decode(row.after),
    )


def find(tx: "Transaction", change_id: str) -> JournalRow | None:
    """Give a row by its id."""
    values = tx.one(_SQL["by_id"], change_id)
    return None if values is None else row_of(values)


def of_cause(tx: "Transaction", cause_id: str, limit: int) -> list[JournalRow]:
    """Give up to `limit` rows of one cause (a request, a turn, a run, a suggestion, a revert), newest first."""
    return [row_of(values) for values in tx.all(_SQL["by_cause"], cause_id, limit)]


def of_session(tx: "Transaction", session: str, limit: int) -> list[JournalRow]:
    """Give up to `limit` rows of one session, newest first."""
    return [row_of(values) for values in tx.all(_SQL["by_session"], session, limit)]


class JournalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a reading of the journal keeps; None keeps all.

    `private` names the private rows that the reader may see, each as `<owner>/<bank>`; rows about what a private bank
    made tenant-wide (an entity) are `<owner>/`.
    """

    private: tuple[str, ...] = ()
    bank: str | None = None
    target: str | None = None
    cause: str | None = None
    cause_kind: str | None = None
    session: str | None = None
    route: str | None = None
    principal: str | None = None


async def newest(readers: Readers, keep: JournalFilter, before_seq: int, limit: int) -> list[JournalRow]:
    """Give up to `limit` rows before a sequence, newest first."""
    return await _select(readers, "newest", keep, {"before_seq": before_seq, "limit": limit})


async def oldest(readers: Readers, keep: JournalFilter, after_seq: int, limit: int) -> list[JournalRow]:
    """Give up to `limit` rows after a sequence, oldest first."""
    return await _select(readers, "oldest", keep, {"after_seq": after_seq, "limit": limit})


async def of_target(readers: Readers, target: str, after_seq: int, limit: int) -> Sequence[JournalRow]:
    """Give up to `limit` rows about one record after a sequence, oldest first."""
    return [row_of(values) for values in await readers.all(_SQL["of_target"], (target, after_seq, limit))]


async def _select(readers: Readers, name: str, keep: JournalFilter, more: dict[str, Any]) -> list[JournalRow]:
    values = {**msgspec.structs.asdict(keep), **more, "private": msgspec.json.encode(keep.private).decode()}
    return [row_of(row) for row in await readers.all(_SQL[name], values)]
