"""The labelled pairs: what is retired by code, what a person is asked, and what is left alone."""

import pytest

from memory_consolidate.finding import find
from tests.consolidate.labelled import Pair, acted, item, read_pairs, score


def test_the_set_is_broad_enough() -> None:
    """At least 300 pairs in at least six languages, every class of difference among them."""
    pairs = read_pairs()
    assert len(pairs) >= 300
    assert len({pair.language for pair in pairs}) >= 6
    assert {"number", "date", "negation", "name", "unit", "quantifier", "same", "list_order", "wording"} <= {
        pair.kind for pair in pairs
    }


def test_nothing_but_the_same_is_retired_by_code() -> None:
    """Automatic acts are right every time; of the exact kinds at least 99 % are found."""
    figures = score(read_pairs())
    assert figures.superseded_right == figures.superseded
    assert figures.supersede_recall >= 0.99


def test_people_are_asked_worthwhile_questions() -> None:
    """At least eight of ten suggestions are one fact said twice or one fact with two values."""
    figures = score(read_pairs())
    assert figures.suggest_precision >= 0.8
    assert figures.suggest_recall >= 0.8


@pytest.mark.parametrize("pair", [pair for pair in read_pairs() if pair.expected == "supersede"], ids=lambda p: p.left)
def test_order_of_the_two_makes_no_difference(pair: Pair) -> None:
    """Whichever text came first, the pair is treated alike."""
    assert acted(pair.left, pair.right)[0] == acted(pair.right, pair.left)[0]


def test_in_one_bank_no_pair_disturbs_another() -> None:
    """With all texts in one bank exactly the labelled exact pairs are retired, and no others."""
    items, expected = [], set()
    for number, pair in enumerate(read_pairs()):
        items += [item(pair.left, f"mem_{number:03}a"), item(pair.right, f"mem_{number:03}b")]
        if pair.expected == "supersede":
            expected.add(frozenset((f"mem_{number:03}a", f"mem_{number:03}b")))
    found = find(items)
    assert {frozenset((act.loser.id, act.keeper.id)) for act in found.supersedes} == expected
