"""Changes entities: links at once; aliases, merges and properties through the gate."""

import msgspec

from memory_contracts.errors import FunctionError, invalid, not_found
from memory_contracts.functions.review import (
    EntityAliasRequest,
    EntityLinkRequest,
    EntityMergeRequest,
    EntityReply,
    PropertyProposeRequest,
    PropertyReply,
)
from memory_contracts.names import LABEL_MAX_CHARS
from memory_contracts.normal import normalise
from memory_contracts.records import Alias, Entity, Property
from memory_worker.gate import naming, proposals
from memory_worker.gate.access import may_read, open_bank
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_label, clean_text
from memory_worker.gate.refusing import RuledOut
from memory_worker.gate.saving import Vault
from memory_worker.store import Transaction, banks, entities
from memory_worker.store.banks import BankRow

LINKS_MAX = 100
"""Most links of one entity."""
ALIASES_MAX = 100
"""Most aliases of one entity."""
MOVED_MAX = 10_000
"""Most memories that undoing a merge files anew."""


class Known(msgspec.Struct, frozen=True):
    """An entity that the caller may see, and the bank in which changes of it are discussed."""

    entity: Entity
    home: BankRow


def no_entity(name: str, field: str = "entity") -> FunctionError:
    """The one error for an entity that is not there and for one that only banks the caller cannot see name."""
    return not_found(f"no entity {name}", field, "entity.list names those you can use; a memory makes one by naming it")


def find(act: Act, name: str, field: str = "entity") -> Known:
    """Give the entity that an id, a name or an alias means. Raises `not_found` when the caller may not see it.

    An entity is visible where a memory names it in a bank that is; its home is a shared bank if there is one, so that
    what one private bank knows is not discussed before others.
    """
    entity = entities.find(act.tx, name) or entities.named(act.tx, name)
    while entity is not None and entity.state == "merged" and entity.merged_into is not None:
        entity = entities.find(act.tx, entity.merged_into)
    if entity is None or entity.state != "live":
        raise no_entity(name, field)
    naming_it = [banks.by_number(act.tx, n) for n in entities.banks_of(act.tx, entity.id)]
    visible = [row for row in naming_it if may_read(act.caller, row.bank)]
    if not visible:
        raise no_entity(name, field)
    shared = [row for row in visible if row.bank.owner is None]
    return Known(entity, min(shared or visible, key=lambda row: row.n))


def link(act: Act, request: EntityLinkRequest) -> EntityReply:
    """Link an entity to a reference, at once: a link carries no fact."""
    known = find(act, request.entity)
    ref = clean_text(request.ref, "ref", 500)
    links = known.entity.links
    if ref in links:
        return EntityReply(entity=known.entity, outcome="unchanged")
    if len(links) >= LINKS_MAX:
        raise invalid(f"an entity has at most {LINKS_MAX} links", "ref", "unlink one first")
    return EntityReply(entity=_change(act, known, "entity.linked", links=(*links, ref)))


def unlink(act: Act, request: EntityLinkRequest) -> EntityReply:
    """Take a link away."""
    known = find(act, request.entity)
    ref = clean_text(request.ref, "ref", 500)
    links = known.entity.links
    if ref not in links:
        return EntityReply(entity=known.entity, outcome="unchanged")
    return EntityReply(
        entity=_change(act, known, "entity.unlinked", links=tuple(other for other in links if other != ref))
    )


def clean_alias(alias: Alias) -> Alias:
    """Clean an alias: the channel is a label, the value a text."""
    return Alias(
        channel=clean_label(alias.channel, "alias.channel"),
        value=clean_text(alias.value, "alias.value", LABEL_MAX_CHARS),
    )


def alias_taken() -> FunctionError:
    """The error for an alias of another entity, which is not named: the caller may not see it."""
    return FunctionError(
        "conflict", "another entity has this alias", field="alias", hint="if both are one, propose entity.merge"
    )


def alias(act: Act, request: EntityAliasRequest, vault: Vault) -> EntityReply:
    """Give an entity another name. Raises `conflict` when another entity has it: it is never taken silently."""
    known = find(act, request.entity)
    wanted = clean_alias(request.alias)
    if act.writer.route != "human" and vault.was_forgotten(act, wanted.value, ()):
        raise RuledOut
    holder = entities.owner_of(act.tx, wanted.value, wanted.channel)
    if holder == known.entity.id:
        return EntityReply(entity=known.entity, outcome="unchanged")
    if holder is not None:
        raise alias_taken()
    if len(known.entity.aliases) >= ALIASES_MAX:
        raise invalid(f"an entity has at most {ALIASES_MAX} aliases", "alias")
    if not act.approved and act.origin.route != "human":
        args = {"entity": known.entity.id, "alias": msgspec.to_builtins(wanted)}
        suggestion, _ = proposals.propose(
            act,
            known.home,
            "entity.alias",
            args,
            reason="a new name for an entity",
            targets=[known.entity.id],
            now=proposals.builtins(known.entity),
            proposed=args["alias"],
        )
        return EntityReply(entity=known.entity, outcome="awaiting_review", suggestion=suggestion)
    entities.add_name(act.tx, wanted.value, wanted.channel, known.entity.id)
    entity = _change(act, known, "entity.aliased", aliases=(*known.entity.aliases, wanted))
    proposals.drop_needless(
        act,
        entity.id,
        lambda suggestion: (
            suggestion.change.function == "entity.alias"
            and suggestion.change.args.get("alias") == msgspec.to_builtins(wanted)
        ),
    )
    return EntityReply(entity=entity)


def merge(act: Act, request: EntityMergeRequest) -> EntityReply:
    """Propose that two entities are one; a person decides, also where a person proposes it."""
    known, into = find(act, request.entity), find(act, request.into, "into")
    if known.entity.id == into.entity.id:
        return EntityReply(entity=into.entity, outcome="unchanged")
    if act.approved:
        return EntityReply(entity=_merge(act, known, into))
    home = meeting_place(known, into)
    reason = clean_text(request.reason, "reason", 500) if request.reason.strip() else "both are one"
    suggestion, _ = proposals.propose(
        act,
        home,
        "entity.merge",
        {"entity": known.entity.id, "into": into.entity.id},
        reason=reason,
        targets=[known.entity.id, into.entity.id],
        now={"entity": proposals.builtins(known.entity), "into": proposals.builtins(into.entity)},
        proposed=proposals.builtins(joined(known.entity, into.entity)),
    )
    return EntityReply(entity=into.entity, outcome="awaiting_review", suggestion=suggestion)


def meeting_place(known: Known, into: Known) -> BankRow:
    """The bank in which a merge is discussed: a private one if either entity is known there alone."""
    return known.home if known.home.bank.owner is not None else into.home


def joined(entity: Entity, into: Entity) -> Entity:
    """What `into` is once the other's name, aliases and links are its own."""
    named = Alias(channel=entities.NAME_CHANNEL, value=entity.name)
    aliases = {(alias.channel, alias.value): alias for alias in (*into.aliases, named, *entity.aliases)}
    return msgspec.structs.replace(
        into,
        aliases=tuple(aliases.values())[:ALIASES_MAX],
        links=tuple(dict.fromkeys((*into.links, *entity.links)))[:LINKS_MAX],
    )


def _merge(act: Act, known: Known, into: Known) -> Entity:
    both = joined(known.entity, into.entity)
    entities.move_everything(act.tx, known.entity.id, into.entity.id)
    _change(act, known, "entity.merged", state="merged", merged_into=into.entity.id)
    entity = _change(act, into, "entity.merged", aliases=both.aliases, links=both.links)
    proposals.drop_needless(act, known.entity.id, lambda suggestion: not suggestion.destructive)
    return entity


def unmerge(act: Act, merged: Entity, was: Entity) -> None:
    """Give an entity back what a merge gave to another: its names, and the memories and claims that say its name."""
    into_id = merged.merged_into
    assert into_id is not None
    names = {normalise(was.name), *(normalise(alias.value) for alias in was.aliases)}
    entities.move_name(act.tx, was.name, entities.NAME_CHANNEL, was.id)
    for alias in was.aliases:
        entities.move_name(act.tx, alias.value, alias.channel, was.id)
    for memory in entities.mentions_of(act.tx, into_id, MOVED_MAX):
        said = {normalise(name) for name in memory.entities}
        if not said & names:
            continue
        entities.file_under(act.tx, memory.id, was.id)
        if memory.claim is not None and normalise(memory.claim.entity) in names:
            entities.move_claim(act.tx, memory.id, into_id, was.id)
        if said <= names:
            entities.unfile(act.tx, memory.id, into_id)


def propose_property(act: Act, request: PropertyProposeRequest) -> PropertyReply:
    """Make or change a property where a person asks; otherwise it waits for one."""
    wanted = Property(
        name=clean_label(request.name, "name"), cardinality=request.cardinality, protected=request.protected
    )
    known = entities.find_property(act.tx, wanted.name)
    if known == wanted:
        return PropertyReply(property=known, outcome="unchanged")
    if not act.approved and act.origin.route != "human":
        reason = clean_text(request.reason, "reason", 500) if request.reason.strip() else "a new kind of claim"
        suggestion, _ = proposals.propose(
            act,
            open_bank(act, None, write=True),
            "property.propose",
            msgspec.to_builtins(wanted),
            reason=reason,
            keys=[proposals.property_key(wanted.name)],
            now=proposals.builtins(known),
            proposed=msgspec.to_builtins(wanted),
        )
        return PropertyReply(property=None, outcome="awaiting_review", suggestion=suggestion)
    naming.put_property(act, wanted)
    proposals.drop_needless(act, proposals.property_key(wanted.name))
    return PropertyReply(property=wanted)


def _change(act: Act, known: Known, type: str, **fields: object) -> Entity:
    return naming.change(act, known.entity, type, owner=known.home.bank.owner, **fields)


def owner_of(tx: Transaction, entity_id: str) -> str | None:
    """Owner of the private bank that alone names an entity; None once a shared one does, or none at all."""
    rows = [banks.by_number(tx, n) for n in entities.banks_of(tx, entity_id)]
    if not rows or any(row.bank.owner is None for row in rows):
        return None
    return min(rows, key=lambda row: row.n).bank.owner
