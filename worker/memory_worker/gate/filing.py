"""What the file mirror asks of the gate: removing many records at once, and notices about files."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts.functions.banks import RuleSetRequest
from memory_contracts.functions.memories import DeleteRequest
from memory_contracts.records import Notice, Source, Suggestion
from memory_worker.gate import changing, proposals, ruling
from memory_worker.gate.access import open_bank
from memory_worker.gate.act import Act
from memory_worker.store import banks, ledger, memories, new_id, notices, rules, suggestions
from memory_worker.store.memories import encode

REMOVAL_FUNCTION = "delete"
"""Function of a suggestion that removes many records: its arguments are `ids`, `rules` and `bank`."""


def ask_removal(act: Act, bank: str, ids: Sequence[str], names: Sequence[str], reason: str) -> Suggestion:
    """Ask a person whether these memories and rules of a bank are to be removed together; nothing is removed now."""
    row = open_bank(act, bank, write=True)
    args = {"bank": bank, "ids": list(ids), "rules": list(names)}
    # Always a fresh question: the same files may vanish again after a person has said no once.
    # It names no targets: one of many that changes in the meantime does not make the question needless.
    suggestion, _ = proposals.propose(act, row, REMOVAL_FUNCTION, args, reason=reason, destructive=True)
    return suggestion


def hold_edit(act: Act, bank: str, function: str, args: dict[str, Any], reason: str) -> Suggestion:
    """Hold a hand edit of an older revision back for a person, beside what the store has now."""
    row = open_bank(act, bank, write=True)
    known = memories.find(act.tx, args["id"]) if "id" in args else None
    rule = rules.find(act.tx, row.n, args["name"]) if function == "rule.set" else None
    now = proposals.builtins(known.memory if known is not None else rule)
    targets = [args["id"]] if known is not None else []
    suggestion, _ = proposals.propose(
        act,
        row,
        function,
        args,
        reason=reason,
        targets=targets,
        keys=[proposals.rule_key(row, args["name"])] if function == "rule.set" else [],
        now=now,
        proposed=args,
        source=Source(route=act.origin.route, principal=act.origin.principal),
    )
    return suggestion


def end_removal(act: Act, suggestion_id: str) -> None:
    """Close the question about files that vanished together once none of them is missing any more."""
    row = suggestions.find(act.tx, suggestion_id)
    if row is not None and row.suggestion.state == "open" and not ledger.held_by(act.tx, suggestion_id):
        proposals.settle(act, row, "stale")


def remove_together(act: Act, suggestion: Suggestion) -> int:
    """Do what an approved removal says, to what still lives and whose file is still gone; gives how many were removed.

    A file that came back, or was written again, since the question was asked is not what the person decided about.
    """
    args = suggestion.change.args
    row = open_bank(act, suggestion.bank, write=True)
    gone = {(entry.kind, entry.target) for entry in ledger.held_by(act.tx, suggestion.id)}
    removed = 0
    for memory_id in args.get("ids", ()):
        if ("memory", memory_id) not in gone:
            continue
        known = memories.find(act.tx, memory_id)
        if known is not None and known.bank == row.n and known.memory.state == "live":
            changing.delete(act, DeleteRequest(id=memory_id))
            removed += 1
    for name in args.get("rules", ()):
        if ("rule", name) in gone and rules.find(act.tx, row.n, name) is not None:
            ruling.set_rule(act, RuleSetRequest(name=name, bank=suggestion.bank, content=""))
            removed += 1
    return removed


def notify(act: Act, bank: str, kind: str, text: str, target: str | None) -> Notice:
    """Leave a notice in a bank for a person."""
    row = banks.find(act.tx, bank)
    if row is None:
        row = open_bank(act, None, write=False)
    notice = Notice(id=new_id("ntc"), bank=row.bank.name, kind=kind, text=text, at=act.now, target=target)
    record = notices.insert(act.tx, row.n, notice)
    act.tx.append("notice.created", notice.id, act.origin, bank=row.bank.name, owner=row.bank.owner, after=record)
    return notice


def withdraw(act: Act, notice_id: str) -> None:
    """Acknowledge a notice whose cause is gone; nothing happens when it was acknowledged or is not there."""
    row = notices.find(act.tx, notice_id)
    if row is None or row.notice.acked_at is not None:
        return
    bank = banks.by_number(act.tx, row.bank).bank
    settled = msgspec.structs.replace(row.notice, acked_at=act.now)
    record = notices.update(act.tx, settled)
    act.tx.append(
        "notice.acked",
        notice_id,
        act.origin,
        bank=bank.name,
        owner=bank.owner,
        before=encode(row.notice),
        after=record,
    )
