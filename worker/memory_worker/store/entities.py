"""Entity and property rows: names and aliases to entities, and the kinds of claims."""

from collections.abc import Sequence

import msgspec

from memory_contracts.records import Entity, Property
from memory_worker.store import statements
from memory_worker.store.fingerprint import normalise
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("entities")
_decode = msgspec.json.Decoder(Entity).decode
_decode_property = msgspec.json.Decoder(Property).decode

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


def remove_name(tx: Transaction, value: str, channel: str, entity_id: str) -> None:
    """Take a name or alias from an entity."""
    tx.run(_SQL["remove_name"], normalise(value), channel, entity_id)


def move_everything(tx: Transaction, from_id: str, into_id: str) -> None:
    """Give an entity's names, mentions and claims to another."""
    for statement in ("move_names", "move_memories", "move_claims"):
        tx.run(_SQL[statement], into_id, from_id)


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


async def read_mentioned(readers: Readers, banks: Sequence[int], query: str | None) -> list[Entity]:
    """Give the live entities that live memories of those banks name, by name."""
    values = {"banks": encode(list(banks)).decode(), "query": normalise(query) if query else None}
    return [_decode(record) for (record,) in await readers.all(_SQL["mentioned"], values)]


async def read_properties(readers: Readers) -> list[Property]:
    """Give every property, by name."""
    return [_decode_property(record) for (record,) in await readers.all(_SQL["properties"])]
