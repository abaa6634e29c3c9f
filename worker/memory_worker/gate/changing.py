"""Decides updates, deletions, pins and retirements of memories that exist."""

from typing import Any

import msgspec
from msgspec import UNSET

from memory_contracts.errors import FunctionError, forbidden
from memory_contracts.functions.base import Request
from memory_contracts.functions.memories import (
    DeleteRequest,
    MemoryReply,
    PinRequest,
    SupersedeReply,
    SupersedeRequest,
    UpdateRequest,
)
from memory_contracts.records import Bank, Memory
from memory_worker.gate import proposals, revising
from memory_worker.gate.access import bank_of, no_memory
from memory_worker.gate.act import Act
from memory_worker.gate.calendar import expires_at
from memory_worker.gate.cleaning import clean_instant, clean_label, clean_labels, clean_names, clean_text
from memory_worker.gate.contradicting import firmly_against
from memory_worker.gate.drafts import clean_claim
from memory_worker.gate.lapsing import as_it_is
from memory_worker.store import memories
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import MemoryRow

DELETED_BY_PERSON = "deleted by a person"
"""Reason on a tombstone that a person made: an automatic path does not add that wording again."""


def update(act: Act, request: UpdateRequest) -> MemoryReply:
    """Correct a memory; held back when it is not the caller's to change."""
    row, bank = find(act, request.id, write=True)
    check_revision(row.memory, request.expected_revision)
    _check_live(act, row.memory)
    fields = _cleaned(act, row, bank, request)
    changed = {name: value for name, value in fields.items() if getattr(row.memory, name) != value}
    if not changed and "expires_at" not in fields:
        return MemoryReply(memory=row.memory, outcome="unchanged")
    if "text" in changed:
        if row.memory.protected is not None:
            raise FunctionError(
                "conflict", "the text of a protected value cannot be edited", field="text", hint="save the new value"
            )
        other = memories.live_by_text(act.tx, row.bank, fingerprint(changed["text"]))
        if other is not None and other.memory.id != row.memory.id:
            raise FunctionError(
                "conflict",
                f"memory {other.memory.id} has this text already",
                field="text",
                hint="delete or supersede one of the two",
            )
    if not may_change(act, row.memory, bank):
        return _hold(act, row, bank, "update", request, _not_yours(row.memory))
    if not act.approved and act.origin.route != "human" and ("subject" in changed or "claim" in changed):
        subject, claim = fields.get("subject", row.memory.subject), fields.get("claim", row.memory.claim)
        if firmly_against(act, BankRow(row.bank, bank), subject, claim) is not None:
            return _hold(act, row, bank, "update", request, "it contradicts what a person stated or pinned")
    if "text" in changed and act.origin.route in ("human", "agent"):
        changed.update(_authored(act, row.memory))
    expires_set = row.expires_set or request.expires_at is not UNSET
    if request.expires_at is UNSET:
        changed["expires_at"] = revising.extended(row, bank, act.now)
    memory = revising.revise(act, row, bank, "memory.updated", expires_set=expires_set, **changed)
    return MemoryReply(memory=memory)


def _authored(act: Act, old: Memory) -> dict[str, Any]:
    """Tier and source of a text that is rewritten now: those of its writer, also where a person approves it."""
    source = msgspec.structs.replace(
        old.source,
        route=act.writer.route,
        principal=act.writer.principal,
        session_id=act.origin.session,
        turn_id=None,
        message_ids=(),
        role=None,
        quote=None,
        pattern=None,
        model=None,
    )
    return {"tier": act.writer.tier, "source": source}


def _cleaned(act: Act, row: MemoryRow, bank: Bank, request: UpdateRequest) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if request.text is not UNSET:
        fields["text"] = clean_text(request.text)
    if request.kind is not UNSET:
        fields["kind"] = request.kind
    if request.subject is not UNSET:
        fields["subject"] = None if request.subject is None else clean_label(request.subject, "subject")
    if request.entities is not UNSET:
        fields["entities"] = clean_names(request.entities, "entities")
    if request.tags is not UNSET:
        fields["tags"] = clean_labels(request.tags, "tags")
    if request.about is not UNSET:
        fields["about"] = clean_labels(request.about, "about")
    if request.claim is not UNSET:
        fields["claim"] = None if request.claim is None else clean_claim(request.claim)
    if request.confidence is not UNSET:
        fields["confidence"] = request.confidence
    if request.expires_at is not UNSET:
        if row.memory.pinned and request.expires_at is not None:
            raise FunctionError("pinned", "a pinned memory never expires", field="expires_at", hint="un-pin it first")
        if request.expires_at is not None and request.expires_at <= act.now:
            raise FunctionError("invalid_input", "expires_at lies in the past", field="expires_at")
        fields["expires_at"] = None if request.expires_at is None else clean_instant(request.expires_at, "expires_at")
    return fields


def delete(act: Act, request: DeleteRequest) -> MemoryReply:
    """Delete a memory, leaving a tombstone; held back when it is not the caller's to delete."""
    row, bank = find(act, request.id, write=True)
    check_revision(row.memory, request.expected_revision)
    if row.memory.state == "deleted":
        return MemoryReply(memory=row.memory, outcome="unchanged")
    _check_live(act, row.memory, "superseded", "expired")
    if not may_change(act, row.memory, bank):
        return _hold(act, row, bank, "delete", request, _not_yours(row.memory))
    by_person = act.origin.route == "human"
    reason = DELETED_BY_PERSON if by_person else "deleted by its author"
    return MemoryReply(memory=revising.revise(act, row, bank, "memory.deleted", state="deleted", reason=reason))


def pin(act: Act, request: PinRequest) -> MemoryReply:
    """Pin or un-pin a memory. Raises `pinned` when anyone but a person un-pins."""
    row, bank = find(act, request.id, write=True)
    check_revision(row.memory, request.expected_revision)
    _check_live(act, row.memory)
    by_person = act.origin.route == "human"
    if row.memory.pinned == request.pinned:
        return MemoryReply(memory=row.memory, outcome="unchanged")
    if not request.pinned and not by_person:
        raise FunctionError(
            "pinned", "only a person un-pins a memory", field="pinned", hint="ask the person to un-pin it"
        )
    if not by_person and not may_change(act, row.memory, bank):
        return _hold(act, row, bank, "pin", request, _not_yours(row.memory))
    expires = None if request.pinned else expires_at(bank.expiry, act.now)
    memory = revising.revise(
        act, row, bank, "memory.pinned", expires_set=False, pinned=request.pinned, expires_at=expires
    )
    return MemoryReply(memory=memory)


def supersede(act: Act, request: SupersedeRequest) -> SupersedeReply:
    """Retire a memory in favour of another of its bank. The system route never retires pinned or stated ones."""
    row, bank = find(act, request.id, write=True)
    by, _ = find(act, request.by, write=True)
    check_revision(row.memory, request.expected_revision)
    check_revision(by.memory, request.expected_by_revision, "expected_by_revision")
    if row.memory.id == by.memory.id:
        raise FunctionError("invalid_input", "a memory cannot supersede itself", field="by")
    if row.bank != by.bank:
        raise FunctionError("invalid_input", "both memories must lie in one bank", field="by")
    _check_live(act, by.memory, field="by")
    _check_live(act, row.memory)
    if act.origin.route != "human":
        if bank.review == "all":
            raise forbidden("the bank holds every change back for a person", "id", "use suggest")
        if row.memory.pinned:
            raise FunctionError("pinned", "a pinned memory is retired by a person only", field="id", hint="use suggest")
        if row.memory.tier == "stated":
            raise forbidden("a stated memory is retired by a person only", "id", "use suggest")
    retired = revising.supersede(act, row, bank, by.memory.id, clean_text(request.reason or "superseded", "reason"))
    return SupersedeReply(memory=retired, by=by.memory)


def find(act: Act, memory_id: str, *, write: bool) -> tuple[MemoryRow, Bank]:
    """Give a memory the caller may see, and its bank. Raises `not_found`, and `forbidden` where it may not write."""
    row = memories.find(act.tx, memory_id)
    if row is None:
        raise no_memory(memory_id)
    return row, bank_of(act, row, write=write)


def check_revision(memory: Memory, expected: int | None, field: str = "expected_revision") -> None:
    """Raise `conflict` when a memory has changed since the caller read it."""
    if expected is not None and expected != memory.revision:
        raise FunctionError(
            "conflict",
            f"memory {memory.id} is at revision {memory.revision}, not {expected}",
            field=field,
            hint="read it again and repeat with its present revision",
        )


def may_change(act: Act, memory: Memory, bank: Bank) -> bool:
    """Whether a change commits at once: a person's, an approved one, or an agent's on its own unpinned note."""
    if act.approved or act.origin.route == "human":
        return True
    source = memory.source
    own = source.route == act.origin.route and source.principal == act.origin.principal
    return own and memory.tier == "inferred" and not memory.pinned and bank.review != "all"


def _not_yours(memory: Memory) -> str:
    if memory.pinned:
        return "the memory is pinned"
    if memory.tier == "stated":
        return "a person stated it"
    return "the memory is not the caller's own, or the bank holds changes back"


def _check_live(act: Act, found: Memory, *also: str, field: str = "id") -> None:
    memory = as_it_is(found, act.tx.now)
    if memory.state != "live" and memory.state not in also:
        hint = "changes.revert brings a deleted or expired memory back"
        if memory.state == "superseded":
            hint = f"it was superseded by {memory.superseded_by}: change that one, or undo this with changes.revert"
        raise FunctionError("conflict", f"memory {memory.id} is {memory.state}", field=field, hint=hint)


def _hold(act: Act, row: MemoryRow, bank: Bank, function: str, request: Request, reason: str) -> MemoryReply:
    args = {**msgspec.to_builtins(request), "expected_revision": row.memory.revision}
    suggestion, _ = proposals.propose(
        act,
        BankRow(row.bank, bank),
        function,
        args,
        reason=reason,
        targets=[row.memory.id],
        now=proposals.builtins(row.memory),
        proposed=args if function == "update" else None,
    )
    return MemoryReply(memory=row.memory, outcome="awaiting_review", suggestion=suggestion)
