"""Decides what a statement becomes: a new memory, a reinforcement, a replacement, or a question to a person."""

from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from memory_contracts.errors import FunctionError, forbidden
from memory_contracts.functions.memories import MemoryReply, SaveReply, SaveRequest, UpdateRequest
from memory_contracts.records import Claim, Memory, Source
from memory_worker.gate import changing, proposals, revising
from memory_worker.gate.access import open_bank
from memory_worker.gate.act import Act
from memory_worker.gate.changing import DELETED_BY_PERSON
from memory_worker.gate.contradicting import contradicted, is_firm
from memory_worker.gate.drafts import Draft, draft_of, request_of
from memory_worker.gate.lapsing import unless_over
from memory_worker.gate.recognising import values_in
from memory_worker.gate.refusing import RuledOut, words_of
from memory_worker.store import entities, memories
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import MemoryRow


class Vault(Protocol):
    """Keeps protected values and knows what was forgotten."""

    def was_forgotten(self, act: Act, text: str, others: Iterable[str]) -> bool:
        """Tell whether this text, or one that mentions these people, is not to be learned again."""
        ...

    def search_mark(self, value: str) -> bytes:
        """Give the keyed hash under which a protected value is found by somebody who knows it."""
        ...

    def protect(self, act: Act, bank: BankRow, draft: Draft, like: Memory | None = None) -> Memory:
        """Keep a draft whose value is hidden everywhere but in the vault; `like` is the record it had elsewhere."""
        ...

    def kept(self, act: Act, bank: BankRow, text: str) -> MemoryRow | None:
        """The live memory of a bank that keeps this value already."""
        ...


def save(act: Act, request: SaveRequest, vault: Vault, source: Source | None = None) -> SaveReply:
    """Keep one statement: created, reinforced, replaced, or held back for a person."""
    bank = open_bank(act, request.bank, write=True)
    by_route = Source(route=act.writer.route, principal=act.writer.principal)
    return decide(act, bank, draft_of(act, request, act.writer.tier, source or by_route), vault)


def update(act: Act, request: UpdateRequest, vault: Vault) -> MemoryReply:
    """Correct a memory, unless what it would say was ruled out or belongs into the vault."""
    changing.find(act, request.id, write=True)
    words = [value for value in (request.text, request.subject) if isinstance(value, str)]
    words += [label for labels in (request.entities, request.tags, request.about) if labels for label in labels]
    claim = request.claim if isinstance(request.claim, Claim) else None
    words += [] if claim is None else [claim.entity, claim.value]
    if act.writer.route != "human" and any(vault.was_forgotten(act, text, ()) for text in words):
        raise RuledOut
    recognised = act.settings.protect_automatically and any(values_in(text) for text in words)
    if recognised or claims_protected(act, claim):
        raise FunctionError(
            "conflict",
            "this value belongs into the vault, and an update would write it in the open",
            field="text" if recognised else "claim",
            hint="save it as a memory of its own: it is protected then",
        )
    return changing.update(act, request)


def decide(act: Act, bank: BankRow, draft: Draft, vault: Vault) -> SaveReply:
    """Decide about a clean draft inside the transaction, so that two writers cannot both pass a check."""
    by_person = draft.tier == "stated"
    if not by_person:
        check_not_ruled_out(act, vault, draft)
    held_back = bank.bank.review == "all" and not by_person and not act.approved
    if is_protected(act, draft):
        if not held_back:
            return _protect(act, bank, draft, vault)
        # A suggestion and its journal row would carry the value in plain text.
        raise forbidden(
            "this bank holds changes back, and a protected value cannot wait in a suggestion",
            "protected",
            "a person saves it",
        )
    mark = fingerprint(draft.text)
    slotted = None if draft.slot is None else unless_over(act, memories.live_by_slot(act.tx, bank.n, draft.slot))
    known = unless_over(act, memories.live_by_text(act.tx, bank.n, mark))
    if known is not None:
        reply = _say_again(act, bank, known, draft)
        if slotted is not None and slotted.memory.id != known.memory.id and _own(act, slotted.memory) and not held_back:
            revising.supersede(act, slotted, bank.bank, known.memory.id, "another memory says it already")
        return reply
    worded = None if slotted is not None else memories.by_wording(act.tx, bank.n, mark)
    if held_back:
        if act.automatic and worded is not None and _is_settled(act, worded):
            return SaveReply(outcome="reinforced", memory=worded.memory)
        return _hold(act, bank, draft, "the bank holds every change back for a person", slotted)
    if slotted is not None:
        return _rewrite_slot(act, bank, slotted, draft)
    if worded is not None:
        settled = _settle_old_wording(act, bank, worded, draft)
        if settled is not None:
            return settled
    against = contradicted(act, bank, draft.subject, draft.claim)
    firm = [row for row in against if is_firm(row)]
    if firm and not by_person and not act.approved:
        return _hold(act, bank, draft, "it contradicts what a person stated or pinned", firm[0])
    unseen = [row.memory.id for row in firm if row.memory.id not in act.shown] if act.approved else []
    if unseen:
        raise FunctionError(
            "conflict",
            f"memory {unseen[0]}, stated or pinned since, says something else",
            hint="reject this suggestion; a person saves the new statement",
        )
    memory = revising.create(act, bank, draft)
    retired = [row for row in against if _gives_way(act, row, draft)]
    for row in retired:
        revising.supersede(act, row, bank.bank, memory.id, "replaced by a newer statement")
    return SaveReply(outcome="replaced" if retired else "created", memory=memory)


def _say_again(act: Act, bank: BankRow, known: MemoryRow, draft: Draft) -> SaveReply:
    """The text is there already: it is reinforced; a person's word makes it the person's."""
    memory = known.memory
    if draft.tier == "stated" and not act.automatic:
        said = revising.reinforce(act, known, bank.bank)
        fields: dict[str, Any] = {
            "entities": _union(said.entities, draft.entities),
            "tags": _union(said.tags, draft.tags),
            "about": _union(said.about, draft.about),
            "subject": draft.subject or said.subject,
            "claim": draft.claim or said.claim,
            "pinned": said.pinned or draft.pinned,
        }
        if memory.tier != "stated" and act.origin.route == "human":
            fields.update(tier="stated", source=draft.source)
        changed = {name: value for name, value in fields.items() if getattr(said, name) != value}
        if changed:
            if changed.get("pinned"):
                changed["expires_at"] = None
            row = MemoryRow(known.bank, said, known.expires_set)
            said = revising.revise(act, row, bank.bank, "memory.updated", **changed)
        return SaveReply(outcome="reinforced", memory=said)
    said = revising.reinforce(act, known, bank.bank)
    if draft.pinned and not said.pinned and _own(act, said) and bank.bank.review != "all":
        row = MemoryRow(known.bank, said, known.expires_set)
        said = revising.revise(act, row, bank.bank, "memory.pinned", pinned=True, expires_at=None)
    return SaveReply(outcome="reinforced", memory=said)


def _rewrite_slot(act: Act, bank: BankRow, row: MemoryRow, draft: Draft) -> SaveReply:
    """A sensor's reading takes the place of its last one, under the same id."""
    if not _own(act, row.memory) and not act.approved:
        return _hold(act, bank, draft, "the slot belongs to another observer", row)
    return SaveReply(outcome="replaced", memory=revising.rewrite(act, bank, row, draft))


def _settle_old_wording(act: Act, bank: BankRow, worded: MemoryRow, draft: Draft) -> SaveReply | None:
    """The text is a wording that some record had before; None when it may become a memory of its own."""
    record = worded.memory
    if record.state == "superseded":
        successor = _successor(act, record)
        if successor is None:
            return None
        if draft.tier == "stated" or act.approved:
            return None
        if act.automatic:
            return SaveReply(outcome="reinforced", memory=successor.memory)
        firm = successor.memory.tier == "stated" or successor.memory.pinned
        return _hold(act, bank, draft, "a newer statement took its place", successor) if firm else None
    if record.state == "deleted":
        if draft.tier == "stated" or act.approved or record.reason != DELETED_BY_PERSON:
            return None
        if act.automatic:
            return SaveReply(outcome="reinforced", memory=record)
        return _hold(act, bank, draft, "a person deleted it", worded)
    if record.state != "live":
        return None
    if draft.tier == "stated":
        memory = revising.revise(
            act,
            worded,
            bank.bank,
            "memory.updated",
            text=draft.text,
            tier="stated" if act.origin.route == "human" else record.tier,
            source=draft.source,
            last_seen_at=act.now,
            expires_at=revising.extended(worded, bank.bank, act.now),
        )
        return SaveReply(outcome="replaced", memory=memory)
    if act.automatic:
        return SaveReply(outcome="reinforced", memory=record)
    args = {"id": record.id, "text": draft.text, "expected_revision": record.revision}
    suggestion, _ = proposals.propose(
        act,
        bank,
        "update",
        args,
        reason="this wording was corrected away",
        targets=[record.id],
        now=proposals.builtins(record),
        proposed=args,
        source=draft.source,
    )
    return SaveReply(outcome="awaiting_review", suggestion=suggestion)


def _is_settled(act: Act, worded: MemoryRow) -> bool:
    """Whether an old wording is one that a correction, a replacement or a person's deletion did away with."""
    record = worded.memory
    if record.state == "superseded":
        return _successor(act, record) is not None
    return record.state == "live" or (record.state == "deleted" and record.reason == DELETED_BY_PERSON)


def _successor(act: Act, record: Memory) -> MemoryRow | None:
    """Follow `superseded_by` to the live memory at its end."""
    seen = {record.id}
    following = record.superseded_by
    while following is not None and following not in seen:
        seen.add(following)
        row = memories.find(act.tx, following)
        if row is None:
            return None
        if row.memory.state == "live":
            return row
        following = row.memory.superseded_by
    return None


def _gives_way(act: Act, row: MemoryRow, draft: Draft) -> bool:
    """Whether a contradicted memory is retired: a person's word retires any, an agent's only its own unpinned note."""
    if draft.tier == "stated" or act.approved:
        return True
    if act.automatic:
        return False
    return _own(act, row.memory)


def _own(act: Act, memory: Memory) -> bool:
    """Whether a memory is the writer's own unpinned note."""
    source = memory.source
    same = source.route == act.origin.route and source.principal == act.origin.principal
    return same and not memory.pinned and memory.tier != "stated"


def check_not_ruled_out(act: Act, vault: Vault, draft: Draft) -> None:
    """Raise `RuledOut` for a text that was forgotten, or about a person who is not to be learned about."""
    if vault.was_forgotten(act, draft.text, words_of(draft)):
        raise RuledOut


def is_protected(act: Act, draft: Draft) -> bool:
    """Whether a statement goes to the vault: as asked, by its property, or as a value that is recognised."""
    if draft.protected or claims_protected(act, draft.claim):
        return True
    return act.settings.protect_automatically and bool(values_in(draft.text))


def claims_protected(act: Act, claim: Claim | None) -> bool:
    """Whether a claim's property is one whose values lie in the vault."""
    known = None if claim is None else entities.find_property(act.tx, claim.property)
    return known is not None and known.protected


def _protect(act: Act, bank: BankRow, draft: Draft, vault: Vault) -> SaveReply:
    known = unless_over(act, vault.kept(act, bank, draft.text))
    slotted = None if draft.slot is None else unless_over(act, memories.live_by_slot(act.tx, bank.n, draft.slot))
    if known is None and slotted is not None and not _own(act, slotted.memory) and not act.approved:
        raise forbidden("the slot belongs to another observer, and a protected value cannot wait", "slot")
    memory = vault.protect(act, bank, draft)
    if known is not None:
        return SaveReply(outcome="reinforced", memory=memory)
    return SaveReply(outcome="created" if slotted is None else "replaced", memory=memory)


def _hold(act: Act, bank: BankRow, draft: Draft, reason: str, against: MemoryRow | None) -> SaveReply:
    request = request_of(draft, bank.bank.name)
    suggestion, _ = proposals.propose(
        act,
        bank,
        "save",
        msgspec.to_builtins(request),
        reason=reason,
        targets=[against.memory.id] if against else [],
        keys=[proposals.text_key(bank, draft.text)],
        now=proposals.builtins(against.memory) if against else None,
        proposed=msgspec.to_builtins(request),
        source=draft.source,
    )
    return SaveReply(outcome="awaiting_review", suggestion=suggestion)


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))[:16]
