"""Renders the rules section of a system prompt, and the block that tells a running session what changed in it."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from memory_contracts.names import LEARNED_RULE
from memory_contracts.records import Rule
from memory_worker.context import safe

RULES_OPEN, RULES_CLOSE = "<memory-rules>", "</memory-rules>"
UPDATE_OPEN, UPDATE_CLOSE = "<memory-update>", "</memory-update>"

RULES_MAX = 200
"""Most rules of one section; what is beyond is named as left out."""

_FRAME = "Standing rules of the user. They hold in every turn; the user's own words in this conversation come first."
_LEARNED_FRAME = "Learned from what the user said in earlier turns:"
_UPDATE_FRAME = "The standing rules changed since this session began. From now on:"

RuleKey = tuple[str, str]
"""Bank and name of a rule."""


class Budgets(msgspec.Struct, frozen=True):
    """Characters of rule content in one section: learning never pushes a hand-written rule out."""

    written: int = 20_000
    learned: int = 4_000


class GivenRule(msgspec.Struct, frozen=True):
    """One rule as a section gives it."""

    rule: Rule
    content: str
    clipped: bool = False


class Section(msgspec.Struct, frozen=True):
    """A rendered section: its text, its rules in order, and the names of those that were cut or left out."""

    text: str
    rules: tuple[GivenRule, ...]
    truncated: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """How one rule changed for a session: the revision it was told before and the one that holds now, 0 for none."""

    bank: str
    name: str
    before: int
    after: int


def effective(by_bank: Sequence[Sequence[Rule]]) -> list[Rule]:
    """Give the rules that hold, by priority and then name. `by_bank` lists the rules of each bank, the nearest first.

    The nearer bank's rule of a name wins, except for `learned`: each of its lines is an instruction of its own, and
    one line learned in a near bank must not silence all that was learned in a farther one.
    """
    held: dict[RuleKey, tuple[int, Rule]] = {}
    names: set[str] = set()
    for distance, rules in enumerate(by_bank):
        for rule in rules:
            if not rule.content.strip() or (rule.name in names and rule.name != LEARNED_RULE):
                continue
            held[rule.bank, rule.name] = (distance, rule)
        names.update(rule.name for rule in rules)
    return [rule for _, rule in sorted(held.values(), key=lambda item: (item[1].priority, item[1].name, item[0]))]


def render(rules: Sequence[Rule], budgets: Budgets) -> Section:
    """Give the rules section, or an empty one without rules. Each rule stands whole, in the order given, while the
    budget lasts; one that does not fit is cut at a line, with a marker in its place."""
    given, truncated = _within(rules, budgets)
    if not given:
        return Section("", (), tuple(truncated))
    parts = [_element(item) for item in given]
    return Section("\n".join([RULES_OPEN, _FRAME, *parts, RULES_CLOSE]), tuple(given), tuple(truncated))


def steps(told: Mapping[RuleKey, int], rules: Sequence[Rule]) -> list[Step]:
    """Give what changed between the revisions a session was told and the rules that hold now."""
    now = {(rule.bank, rule.name): rule.revision for rule in rules}
    order = [*now, *sorted(key for key in told if key not in now)]
    return [
        Step(bank, name, told.get((bank, name), 0), now.get((bank, name), 0))
        for bank, name in order
        if told.get((bank, name), 0) != now.get((bank, name), 0)
    ]


def render_update(
    changes: Sequence[Step], find: Callable[[str, str, int], Rule | None], budgets: Budgets
) -> tuple[str, tuple[str, ...]]:
    """Give the update block of `changes` and the names of rules cut in it; nothing where no wording changed.

    `find` gives a rule by bank, name and revision. Of `learned` only the lines that came and went are told.
    """
    lines: list[str] = []
    whole: list[Rule] = []
    still_named = {step.name for step in changes if step.after}
    for step in changes:
        before = find(step.bank, step.name, step.before) if step.before else None
        after = find(step.bank, step.name, step.after) if step.after else None
        if after is None:
            if step.name not in still_named:  # else a rule of that name from another bank takes its place
                lines.append(f"The rule “{step.name}” no longer holds.")
        elif before is not None and before.content == after.content:
            continue
        elif step.name == LEARNED_RULE and before is not None:
            lines += _learned_changes(before, after)
        else:
            whole.append(after)
    given, truncated = _within(whole, budgets)
    shown, cut = _lines_within(lines, budgets.learned)
    if cut:
        shown.append(_marker(LEARNED_RULE, sum(len(text) + 1 for text in cut)))
        truncated.append(LEARNED_RULE)
    parts = [_element(item) for item in given]
    if not parts and not shown:
        return "", ()
    return "\n".join([UPDATE_OPEN, _UPDATE_FRAME, *shown, *parts, UPDATE_CLOSE]), tuple(truncated)


def _learned_changes(before: Rule, after: Rule) -> list[str]:
    old, new = _content_lines(before), _content_lines(after)
    gone = [f"No longer: {line.lstrip('-* ')}" for line in old if line not in set(new)]
    return gone + [f"Also: {line.lstrip('-* ')}" for line in new if line not in set(old)]


def _content_lines(rule: Rule) -> list[str]:
    return [line for line in _content(rule).split("\n") if line]


def _content(rule: Rule) -> str:
    """A rule's harmless content. A line of `learned` came out of a turn: it stays one line and is no heading."""
    if rule.name != LEARNED_RULE:
        return safe.document(rule.content)
    lines = (safe.line(line).lstrip("# ") for line in rule.content.split("\n"))
    return "\n".join(line for line in lines if line)


def _within(rules: Sequence[Rule], budgets: Budgets) -> tuple[list[GivenRule], list[str]]:
    room = {False: budgets.written, True: budgets.learned}
    given: list[GivenRule] = []
    truncated: list[str] = []
    for rule in rules:
        learned = rule.name == LEARNED_RULE
        content = _content(rule)
        if len(given) == RULES_MAX:
            truncated.append(rule.name)
            continue
        if len(content) <= room[learned]:
            given.append(GivenRule(rule, content))
        else:
            truncated.append(rule.name)
            cut = _cut(rule.name, content, room[learned], keep_end=learned)
            if not cut:
                continue
            content = cut
            given.append(GivenRule(rule, content, clipped=True))
        room[learned] -= len(content)
    return given, truncated


def _cut(name: str, content: str, chars: int, *, keep_end: bool) -> str:
    """Cut at a line. A document keeps its beginning; of learned lines the newest are kept, which stand last."""
    lines = content.split("\n")
    worst = _marker(name, len(content))
    kept, left = _lines_within(lines[::-1] if keep_end else lines, chars - len(worst) - 1)
    if chars < len(worst):
        return ""
    marker = _marker(name, sum(len(text) + 1 for text in left))
    return "\n".join([marker, *kept[::-1]] if keep_end else [*kept, marker])


def _lines_within(lines: Sequence[str], chars: int) -> tuple[list[str], list[str]]:
    used = 0
    for n, text in enumerate(lines):
        used += len(text) + 1
        if used > chars:
            return list(lines[:n]), list(lines[n:])
    return list(lines), []


def _marker(name: str, chars: int) -> str:
    return f"[cut: {chars} more characters of the rule “{name}” did not fit]"


def _element(item: GivenRule) -> str:
    rule = item.rule
    frame = [_LEARNED_FRAME] if rule.name == LEARNED_RULE else []
    return "\n".join([f'<rule name="{rule.name}" bank="{rule.bank}">', *frame, item.content, "</rule>"])
