"""Preview shows what a turn would be given, and why not the rest, by the same code, and leaves no trace."""

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.recalling import WhyRequest
from tests.context.room import HARNESS, ME, Room, agent, caller, texts

CAT = "What is the name of Ana's cat?"


async def test_preview_gives_what_context_then_gives(here: Room) -> None:
    """The blocks are the same to the byte, and previewing changes nothing."""
    await here.rule("style", "Answer briefly.")
    await here.save("Ana's cat is called Mio")
    await here.context("Hello", session_id="s1")
    await here.rule("style", "Answer at length.")
    shown = await here.preview(CAT, session_id="s1")
    assert (await here.preview(CAT, session_id="s1")).memories == shown.memories
    given = await here.context(CAT, session_id="s1")
    assert (shown.system, shown.memories, shown.update) == (given.system, given.memories, given.update)
    assert shown.used == given.used
    assert (await here.contexts.why(WhyRequest(memory_id=given.used[0].id), ME)).uses[0].session_id == "s1"
    assert len((await here.contexts.why(WhyRequest(memory_id=given.used[0].id), ME)).uses) == 1


async def test_preview_shows_scores_and_arms_per_memory(here: Room) -> None:
    """A person can see why a memory came: its score, and what each arm thought of it."""
    await here.save("Ana's cat is called Mio")
    shown = await here.preview(CAT)
    [item] = shown.items
    assert 0.3 <= item.score <= 1.0
    assert item.arms["lexical"] > 0
    assert {arm.name for arm in shown.arms} >= {"lexical", "semantic"}


async def test_preview_says_what_was_left_out_and_why(here: Room) -> None:
    """What the window holds, and what finds no room, is named with its reason."""
    known = await here.save("Ana's cat is called Mio")
    long = [await here.save(f"Fact {n} that must be known: " + f"hello{n} " * 80, pinned=True) for n in range(6)]
    shown = await here.preview("What is the name of Ana's cat?", known=[known.id])
    reasons = {item.id: item.reason for item in shown.left_out}
    assert reasons[known.id] == "known"
    assert [reasons[memory.id] for memory in long if memory.id in reasons] == ["budget"] * (6 - len(shown.items))
    assert len(shown.items) < 6


async def test_preview_names_what_was_not_relevant_enough(here: Room) -> None:
    """A memory under the relevance floor is named with that reason."""
    memory = await here.save("Ana's cat is called Mio")
    shown = await here.preview("Is the cathedral open on Sundays, Ana?")
    assert texts(shown) == []
    assert [(item.id, item.reason) for item in shown.left_out] == [(memory.id, "floor")]


async def test_preview_names_what_a_better_memory_speaks_for(here: Room) -> None:
    """Of one subject the newer statement is given; the older is named as left out for it."""
    await here.learn("Ana's favourite tea is black tea", "t1", subject="ana tea")
    here.clock.at += 60
    await here.learn("Ana's favourite tea is green tea", "t2", subject="ana tea")
    shown = await here.preview("What is Ana's favourite tea?")
    assert texts(shown) == ["Ana's favourite tea is green tea"]
    assert [item.reason for item in shown.left_out] == ["subject"]


async def test_preview_without_a_session_knows_nothing_of_one(here: Room) -> None:
    """A hypothetical message is answered as for a new session."""
    await here.save("Ana's cat is called Mio")
    await here.context(CAT)
    assert texts(await here.preview(CAT)) == ["Ana's cat is called Mio"]
    assert texts(await here.preview(CAT, session_id="s1")) == []


async def test_preview_makes_no_bank(here: Room) -> None:
    """A new bank's name is previewed as an empty bank."""
    shown = await here.preview(CAT, metadata={"memory_bank": "new-bank"})
    assert (shown.bank, shown.total) == ("new-bank", 0)
    with pytest.raises(FunctionError, match="no bank new-bank"):
        await here.preview(CAT, bank="new-bank")


async def test_preview_shows_nothing_the_caller_may_not_see(here: Room) -> None:
    """Neither a private session's bank nor another agent's notes come to light through a preview."""
    ana = caller("human", "ana")
    await here.bank("diary", owner="human.ana", by=ana)
    await here.save("Ana's cat is called Secret", ana, bank="diary")
    await here.save("Ana's cat is called Kitkat", agent("coder"), bank="agent-coder")
    private = {"memory": "private", "memory_owner": "human.ana"}
    assert texts(await here.preview(CAT, ana, metadata=private)) == ["Ana's cat is called Secret"]
    assert texts(await here.preview(CAT, HARNESS, metadata=private)) == ["Ana's cat is called Secret"]
    hidden = await here.preview(CAT, caller("human", "ben"), metadata=private)
    assert (hidden.bank, texts(hidden), hidden.reason) == (None, [], "that bank is not yours to see")
    with pytest.raises(FunctionError, match="no bank diary"):
        await here.preview(CAT, caller("human", "ben"), bank="diary")
    assert texts(await here.preview(CAT, agent("coder"), agent="coder")) == ["Ana's cat is called Kitkat"]
    assert texts(await here.preview(CAT, agent("writer"), agent="coder")) == []
