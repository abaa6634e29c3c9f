"""Entity and property rows: names and aliases to entities, and the kinds of claims."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts.records import Entity, Memory, Property
from memory_worker.store import statements
from memory_worker.store.fingerprint import normalise
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("entities")
_decode = msgspec.json.Decoder(Entity).decode
_decode_property = msgspec.json.Decoder(Property).decode
_decode_memory = msgspec.json.Decoder(Memory).decode

NAME_CHANNEL = "name"
"""The channel under which plain names and nicknames are kept."""


def find(tx: Transaction, entity_id: str) -> Entity | None:
    """Give an entity by id, in any state."""
    values = tx.one(_SQL["by_id"], entity_id)
    return None if values is None else _decode(values[0])


def named(tx: Transaction, name: str) -> Entity | None:
    """Give the live entity that a name or alias means."""
    values = tx.one(_SQL["by_key"], normalise(name))
    return None if values is None else _decode(values[0])


def insert(tx: Transaction, entity: Entity) -> bytes:
    """Add an entity with its name and aliases; gives its stored JSON."""
    record = encode(entity)
    tx.run(_SQL["insert"], entity.id, entity.name, entity.state, record)
    tx.run(_SQL["add_name"], normalise(entity.name), NAME_CHANNEL, entity.id)
    for alias in entity.aliases:
        tx.run(_SQL["add_name"], normalise(alias.value), alias.channel, entity.id)
    return record


def update(tx: Transaction, entity: Entity) -> bytes:
    """Write an entity's new state; gives its stored JSON."""
    record = encode(entity)
    tx.run(_SQL["update"], entity.name, entity.state, record, entity.id)
    return record


def owner_of(tx: Transaction, value: str, channel: str) -> str | None:
    """Give the id of the entity that has that alias on that channel."""
    values = tx.one(_SQL["owner_of_name"], normalise(value), channel)
    return None if values is None else str(values[0])


def add_name(tx: Transaction, value: str, channel: str, entity_id: str) -> None:
    """Let a name or alias mean an entity."""
    tx.run(_SQL["add_name"], normalise(value), channel, entity_id)


def move_name(tx: Transaction, value: str, channel: str, entity_id: str) -> None:
    """Let a name or alias that meant another entity mean this one."""
    tx.run(_SQL["move_name"], normalise(value), channel, entity_id)


def remove_name(tx: Transaction, value: str, channel: str, entity_id: str) -> None:
    """Take a name or alias from an entity."""
    tx.run(_SQL["remove_name"], normalise(value), channel, entity_id)


def banks_of(tx: Transaction, entity_id: str) -> list[int]:
    """Give the numbers of the banks, trash apart, whose memories name an entity."""
    return [int(n) for (n,) in tx.all(_SQL["banks_of"], entity_id)]


def is_named(tx: Transaction, entity_id: str) -> bool:
    """Tell whether any memory names an entity, in whatever state or bank."""
    return tx.one(_SQL["is_named"], entity_id) is not None


def mentions_of(tx: Transaction, entity_id: str, limit: int) -> list[Memory]:
    """Give up to `limit` memories, in any state, that are filed under an entity."""
    return [_decode_memory(record) for (record,) in tx.all(_SQL["mentions_of"], entity_id, limit)]


def file_under(tx: Transaction, memory_id: str, entity_id: str) -> None:
    """File a memory under an entity."""
    tx.run(_SQL["file_under"], entity_id, memory_id)


def unfile(tx: Transaction, memory_id: str, entity_id: str) -> None:
    """Take a memory from an entity."""
    tx.run(_SQL["unfile"], entity_id, memory_id)


def move_claim(tx: Transaction, memory_id: str, from_id: str, into_id: str) -> None:
    """Give one memory's claim about an entity to another entity."""
    tx.run(_SQL["move_claim"], into_id, from_id, memory_id)


def claimed(tx: Transaction, name: str) -> bool:
    """Tell whether any memory claims something under a property."""
    return tx.one(_SQL["claimed"], name) is not None


def remove_names(tx: Transaction, entity_id: str) -> None:
    """Take every name and alias from an entity."""
    tx.run(_SQL["remove_names"], entity_id)


def move_everything(tx: Transaction, from_id: str, into_id: str) -> None:
    """Give an entity's names, mentions and claims to another."""
    for statement in ("move_names", "move_memories", "move_claims"):
        tx.run(_SQL[statement], into_id, from_id)


def every(tx: Transaction) -> list[Entity]:
    """Give every entity that was not forgotten, those merged into others included."""
    return [_decode(record) for (record,) in tx.all(_SQL["every"])]


def all_properties(tx: Transaction) -> list[Property]:
    """Give every property."""
    return [msgspec.json.decode(record, type=Property) for (record,) in tx.all(_SQL["properties"])]


def find_property(tx: Transaction, name: str) -> Property | None:
    """Give a property by name."""
    values = tx.one(_SQL["property"], name)
    return None if values is None else _decode_property(values[0])


def put_property(tx: Transaction, value: Property) -> bytes:
    """Write a property; gives its stored JSON."""
    record = encode(value)
    tx.run(_SQL["put_property"], value.name, record)
    return record


def remove_property(tx: Transaction, name: str) -> None:
    """Remove a property."""
    tx.run(_SQL["remove_property"], name)


async def read(readers: Readers, entity_id: str) -> Entity | None:
    """Give an entity by id, in any state."""
    values = await readers.one(_SQL["by_id"], (entity_id,))
    return None if values is None else _decode(values[0])


async def read_named(readers: Readers, name: str) -> Entity | None:
    """Give the live entity that a name or alias means."""
    values = await readers.one(_SQL["by_key"], (normalise(name),))
    return None if values is None else _decode(values[0])


async def read_all(readers: Readers) -> list[Entity]:
    """Give every live entity, by name."""
    return [_decode(record) for (record,) in await readers.all(_SQL["all"])]


async def banks_naming(readers: Readers, entity_id: str) -> list[int]:
    """Give the numbers of the banks, trash apart, whose memories name an entity."""
    return [int(n) for (n,) in await readers.all(_SQL["banks_of"], (entity_id,))]


async def page(
    readers: Readers, banks: Sequence[int], query: str | None, after: tuple[str, str] | None, limit: int, now: float
) -> list[Entity]:
    """Give up to `limit` live entities that live memories of those banks name, by name and id, after that pair."""
    values = {**_mentioned(banks, query, now), "name": after[0] if after else None, "id": after[1] if after else None}
    return [_decode(record) for (record,) in await readers.all(_SQL["page"], {**values, "limit": limit})]


async def total(readers: Readers, banks: Sequence[int], query: str | None, now: float) -> int:
    """Count what `page` would give in all."""
    row = await readers.one(_SQL["total"], _mentioned(banks, query, now))
    assert row is not None
    return int(row[0])


def _mentioned(banks: Sequence[int], query: str | None, now: float) -> dict[str, Any]:
    return {"banks": _json(banks), "query": normalise(query) if query else None, "now": now}


async def read_mentions(
    readers: Readers, entity_id: str, banks: Sequence[int], now: float, limit: int
) -> tuple[list[Memory], int]:
    """Give up to `limit` live memories of those banks that name an entity, newest first, and how many there are."""
    values = {"entity": entity_id, "banks": _json(banks), "now": now}
    rows = await readers.all(_SQL["mentions"], {**values, "limit": limit})
    counted = await readers.one(_SQL["mention_total"], values)
    assert counted is not None
    return [_decode_memory(record) for (record,) in rows], int(counted[0])


async def read_claims(readers: Readers, entity_id: str, banks: Sequence[int], now: float, limit: int) -> list[Memory]:
    """Give up to `limit` live and superseded memories of those banks that claim something of an entity: live first,
    then newest."""
    values = {"entity": entity_id, "banks": _json(banks), "now": now, "limit": limit}
    return [_decode_memory(record) for (record,) in await readers.all(_SQL["claims"], values)]


async def read_visible_properties(
    readers: Readers, banks: Sequence[int], private: Sequence[str], limit: int
) -> list[Property]:
    """Give properties that claims of those banks use, or that were made outside of other private banks, by name."""
    values = {"banks": _json(banks), "private": _json(private), "limit": limit}
    return [_decode_property(record) for (record,) in await readers.all(_SQL["visible_properties"], values)]


def _json(values: Sequence[Any]) -> str:
    return encode(list(values)).decode()
