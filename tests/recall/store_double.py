"""An in-memory store that feeds the recall index: the journal, the memories and the entities, with nothing else."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memory_contracts.records import Memory, Source
from memory_worker.recall import BankGone, EntityPut, IndexChange, MemoryGone, MemoryPut, Skip

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()


def memory(number: int, text: str, bank: str = "main", *, session: str | None = None, **fields: Any) -> Memory:
    """A live stated memory whose id sorts by `number`."""
    return Memory(
        id=f"mem_{number:026d}",
        bank=bank,
        text=text,
        kind=fields.pop("kind", "fact"),
        tier=fields.pop("tier", "stated"),
        source=Source(route="human", principal="me", session_id=session),
        created_at=fields.pop("created_at", START),
        updated_at=fields.pop("updated_at", START),
        last_seen_at=START,
        **fields,
    )


class FixedClock:
    """A clock that stands still until it is set."""

    def __init__(self, at: float = NOW) -> None:
        self.at = at

    def now(self) -> float:
        """Unix seconds."""
        return self.at


class StoreDouble:
    """Obeys `IndexFeed` over dictionaries; every change is one journal row."""

    def __init__(self) -> None:
        self.journal: list[IndexChange] = []
        self.kept: dict[str, Memory] = {}
        self.named: dict[str, EntityPut] = {}

    def put(self, *memories: Memory) -> None:
        """Saves or edits memories."""
        for one in memories:
            self.kept[one.id] = one
            self.journal.append(MemoryPut(self.head() + 1, one))

    def change(self, memory_id: str, **fields: Any) -> Memory:
        """Edits a memory."""
        changed = msgspec.structs.replace(self.kept[memory_id], **fields)
        self.put(changed)
        return changed

    def remove(self, memory_id: str) -> None:
        """Deletes a memory."""
        self.journal.append(MemoryGone(self.head() + 1, memory_id, self.kept.pop(memory_id).bank))

    def name(self, entity_id: str, name: str, *aliases: str) -> None:
        """Names an entity."""
        self.named[entity_id] = EntityPut(self.head() + 1, entity_id, name, aliases)
        self.journal.append(self.named[entity_id])

    def drop_bank(self, bank: str) -> None:
        """Trashes a bank."""
        self.kept = {i: m for i, m in self.kept.items() if m.bank != bank}
        self.journal.append(BankGone(self.head() + 1, bank))

    def skip(self) -> None:
        """Writes a row that means nothing to the index."""
        self.journal.append(Skip(self.head() + 1))

    def head(self) -> int:
        """Sequence of the last row."""
        return len(self.journal)

    async def changes_after(self, seq: int, limit: int) -> Sequence[IndexChange]:
        """Rows after `seq`."""
        return self.journal[seq : seq + limit]

    async def scan(self, after_id: str, limit: int) -> Sequence[Memory]:
        """Live and superseded memories by id."""
        found = sorted((m for m in self.kept.values() if m.id > after_id), key=lambda m: m.id)
        return [m for m in found if m.state in ("live", "superseded")][:limit]

    async def memories(self, ids: Sequence[str]) -> Sequence[Memory]:
        """Memories by id."""
        return [self.kept[i] for i in ids if i in self.kept]

    async def entities(self) -> Sequence[EntityPut]:
        """All entities."""
        return list(self.named.values())
