"""Undoes one change of a memory by writing its inverse: field by field, so that later changes elsewhere stay."""

from typing import Any

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.records import Bank, Memory
from memory_worker.gate import revising
from memory_worker.gate.access import bank_of
from memory_worker.gate.act import Act
from memory_worker.gate.calendar import expires_at
from memory_worker.gate.changing import DELETED_BY_PERSON
from memory_worker.store import JournalRow, memories
from memory_worker.store.memories import MemoryRow, decode, mark_of

_GROUPS: tuple[tuple[str, ...], ...] = (
    ("text", "tier", "source", "protected"),
    ("state", "superseded_by", "reason"),
    ("kind",),
    ("subject",),
    ("slot",),
    ("entities",),
    ("tags",),
    ("about",),
    ("claim",),
    ("confidence",),
    ("pinned",),
    ("occurred_at",),
)
"""Fields that are undone together: a text with its tier and source, a state with its reason."""

_TYPES = {"deleted": "memory.deleted", "superseded": "memory.superseded", "expired": "memory.expired"}


class InTheWay(Exception):
    """A change cannot be undone, with the reason for a person to read."""


def invert_memory(act: Act, row: JournalRow) -> None:
    """Undo one change of a memory. Raises `InTheWay`."""
    if row.type == "memory.forgotten" or row.after is None:
        raise InTheWay("what was forgotten cannot be brought back")
    current = memories.find(act.tx, row.target)
    if current is None:
        raise InTheWay("the memory's bank is in the trash: restore the bank first")
    if current.memory.state == "forgotten":
        raise InTheWay("the memory was forgotten since")
    try:
        bank = bank_of(act, current, write=True)
    except FunctionError as error:
        raise InTheWay(error.message) from None
    after = decode(row.after)
    if row.before is None:
        _unmake(act, current, bank, after)
        return
    before = decode(row.before)
    if row.type == "memory.reinforced":
        _unsay(act, current, bank, row.id, after.corroboration - before.corroboration)
        return
    if row.type == "memory.expired":
        _check_grace(act, row)
    fields = _undone(current.memory, before, after)
    times = before.corroboration - after.corroboration
    if times > 0 or (times and row.cause_kind == "revert"):  # undoing the undoing of a reinforcement, and so on
        _count_again(act, current, row, times)
        fields["corroboration"] = current.memory.corroboration + times
    if not fields and not _expiry_stands(current.memory, before, after):
        raise InTheWay("it is undone already")
    _write(act, current, bank, before, after, fields)
    said = memories.inverse_of(act.tx, current.memory.id, row.id)
    if said is not None:
        memories.note_inverse(act.tx, current.memory.id, act.tx.rows[-1].id, said)


def _expiry_stands(current: Memory, before: Memory, after: Memory) -> bool:
    """Whether a change moved the expiry, and it is still where that change left it; a pin's own move goes with it."""
    return before.expires_at != after.expires_at == current.expires_at and not current.pinned


def _undone(current: Memory, before: Memory, after: Memory) -> dict[str, Any]:
    """The fields to write. Raises `InTheWay` where a field was changed again since."""
    fields: dict[str, Any] = {}
    for group in _GROUPS:
        old, new, now = (tuple(getattr(memory, name) for name in group) for memory in (before, after, current))
        if old == new or now == old:
            continue
        if now != new:
            raise InTheWay(f"its {group[0]} was changed again since")
        fields.update({name: getattr(before, name) for name in group})
    return fields


def _unmake(act: Act, current: MemoryRow, bank: Bank, made: Memory) -> None:
    """Undo the making of a memory: a tombstone stays, and an automatic path does not learn it again."""
    memory = current.memory
    if memory.state == "deleted":
        raise InTheWay("it is deleted already")
    if (memory.text, memory.tier) != (made.text, made.tier):
        raise InTheWay("its text was changed or stated since: delete it instead")
    if memory.pinned and not made.pinned:
        raise InTheWay("it was pinned since: un-pin it, or delete it instead")
    if memory.corroboration > made.corroboration:
        raise InTheWay("it was said again since from elsewhere: delete it instead")
    revising.revise(act, current, bank, "memory.deleted", state="deleted", superseded_by=None, reason=DELETED_BY_PERSON)


def _unsay(act: Act, current: MemoryRow, bank: Bank, change: str, times: int) -> None:
    """Undo a reinforcement, once. Its cause stays counted, so that the same cause does not say it again."""
    left = current.memory.corroboration - times
    if left < 0 or not memories.undo_reinforcement(act.tx, current.memory.id, change):
        raise InTheWay("it is undone already")
    revising.revise(act, current, bank, "memory.updated", corroboration=left)
    memories.note_inverse(act.tx, current.memory.id, act.tx.rows[-1].id, change)


def _count_again(act: Act, current: MemoryRow, row: JournalRow, times: int) -> None:
    """Undo the undoing of a reinforcement, or that: each lasts until the next. Raises `InTheWay` where it is done."""
    said = memories.inverse_of(act.tx, current.memory.id, row.id)
    turn = memories.redo_reinforcement if times > 0 else memories.undo_reinforcement
    turned = said is None or turn(act.tx, current.memory.id, said)  # an older release noted nothing
    if not turned or current.memory.corroboration + times < 0:
        raise InTheWay("it is undone already")


def _check_grace(act: Act, row: JournalRow) -> None:
    days = (act.tx.now - row.at) / 86_400
    if days > act.settings.grace_days:
        raise InTheWay(f"it lapsed more than {act.settings.grace_days:g} days ago")


def _write(act: Act, current: MemoryRow, bank: Bank, before: Memory, after: Memory, fields: dict[str, Any]) -> None:
    memory = current.memory
    target = msgspec.structs.replace(memory, **fields)
    _check_unique(act, current.bank, target)
    type, expires_set = "memory.updated", current.expires_set
    if target.state != memory.state:
        type = _TYPES.get(target.state, "memory.restored")
    elif target.pinned != memory.pinned:
        type = "memory.pinned"
    if target.pinned:
        fields["expires_at"], expires_set = None, False
    elif target.state == "live":
        asked = before.expires_at != after.expires_at and memory.expires_at == after.expires_at
        expires = before.expires_at if asked else memory.expires_at
        if target.state != memory.state or memory.pinned or asked:
            if (expires is None and (bank.expiry != "never" or memory.pinned)) or (expires and expires <= act.now):
                # Its own time is over, or it had none while it was pinned: it is given the bank's, from now.
                expires, expires_set = expires_at(bank.expiry, act.now), False
            fields["expires_at"] = expires
    revising.revise(act, current, bank, type, expires_set=expires_set, **fields)


def _check_unique(act: Act, bank: int, target: Memory) -> None:
    """Raise `InTheWay` when another live memory has the text or the slot by now."""
    if target.state != "live":
        return
    same = memories.live_by_text(act.tx, bank, mark_of(target))
    if same is not None and same.memory.id != target.id:
        raise InTheWay(f"memory {same.memory.id} has this text by now")
    slotted = None if target.slot is None else memories.live_by_slot(act.tx, bank, target.slot)
    if slotted is not None and slotted.memory.id != target.id:
        raise InTheWay(f"memory {slotted.memory.id} has its slot by now")
