"""Makes suggestions: changes that are held back for a person, each one once."""

import difflib
import hashlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from memory_contracts.records import Bank, Memory, ProposedChange, Source, Suggestion, SuggestionState
from memory_worker.gate.act import Act
from memory_worker.store import banks, new_id, suggestions
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import encode

_VOLATILE = ("run_id", "expected_revision", "expected_by_revision", "reason")
"""Arguments that do not make a suggestion another one."""

HELD_MAX = 200
"""Most open suggestions about one record or text that are looked at when it changes."""


def evidence_of(function: str, args: dict[str, Any], shown: Any = None) -> bytes:
    """Hash a change and the texts it would replace, so that the same one is known again however often it is proposed.

    A change that was rejected over one text may be proposed again over another.
    """
    kept = {key: value for key, value in args.items() if key not in _VOLATILE and value not in (None, [], "", False)}
    texts = [str(fingerprint(memory["text"]).hex()) for memory in memories_in(shown)]
    return hashlib.blake2b(msgspec.json.encode([function, kept, texts], order="sorted"), digest_size=16).digest()


def memories_in(shown: Any) -> list[dict[str, Any]]:
    """The memories that a suggestion's `now` shows: itself, or its `memory` and `by`."""
    if not isinstance(shown, dict):
        return []
    if "text" in shown and "revision" in shown:
        return [shown]
    return [found for key in ("memory", "by") for found in memories_in(shown.get(key))]


def text_key(bank: BankRow, text: str) -> str:
    """The key of suggestions that are needless once this text is a live memory of the bank."""
    return f"text:{bank.n}:{fingerprint(text).hex()}"


def line_key(bank: BankRow, text: str) -> str:
    """The key of suggestions that are needless once this text is a line of the bank's `learned`."""
    return f"line:{bank.n}:{fingerprint(text).hex()}"


def rule_key(bank: BankRow, name: str) -> str:
    """The key of suggestions about a rule of the bank."""
    return f"rule:{bank.n}:{name}"


def property_key(name: str) -> str:
    """The key of suggestions about a property."""
    return f"property:{name}"


def propose(
    act: Act,
    bank: BankRow,
    function: str,
    args: dict[str, Any],
    *,
    reason: str,
    targets: Sequence[str] = (),
    keys: Sequence[str] = (),
    now: Any = None,
    proposed: Any = None,
    source: Source | None = None,
    destructive: bool = False,
) -> tuple[Suggestion, bool]:
    """Hold a change back for a person; gives the suggestion and whether it is a new one.

    The same change that is open, or that a person rejected, is not made again.
    """
    evidence = evidence_of(function, args, now)
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
    record = suggestions.insert(act.tx, bank.n, suggestion, evidence, keys)
    _append(act, "suggestion.created", suggestion, bank.bank, None, record)
    return suggestion, True


def settle(act: Act, row: suggestions.SuggestionRow, state: SuggestionState) -> Suggestion:
    """Write the state a suggestion comes to; `open` again forgets who decided."""
    open_again = state == "open"
    settled = msgspec.structs.replace(
        row.suggestion,
        state=state,
        decided_by=None if open_again else act.actor,
        decided_at=None if open_again else act.now,
    )
    record = suggestions.update(act.tx, settled)
    bank = banks.by_number(act.tx, row.bank).bank
    _append(act, "suggestion.decided", settled, bank, encode(row.suggestion), record)
    return settled


def drop_needless(act: Act, key: str, needless: Callable[[Suggestion], bool] = lambda suggestion: True) -> None:
    """Close the open suggestions of a target or key that what was just written made needless or out of date."""
    for row in suggestions.open_of_target(act.tx, key, HELD_MAX):
        if needless(row.suggestion):
            settle(act, row, "stale")


def drop_overtaken(act: Act, bank: BankRow, old: Memory | None, new: Memory) -> None:
    """Close the open suggestions that a memory's new revision made true or out of date.

    What was proposed about a memory was proposed about the revision its person is shown: any other revision ends it.
    What was held back because of a memory is only ended by another text of that memory.
    """
    if new.state == "live" and new.protected is None:
        drop_needless(act, text_key(bank, new.text), lambda suggestion: suggestion.change.function == "save")
    if old is None:
        return
    reworded = old.text != new.text

    def ended(suggestion: Suggestion) -> bool:
        if suggestion.destructive:
            return False
        return reworded if suggestion.change.function == "save" else True

    drop_needless(act, new.id, ended)


def _append(act: Act, type: str, suggestion: Suggestion, bank: Bank, before: bytes | None, after: bytes) -> None:
    act.tx.append(type, suggestion.id, act.origin, bank=bank.name, owner=bank.owner, before=before, after=after)


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
