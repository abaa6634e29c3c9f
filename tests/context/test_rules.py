"""The rules section: whole, in a stable order, within budgets, the same for a session; changes arrive once."""

from memory_contracts.records import Rule, Source
from memory_worker.clock import to_datetime
from memory_worker.context.rules import Budgets, effective, render
from tests.context.room import START, Room


def rule(name: str, content: str, bank: str = "main", priority: int = 100, revision: int = 1) -> Rule:
    """A rule by hand."""
    return Rule(
        bank=bank,
        name=name,
        content=content,
        priority=priority,
        revision=revision,
        updated_at=to_datetime(START),
        source=Source(route="human", principal="me"),
    )


async def test_rules_stand_whole_by_priority_then_name(here: Room) -> None:
    """A lower priority comes first; equal ones go by name; markdown stays as it was written."""
    await here.rule("zebra", "Last.", priority=500)
    await here.rule("beta", "# Style\n\n- short\n- plain", priority=10)
    await here.rule("alpha", "First of ten.", priority=10)
    reply = await here.context("Hello")
    assert reply.system == (
        "<memory-rules>\n"
        "Standing rules of the user. They hold in every turn; the user's own words in this conversation come first.\n"
        '<rule name="alpha" bank="main">\nFirst of ten.\n</rule>\n'
        '<rule name="beta" bank="main">\n# Style\n\n- short\n- plain\n</rule>\n'
        '<rule name="zebra" bank="main">\nLast.\n</rule>\n'
        "</memory-rules>"
    )
    assert [(used.name, used.bank, used.revision) for used in reply.used_rules] == [
        ("alpha", "main", 1),
        ("beta", "main", 1),
        ("zebra", "main", 1),
    ]


async def test_the_section_is_the_same_for_a_session_and_a_change_arrives_once(here: Room) -> None:
    """A prompt cache keeps its prefix: the section stays, the update is given in one turn only."""
    await here.rule("style", "Answer briefly.")
    first = await here.context("Hello")
    await here.rule("style", "Answer at length.")
    await here.rule("tone", "Be kind.")
    second = await here.context("Hello")
    third = await here.context("Hello")
    assert second.system == first.system == third.system
    assert second.etag == first.etag
    assert "Answer at length." in second.update
    assert "Be kind." in second.update
    assert third.update == ""
    fresh = await here.context("Hello", session_id="s2")
    assert "Answer at length." in fresh.system
    assert fresh.update == ""
    assert fresh.etag != first.etag


async def test_a_removed_rule_is_told_to_a_running_session(here: Room) -> None:
    """An emptied rule no longer holds, and the session hears of it."""
    await here.rule("style", "Answer briefly.")
    await here.context("Hello")
    await here.rule("style", "")
    reply = await here.context("Hello")
    assert "The rule “style” no longer holds." in reply.update
    assert reply.used_rules == []


async def test_a_session_without_rules_hears_of_its_first_one(here: Room) -> None:
    """The first rule of a bank reaches a session that began without any."""
    assert (await here.context("Hello")).system == ""
    await here.rule("style", "Answer briefly.")
    reply = await here.context("Hello")
    assert reply.system == ""
    assert "Answer briefly." in reply.update


async def test_the_section_survives_a_restart_to_the_byte(here: Room) -> None:
    """After a restart a session has its old section, and is told what it was not told yet."""
    await here.rule("style", "Answer briefly.")
    first = await here.context("Hello", turn_id="t1")
    await here.rule("style", "Answer at length.")
    await here.restart()
    second = await here.context("Hello", turn_id="t2")
    assert second.system == first.system
    assert "Answer at length." in second.update
    await here.restart()
    assert (await here.context("Hello", turn_id="t3")).update == ""


async def test_an_etag_that_holds_saves_the_section(here: Room) -> None:
    """With the caller's etag still good, no rules are sent; memories are."""
    await here.rule("style", "Answer briefly.")
    await here.save("Ana's cat is called Mio")
    first = await here.context("Hello")
    same = await here.context("What is the name of Ana's cat?", etag=first.etag)
    assert (same.unchanged, same.system, same.rules) == (True, "", [])
    assert same.memories != ""
    other = await here.context("Hello", etag="something else")
    assert (other.unchanged, other.system) == (False, first.system)


async def test_an_update_is_told_again_when_the_window_lost_it(here: Room) -> None:
    """After a compaction, which `known` shows, a rule change that fell out of the window is given again, once."""
    await here.rule("style", "Answer briefly.")
    first = await here.save("Ana's cat is called Mio")
    await here.context("Hello", known=[])
    await here.rule("style", "Answer at length.")
    second = await here.context("What is the name of Ana's cat?", known=[])
    assert "Answer at length." in second.update
    assert [used.id for used in second.used] == [first.id]
    assert (await here.context("Hello", known=[first.id])).update == ""
    assert "Answer at length." in (await here.context("Hello", known=[])).update


def test_the_nearer_rule_of_a_name_wins_and_learned_lines_add_up() -> None:
    """A bank's rule replaces that of its layer; what was learned in both holds."""
    near = [rule("style", "near", "project"), rule("learned", "- use tabs", "project")]
    far = [rule("style", "far"), rule("safety", "far"), rule("learned", "- speak German")]
    assert [(r.bank, r.name) for r in effective([near, far])] == [
        ("project", "learned"),
        ("main", "learned"),
        ("main", "safety"),
        ("project", "style"),
    ]


def test_a_rule_over_budget_is_cut_at_a_line_and_named() -> None:
    """The section says where it was cut, and `truncated` names the rule."""
    lines = "\n".join(f"line {n} of the long rule" for n in range(1_000))
    section = render([rule("first", "Whole."), rule("long", lines[:19_999])], Budgets())
    assert section.truncated == ("long",)
    given = section.rules[1]
    assert given.clipped
    body, marker = given.content.rsplit("\n", 1)
    assert lines.startswith(body + "\n")
    assert marker.startswith("[cut: ")
    assert marker.endswith(" more characters of the rule “long” did not fit]")
    assert sum(len(item.content) for item in section.rules) <= 20_000


def test_a_rule_of_the_whole_budget_is_given_whole() -> None:
    """20,000 characters by hand fit, to the last one."""
    section = render([rule("long", "x" * 20_000)], Budgets())
    assert section.truncated == ()
    assert len(section.rules[0].content) == 20_000


def test_learning_never_pushes_a_hand_written_rule_out() -> None:
    """`learned` has 4,000 characters of its own: it is cut alone, and keeps its newest lines."""
    learned = "\n".join(f"- learned line {n}" for n in range(1_000))
    section = render([rule("learned", learned), rule("style", "y" * 20_000)], Budgets())
    assert section.truncated == ("learned",)
    assert section.rules[0].content.endswith("- learned line 999")
    assert len(section.rules[0].content) <= 4_000
    assert not section.rules[1].clipped


def test_a_rule_that_finds_no_room_is_named() -> None:
    """A rule that the budget leaves no line for is not dropped in silence."""
    section = render([rule("a", "x" * 20_000), rule("b", "Be kind.")], Budgets())
    assert section.truncated == ("b",)


async def test_a_rule_learned_in_the_session_is_told_by_its_line(here: Room) -> None:
    """Of a longer `learned` only the new line is told to a running session."""
    await here.rule("learned", "- speak German\n- use tabs")
    await here.context("Hello")
    await here.rule("learned", "- speak German\n- use tabs\n- no emoji")
    update = (await here.context("Hello")).update
    assert "Also: no emoji" in update
    assert "speak German" not in update


async def test_rules_of_a_bank_made_again_are_not_the_old_ones(here: Room) -> None:
    """A session of a deleted bank does not keep its rules when the name is used again."""
    await here.bank("work")
    await here.rule("style", "Old house style.", bank="work")
    metadata = {"memory_bank": "work"}
    assert "Old house style." in (await here.context("Hello", metadata=metadata)).system
    await here.drop_bank("work")
    here.clock.at += 1
    await here.bank("work")
    assert (await here.context("Hello", metadata=metadata)).system == ""
