"""Measures the labelled pairs: `python -m tests.consolidate.labelled` prints the table per class.

Each pair is put into a bank of its own and goes through the whole finding, candidate search included. Rules and word
lists were corrected by looking at what went wrong in every second pair only; the other half is `unread`. One author
wrote rules and pairs, so the figures say how well the rules do what they are meant to, not how often such texts occur.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from memory_consolidate.finding import find
from memory_consolidate.items import Item, item_of
from memory_contracts.records import Memory, Source

PAIRS = Path(__file__).with_name("pairs.txt")
AT = datetime(2026, 3, 1, tzinfo=UTC)


class Pair(NamedTuple):
    """Two texts and what a careful reader would do about them."""

    kind: str
    language: str
    expected: str
    left: str
    right: str
    unread: bool


class Score(NamedTuple):
    """How often each act was right, over a set of pairs."""

    pairs: int
    superseded: int
    superseded_right: int
    to_supersede: int
    suggested: int
    suggested_right: int
    to_suggest: int

    @property
    def supersede_precision(self) -> float:
        """Share of automatic acts that were right; 1 when there were none."""
        return self.superseded_right / self.superseded if self.superseded else 1.0

    @property
    def supersede_recall(self) -> float:
        """Share of exact pairs that were superseded; 1 when there were none."""
        return self.superseded_right / self.to_supersede if self.to_supersede else 1.0

    @property
    def suggest_precision(self) -> float:
        """Share of suggestions a person should have been asked; 1 when there were none."""
        return self.suggested_right / self.suggested if self.suggested else 1.0

    @property
    def suggest_recall(self) -> float:
        """Share of what a person should be asked that was suggested; 1 when there was none."""
        return self.suggested_right / self.to_suggest if self.to_suggest else 1.0


def read_pairs() -> list[Pair]:
    """Read the labelled set."""
    rows = [line for line in PAIRS.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [Pair(*row.split(" | "), unread=number % 2 == 1) for number, row in enumerate(rows)]  # type: ignore[arg-type]


def item(text: str, identifier: str = "mem_a", **fields: object) -> Item:
    """Make the record of a text that an agent wrote down."""
    known: dict[str, object] = {
        "id": identifier,
        "bank": "main",
        "text": text,
        "kind": "fact",
        "tier": "inferred",
        "source": Source(route="agent", principal="default"),
        "created_at": AT,
        "updated_at": AT,
        "last_seen_at": AT,
    }
    return item_of(Memory(**(known | fields)))  # type: ignore[arg-type]


def acted(left: str, right: str) -> tuple[str, str]:
    """What finding does about two texts in one bank, and the kind it files them under."""
    found = find([item(left, "mem_a"), item(right, "mem_b")])
    if found.supersedes:
        return "supersede", found.supersedes[0].kind
    if found.proposals:
        return "suggest", found.proposals[0].kind
    return "none", ""


def score(pairs: Iterable[Pair]) -> Score:
    """Run the pairs and count."""
    pairs = list(pairs)
    acts = [(pair.expected, acted(pair.left, pair.right)[0]) for pair in pairs]
    return Score(
        pairs=len(acts),
        superseded=sum(act == "supersede" for _, act in acts),
        superseded_right=sum(expected == act == "supersede" for expected, act in acts),
        to_supersede=sum(expected == "supersede" for expected, _ in acts),
        suggested=sum(act == "suggest" for _, act in acts),
        suggested_right=sum(expected == act == "suggest" for expected, act in acts),
        to_suggest=sum(expected == "suggest" for expected, _ in acts),
    )


def table() -> str:
    """The figures per class, per language and over all, as text."""
    pairs = read_pairs()
    rows: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        rows[pair.kind].append(pair)
    for pair in pairs:
        rows[f"[{pair.language}]"].append(pair)
    rows["read"] = [pair for pair in pairs if not pair.unread]
    rows["unread"] = [pair for pair in pairs if pair.unread]
    rows["all"] = pairs
    lines = [f"{'class':<12}{'pairs':>6}{'auto':>6}{'auto P':>8}{'auto R':>8}{'asked':>7}{'ask P':>7}{'ask R':>7}"]
    for name, members in rows.items():
        s = score(members)
        lines.append(
            f"{name:<12}{s.pairs:>6}{s.superseded:>6}{s.supersede_precision:>8.3f}{s.supersede_recall:>8.3f}"
            f"{s.suggested:>7}{s.suggest_precision:>7.2f}{s.suggest_recall:>7.2f}"
        )
    return "\n".join(lines)


def failures(unread: bool) -> str:
    """The pairs that came out otherwise than labelled."""
    lines = []
    for pair in read_pairs():
        act, kind = acted(pair.left, pair.right)
        if act != pair.expected and pair.unread is unread:
            lines.append(
                f"{pair.kind} {pair.language}: {act} ({kind}), not {pair.expected}: {pair.left} | {pair.right}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
    if "--failures" in sys.argv:
        sys.stdout.write(failures(unread=False) + "\n")
