"""Finds every text that mentions a person, to be shown for selection before any of it is destroyed."""

import msgspec

from memory_contracts.functions.operations import Mention
from memory_contracts.records import Rule
from memory_worker.gate.access import may_read
from memory_worker.gate.act import Act
from memory_worker.gate.destroying import mentions, sealed_mentions
from memory_worker.gate.mentions import Names
from memory_worker.gate.vault import KeyedVault
from memory_worker.store import banks, entities, forgetting, memories

PRIVATE = "(in a private bank)"
"""Shown in place of a text that the caller may not see; it is counted all the same."""

_decode_rule = msgspec.json.Decoder(Rule).decode


def texts_about(act: Act, vault: KeyedVault, person: str, names: Names, keep: frozenset[str]) -> list[Mention]:
    """Give every text that mentions the names, but for those of `keep`: memories, lines of rules, other entities."""
    return [*_memories(act, vault, names, keep), *_rules(act, names), *_entities(act, person, names, keep)]


def _memories(act: Act, vault: KeyedVault, names: Names, keep: frozenset[str]) -> list[Mention]:
    rows = {row.n: row.bank for row in banks.all_of(act.tx)}
    sealed = sealed_mentions(act, names, vault)
    found = []
    for memory_id, n, record in forgetting.memories(act.tx):
        memory = memories.decode(record)
        if memory_id in keep or not (memory_id in sealed or mentions(memory, names)):
            continue
        seen = may_read(act.caller, rows[n])
        bank, text = (rows[n].name, memory.text) if seen else ("private", PRIVATE)
        found.append(Mention(id=memory_id, bank=bank, kind="memory", text=text))
    return found


def _rules(act: Act, names: Names) -> list[Mention]:
    rows = {row.n: row.bank for row in banks.all_of(act.tx)}
    found = []
    for n, name, record in forgetting.rules(act.tx):
        rule = _decode_rule(record)
        if names.within(rule.content) and may_read(act.caller, rows[n]):
            lines = [line for line in rule.content.split("\n") if names.within(line)]
            found.append(Mention(id=name, bank=rows[n].name, kind="rule", text="\n".join(lines)))
    return found


def _entities(act: Act, person: str, names: Names, keep: frozenset[str]) -> list[Mention]:
    """Others whose name, alias or link holds a name of the person: the marker takes its place there."""
    found = []
    for entity in entities.every(act.tx):
        texts = (entity.name, *(alias.value for alias in entity.aliases), *entity.links)
        own = person in (entity.id, entity.merged_into)
        if own or entity.id in keep or not any(map(names.within, texts)):
            continue
        rows = [banks.by_number(act.tx, n) for n in entities.banks_of(act.tx, entity.id)]
        seen = next((row.bank.name for row in rows if may_read(act.caller, row.bank)), None)
        bank, text = (seen, entity.name) if seen else ("private", PRIVATE)
        found.append(Mention(id=entity.id, bank=bank, kind="entity", text=text))
    return found
