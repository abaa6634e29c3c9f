"""Memory rows: wordings, reinforcements, labels, and the reads that page through them."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from memory_contracts.records import Memory
from memory_worker.clock import to_seconds
from memory_worker.store import statements
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("memories")

_UNDONE = "undone:"
"""Begins what stands among a memory's reinforcements for one that is undone; the id of its journal row follows."""
_INVERSE = "inverse:"
"""Begins what notes which reinforcement a row undid or did again; the ids of both rows follow."""
_decode = msgspec.json.Decoder(Memory).decode
encode = msgspec.json.Encoder().encode
"""Encodes any record as its stored JSON."""

TAGS_MAX = 1_000
"""Most tags one `tags` reply counts."""

Order = Literal["newest", "oldest", "updated"]


class MemoryRow(msgspec.Struct, frozen=True):
    """A memory, the number of its bank, and whether its expiry was asked for rather than the bank's."""

    bank: int
    memory: Memory
    expires_set: bool


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What `page` keeps; None keeps all."""

    bank: int
    states: tuple[str, ...] = ("live",)
    kind: str | None = None
    tier: str | None = None
    session: str | None = None
    tag: str | None = None
    entity: str | None = None
    value: bytes | None = None
    """Keyed hash of a protected value."""


def decode(record: bytes) -> Memory:
    """Read a memory's stored JSON."""
    return _decode(record)


def _row(values: tuple[Any, ...]) -> MemoryRow:
    return MemoryRow(values[0], _decode(values[1]), bool(values[2]))


def mark_of(memory: Memory) -> bytes:
    """The fingerprint under which a memory is unique; a protected one, whose text is hidden, has one of its own."""
    return fingerprint(memory.text if memory.protected is None else memory.id)


def _derived(memory: Memory) -> tuple[Any, ...]:
    return (
        memory.state,
        memory.tier,
        memory.kind,
        int(memory.pinned),
        memory.subject,
        memory.slot,
        memory.source.session_id,
        mark_of(memory),
    )


def _expiry(memory: Memory) -> float | None:
    return None if memory.expires_at is None else to_seconds(memory.expires_at)


def insert(tx: Transaction, bank: int, memory: Memory, *, expires_set: bool, entity_ids: Sequence[str] = ()) -> bytes:
    """Add a memory with its first wording and labels; gives its stored JSON."""
    record = encode(memory)
    derived = _derived(memory)
    created, updated = to_seconds(memory.created_at), to_seconds(memory.updated_at)
    tx.run(
        _SQL["insert"],
        memory.id,
        bank,
        *derived,
        created,
        updated,
        _expiry(memory),
        int(expires_set),
        record,
    )
    tx.run(_SQL["add_wording"], bank, derived[-1], memory.id)
    _label(tx, bank, memory, entity_ids)
    return record


def update(
    tx: Transaction, bank: int, memory: Memory, *, expires_set: bool, entity_ids: Sequence[str] | None = None
) -> bytes:
    """Write a memory's new state; its new wording joins the old ones. With `entity_ids`, labels are rewritten."""
    record = encode(memory)
    derived = _derived(memory)
    tx.run(
        _SQL["update"],
        *derived,
        to_seconds(memory.updated_at),
        _expiry(memory),
        int(expires_set),
        record,
        memory.id,
    )
    tx.run(_SQL["add_wording"], bank, derived[-1], memory.id)
    if entity_ids is not None:
        for statement in ("remove_tags", "remove_entities", "remove_claims"):
            tx.run(_SQL[statement], memory.id)
        _label(tx, bank, memory, entity_ids)
    return record


def _label(tx: Transaction, bank: int, memory: Memory, entity_ids: Sequence[str]) -> None:
    for tag in memory.tags:
        tx.run(_SQL["add_tag"], bank, tag, memory.id)
    for entity in entity_ids:
        tx.run(_SQL["add_entity"], entity, memory.id)


def set_claim(tx: Transaction, memory_id: str, entity_id: str, property_name: str, value: str) -> None:
    """Record the claim a live memory makes."""
    tx.run(_SQL["add_claim"], entity_id, property_name, memory_id, value)


def forget_old_wordings(tx: Transaction, bank: int, memory: Memory) -> None:
    """Keep only the present wording: a slot that is rewritten all day must not grow the store."""
    tx.run(_SQL["remove_wordings"], memory.id)
    tx.run(_SQL["add_wording"], bank, mark_of(memory), memory.id)


def find(tx: Transaction, memory_id: str) -> MemoryRow | None:
    """Give a memory in any state, unless its bank is in the trash."""
    values = tx.one(_SQL["by_id"], memory_id)
    return None if values is None else _row(values)


def exists(tx: Transaction, memory_id: str) -> bool:
    """Tell whether a memory of that id was ever kept, the trash included."""
    return tx.one(_SQL["by_id_anywhere"], memory_id) is not None


def live_by_text(tx: Transaction, bank: int, mark: bytes) -> MemoryRow | None:
    """Give the live memory whose present text has that fingerprint."""
    values = tx.one(_SQL["live_by_text"], bank, mark)
    return None if values is None else _row(values)


def by_wording(tx: Transaction, bank: int, mark: bytes) -> MemoryRow | None:
    """Give the record that ever had that wording: a live one first, then the newest."""
    values = tx.one(_SQL["by_wording"], bank, mark)
    return None if values is None else _row(values)


def live_by_subject(tx: Transaction, bank: int, subject: str) -> list[MemoryRow]:
    """Give the live memories of a subject, newest first."""
    return [_row(values) for values in tx.all(_SQL["live_by_subject"], bank, subject)]


def live_by_slot(tx: Transaction, bank: int, slot: str) -> MemoryRow | None:
    """Give the live memory of an observer's slot."""
    values = tx.one(_SQL["live_by_slot"], bank, slot)
    return None if values is None else _row(values)


def live_by_claim(tx: Transaction, bank: int, entity_id: str, property_name: str) -> list[MemoryRow]:
    """Give the live memories of a bank that claim that property of that entity, newest first."""
    return [_row(values) for values in tx.all(_SQL["live_by_claim"], entity_id, property_name, bank)]


def due(tx: Transaction, now: float, limit: int) -> list[MemoryRow]:
    """Give live memories whose time is up, the longest lapsed first."""
    return [_row(values) for values in tx.all(_SQL["due"], now, limit)]


async def next_due(readers: Readers) -> float | None:
    """Give the time (unix seconds) at which the next live memory lapses."""
    values = await readers.one(_SQL["next_due"])
    return None if values is None else float(values[0])


def reinforce(tx: Transaction, memory_id: str, cause: str) -> bool:
    """Record that `cause` said the memory; False when it had been counted before."""
    return tx.run(_SQL["reinforce"], memory_id, cause) == 1


def undo_reinforcement(tx: Transaction, memory_id: str, change: str) -> bool:
    """Note that the reinforcement of a journal row is undone; False where it is already. Its cause stays counted."""
    return tx.run(_SQL["reinforce"], memory_id, f"{_UNDONE}{change}") == 1


def redo_reinforcement(tx: Transaction, memory_id: str, change: str) -> bool:
    """Note that the reinforcement of a journal row counts again; False where it does already."""
    return tx.run(_SQL["unmark_reinforcement"], memory_id, f"{_UNDONE}{change}") == 1


def note_inverse(tx: Transaction, memory_id: str, inverse: str, change: str) -> None:
    """Note of a journal row that it undoes, or does again, the reinforcement of another."""
    tx.run(_SQL["reinforce"], memory_id, f"{_INVERSE}{inverse}:{change}")


def inverse_of(tx: Transaction, memory_id: str, inverse: str) -> str | None:
    """Give the journal row whose reinforcement another row undid or did again."""
    found = tx.one(_SQL["marked_reinforcement"], memory_id, f"{_INVERSE}{inverse}:")
    return None if found is None else str(found[0]).rpartition(":")[2]


async def read(readers: Readers, memory_id: str) -> MemoryRow | None:
    """Give a memory in any state, unless its bank is in the trash."""
    values = await readers.one(_SQL["by_id"], (memory_id,))
    return None if values is None else _row(values)


_MANY = "SELECT m.record FROM memories m JOIN banks b ON b.n = m.bank WHERE b.trash_id IS NULL AND m.id IN ({})"
_MANY_MAX = 500


async def read_many(readers: Readers, ids: Sequence[str]) -> list[Memory]:
    """Give the memories of those ids that exist, in the order asked."""
    found: dict[str, Memory] = {}
    for start in range(0, len(ids), _MANY_MAX):
        part = ids[start : start + _MANY_MAX]
        marks = ",".join("?" * len(part))
        for (record,) in await readers.all(_MANY.format(marks), part):
            memory = _decode(record)
            found[memory.id] = memory
    return [found[memory_id] for memory_id in ids if memory_id in found]


async def page(
    readers: Readers, keep: Filter, order: Order, after: tuple[float, str] | None, limit: int, now: float
) -> list[Memory]:
    """Give up to `limit` memories in order, after the position `after`."""
    live = keep.states == ("live",)
    sql = _SQL["page"].format(
        index="memories_updated" if live and order == "updated" else "memories_page",
        states="= 'live'" if live else "IN (SELECT value FROM json_each(:states))",
        order_column="updated_at" if order == "updated" else "created_at",
        comparison=">" if order == "oldest" else "<",
        direction="ASC" if order == "oldest" else "DESC",
    )
    values = _values(keep, now)
    values.update(at=after[0] if after else None, id=after[1] if after else None, limit=limit)
    return [_decode(record) for (record,) in await readers.all(sql, values)]


async def total(readers: Readers, keep: Filter, now: float) -> int:
    """Count what `page` would give in all."""
    # A bank whole is counted by an index alone, less what lapsed and is not swept yet; with a filter each row is read.
    sql = _SQL["total_whole" if keep == Filter(bank=keep.bank, states=keep.states) else "total"]
    row = await readers.one(sql, _values(keep, now))
    assert row is not None
    return int(row[0])


def _values(keep: Filter, now: float) -> dict[str, Any]:
    return {
        "bank": keep.bank,
        "states": encode(keep.states).decode(),
        "kind": keep.kind,
        "tier": keep.tier,
        "session": keep.session,
        "tag": keep.tag,
        "entity": keep.entity,
        "value": keep.value,
        "now": now,
    }


async def tags(readers: Readers, bank: int, now: float) -> list[tuple[str, int]]:
    """Count a bank's tags over its live memories, at most `TAGS_MAX` + 1 of them."""
    return [(tag, count) for tag, count in await readers.all(_SQL["tags"], (bank, now, TAGS_MAX + 1))]


async def pinned(readers: Readers, bank: int, limit: int) -> list[Memory]:
    """Give a bank's pinned memories, the oldest first."""
    return [_decode(record) for (record,) in await readers.all(_SQL["pinned"], (bank, limit))]


async def scan(readers: Readers, after_id: str, limit: int) -> list[Memory]:
    """Give live and superseded memories of every bank that is not in the trash, by id."""
    return [_decode(record) for _, record in await readers.all(_SQL["scan"], (after_id, limit))]


async def scan_bank(readers: Readers, bank: int, after_id: str, limit: int) -> list[Memory]:
    """Give live and superseded memories of one bank, by id."""
    return [_decode(record) for _, record in await readers.all(_SQL["scan_bank"], (bank, after_id, limit))]


async def of_entity(readers: Readers, entity_id: str, now: float, limit: int) -> list[tuple[int, Memory]]:
    """Give live memories that name an entity, with the number of their bank, newest first."""
    rows = await readers.all(_SQL["of_entity"], (entity_id, now, limit))
    return [(bank, _decode(record)) for bank, record in rows]


async def claims_of_entity(readers: Readers, entity_id: str, now: float, limit: int) -> list[tuple[int, Memory]]:
    """Give live memories that claim something of an entity, with the number of their bank, newest first."""
    rows = await readers.all(_SQL["claims_of_entity"], (entity_id, now, limit))
    return [(bank, _decode(record)) for bank, record in rows]
