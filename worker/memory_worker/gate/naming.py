"""Turns the names in a statement into entities and its claim into a property."""

from collections.abc import Sequence

import msgspec

from memory_contracts.records import Claim, Entity, Property
from memory_worker.gate.act import Act
from memory_worker.store import entities, memories, new_id
from memory_worker.store.memories import encode

TENANT_BANK = ""
"""Bank of journal rows about what is tenant-wide: entities and properties. They are not published."""


def resolve(act: Act, names: Sequence[str], kind: str = "thing", owner: str | None = None) -> list[Entity]:
    """Give the entity of each name or alias, making those that are new for a bank of that owner."""
    return [entities.named(act.tx, name) or make(act, name, kind, owner) for name in names]


def make(act: Act, name: str, kind: str = "thing", owner: str | None = None) -> Entity:
    """Make an entity; `owner` is that of the private bank which named it, so that nobody else is shown the name."""
    entity = Entity(id=new_id("ent"), name=name, kind=kind)
    record = entities.insert(act.tx, entity)
    act.tx.append("entity.created", entity.id, act.origin, bank=TENANT_BANK, owner=owner, after=record)
    return entity


def change(act: Act, old: Entity, type: str, *, owner: str | None = None, **fields: object) -> Entity:
    """Write a new revision of an entity and its journal row; `owner` as in `make`."""
    new = msgspec.structs.replace(old, revision=old.revision + 1, **fields)
    record = entities.update(act.tx, new)
    act.tx.append(type, new.id, act.origin, bank=TENANT_BANK, owner=owner, before=encode(old), after=record)
    return new


def property_of(act: Act, name: str, owner: str | None = None) -> Property:
    """Give a property, making it with many values where it is new; `owner` as in `make`."""
    known = entities.find_property(act.tx, name)
    return known or put_property(act, Property(name=name), owner)


def put_property(act: Act, value: Property, owner: str | None = None) -> Property:
    """Write a property and its journal row."""
    old = entities.find_property(act.tx, value.name)
    record = entities.put_property(act.tx, value)
    before = None if old is None else encode(old)
    act.tx.append("property.set", value.name, act.origin, bank=TENANT_BANK, owner=owner, before=before, after=record)
    return value


def remove_property(act: Act, name: str, owner: str | None = None) -> None:
    """Remove a property that nothing claims, and write its journal row."""
    old = entities.find_property(act.tx, name)
    entities.remove_property(act.tx, name)
    before = None if old is None else encode(old)
    act.tx.append("property.set", name, act.origin, bank=TENANT_BANK, owner=owner, before=before)


def record_claim(act: Act, memory_id: str, claim: Claim | None, owner: str | None = None) -> None:
    """Record what a live memory claims."""
    if claim is None:
        return
    property_of(act, claim.property, owner)
    [entity] = resolve(act, [claim.entity], owner=owner)
    memories.set_claim(act.tx, memory_id, entity.id, claim.property, claim.value)
