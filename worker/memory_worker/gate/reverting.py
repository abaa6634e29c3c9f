"""Undoes changes: one, or all of a turn, a session, a run, a suggestion's approval or an earlier revert."""

from collections.abc import Callable
from typing import Any

import msgspec

from memory_contracts.errors import FunctionError, not_found
from memory_contracts.functions.banks import BankDeleteRequest, BankRestoreRequest, BankUpdateRequest
from memory_contracts.functions.review import ChangesRevertReply, ChangesRevertRequest, Refused
from memory_contracts.names import DEFAULT_BANK, LEARNED_RULE
from memory_contracts.normal import normalise
from memory_contracts.records import Bank, Change, Entity, Notice, Property, Rule, Suggestion, SuggestionState
from memory_worker.gate import banking, identities, naming, proposals, ruling
from memory_worker.gate.access import may_read, may_write
from memory_worker.gate.act import Act
from memory_worker.gate.deciding import ERASURES
from memory_worker.gate.inverting import InTheWay, invert_memory
from memory_worker.store import JournalRow, banks, entities, journal, memories, notices, rules, suggestions
from memory_worker.store.banks import BankRow
from memory_worker.store.journal import change_of
from memory_worker.store.memories import encode

_LEAVES_TRACE_ONLY = frozenset({"entity.created", "notice.created", "notice.acked", "bank.wiped"})
"""Rows of a group that are passed over: they hold no knowledge of their own, or cannot be undone at all."""


def revert(act: Act, request: ChangesRevertRequest) -> ChangesRevertReply:
    """Write the inverse of each change that the id names, newest first; what later changes block is refused by reason.

    Raises `not_found` when the id names nothing that the caller sees, and `too_large` beyond the setting's bound.
    """
    rows, single = _select(act, request.id)
    reverted: list[Change] = []
    refused: list[Refused] = []
    for row in rows:
        if not single and row.type in _LEAVES_TRACE_ONLY:
            continue
        mark = act.tx.mark()
        try:
            act.tx.attempt(lambda row=row: _invert(act, row))  # type: ignore[misc]
        except InTheWay as reason:
            refused.append(Refused(id=row.id, reason=str(reason)))
        except FunctionError as error:
            refused.append(Refused(id=row.id, reason=error.message))
        else:
            reverted.extend(change_of(made) for made in act.tx.rows[mark.rows :])
    return ChangesRevertReply(reverted=reverted, refused=refused)


def _select(act: Act, id: str) -> tuple[list[JournalRow], bool]:
    """The changes that an id names, newest first, and whether it names a single one."""
    bound = act.settings.revert_max
    one = journal.find(act.tx, id)
    if one is not None:
        if not _visible(act, one):
            raise _nothing(id)
        return _with_parts(act, one), True
    rows = {row.seq: row for row in journal.of_cause(act.tx, id, bound + 1)}
    rows.update({row.seq: row for row in journal.of_session(act.tx, id, bound + 1)})
    approval = suggestions.find(act.tx, id)
    if approval is not None:
        rows = {seq: row for seq, row in rows.items() if row.cause_kind == "suggestion"}
    seen = [rows[seq] for seq in sorted(rows, reverse=True) if _visible(act, rows[seq])]
    if not seen:
        raise _nothing(id)
    if len(seen) > bound:
        raise FunctionError(
            "too_large", f"more than {bound} changes hang on this id", field="id", hint="revert turn by turn"
        )
    return seen, False


def _nothing(id: str) -> FunctionError:
    return not_found(f"no change, turn, session, run or suggestion {id}", "id", "changes.list names them")


def _visible(act: Act, row: JournalRow) -> bool:
    if row.owner is None or row.owner == act.caller.name:
        return True
    bank = banks.find(act.tx, row.bank) or banks.find_trashed(act.tx, row.bank, None)
    return bank is not None and bank.bank.owner == row.owner and may_read(act.caller, bank.bank)


def _with_parts(act: Act, row: JournalRow) -> list[JournalRow]:
    """A change with the other rows of the same act: a replacement is undone whole, a merge of both its entities."""
    parts: list[JournalRow] = []
    if row.type == "memory.created":
        parts = [other for other in _same_act(act, row) if _superseded_by(other) == row.target]
    elif row.type == "entity.merged":
        parts = [other for other in _same_act(act, row) if other.type == row.type]
    elif row.type == "suggestion.decided" and row.cause_kind == "suggestion":
        parts = _same_act(act, row)
    if row.cause_kind in ("suggestion", "revert"):
        parts += _approval_undone(act, {row.seq, *(part.seq for part in parts)}, _same_act(act, row))
    return sorted({part.seq: part for part in (*parts, row)}.values(), key=lambda part: part.seq, reverse=True)


def _approval_undone(act: Act, undone: set[int], rows: list[JournalRow]) -> list[JournalRow]:
    """The approval among the rows of one act, where nothing that it did is left: it is undone with its effect."""
    effects = {row.seq for row in rows if row.type.partition(".")[0] != "suggestion"}
    effects -= {row.seq for row in rows if row.type in _LEAVES_TRACE_ONLY}
    return [row for row in rows if _stands(act, row)] if effects <= undone else []


def _stands(act: Act, row: JournalRow) -> bool:
    """Whether a row approved a suggestion, or undid its approval, and the suggestion is still as it left it."""
    if row.type != "suggestion.decided" or row.before is None or row.after is None:
        return False
    was, became = (msgspec.json.decode(record, type=Suggestion).state for record in (row.before, row.after))
    known = suggestions.find(act.tx, row.target)
    return known is not None and known.suggestion.state == became and "approved" in (was, became)


def _same_act(act: Act, row: JournalRow) -> list[JournalRow]:
    return [
        other
        for other in journal.of_cause(act.tx, row.cause_id, act.settings.revert_max)
        if other.at == row.at and other.cause_kind == row.cause_kind and _visible(act, other)
    ]


def _superseded_by(row: JournalRow) -> str | None:
    if row.type != "memory.superseded" or row.after is None:
        return None
    return memories.decode(row.after).superseded_by


def _invert(act: Act, row: JournalRow) -> None:
    kind = row.type.partition(".")[0]
    if kind == "memory":
        invert_memory(act, row)
    elif row.before is None and row.after is None:
        raise InTheWay("it holds nothing that could be brought back")
    else:
        _INVERSES[kind](act, row)


def _bank_of(act: Act, row: JournalRow) -> BankRow:
    bank = banks.find(act.tx, row.bank)
    if bank is None or bank.bank.owner != row.owner:
        raise InTheWay(f"the bank {row.bank} is not there any more")
    if not may_write(act.caller, bank.bank):
        raise InTheWay(f"bank {row.bank} can be read by you, not written")
    return bank


# Rules


def _invert_rule(act: Act, row: JournalRow) -> None:
    bank = _bank_of(act, row)
    before, after = _rule(row.before), _rule(row.after)
    current = rules.find(act.tx, bank.n, row.target)
    if _content(current) == _content(before) and _priority(current) == _priority(before):
        raise InTheWay("it is undone already")
    if _content(current) == _content(after):
        ruling.restore(act, bank, row.target, before)
        return
    if row.target != LEARNED_RULE or after is None or current is None:
        raise InTheWay("the rule was changed again since")
    ruling.undo_lines(act, bank, before.lines if before else (), after.lines)


def _rule(record: bytes | None) -> Rule | None:
    return None if record is None else msgspec.json.decode(record, type=Rule)


def _content(rule: Rule | None) -> str | None:
    return None if rule is None else rule.content


def _priority(rule: Rule | None) -> int | None:
    return None if rule is None else rule.priority


# Banks

_BANK_FIELDS = ("description", "managers", "layers", "review", "expiry", "mirror")


def _invert_bank(act: Act, row: JournalRow) -> None:
    if row.type == "bank.wiped":
        raise InTheWay("what was wiped cannot be brought back")
    if row.type == "bank.trashed":
        assert row.after is not None
        trashed = msgspec.json.decode(row.after, type=Bank)
        banking.restore(act, BankRestoreRequest(name=row.bank, trash_id=trashed.trash_id))
        return
    bank = _bank_of(act, row)
    if row.type == "bank.updated":
        assert row.before is not None
        assert row.after is not None
        before, after = (msgspec.json.decode(record, type=Bank) for record in (row.before, row.after))
        changed = [name for name in _BANK_FIELDS if getattr(before, name) != getattr(after, name)]
        for name in changed:
            if getattr(bank.bank, name) != getattr(after, name):
                raise InTheWay(f"its {name} was changed again since")
        values: dict[str, Any] = {name: getattr(before, name) for name in changed}
        banking.update(act, msgspec.convert({"name": row.bank, **values}, BankUpdateRequest))
        return
    if row.bank == DEFAULT_BANK:
        raise InTheWay("main is always there")
    if row.type == "bank.created" and banks.holds(act.tx, bank.n):
        raise InTheWay("the bank holds memories or rules: delete it instead")
    banking.delete(act, BankDeleteRequest(name=row.bank))


# Suggestions


def _invert_suggestion(act: Act, row: JournalRow) -> None:
    known = suggestions.find(act.tx, row.target)
    if known is None:
        raise InTheWay("the suggestion is not there any more")
    if known.suggestion.change.function in ERASURES and known.suggestion.state == "approved":
        raise InTheWay("what was destroyed cannot be brought back")
    current = known.suggestion.state
    if row.before is None:
        if current != "open":
            raise InTheWay(f"it is {current} already")
        proposals.settle(act, known, "stale")
        return
    assert row.after is not None
    was, became = (msgspec.json.decode(record, type=Suggestion).state for record in (row.before, row.after))
    if current != became:
        raise InTheWay(f"it is {current} by now")
    proposals.settle(act, known, _state_after_revert(act, known.suggestion, was, became))


def _state_after_revert(
    act: Act, suggestion: Suggestion, was: SuggestionState, became: SuggestionState
) -> SuggestionState:
    """An approval that is undone is a rejection, so that the same is not proposed again; the rest is as it was."""
    if became == "approved":
        return "rejected"
    if was == "open" and suggestion.expires_at <= act.now:
        raise InTheWay("its time is over")
    return was


# Entities, properties, notices


def _invert_entity(act: Act, row: JournalRow) -> None:
    current = entities.find(act.tx, row.target)
    if current is None or current.state == "forgotten" or row.after is None:
        raise InTheWay("what was forgotten cannot be brought back")
    if row.before is None:
        raise InTheWay("an entity stays as long as a memory names it")
    before, after = (msgspec.json.decode(record, type=Entity) for record in (row.before, row.after))
    fields: dict[str, object] = {}
    if before.state != after.state:
        if current.state != after.state:
            raise InTheWay(f"it is {current.state} by now")
        fields.update(state=before.state, merged_into=before.merged_into)
    added = [alias for alias in after.aliases if alias not in before.aliases]
    removed = [alias for alias in before.aliases if alias not in after.aliases]
    for alias in removed:
        if entities.owner_of(act.tx, alias.value, alias.channel) not in (None, current.id):
            raise InTheWay("another entity has this alias by now")
    aliases = [alias for alias in current.aliases if alias not in added]
    aliases += [alias for alias in removed if alias not in aliases]
    links = [ref for ref in current.links if ref in before.links or ref not in after.links]
    links += [ref for ref in before.links if ref not in after.links and ref not in links]
    fields.update(aliases=tuple(aliases), links=tuple(links))
    if all(getattr(current, name) == value for name, value in fields.items()):
        raise InTheWay("it is undone already")
    owner = identities.owner_of(act.tx, current.id)
    changed = naming.change(act, current, row.type, owner=owner, **fields)
    if before.state == "live" and after.state == "merged":
        identities.unmerge(act, after, changed)
        return
    if before.state == "merged" and after.state == "live" and before.merged_into is not None:
        entities.move_everything(act.tx, current.id, before.merged_into)
        return
    for alias in added:
        if normalise(alias.value) != normalise(current.name):
            entities.remove_name(act.tx, alias.value, alias.channel, current.id)
    for alias in removed:
        entities.add_name(act.tx, alias.value, alias.channel, current.id)


def _invert_property(act: Act, row: JournalRow) -> None:
    current = entities.find_property(act.tx, row.target)
    before, after = (
        None if record is None else msgspec.json.decode(record, type=Property) for record in (row.before, row.after)
    )
    if current != after:
        raise InTheWay("the property was changed again since")
    if before is not None:
        naming.put_property(act, before, row.owner)
    elif entities.claimed(act.tx, row.target):
        raise InTheWay("memories claim something under this property")
    else:
        naming.remove_property(act, row.target, row.owner)


def _invert_notice(act: Act, row: JournalRow) -> None:
    known = notices.find(act.tx, row.target)
    if row.type != "notice.acked" or known is None:
        raise InTheWay("a notice is acknowledged, not undone")
    if known.notice.acked_at is None:
        raise InTheWay("it is undone already")
    bank = banks.by_number(act.tx, known.bank).bank
    open_again: Notice = msgspec.structs.replace(known.notice, acked_at=None)
    record = notices.update(act.tx, open_again)
    act.tx.append(
        "notice.created",
        open_again.id,
        act.origin,
        bank=bank.name,
        owner=bank.owner,
        before=encode(known.notice),
        after=record,
    )


_INVERSES: dict[str, Callable[[Act, JournalRow], None]] = {
    "rule": _invert_rule,
    "bank": _invert_bank,
    "suggestion": _invert_suggestion,
    "entity": _invert_entity,
    "property": _invert_property,
    "notice": _invert_notice,
}
