"""How tokens are cut, lists are compared and differences are classed."""

import pytest

from memory_consolidate.difference import difference
from memory_consolidate.lexicon import LEXICONS
from memory_consolidate.reorder import differs_in_list_order
from memory_consolidate.tokens import tokens_of


def lists_alike(left: str, right: str) -> bool:
    one, other = tokens_of(left), tokens_of(right)
    return differs_in_list_order(one.folded, other.folded, one.lexicon)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Ana’s plan — “v2.1”, mailed to a.b@c.org!", ("ana's", "plan", "-", "v2.1", ",", "mailed", "to", "a.b@c.org")),
        ("- The **oven** is at -5 °C", ("the", "oven", "is", "at", "-5", "°c")),
        ("tea, milk, and C++", ("tea", ",", "milk", "and", "c", "+", "+")),
        ("10² of 5' at 50%?", ("10", "^", "2", "of", "5", "'", "at", "50", "%", "?")),
        ("健はiPhoneが好き。", ("健", "は", "iphone", "が", "好き")),
    ],
)
def test_tokens_keep_what_means_something(text: str, tokens: tuple[str, ...]) -> None:
    """Quotes, bullets, emphasis and the last full stop go; numbers, signs, symbols and a question mark stay."""
    assert tokens_of(text).folded == tokens


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Ana manages Ben", "Ben manages Ana"),
        ("Ana likes black tea and coffee", "Ana likes black coffee and tea"),
        ("Ana and Ben are 5 and 7", "Ben and Ana are 5 and 7"),
        ("stop and wait", "wait and stop"),
        ("Ana has a red car and a blue house", "Ana has a blue car and a red house"),
        ("Tom went from Oslo and Bergen to Rome", "Tom went from Bergen and Oslo to Rome"),
        ("The order is Ana, Ben and Cleo", "The order is Ben, Ana and Cleo"),
        ("Ana likes tea and Ben likes coffee", "Ana likes coffee and Ben likes tea"),
        ("Ana likes tea and coffee", "Ana likes tea and coffee"),
    ],
)
def test_what_may_carry_roles_is_not_a_list(left: str, right: str) -> None:
    """Roles, two lists, a named order and items of unclear reach keep their order."""
    assert not lists_alike(left, right)


def test_a_plain_list_may_be_told_in_any_order() -> None:
    """The items of one list are a set."""
    assert lists_alike("Ana likes tea, milk and coffee", "Ana likes coffee, tea and milk")
    assert lists_alike("Allergies: nuts and eggs", "Allergies: eggs and nuts")


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ("Tom weighs 82 kg", "Tom weighs 79 kg", "number"),
        ("Deploys go out on Tuesday", "Deploys go out on Thursday", "date"),
        ("Tom eats fish", "Tom doesn't eat fish", "negation"),
        ("The trail is 8 km long", "The trail is 8 miles long", "unit"),
        ("All tests run nightly", "Some tests run nightly", "quantifier"),
        ("Tom's boss is Ines", "Tom's boss is Marta", "name"),
        ("Ines manages Tom", "Tom manages Ines", "order"),
        ("Tom walks the dog early", "Tom walked the dog early", "wording"),
        ("Ana drinks tea", "Ana drinks green tea", "detail"),
    ],
)
def test_differences_are_classed(left: str, right: str, kind: str) -> None:
    """Numbers, dates, negations, names, units and quantifiers are told apart from mere wording."""
    found = difference(tokens_of(left), tokens_of(right))
    assert found is not None
    assert found.kind == kind


def test_texts_about_different_things_are_not_compared() -> None:
    """Two texts that share hardly a word have no difference to speak of."""
    assert difference(tokens_of("Tom plays the cello"), tokens_of("Deploys need two reviewers")) is None


def test_every_language_has_every_word_class() -> None:
    """A language with an empty class would silently class its differences wrongly."""
    assert len(LEXICONS) >= 6
    for lexicon in LEXICONS.values():
        for name in lexicon.__struct_fields__:
            assert getattr(lexicon, name), f"{lexicon.language}: {name}"
