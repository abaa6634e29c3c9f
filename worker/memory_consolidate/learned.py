"""Finds lines of the `learned` rule that repeat or contradict each other, and memories that deserve to be a rule."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from memory_consolidate.difference import difference
from memory_consolidate.items import Item, worth
from memory_consolidate.proposals import Proposal, clip, explain
from memory_consolidate.reorder import differs_in_list_order
from memory_consolidate.tokens import tokens_of
from memory_contracts.normal import normalise
from memory_contracts.records import LearnedLine, Rule

LINES_MAX = 100
"""Most lines compared with each other; `learned` holds at most 4,000 characters that reach a prompt."""
RULES_MAX_PER_RUN = 3
"""Most memories offered as a rule in one run."""
LINE_MAX_CHARS = 500
"""Longest line of `learned`, in characters."""
_RULE_KEY = "rule:"
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
    standing = [normalise(row) for rule in rules for row in rule.content.split("\n")]
    found = []
    for item in sorted(items, key=worth, reverse=True):
        words = normalise(item.text)
        if (
            item.kind != "instruction"
            or item.corroboration < repeats_min
            or len(item.text) > LINE_MAX_CHARS
            or f"{_RULE_KEY}{item.id}" in told
            or any(words in row for row in standing)
        ):
            continue
        args = {"bank": bank, "text": item.text}
        reason = f"said again in {item.corroboration} turns; as a rule it is given in every turn"
        key = frozenset((f"{_RULE_KEY}{item.id}",))
        found.append(Proposal("rule_worthy", "learned.add", args, reason, key, (item.text,)))
    return found[:RULES_MAX_PER_RUN]
