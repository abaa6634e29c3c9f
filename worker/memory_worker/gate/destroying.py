"""Destroys values in the store, in one transaction: records, revisions, journal, and every copy kept beside them."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from memory_contracts.records import Bank, Entity, Memory, Rule, Source
from memory_worker.gate import ruling
from memory_worker.gate.act import Act
from memory_worker.gate.mentions import MARKER, Names, Texts
from memory_worker.gate.naming import TENANT_BANK
from memory_worker.gate.vault import KeyedVault
from memory_worker.store import banks, entities, forgetting, rules, uses
from memory_worker.store.fingerprint import fingerprint, normalise
from memory_worker.store.memories import decode, encode

_decode_rule = msgspec.json.Decoder(Rule).decode
_decode_bank = msgspec.json.Decoder(Bank).decode
_ID = re.compile(rb"mem_[0-9A-Z]{26}")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a forgetting destroys. `names` are empty unless a person is forgotten; `keep` is not about the person."""

    kind: Literal["memory", "bank", "person"]
    memory_ids: tuple[str, ...] = ()
    bank: str | None = None
    bank_n: int | None = None
    entity: str | None = None
    names: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    never_again: bool = False
    suggestion: str | None = None
    paths: tuple[str, ...] = ()
    """Files that are removed: what was told about them goes as well."""
    texts: tuple[str, ...] = ()
    """What was destroyed, in normal form, to be looked for where only the texts tell. Gone with the plan; of a person,
    whose names tell more, as soon as the index is clean."""


class Destroyed(msgspec.Struct):
    """Which memories were destroyed, and how much per place."""

    ids: list[str]
    counts: dict[str, int]
    texts: list[str] = []
    named: int = 0
    """Banks, rules and properties whose own name mentions the person: a name is no text that could be cut."""


def destroy(act: Act, plan: Plan, vault: KeyedVault) -> Destroyed:
    """Destroy what a plan names in every table. Repeating it finds nothing more."""
    names = Names(plan.names)
    keep = frozenset(plan.keep)
    targets = _targets(act, plan, names, keep, vault)
    ids = [memory_id for memory_id, _, _ in targets]
    states = _states(act, targets)
    wordings = list(dict.fromkeys(normalise(memory.text) for memory in states))
    texts = Texts(wordings)
    holds = _holder(names, ids, texts)
    counts: dict[str, int] = {}
    owners = {bank.n: bank.bank for bank in banks.all_of(act.tx)}
    for memory_id, bank_n, memory in targets:
        _empty(act, memory_id, owners[bank_n], memory, vault)
    counts["memories"] = len(targets)
    counts["quotes"] = _cut_quotes(act, names, keep) if names.names else 0
    counts["rules"] = _clean_rules(act, plan, names, owners, holds)
    counts["learned lines"] = forgetting.remove_learned_lines(act.tx, holds)
    counts["suggestions"] = forgetting.remove_suggestions(act.tx, holds, plan.suggestion)
    counts["notices"] = forgetting.remove_notices(act.tx, holds)
    counts["replies"] = forgetting.remove_replies(act.tx, holds)
    counts["turns"] = forgetting.empty_turns(act.tx, in_turns(names, texts))
    counts["uses"] = uses.forget_memories(act.tx, ids)
    counts["descriptions"] = _clean_banks(act, names) if names.names else 0
    counts["names"] = _forget_entity(act, plan, names, vault) if plan.entity is not None else 0
    if plan.kind != "person":
        counts["names"] = _forget_orphans(act, {name for memory in states for name in memory.entities}, plan.kind)
    counts["keys"] = forgetting.drop_unused_keys(act.tx)
    # The journal comes last: its rows hold what all the others were made of.
    counts["journal rows"] = forgetting.empty_journal(act.tx, holds, keep)
    if plan.suggestion is not None:
        forgetting.empty_suggestion(act.tx, plan.suggestion)
    for memory_id, bank_n, _ in targets:
        bank = owners[bank_n]
        found = forgetting.memory(act.tx, memory_id)
        assert found is not None
        act.tx.append("memory.forgotten", memory_id, act.origin, bank=bank.name, owner=bank.owner, after=found[1])
    if plan.kind == "bank":
        assert plan.bank_n is not None
        bank = owners[plan.bank_n]
        counts["rest of the bank"] = forgetting.empty_bank(act.tx, plan.bank_n)
        live = banks.find(act.tx, bank.name)
        if live is None or live.n == plan.bank_n:  # else the name is another bank's by now
            forgetting.empty_history_of_bank(act.tx, bank.name)
            counts["uses"] += uses.forget_bank(act.tx, bank.name)
        act.tx.append("bank.wiped", bank.name, act.origin, bank=bank.name, owner=bank.owner, before=encode(bank))
    counted = {name: count for name, count in counts.items() if count}
    return Destroyed(ids, counted, wordings, _named(act, names, owners))


def destroy_paths(act: Act, paths: Sequence[str]) -> int:
    """Destroy what was told about files that are gone: a path may say what the file said. Gives how much."""
    marks = [path.encode() for path in paths]

    def holds(data: bytes) -> bool:
        return any(mark in data for mark in marks)

    return forgetting.remove_notices(act.tx, holds) + forgetting.empty_journal(act.tx, holds, frozenset())


def _targets(
    act: Act, plan: Plan, names: Names, keep: frozenset[str], vault: KeyedVault
) -> list[tuple[str, int, Memory]]:
    if plan.kind == "bank":
        return [(id, n, decode(record)) for id, n, record in forgetting.memories(act.tx, plan.bank_n)]
    found = []
    for memory_id in plan.memory_ids:
        row = forgetting.memory(act.tx, memory_id)
        if row is not None and decode(row[1]).state != "forgotten":
            found.append((memory_id, row[0], decode(row[1])))
    if plan.kind == "memory":
        return found
    seen = {memory_id for memory_id, _, _ in found}
    sealed = sealed_mentions(act, names, vault)
    for memory_id, n, record in forgetting.memories(act.tx):
        if memory_id not in keep and memory_id not in seen:
            memory = decode(record)
            if memory_id in sealed or mentions(memory, names):
                found.append((memory_id, n, memory))
    return found


def sealed_mentions(act: Act, names: Names, vault: KeyedVault) -> frozenset[str]:
    """The memories whose protected value mentions someone."""
    return frozenset(memory_id for memory_id, value in vault.opened(act) if names.within(value))


def mentions(memory: Memory, names: Names) -> bool:
    """Tell whether a memory is about someone: its text, names, subject, tags or claim say so."""
    claim = memory.claim
    texts = (memory.text, memory.subject or "", memory.slot or "", *memory.entities, *memory.tags, *memory.about)
    more = (claim.entity, claim.value) if claim else ()
    return any(names.within(text) for text in (*texts, *more))


def _holder(names: Names, ids: Sequence[str], texts: Texts) -> Callable[[bytes], bool]:
    """Tell whether a stored document holds one of the names, ids or texts."""
    marks = frozenset(id.encode() for id in ids)

    def holds(data: bytes) -> bool:
        if not data:
            return False
        if any(mark in marks for mark in _ID.findall(data)):
            return True
        return names.within_json(data) or texts.within_json(data)

    return holds


def in_turns(names: Names, texts: Texts) -> Callable[[bytes], bool]:
    """Tell whether a turn holds one of the names or texts."""
    return lambda data: names.within_json(data) or texts.within_json(data)


def _states(act: Act, targets: Sequence[tuple[str, int, Memory]]) -> list[Memory]:
    """Every state that the memories have and had."""
    old = [decode(record) for memory_id, _, _ in targets for record in forgetting.records_of(act.tx, memory_id)]
    return [*(memory for _, _, memory in targets), *old]


def _named(act: Act, names: Names, owners: dict[int, Bank]) -> int:
    """How many banks, rules and properties have the person's name as their own."""
    if not names.names:
        return 0
    own = [bank.name for bank in owners.values()]
    own += [name for _, name, _ in forgetting.rules(act.tx)]
    own += [found.name for found in entities.all_properties(act.tx)]
    return sum(names.within(name) for name in own)


def _empty(act: Act, memory_id: str, bank: Bank, memory: Memory, vault: KeyedVault) -> None:
    """Put a marker in a memory's place; only keyed hashes of its wordings stay."""
    vault.remember_texts(act, {*forgetting.wordings(act.tx, memory_id), fingerprint(memory.text)})
    marker = Memory(
        id=memory_id,
        bank=bank.name,
        text=MARKER,
        kind="fact",
        tier="inferred",
        source=Source(route=memory.source.route, principal=memory.source.principal),
        created_at=memory.created_at,
        updated_at=act.now,
        last_seen_at=memory.created_at,
        state="forgotten",
        revision=memory.revision + 1,
    )
    forgetting.empty_memory(act.tx, memory_id, encode(marker), fingerprint(memory_id))


def _cut_quotes(act: Act, names: Names, keep: frozenset[str]) -> int:
    """Where only the quote or the reason of a memory mentions the person, that alone goes."""
    count = 0
    for memory_id, _, record in forgetting.memories(act.tx):
        if memory_id in keep or not names.within_json(record):
            continue
        memory = decode(record)
        source = msgspec.structs.replace(memory.source, quote=None)
        cut = msgspec.structs.replace(memory, source=source, reason=None)
        if names.within_json(encode(cut)):
            cut = msgspec.structs.replace(cut, source=Source(route=source.route, principal=source.principal))
        forgetting.rewrite_memory(act.tx, memory_id, encode(cut))
        count += 1
    return count


def _clean_rules(act: Act, plan: Plan, names: Names, owners: dict[int, Bank], holds: Callable[[bytes], bool]) -> int:
    """Take out the lines of rules that mention the person or say what was destroyed; a bank that is wiped has none."""
    count = 0
    for bank_n, name, record in forgetting.rules(act.tx):
        bank = owners[bank_n]
        rule = _decode_rule(record)
        wiped = plan.kind == "bank" and bank_n == plan.bank_n
        if not wiped and not holds(record):
            continue
        kept = [] if wiped else [line for line in rule.content.split("\n") if not holds(line.encode())]
        content = "\n".join(kept).strip("\n")
        if content == rule.content and not wiped:
            continue
        count += 1
        if not content:
            rules.remove(act.tx, bank_n, name)
            act.tx.append("rule.set", name, act.origin, bank=bank.name, owner=bank.owner)
            continue
        lines = tuple(line for line in rule.lines if line.text in ruling.lines_of(content))
        fresh = msgspec.structs.replace(
            rule, content=content, lines=lines, revision=rule.revision + 1, updated_at=act.now
        )
        act.tx.append(
            "rule.set", name, act.origin, bank=bank.name, owner=bank.owner, after=rules.put(act.tx, bank_n, fresh)
        )
    return count


def _clean_banks(act: Act, names: Names) -> int:
    count = 0
    for n, record in forgetting.banks(act.tx):
        bank = _decode_bank(record)
        if not names.within(bank.description):
            continue
        clean = msgspec.structs.replace(bank, description=names.cut(bank.description) or "", updated_at=act.now)
        banks.update(act.tx, n, clean)
        act.tx.append("bank.updated", bank.name, act.origin, bank=bank.name, owner=bank.owner, after=encode(clean))
        count += 1
    return count


def _forget_orphans(act: Act, names: set[str], kind: str) -> int:
    """Destroy the entities that only the destroyed memories named; those that a person gave more outlive one memory."""
    count = 0
    for name in sorted(names):
        old = entities.named(act.tx, name)
        if old is None or entities.is_named(act.tx, old.id) or (kind == "memory" and (old.aliases or old.links)):
            continue
        _mark_forgotten(act, old)
        forgetting.empty_history(act.tx, old.id)
        count += 1
    return count


def _mark_forgotten(act: Act, old: Entity) -> None:
    entities.remove_names(act.tx, old.id)
    gone = Entity(id=old.id, name=MARKER, kind="thing", state="forgotten", revision=old.revision + 1)
    act.tx.append("entity.forgotten", old.id, act.origin, bank=TENANT_BANK, after=entities.update(act.tx, gone))


def _forget_entity(act: Act, plan: Plan, names: Names, vault: KeyedVault) -> int:
    """Put the marker in place of an entity's name, of those merged into it, and of mentions in the names of others."""
    assert plan.entity is not None
    if plan.never_again:
        vault.remember_names(act, plan.names)
    count = 0
    for old in entities.every(act.tx):
        if plan.entity in (old.id, old.merged_into):
            _mark_forgotten(act, old)
            count += 1 + len(old.aliases)
        elif old.id not in plan.keep and names.within_json(encode(old)):
            _cut_names(act, old, names)
            count += 1
    return count


def _cut_names(act: Act, old: Entity, names: Names) -> None:
    """Take the person out of the name, the aliases and the links of somebody or something else."""
    aliases = tuple(alias for alias in old.aliases if not names.within(alias.value))
    links = tuple(link for link in old.links if not names.within(link))
    name = names.cut(old.name) or MARKER
    new = msgspec.structs.replace(old, name=name, aliases=aliases, links=links, revision=old.revision + 1)
    entities.remove_names(act.tx, old.id)
    record = entities.update(act.tx, new)
    if new.state == "live":
        for channel, value in (("name", new.name), *((alias.channel, alias.value) for alias in aliases)):
            entities.add_name(act.tx, value, channel, new.id)
    act.tx.append("entity.renamed", old.id, act.origin, bank=TENANT_BANK, after=record)
