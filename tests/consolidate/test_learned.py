"""Lines of `learned` that repeat or contradict each other, and memories that deserve to be a rule."""

from memory_consolidate.learned import line_proposals, rule_proposals
from memory_contracts.records import LearnedLine, Rule, Source
from tests.consolidate.labelled import AT, item

BY = Source(route="system", principal="worker")


def learned(*lines: str) -> Rule:
    return Rule(
        bank="main",
        name="learned",
        content="\n".join(["# Learned", *(f"- {line}" for line in lines)]),
        priority=500,
        revision=4,
        updated_at=AT,
        source=BY,
        lines=tuple(LearnedLine(id=f"line_{n}", text=line, source=BY, at=AT) for n, line in enumerate(lines)),
    )


def test_a_repeated_line_is_offered_for_removal() -> None:
    """The later of two equal lines would go; the rest of the rule stays as it is, to the letter."""
    (proposal,) = line_proposals(learned("Answer in French", "Use tabs", "answer in French."))
    assert (proposal.kind, proposal.function) == ("learned_same", "rule.set")
    assert proposal.args["content"] == "# Learned\n- Answer in French\n- Use tabs"
    assert proposal.args["expected_revision"] == 4


def test_of_two_contradicting_lines_the_older_is_offered_for_removal() -> None:
    """What was said last is what is meant now."""
    (proposal,) = line_proposals(learned("Always answer in French", "Never answer in French"))
    assert proposal.kind == "learned_conflict"
    assert proposal.args["content"] == "# Learned\n- Never answer in French"


def test_lines_about_different_things_are_left_alone() -> None:
    """Two instructions side by side are no contradiction."""
    assert line_proposals(learned("Answer in French", "Run the tests before a commit")) == []


def test_an_instruction_said_again_and_again_is_offered_as_a_rule() -> None:
    """Its own words become a line of `learned`, if a person says so; nothing is made up."""
    often = item("Run the tests before a commit", "mem_a", kind="instruction", corroboration=3)
    rarely = item("Use tabs", "mem_b", kind="instruction", corroboration=2)
    fact = item("Tom lives in Leith", "mem_c", corroboration=9)
    (proposal,) = rule_proposals([often, rarely, fact], [learned("Answer in French")], "main", 3, frozenset())
    assert (proposal.function, proposal.args["text"]) == ("learned.add", "Run the tests before a commit")


def test_what_stands_in_a_rule_or_was_asked_before_is_not_offered_again() -> None:
    """A person is asked once."""
    often = item("Answer in French", "mem_a", kind="instruction", corroboration=3)
    assert rule_proposals([often], [learned("answer in French!")], "main", 3, frozenset()) == []
    assert rule_proposals([often], [], "main", 3, frozenset({"rule:mem_a"})) == []
