"""Finds lines of the `learned` rule that repeat or contradict each other, and memories that deserve to be a rule."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from memory_consolidate.difference import difference
from memory_consolidate.items import Item, worth
from memory_consolidate.proposals import Proposal, clip, explain
from memory_consolidate.reorder import differs_in_list_order
from memory_consolidate.tokens import tokens_of
from memory_contracts.names import LEARNED_RULE, RULE_MAX_CHARS
from memory_contracts.normal import normalise
from memory_contracts.records import LearnedLine, Rule

LINES_MAX = 100
"""Most lines compared with each other; `learned` holds at most 4,000 characters that reach a prompt."""
RULES_MAX_PER_RUN = 3
"""Most memories offered as a rule in one run."""
_BULLET = "- "
_CONTRADICTING = ("negation", "number", "date", "unit", "quantifier")


def line_proposals(rule: Rule) -> list[Proposal]:
    """Propose to take out a line that another says as well, or the older of two that contradict each other."""
    lines = rule.lines[-LINES_MAX:]
    found = []
    for index, newer in enumerate(lines):
        for older in lines[:index]:
            proposal = _compare(rule, older, newer)
            if proposal is not None:
                found.append(proposal)
    return found


def _compare(rule: Rule, older: LearnedLine, newer: LearnedLine) -> Proposal | None:
    left, right = tokens_of(older.text), tokens_of(newer.text)
    if left.folded == right.folded or differs_in_list_order(left.folded, right.folded, left.lexicon):
        return _without(rule, newer, older, "learned_same", "two lines say the same")
    how = difference(left, right)
    if how is None or not how.ask:
        return None
    if how.kind in _CONTRADICTING:
        return _without(rule, older, newer, "learned_conflict", f"two lines contradict each other: {explain(how)}")
    return _without(rule, newer, older, "learned_same", f"two lines are nearly the same: {explain(how)}")


def _without(rule: Rule, line: LearnedLine, other: LearnedLine, kind: str, reason: str) -> Proposal | None:
    """Propose the rule without `line`; nothing else of it is touched."""
    rows = rule.content.split("\n")
    places = [number for number, row in enumerate(rows) if normalise(row) == normalise(line.text)]
    if not places:
        return None
    place = places[-1] if kind == "learned_same" else places[0]
    content = "\n".join(rows[:place] + rows[place + 1 :])
    if not content.strip():
        return None
    return Proposal(
        "learned_conflict" if kind == "learned_conflict" else "learned_same",
        "rule.set",
        {"bank": rule.bank, "name": rule.name, "content": content, "expected_revision": rule.revision},
        clip(reason),
        frozenset((line.id, other.id)),
        (line.text, other.text),
    )


def rule_proposals(
    items: Iterable[Item], rules: Sequence[Rule], bank: str, repeats_min: int, told: AbstractSet[str]
) -> list[Proposal]:
    """Propose a line of `learned` for instructions that were said again and again and stand in no rule yet."""
    learned = next((rule for rule in rules if rule.name == LEARNED_RULE), None)
    standing = [normalise(row) for rule in rules for row in rule.content.split("\n")]
    candidates = sorted(
        (i for i in items if i.kind == "instruction" and i.corroboration >= repeats_min and f"rule:{i.id}" not in told),
        key=worth,
        reverse=True,
    )
    content = learned.content.rstrip("\n") if learned else ""
    found = []
    for item in candidates:
        words = normalise(item.text)
        if any(words in row for row in standing):
            continue
        grown = f"{content}\n{_BULLET}{item.text}" if content else f"{_BULLET}{item.text}"
        if len(grown) > RULE_MAX_CHARS:
            break
        args: dict[str, object] = {"bank": bank, "name": LEARNED_RULE, "content": grown}
        if learned:
            args["expected_revision"] = learned.revision
        reason = f"said again in {item.corroboration} turns; as a rule it is given in every turn"
        found.append(Proposal("rule_worthy", "rule.set", args, reason, frozenset((f"rule:{item.id}",)), (item.text,)))
    return found[:RULES_MAX_PER_RUN]
