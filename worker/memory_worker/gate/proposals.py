"""Makes suggestions: changes that are held back for a person, each one once."""

import difflib
import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from memory_contracts.records import Bank, ProposedChange, Source, Suggestion
from memory_worker.gate.act import Act
from memory_worker.store import new_id, suggestions
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import encode

_VOLATILE = ("run_id", "expected_revision", "expected_by_revision", "reason")
"""Arguments that do not make a suggestion another one."""


def evidence_of(function: str, args: dict[str, Any]) -> bytes:
    """Hash a change, so that the same one is known again however often it is proposed."""
    kept = {key: value for key, value in args.items() if key not in _VOLATILE and value not in (None, [], "", False)}
    return hashlib.blake2b(msgspec.json.encode([function, kept], order="sorted"), digest_size=16).digest()


def propose(
    act: Act,
    bank: BankRow,
    function: str,
    args: dict[str, Any],
    *,
    reason: str,
    targets: Sequence[str] = (),
    now: Any = None,
    proposed: Any = None,
    source: Source | None = None,
    destructive: bool = False,
) -> tuple[Suggestion, bool]:
    """Hold a change back for a person; gives the suggestion and whether it is a new one.

    The same change that is open, or that a person rejected, is not made again.
    """
    evidence = evidence_of(function, args)
    known = suggestions.by_evidence(act.tx, bank.n, evidence)
    if known is not None and not destructive:
        return known.suggestion, False
    suggestion = Suggestion(
        id=new_id("sug"),
        bank=bank.bank.name,
        change=ProposedChange(function=function, args=args),
        by=act.actor,
        reason=reason,
        source=source,
        targets=tuple(targets),
        now=now,
        proposed=proposed,
        diff=_diff(now, proposed),
        destructive=destructive,
        created_at=act.now,
        expires_at=act.now + timedelta(days=act.settings.suggestion_days),
    )
    record = suggestions.insert(act.tx, bank.n, suggestion, evidence)
    _append(act, "suggestion.created", suggestion, bank.bank, record)
    return suggestion, True


def settle(act: Act, row: suggestions.SuggestionRow, bank: Bank, state: str) -> Suggestion:
    """Close a suggestion with the state it ended in."""
    settled = msgspec.structs.replace(row.suggestion, state=state, decided_by=act.actor, decided_at=act.now)
    record = suggestions.update(act.tx, settled)
    _append(act, "suggestion.decided", settled, bank, record)
    return settled


def _append(act: Act, type: str, suggestion: Suggestion, bank: Bank, record: bytes) -> None:
    act.tx.append(type, suggestion.id, act.origin, bank=bank.name, owner=bank.owner, after=record)


def _diff(now: Any, proposed: Any) -> str | None:
    """Word by word, what would change: `[-old-]` and `{+new+}`. None where there are no two texts."""
    old, new = _text(now), _text(proposed)
    if old is None or new is None:
        return None
    before, after = old.split(), new.split()
    parts: list[str] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.extend(before[a:b])
            continue
        if b > a:
            parts.append(f"[-{' '.join(before[a:b])}-]")
        if d > c:
            parts.append(f"{{+{' '.join(after[c:d])}+}}")
    return " ".join(parts)


def _text(value: Any) -> str | None:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if not isinstance(value, dict):
        return None
    text = value.get("text", value.get("content"))
    if isinstance(text, str):
        return text
    inner = value.get("memory")
    return _text(inner) if inner is not None else None


def builtins(value: msgspec.Struct | None) -> Any:
    """A record as plain data, for `now` and `proposed`."""
    return None if value is None else msgspec.json.decode(encode(value))
