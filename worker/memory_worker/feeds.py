"""The journal of a tenant as its readers see it: changes for the recall index."""

from collections.abc import Sequence

import msgspec

from memory_contracts.records import Entity, Memory
from memory_worker.recall import BankGone, EntityPut, IndexChange, MemoryGone, MemoryPut, Skip
from memory_worker.store import JournalRow, TenantStore, banks, entities, memories

SCAN_BATCH = 1_000
"""Memories read at once when a restored bank is put back into the index."""
INDEXED_STATES = ("live", "superseded")

_entity = msgspec.json.Decoder(Entity).decode


class StoreIndexFeed:
    """A tenant's store as the recall index reads it."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store

    def head(self) -> int:
        """Sequence of the last committed journal row."""
        return self._store.head

    async def changes_after(self, seq: int, limit: int) -> Sequence[IndexChange]:
        """Up to `limit` journal rows after `seq` as changes; all changes of one row come together."""
        changes: list[IndexChange] = []
        for row in await self._store.journal_after(seq, limit):
            changes.extend(await self._changes_of(row))
        return changes

    async def _changes_of(self, row: JournalRow) -> Sequence[IndexChange]:
        kind = row.type.partition(".")[0]
        if kind == "memory":
            if row.after is None:
                # Emptied by a forgetting: of its own memory, or of one that stays and had the person in an old state.
                found = [memory for memory in await self.memories([row.target]) if memory.state in INDEXED_STATES]
                return [MemoryPut(row.seq, found[0])] if found else [MemoryGone(row.seq, row.target, row.bank)]
            memory = memories.decode(row.after)
            if memory.state in INDEXED_STATES:
                return [MemoryPut(row.seq, memory)]
            return [MemoryGone(row.seq, row.target, row.bank)]
        if kind == "entity":
            return [_entity_change(row)]
        if row.type in ("bank.trashed", "bank.wiped"):
            return [BankGone(row.seq, row.bank)]
        if row.type == "bank.restored":
            return await self._restored(row)
        return [Skip(row.seq)]

    async def _restored(self, row: JournalRow) -> Sequence[IndexChange]:
        bank = await banks.read(self._store.readers, row.bank)
        changes: list[IndexChange] = [BankGone(row.seq, row.bank)]
        after = ""
        while bank is not None:
            batch = await memories.scan_bank(self._store.readers, bank.n, after, SCAN_BATCH)
            if not batch:
                break
            after = batch[-1].id
            changes.extend(MemoryPut(row.seq, memory) for memory in batch)
        return changes

    async def scan(self, after_id: str, limit: int) -> Sequence[Memory]:
        """Live and superseded memories with an id above `after_id`, by id."""
        return await memories.scan(self._store.readers, after_id, limit)

    async def memories(self, ids: Sequence[str]) -> Sequence[Memory]:
        """The memories of those ids as they are now."""
        return await memories.read_many(self._store.readers, ids)

    async def entities(self) -> Sequence[EntityPut]:
        """Every live entity."""
        found = await entities.read_all(self._store.readers)
        return [EntityPut(0, entity.id, entity.name, _names(entity)) for entity in found]


def _entity_change(row: JournalRow) -> IndexChange:
    if row.after is None:
        return EntityPut(row.seq, row.target, "")
    entity = _entity(row.after)
    if entity.state != "live":
        return EntityPut(row.seq, entity.id, "")
    return EntityPut(row.seq, entity.id, entity.name, _names(entity))


def _names(entity: Entity) -> tuple[str, ...]:
    return tuple(alias.value for alias in entity.aliases)
