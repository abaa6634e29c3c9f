"""Writes rules, and the lines of `learned` with where each came from."""

from typing import Literal

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import RuleReply, RuleSetRequest
from memory_contracts.names import LEARNED_RULE, RULE_MAX_CHARS
from memory_contracts.records import LearnedLine, Rule, Source
from memory_worker.gate import proposals
from memory_worker.gate.access import open_bank
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_document, clean_text
from memory_worker.store import new_id, rules
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import encode

DEFAULT_PRIORITY = 100
"""Priority of a rule that was given none; lower comes first."""
LEARNED_PRIORITY = 500
"""`learned` comes after what people wrote."""
LINE_MAX_CHARS = 500
"""Longest learned line, in characters."""

LineOutcome = Literal["added", "known", "removed", "full"]


def set_rule(act: Act, request: RuleSetRequest) -> RuleReply:
    """Write a rule; empty content removes it."""
    bank = open_bank(act, request.bank, write=True)
    content = clean_document(request.content)
    old = rules.find(act.tx, bank.n, request.name)
    if request.expected_revision is not None and request.expected_revision != (old.revision if old else 0):
        at = f"at revision {old.revision}" if old else "not there"
        raise FunctionError(
            "conflict",
            f"rule {request.name} is {at}",
            field="expected_revision",
            hint="read it again and repeat with its present revision",
        )
    if not content:
        if old is not None:
            if request.name == LEARNED_RULE:
                _sync_lines(act, bank, "")
            rules.remove(act.tx, bank.n, request.name)
            _append(act, bank, request.name, encode(old), None)
        return RuleReply(rule=None)
    priority = request.priority
    if priority is None:
        fallback = LEARNED_PRIORITY if request.name == LEARNED_RULE else DEFAULT_PRIORITY
        priority = old.priority if old else fallback
    if old is not None and old.content == content and old.priority == priority:
        return RuleReply(rule=old, outcome="unchanged")
    lines = _sync_lines(act, bank, content) if request.name == LEARNED_RULE else ()
    return RuleReply(rule=_put(act, bank, old, request.name, content, priority, lines))


def add_learned(act: Act, bank: BankRow, text: str, source: Source, *, again: bool = False) -> LineOutcome:
    """Add a line to `learned`, unless it is there, was removed (and is not approved `again`), or has no room."""
    line_text = clean_text(text, "text", LINE_MAX_CHARS)
    mark = fingerprint(line_text)
    known = rules.find_line(act.tx, bank.n, mark)
    if known is not None and (known.state == "live" or not again):
        return "known" if known.state == "live" else "removed"
    old = rules.find(act.tx, bank.n, LEARNED_RULE)
    content = f"{old.content}\n- {line_text}" if old else f"- {line_text}"
    if len(content) > RULE_MAX_CHARS:
        return "full"
    line = LearnedLine(id=new_id("line"), text=line_text, source=source, at=act.now)
    rules.put_line(act.tx, bank.n, mark, "live", line)
    priority = old.priority if old else LEARNED_PRIORITY
    _put(act, bank, old, LEARNED_RULE, content, priority, (*(old.lines if old else ()), line))
    proposals.drop_needless(act, proposals.line_key(bank, line_text))
    return "added"


def is_known(act: Act, bank: BankRow, text: str) -> bool:
    """Tell whether `learned` has a line, or had it and a person removed it."""
    return rules.find_line(act.tx, bank.n, fingerprint(clean_text(text, "text", LINE_MAX_CHARS))) is not None


def restore(act: Act, bank: BankRow, name: str, before: Rule | None) -> None:
    """Write a rule as it was, with its old source; None removes it."""
    old = rules.find(act.tx, bank.n, name)
    if name == LEARNED_RULE:
        _restore_lines(act, bank, before.lines if before else (), old.lines if old else ())
    if before is None:
        rules.remove(act.tx, bank.n, name)
        _append(act, bank, name, None if old is None else encode(old), None)
        return
    rule = msgspec.structs.replace(before, revision=_next_revision(act, bank, name, old), updated_at=act.now)
    record = rules.put(act.tx, bank.n, rule)
    _append(act, bank, name, None if old is None else encode(old), record)


def undo_lines(act: Act, bank: BankRow, before: tuple[LearnedLine, ...], after: tuple[LearnedLine, ...]) -> None:
    """Undo what one change did to the lines of `learned`, leaving the lines that came since."""
    current = rules.find(act.tx, bank.n, LEARNED_RULE)
    assert current is not None
    kept = {line.id for line in before}
    stood = {line.id for line in after}
    added = {fingerprint(line.text) for line in after if line.id not in kept}
    gone = [line for line in before if line.id not in stood]
    rows = [
        row for row in current.content.split("\n") if not (lines_of(row) and fingerprint(lines_of(row)[0]) in added)
    ]
    present = {fingerprint(text) for row in rows for text in lines_of(row)}
    back = [line for line in gone if fingerprint(line.text) not in present]
    content = "\n".join([*rows, *(f"- {line.text}" for line in back)])
    lines = (*(line for line in current.lines if fingerprint(line.text) not in added), *back)
    restored = msgspec.structs.replace(current, content=content, lines=lines)
    restore(act, bank, LEARNED_RULE, restored if content.strip() else None)


def _restore_lines(act: Act, bank: BankRow, wanted: tuple[LearnedLine, ...], present: tuple[LearnedLine, ...]) -> None:
    """Make the lines live or removed as a restored document has them, each with where it came from."""
    marks = {fingerprint(line.text) for line in wanted}
    for line in present:
        if fingerprint(line.text) not in marks:
            rules.put_line(act.tx, bank.n, fingerprint(line.text), "removed", line)
    for line in wanted:
        rules.put_line(act.tx, bank.n, fingerprint(line.text), "live", line)


def has_line(act: Act, bank: BankRow, text: str) -> bool:
    """Tell whether `learned` has a line now."""
    known = rules.find_line(act.tx, bank.n, fingerprint(clean_text(text, "text", LINE_MAX_CHARS)))
    return known is not None and known.state == "live"


def lines_of(content: str) -> list[str]:
    """The statements of a `learned` document: its lines without list marks; headings and blanks are not statements."""
    found = []
    for raw in content.split("\n"):
        line = raw.strip()
        for mark in ("- ", "* ", "+ "):
            line = line.removeprefix(mark)
        if line.strip() and not line.startswith("#"):
            found.append(line.strip())
    return found


def _sync_lines(act: Act, bank: BankRow, content: str) -> tuple[LearnedLine, ...]:
    """Make the lines agree with a document a person wrote: a line that is gone is remembered as removed."""
    present = {fingerprint(text): text for text in lines_of(content)}
    source = Source(route=act.writer.route, principal=act.writer.principal)
    known = {row.mark: row for row in rules.lines(act.tx, bank.n)}
    for mark, row in known.items():
        if mark not in present and row.state == "live":
            rules.put_line(act.tx, bank.n, mark, "removed", row.line)
    lines = []
    for mark, text in present.items():
        old = known.get(mark)
        keeps = old is not None and old.state == "live"
        line = old.line if old and keeps else LearnedLine(id=new_id("line"), text=text, source=source, at=act.now)
        if not keeps:
            rules.put_line(act.tx, bank.n, mark, "live", line)
        lines.append(line)
    return tuple(lines)


def _put(
    act: Act, bank: BankRow, old: Rule | None, name: str, content: str, priority: int, lines: tuple[LearnedLine, ...]
) -> Rule:
    rule = Rule(
        bank=bank.bank.name,
        name=name,
        content=content,
        priority=priority,
        revision=_next_revision(act, bank, name, old),
        updated_at=act.now,
        source=Source(route=act.writer.route, principal=act.writer.principal, session_id=act.origin.session),
        lines=lines,
    )
    record = rules.put(act.tx, bank.n, rule)
    _append(act, bank, name, None if old is None else encode(old), record)
    return rule


def _next_revision(act: Act, bank: BankRow, name: str, old: Rule | None) -> int:
    """Counts on where a rule of that name left off: a revision means one content, for writers and for sessions."""
    return (old.revision if old else rules.last_revision(act.tx, bank.bank.name, name)) + 1


def _append(act: Act, bank: BankRow, name: str, before: bytes | None, after: bytes | None) -> None:
    act.tx.append("rule.set", name, act.origin, bank=bank.bank.name, owner=bank.bank.owner, before=before, after=after)
    proposals.drop_needless(act, proposals.rule_key(bank, name))
