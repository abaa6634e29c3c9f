"""Finds what a bank says twice or says in two ways: from a list of memories to a plan of acts, by plain code."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from memory_consolidate.difference import Class, difference
from memory_consolidate.items import Item, currency, may_retire, name_words, relation, worth
from memory_consolidate.nearness import candidate_pairs
from memory_consolidate.proposals import ORDER, Proposal, Supersede, explain, retire
from memory_consolidate.reorder import differs_in_list_order
from memory_contracts.functions.consolidating import FindingKind
from memory_contracts.normal import normalise

COMPARED_MAX = 200_000
"""Most pairs verified token by token in one pass, the most alike first; about 10 s of one core."""
GROUP_MAX = 20
"""Most records of one group (a subject, a claim, a set of tokens) that are compared with each other."""
PER_MEMORY_MAX = 3
"""Most proposals about one memory in one pass; a person who decides those is asked about the rest later."""

_VALUES: frozenset[Class] = frozenset({"number", "date", "negation", "quantifier", "unit", "name"})
"""Classes in which the newer record is the better one; in the others the two say the same."""


_Value = Callable[[Item], str]


class Found(NamedTuple):
    """The plan: acts in order, how much was found by kind, what was left and why, and which bounds were met."""

    supersedes: list[Supersede]
    proposals: list[Proposal]
    counts: Counter[str]
    skipped: Counter[str]
    compared: int
    cut: tuple[str, ...]


class _Plan:
    """Collects acts while the steps run; a record that is to be retired is out of the later steps."""

    def __init__(self) -> None:
        self.supersedes: list[Supersede] = []
        self.proposals: dict[frozenset[str], Proposal] = {}
        self.retired: set[str] = set()
        self.skipped: Counter[str] = Counter()
        self.cut: set[str] = set()
        self.compared = 0

    def same(self, kind: FindingKind, loser: Item, keeper: Item, reason: str) -> None:
        """Two records say the same: retire one where code may, ask where it may not."""
        how = relation(loser, keeper)
        if how == "different":
            self.skipped["other_context"] += 1
        elif how == "same" and may_retire(loser):
            self.supersedes.append(Supersede(kind, loser, keeper, reason))
            self.retired.add(loser.id)
        else:
            self.ask(kind, loser, keeper, reason)

    def ask(self, kind: FindingKind, loser: Item, keeper: Item, reason: str) -> None:
        """Put the pair before a person, unless the one to go is pinned."""
        if loser.pinned:
            self.skipped["pinned"] += 1
            return
        proposal = retire(kind, loser, keeper, reason)
        self.proposals.setdefault(proposal.key, proposal)

    def left(self, items: Iterable[Item]) -> list[Item]:
        return [item for item in items if item.id not in self.retired]


def find(items: Sequence[Item], single_valued: AbstractSet[str] = frozenset()) -> Found:
    """Look through the live memories of one bank.

    `single_valued` names the properties (normal form) that hold one value at a time. Work is bounded by `COMPARED_MAX`
    and the bounds of `nearness`; the same items give the same plan.
    """
    plan = _Plan()
    ordered = sorted(items, key=lambda item: (item.words, item.id))
    _same_text(plan, ordered)
    _same_tokens(plan, plan.left(ordered))
    _claims(plan, plan.left(ordered), single_valued)
    _subjects(plan, plan.left(ordered))
    _near(plan, plan.left(ordered))
    proposals = _thin(plan)
    counts = Counter[str](act.kind for act in plan.supersedes) + Counter[str](act.kind for act in proposals)
    return Found(plan.supersedes, proposals, counts, plan.skipped, plan.compared, tuple(sorted(plan.cut)))


def _groups(items: Iterable[Item], key: Callable[[Item], bytes]) -> list[list[Item]]:
    groups: defaultdict[bytes, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return [group for group in groups.values() if len(group) > 1]


def _same_text(plan: _Plan, items: Sequence[Item]) -> None:
    for group in _groups(items, lambda item: item.digest):
        keepers: list[Item] = []
        for item in sorted(group, key=worth, reverse=True):
            twin = next((keeper for keeper in keepers if relation(item, keeper) == "same"), None)
            if twin is not None:
                plan.same("same_text", item, twin, "says the same in the same words")
            if item.id in plan.retired:
                continue
            for keeper in keepers if twin is None else ():
                plan.same("same_text", item, keeper, "says the same in the same words; filed differently")
            if len(keepers) < GROUP_MAX:
                keepers.append(item)


def _same_tokens(plan: _Plan, items: Sequence[Item]) -> None:
    for group in _groups(items, lambda item: item.bag):
        if len(group) > GROUP_MAX:
            plan.cut.add("group")
        ranked = sorted(group, key=worth, reverse=True)[:GROUP_MAX]
        for index, item in enumerate(ranked):
            for keeper in ranked[:index]:
                if keeper.digest == item.digest or {keeper.id, item.id} & plan.retired:
                    continue
                tokens, others = item.tokens(), keeper.tokens()
                plan.compared += 1
                listed = "instruction" not in (item.kind, keeper.kind)
                if listed and differs_in_list_order(tokens.folded, others.folded, tokens.lexicon):
                    plan.same("same_tokens", item, keeper, "says the same, its list in another order")
                    continue
                _judge_pair(plan, item, keeper)


def _near(plan: _Plan, items: Sequence[Item]) -> None:
    pairs, cut = candidate_pairs([item.words for item in items], COMPARED_MAX)
    if cut:
        plan.cut.add("compared")
    for first, second in pairs.tolist():
        one, other = items[first], items[second]
        if one.bag == other.bag or frozenset((one.id, other.id)) in plan.proposals:
            continue
        plan.compared += 1
        _judge_pair(plan, one, other)


def _judge_pair(plan: _Plan, one: Item, other: Item) -> None:
    """Class the difference of two texts and ask about it where it may be one fact."""
    if relation(one, other) == "different":
        plan.skipped["other_context"] += 1
        return
    loser, keeper = sorted((one, other), key=worth)
    found = difference(loser.tokens(), keeper.tokens(), name_words(one, other))
    if found is None or not found.ask:
        plan.skipped["another_fact"] += 1
        return
    if found.kind in _VALUES:
        loser, keeper = sorted((one, other), key=currency)
    elif found.kind == "detail":
        loser, keeper = sorted((one, other), key=lambda item: len(item.words))
        if (loser.tier, loser.pinned) != (keeper.tier, keeper.pinned):
            plan.skipped["unequal_tier"] += 1
            return
    told = difference(loser.tokens(), keeper.tokens(), name_words(one, other)) or found
    plan.ask(found.kind, loser, keeper, explain(told))


def _claims(plan: _Plan, items: Sequence[Item], single_valued: AbstractSet[str]) -> None:
    groups: defaultdict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        if item.claim and normalise(item.claim.property) in single_valued:
            groups[normalise(item.claim.entity), normalise(item.claim.property)].append(item)
    for (entity, name), group in groups.items():
        _shadowed(plan, "claim", group, f"two values of “{name}” of “{entity}”", _value)


def _value(item: Item) -> str:
    return normalise(item.claim.value) if item.claim else item.words


def _subjects(plan: _Plan, items: Sequence[Item]) -> None:
    groups: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        if item.subject:
            groups[item.subject].append(item)
    for subject, group in groups.items():
        _shadowed(plan, "subject", group, f"two values of the subject “{subject}”", lambda item: item.words)


def _shadowed(plan: _Plan, kind: FindingKind, group: list[Item], reason: str, value: _Value) -> None:
    """Ask about everything that the most current record of a group contradicts."""
    if len(group) > GROUP_MAX:
        plan.cut.add("group")
    ranked = sorted(group, key=currency, reverse=True)[:GROUP_MAX]
    for item in ranked[1:]:
        if value(item) != value(ranked[0]) and not _apart(item, ranked[0]):
            plan.ask(kind, item, ranked[0], reason)


def _apart(one: Item, other: Item) -> bool:
    return bool(one.about and other.about and one.about != other.about) or bool(
        one.entities and other.entities and not one.entities & other.entities
    )


def _thin(plan: _Plan) -> list[Proposal]:
    """The proposals in the order a person should see them, no memory in more than `PER_MEMORY_MAX`."""
    ranked = sorted(plan.proposals.values(), key=lambda proposal: (ORDER.index(proposal.kind), sorted(proposal.key)))
    seen: Counter[str] = Counter()
    kept = []
    for proposal in ranked:
        if any(memory in plan.retired for memory in proposal.key):
            continue
        if any(seen[memory] >= PER_MEMORY_MAX for memory in proposal.key):
            plan.skipped["asked_enough"] += 1
            continue
        seen.update(proposal.key)
        kept.append(proposal)
    return kept
