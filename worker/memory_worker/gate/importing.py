"""Takes in what an archive or a folder brings: added where it is new, never put over what is there."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import RuleSetRequest
from memory_contracts.names import LEARNED_RULE
from memory_contracts.records import Bank, LearnedLine, Memory, Rule, Source
from memory_worker.gate import proposals, revising, ruling
from memory_worker.gate.access import insert_bank, may_write, no_bank
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_document, clean_instant
from memory_worker.gate.contradicting import contradicted, is_firm
from memory_worker.gate.drafts import Draft, draft_of, request_of
from memory_worker.gate.refusing import words_of
from memory_worker.gate.saving import Vault, is_protected
from memory_worker.store import banks, memories, new_id, rules
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import encode

Outcome = Literal["created", "known", "held", "refused"]

HIDDEN = "•••"
"""What stands for a protected value where it is not revealed."""
SETTLED = frozenset({"live", "superseded"})
"""States of a record whose old wordings are not brought back: it was corrected, or something newer replaced it."""


class Imported(msgspec.Struct, frozen=True):
    """What became of one record: added, there already, waiting for a person, or refused with the reason."""

    outcome: Outcome
    reason: str = ""


def import_bank(act: Act, bank: Bank) -> Outcome:
    """Make a bank as the archive has it; one that is there keeps its settings unless nobody has set any.

    Raises `invalid_input` for times that no calendar shows.
    """
    times = {name: clean_instant(getattr(bank, name), name) for name in ("created_at", "updated_at")}
    bank = msgspec.structs.replace(bank, **times)
    row = banks.find(act.tx, bank.name)
    if row is None:
        insert_bank(act, msgspec.structs.replace(bank, trashed_at=None, trash_id=None, counts=None))
        return "created"
    if not may_write(act.caller, row.bank):
        raise no_bank(bank.name)
    untouched = Bank(name=bank.name, created_at=row.bank.created_at, updated_at=row.bank.updated_at)
    if row.bank != untouched or bank.owner is not None:
        return "known"
    kept = msgspec.structs.replace(bank, created_at=row.bank.created_at, updated_at=act.now, counts=None)
    if msgspec.structs.replace(kept, updated_at=row.bank.updated_at) == row.bank:
        return "known"
    banks.update(act.tx, row.n, kept)
    act.tx.append("bank.updated", bank.name, act.origin, bank=bank.name, before=encode(row.bank), after=encode(kept))
    return "created"


def import_memories(act: Act, bank: str, records: Sequence[Memory], trust: bool, vault: Vault) -> list[Imported]:
    """Add memories to a bank by their texts. With `trust` they keep tier, source, pin and confidence.

    Without it each arrives as `inferred`, unpinned, and as the importing caller's. Times, labels and, where the tenant
    has never seen it, the id are the record's own.
    """
    row = _writable(act, bank)
    return [_import_one(act, row, record, trust, vault) for record in records]


def _import_one(act: Act, bank: BankRow, record: Memory, trust: bool, vault: Vault) -> Imported:
    try:
        record = _timed(record)
        draft = _draft(act, record, trust)
    except FunctionError as error:
        return Imported("refused", error.message)
    if record.expires_at is not None and record.expires_at <= act.now:
        return Imported("refused", "it has expired")
    if vault.was_forgotten(act, draft.text, words_of(draft)):
        return Imported("refused", "it is not to be learned again")
    if is_protected(act, draft):
        if draft.text == HIDDEN:
            return Imported("refused", "its protected value is not in the archive")
        if vault.kept(act, bank, draft.text) is not None:
            return Imported("known")
        vault.protect(act, bank, draft, record)
        return Imported("created")
    mark = fingerprint(draft.text)
    if memories.live_by_text(act.tx, bank.n, mark) is not None:
        return Imported("known")
    worded = memories.by_wording(act.tx, bank.n, mark)
    if worded is not None and worded.memory.state in SETTLED:
        return Imported("known")
    firm = [row for row in contradicted(act, bank, draft.subject, draft.claim) if is_firm(row)]
    if firm:
        change = msgspec.to_builtins(request_of(draft, bank.bank.name))
        proposals.propose(
            act,
            bank,
            "save",
            change,
            reason="an import contradicts what a person stated or pinned",
            targets=[row.memory.id for row in firm],
            now=proposals.builtins(firm[0].memory),
            proposed=change,
            source=draft.source,
        )
        return Imported("held")
    revising.create(act, bank, draft, like=record)
    return Imported("created")


def _timed(record: Memory) -> Memory:
    """A record with its times in UTC. Raises `invalid_input` for one that no calendar shows."""
    given = {name: getattr(record, name) for name in ("created_at", "updated_at", "last_seen_at", "expires_at")}
    times = {name: clean_instant(at, name) for name, at in given.items() if at is not None}
    return msgspec.structs.replace(record, **times)


def _draft(act: Act, record: Memory, trust: bool) -> Draft:
    """Clean an archive's record as a request would be; what a request may not say is put beside it."""
    plain = Draft(
        text=record.text,
        tier=record.tier,
        source=record.source,
        kind=record.kind,
        subject=record.subject,
        entities=record.entities,
        tags=record.tags,
        about=record.about,
        claim=record.claim,
        confidence=record.confidence if trust else "normal",
        pinned=record.pinned and trust,
        protected=record.protected is not None,
        occurred_at=record.occurred_at,
    )
    importer = Source(route=act.origin.route, principal=act.origin.principal)
    tier, source = (record.tier, record.source) if trust else ("inferred", importer)
    return draft_of(act, request_of(plain, record.bank), tier, source)


def import_rule(act: Act, bank: str, rule: Rule, trust: bool) -> Imported:
    """Add a rule. It speaks in every turn, so without `trust`, or beside a rule that says else, a person decides."""
    row = _writable(act, bank)
    try:
        content = clean_document(rule.content)
    except FunctionError as error:
        return Imported("refused", error.message)
    if not content:
        return Imported("refused", "it is empty")
    old = rules.find(act.tx, row.n, rule.name)
    if old is not None and old.content == content:
        return Imported("known")
    if old is not None or not trust:
        args = msgspec.to_builtins(RuleSetRequest(name=rule.name, bank=bank, content=content, priority=rule.priority))
        proposals.propose(
            act,
            row,
            "rule.set",
            args,
            reason="an import brings a rule",
            keys=[proposals.rule_key(row, rule.name)],
            now=proposals.builtins(old),
            proposed=args,
        )
        return Imported("held")
    lines = _lines(act, row, rule) if rule.name == LEARNED_RULE else ()
    kept = msgspec.structs.replace(rule, bank=bank, content=content, lines=lines, updated_at=act.now)
    stored = rules.put(act.tx, row.n, kept)
    act.tx.append("rule.set", rule.name, act.origin, bank=bank, owner=row.bank.owner, after=stored)
    return Imported("created")


def _lines(act: Act, bank: BankRow, rule: Rule) -> tuple[LearnedLine, ...]:
    """Give each statement of `learned` the provenance the archive has for it, and the import's where it has none."""
    known = {fingerprint(line.text): line for line in rule.lines}
    importer = Source(route=act.origin.route, principal=act.origin.principal)
    lines: dict[bytes, LearnedLine] = {}
    for text in ruling.lines_of(rule.content):
        mark = fingerprint(text)
        line = known.get(mark) or LearnedLine(id=new_id("line"), text=text, source=importer, at=act.now)
        lines[mark] = line
        rules.put_line(act.tx, bank.n, mark, "live", line)
    return tuple(lines.values())


def _writable(act: Act, bank: str) -> BankRow:
    row = banks.find(act.tx, bank)
    if row is None or not may_write(act.caller, row.bank):
        raise no_bank(bank)
    return row
