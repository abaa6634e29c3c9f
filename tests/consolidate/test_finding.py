"""What a pass plans for the memories of one bank."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_consolidate.finding import PER_MEMORY_MAX, find
from memory_consolidate.items import Item, may_retire
from memory_contracts.records import Claim
from tests.consolidate.labelled import AT, item

LATER = AT + timedelta(days=30)


def test_the_better_record_stays() -> None:
    """Pinned before stated before observed before inferred; then what was said again more often; then the older."""
    same = "Ines works at the harbour office"
    ranked = [
        item(same, "mem_1", pinned=True),
        item(same, "mem_2", tier="observed"),
        item(same, "mem_3", corroboration=4),
        item(same, "mem_4", corroboration=1),
        item(same, "mem_5", created_at=AT - timedelta(days=9)),
        item(same, "mem_6"),
    ]
    for better, worse in pairwise(ranked):
        (act,) = find([worse, better]).supersedes
        assert (act.loser.id, act.keeper.id) == (worse.id, better.id)


@pytest.mark.parametrize("fields", [{"pinned": True}, {"tier": "stated"}])
def test_pinned_and_stated_are_never_retired(fields: dict[str, object]) -> None:
    """Two records of one text that a person put in or pinned both stay; at most a person is asked."""
    found = find([item("Tom's bike is red", "mem_a", **fields), item("“Tom's bike is red”", "mem_b", **fields)])
    assert found.supersedes == []


def test_a_stated_record_takes_the_place_of_an_inferred_one() -> None:
    """What a model wrote down goes when a person said the same."""
    (act,) = find([item("Tom's bike is red", "mem_a", tier="stated"), item("Tom's bike is red!", "mem_b")]).supersedes
    assert (act.loser.id, act.keeper.id) == ("mem_b", "mem_a")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"about": ("repo:api",)}, {"about": ("repo:web",)}),
        ({"entities": ("Ines",)}, {"entities": ("Marta",)}),
        ({"occurred_at": AT}, {"occurred_at": LATER}),
    ],
)
def test_the_same_words_about_another_thing_are_left_alone(left: dict[str, object], right: dict[str, object]) -> None:
    """Another repository, another person or another day: neither retired nor asked about."""
    found = find([item("The tests run nightly", "mem_a", **left), item("The tests run nightly", "mem_b", **right)])
    assert (found.supersedes, found.proposals) == ([], [])
    assert found.skipped["other_context"] >= 1


def test_the_same_words_filed_differently_are_a_question() -> None:
    """When only one of two records says when it happened, a person decides."""
    found = find([item("Tom met Ines", "mem_a", occurred_at=AT), item("Tom met Ines", "mem_b")])
    assert found.supersedes == []
    assert [proposal.kind for proposal in found.proposals] == ["same_text"]


def test_an_order_of_work_is_not_a_list() -> None:
    """The steps of an instruction are never re-ordered by code."""
    steps = ("Invite Ines and Tom", "Invite Tom and Ines")
    found = find([item(steps[0], "mem_a", kind="instruction"), item(steps[1], "mem_b", kind="instruction")])
    assert found.supersedes == []


def test_two_values_of_one_subject_are_asked_about() -> None:
    """Of two memories filed under one subject the newer one is proposed to stay."""
    found = find(
        [
            item("Ines lives on Elm Road", "mem_a", subject="ines.home", last_seen_at=AT),
            item("Since spring the flat in Leith is home to Ines", "mem_b", subject="Ines.Home", last_seen_at=LATER),
        ]
    )
    (proposal,) = found.proposals
    assert (proposal.kind, proposal.function) == ("subject", "supersede")
    assert (proposal.args["id"], proposal.args["by"]) == ("mem_a", "mem_b")


def test_two_values_of_a_single_valued_property_are_asked_about() -> None:
    """A property that holds one value at a time cannot have two; one that holds many can."""
    items = [
        item("The birthday is in May", "mem_a", claim=Claim(entity="Ines", property="birthday", value="3 May")),
        item("Ines turns forty in June", "mem_b", claim=Claim(entity="ines", property="birthday", value="5 June")),
    ]
    assert [proposal.kind for proposal in find(items, frozenset({"birthday"})).proposals] == ["claim"]
    assert find(items).proposals == []


def test_a_stated_value_is_the_one_to_believe() -> None:
    """An inferred contradiction of what a person said is what would go, however new it is."""
    found = find(
        [
            item("The deadline is 3 May", "mem_a", tier="stated"),
            item("The deadline is 5 May", "mem_b", last_seen_at=LATER),
        ]
    )
    (proposal,) = found.proposals
    assert (proposal.args["id"], proposal.args["by"]) == ("mem_b", "mem_a")


def test_nobody_is_asked_to_retire_a_pinned_record() -> None:
    """A pinned record stands, also against another pinned one."""
    found = find([item("The fee is 5 euros", "mem_a", pinned=True), item("The fee is 6 euros", "mem_b", pinned=True)])
    assert found.proposals == []
    assert found.skipped["pinned"] == 1


def test_the_reason_quotes_the_difference() -> None:
    """A person sees which words differ."""
    (proposal,) = find([item("Standup starts at 9:30", "mem_a"), item("Standup starts at 9:45", "mem_b")]).proposals
    assert proposal.kind == "number"
    assert "“9:30”" in proposal.reason
    assert "“9:45”" in proposal.reason


def test_one_memory_is_not_asked_about_over_and_over() -> None:
    """A family of similar texts makes few questions about each member."""
    family = [item(f"The trail to hut {chr(65 + n)} is {n} km long", f"mem_{n:02}") for n in range(30)]
    asked: dict[str, int] = {}
    for proposal in find(family).proposals:
        for memory in proposal.key:
            asked[memory] = asked.get(memory, 0) + 1
    assert max(asked.values(), default=0) <= PER_MEMORY_MAX


WORDS = ["Ana", "Tom", "likes", "tea", "coffee", "not", "and", "9", "10", "is", "the", "red", "on", "Monday", "km", ","]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=2, max_size=8).map(" ".join)
ITEMS = st.lists(
    st.tuples(TEXTS, st.sampled_from(["stated", "observed", "inferred"]), st.booleans(), st.integers(0, 3)),
    max_size=14,
).map(
    lambda rows: [
        item(text, f"mem_{n:02}", tier=tier, pinned=pinned, corroboration=times)
        for n, (text, tier, pinned, times) in enumerate(rows)
    ]
)


@settings(max_examples=150, deadline=None)
@given(ITEMS)
def test_a_plan_keeps_its_promises(items: list[Item]) -> None:
    """No pinned or stated record is retired, none twice, none against one that goes first, none of other words."""
    found = find(items)
    gone: set[str] = set()
    for act in found.supersedes:
        assert may_retire(act.loser)
        assert act.keeper.id not in gone
        assert act.loser.id not in gone
        assert act.loser.bag == act.keeper.bag
        gone.add(act.loser.id)
    for proposal in found.proposals:
        assert not proposal.key & gone


@settings(max_examples=100, deadline=None)
@given(ITEMS, st.randoms(use_true_random=False))
def test_a_second_pass_finds_nothing_more(items: list[Item], shuffler: random.Random) -> None:
    """What is left after a plan was carried out holds nothing to retire, in whatever order it is read."""
    gone = {act.loser.id for act in find(items).supersedes}
    left = [one for one in items if one.id not in gone]
    shuffler.shuffle(left)
    assert find(left).supersedes == []


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.data())
def test_one_changed_word_is_never_retired_by_code(text: str, data: st.DataObject) -> None:
    """A text with one word replaced, taken out or put in is at most a question."""
    words = text.split()
    place = data.draw(st.integers(0, len(words) - 1))
    other = data.draw(st.sampled_from([word for word in WORDS if word != "," and word != words[place]]))
    changed = data.draw(
        st.sampled_from(
            [
                [*words[:place], other, *words[place + 1 :]],
                [*words[:place], *words[place + 1 :]],
                [*words[:place], other, *words[place:]],
            ]
        )
    )
    if sorted(w for w in changed if w != ",") == sorted(w for w in words if w != ","):
        return
    assert find([item(text, "mem_a"), item(" ".join(changed) or "x", "mem_b")]).supersedes == []


def test_ten_thousand_with_planted_duplicates_converge_at_once() -> None:
    """Of 10,000 memories a fifth repeats others; one plan retires exactly those, a second one nothing."""
    chance = random.Random(7)
    syllables = ["ka", "ro", "mi", "ten", "sul", "ver", "ona", "pli", "dor", "esh", "gu", "wex"]
    names = ["".join(chance.choice(syllables) for _ in range(3)).capitalize() for _ in range(4_000)]
    texts = [f"{' '.join(chance.sample(names, 7))} {n}" for n in range(8_000)]
    copies = [f"“{texts[n].replace(' ', '  ', 1)}”." for n in range(0, 8_000, 4)]
    items = [item(text, f"mem_{n:05}") for n, text in enumerate([*texts, *copies])]
    found = find(items)
    assert len(found.supersedes) == 2_000
    gone = {act.loser.id for act in found.supersedes}
    assert find([one for one in items if one.id not in gone]).supersedes == []


def test_times_are_compared_as_instants() -> None:
    """The same moment in another zone is the same event."""
    here = datetime(2026, 5, 1, 23, 30, tzinfo=UTC)
    there = here.astimezone(tz=None)
    (act,) = find(
        [item("Tom met Ines", "mem_a", occurred_at=here), item("Tom met Ines", "mem_b", occurred_at=there)]
    ).supersedes
    assert act.kind == "same_text"
