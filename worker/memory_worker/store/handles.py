"""Reads which live memories of a bank carry which context handles."""

import msgspec

from memory_contracts.names import Tier
from memory_worker.store import statements
from memory_worker.store.readers import Readers

_SQL = statements.load("handles")
_decode = msgspec.json.Decoder(tuple[str, ...]).decode


class HandledRow(msgspec.Struct, frozen=True):
    """A memory that carries handles; `created_at` in unix seconds."""

    id: str
    tier: Tier
    created_at: float
    about: tuple[str, ...]


async def of_bank(readers: Readers, bank: int) -> tuple[int, list[HandledRow]]:
    """Give a bank's live memories that carry handles, with the journal sequence at which that holds."""
    rows = await readers.all(_SQL["of_bank"], (bank,))
    found = [HandledRow(memory, tier, created_at, _decode(about)) for _, memory, tier, created_at, about in rows]
    return (int(rows[0][0]) if rows else 0), found
