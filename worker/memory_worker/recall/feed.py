"""Says what the recall room needs of the store: a journal to read, and memories to show."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from memory_contracts.records import Memory


class MemoryPut(msgspec.Struct, frozen=True):
    """A memory as it is after journal row `seq`; a state other than live or superseded means it is gone."""

    seq: int
    memory: Memory


class MemoryGone(msgspec.Struct, frozen=True):
    """A memory that must not be found any more."""

    seq: int
    id: str
    bank: str


class EntityPut(msgspec.Struct, frozen=True):
    """An entity's names as they are after journal row `seq`; no name and no alias means it is gone."""

    seq: int
    id: str
    name: str
    aliases: tuple[str, ...] = ()


class BankGone(msgspec.Struct, frozen=True):
    """A bank whose memories must not be found any more; putting its memories again brings it back."""

    seq: int
    bank: str


class Skip(msgspec.Struct, frozen=True):
    """A journal row that changes nothing here."""

    seq: int


IndexChange = MemoryPut | MemoryGone | EntityPut | BankGone | Skip


class IndexFeed(Protocol):
    """The store as the index reads it."""

    def head(self) -> int:
        """Sequence of the last committed journal row; a plain attribute read."""

    async def changes_after(self, seq: int, limit: int) -> Sequence[IndexChange]:
        """Up to `limit` changes after `seq`, in order. One journal row may give several changes of one `seq`:
        they are never split over two calls."""

    async def scan(self, after_id: str, limit: int) -> Sequence[Memory]:
        """Every live or superseded memory with an id above `after_id`, in order of id, for a rebuild."""

    async def memories(self, ids: Sequence[str]) -> Sequence[Memory]:
        """The memories with these ids as they are now; missing ones are left out, order is free."""

    async def entities(self) -> Sequence[EntityPut]:
        """Every entity that is neither merged nor forgotten."""
