"""What a pass may do: retire a record that says the same, or put a change before a person."""

from typing import Any, NamedTuple

from memory_consolidate.difference import Difference
from memory_consolidate.items import Item
from memory_contracts.functions.consolidating import FindingKind
from memory_contracts.names import REASON_MAX_CHARS

QUOTED_MAX_CHARS = 60
"""Longest quotation of a differing passage in a reason, in characters."""

ORDER: tuple[FindingKind, ...] = (
    "claim",
    "subject",
    "negation",
    "number",
    "date",
    "unit",
    "quantifier",
    "learned_conflict",
    "same_text",
    "same_tokens",
    "learned_same",
    "wording",
    "order",
    "name",
    "detail",
    "rule_worthy",
    "unused",
)
"""What a person sees first: contradictions, then repetitions, then housekeeping."""

_SAYS: dict[FindingKind, str] = {
    "number": "nearly the same text with another number",
    "date": "nearly the same text with another date",
    "negation": "nearly the same text, and one of them denies it",
    "unit": "nearly the same text with another unit",
    "quantifier": "nearly the same text with another extent",
    "name": "nearly the same text with another name",
    "order": "the same words in another order",
    "wording": "nearly the same text",
    "detail": "the same with an addition",
}


class Supersede(NamedTuple):
    """Retire `loser` in favour of `keeper`: they say the same."""

    kind: FindingKind
    loser: Item
    keeper: Item
    reason: str


class Proposal(NamedTuple):
    """A change for a person to decide. `key` names what it is about, whichever way round it is proposed.

    `texts` are what a judge may be shown; they are never stored.
    """

    kind: FindingKind
    function: str
    args: dict[str, Any]
    reason: str
    key: frozenset[str]
    texts: tuple[str, ...] = ()


def retire(kind: FindingKind, loser: Item, keeper: Item, reason: str) -> Proposal:
    """Propose that `keeper` stands for both."""
    return Proposal(
        kind,
        "supersede",
        {"id": loser.id, "by": keeper.id, "reason": _SAYS.get(kind, kind.replace("_", " "))},
        clip(reason),
        frozenset((loser.id, keeper.id)),
        (loser.text, keeper.text),
    )


def explain(found: Difference) -> str:
    """Say in what two texts differ, quoting the words."""
    if not found.removed and not found.added:
        return _SAYS[found.kind]
    removed, added = _quote(found.removed), _quote(found.added)
    if found.kind == "order":
        return f"{_SAYS['order']}: {removed}"
    return f"{_SAYS[found.kind]}: {removed} against {added}"


def _quote(words: tuple[str, ...]) -> str:
    joined = " ".join(words)
    if not joined:
        return "nothing"
    return f"“{joined}”" if len(joined) <= QUOTED_MAX_CHARS else f"“{joined[:QUOTED_MAX_CHARS]}…”"


def clip(reason: str) -> str:
    """Keep a reason within what the contract takes."""
    return reason if len(reason) <= REASON_MAX_CHARS else reason[: REASON_MAX_CHARS - 1] + "…"
