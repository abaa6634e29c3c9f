"""Suggestion rows: the queue of changes that wait for a person."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts.records import Suggestion
from memory_worker.clock import to_seconds
from memory_worker.store import statements
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("suggestions")
_decode = msgspec.json.Decoder(Suggestion).decode


class SuggestionRow(msgspec.Struct, frozen=True):
    """A suggestion and the number of its bank."""

    bank: int
    suggestion: Suggestion


def _row(values: tuple[Any, ...]) -> SuggestionRow:
    return SuggestionRow(values[0], _decode(values[1]))


def insert(tx: Transaction, bank: int, suggestion: Suggestion, evidence: bytes, keys: Sequence[str] = ()) -> bytes:
    """Add a suggestion; `evidence` is the hash under which the same one is known again.

    `keys` name what else, besides its targets, makes it needless when it changes.
    """
    record = encode(suggestion)
    created, expires = to_seconds(suggestion.created_at), to_seconds(suggestion.expires_at)
    tx.run(_SQL["insert"], suggestion.id, bank, suggestion.state, evidence, created, expires, record)
    for target in (*suggestion.targets, *keys):
        tx.run(_SQL["add_target"], target, suggestion.id)
    return record


def update(tx: Transaction, suggestion: Suggestion) -> bytes:
    """Write a suggestion's new state."""
    record = encode(suggestion)
    tx.run(_SQL["update"], suggestion.state, record, suggestion.id)
    return record


def find(tx: Transaction, suggestion_id: str) -> SuggestionRow | None:
    """Give a suggestion by id."""
    values = tx.one(_SQL["by_id"], suggestion_id)
    return None if values is None else _row(values)


def by_evidence(tx: Transaction, bank: int, evidence: bytes) -> SuggestionRow | None:
    """Give the open or rejected suggestion that was made from the same evidence."""
    values = tx.one(_SQL["by_evidence"], bank, evidence)
    return None if values is None else _row(values)


def open_of_target(tx: Transaction, target: str, limit: int) -> list[SuggestionRow]:
    """Give open suggestions that have that target or key."""
    return [_row(values) for values in tx.all(_SQL["open_of_target"], target, limit)]


def lapsed(tx: Transaction, now: float, limit: int) -> list[SuggestionRow]:
    """Give open suggestions whose time is up."""
    return [_row(values) for values in tx.all(_SQL["lapsed"], now, limit)]


async def read(readers: Readers, suggestion_id: str) -> SuggestionRow | None:
    """Give a suggestion by id."""
    values = await readers.one(_SQL["by_id"], (suggestion_id,))
    return None if values is None else _row(values)


async def read_open_of_target(readers: Readers, target: str, limit: int) -> list[SuggestionRow]:
    """Give open suggestions about a record."""
    return [_row(values) for values in await readers.all(_SQL["open_of_target"], (target, limit))]


async def page(
    readers: Readers,
    banks: Sequence[int],
    state: str,
    target: str | None,
    after: tuple[float, str] | None,
    limit: int,
) -> list[SuggestionRow]:
    """Give up to `limit` suggestions of those banks in that state, oldest first, after the position `after`."""
    values = {
        "banks": encode(list(banks)).decode(),
        "state": state,
        "target": target,
        "at": after[0] if after else None,
        "id": after[1] if after else None,
        "limit": limit,
    }
    return [_row(row) for row in await readers.all(_SQL["page"], values)]


async def counts(readers: Readers, banks: Sequence[int], target: str | None) -> dict[str, int]:
    """Count suggestions of those banks by state."""
    values = {"banks": encode(list(banks)).decode(), "target": target}
    return dict(await readers.all(_SQL["counts"], values))
