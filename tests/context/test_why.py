"""Why: what a turn was given and where a memory was used; kept for a while, erased with the memory, seen by few."""

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.recalling import WhyRequest
from memory_worker.store import uses
from tests.context.room import HARNESS, ME, Room, agent, caller

CAT = "What is the name of Ana's cat?"
DAY = 86_400


async def test_why_tells_what_a_turn_was_given(here: Room) -> None:
    """Memories with score and revision, and rules with revision, as they were then."""
    await here.rule("style", "Answer briefly.")
    memory = await here.save("Ana's cat is called Mio")
    given = await here.context(CAT, turn_id="t1")
    await here.rewrite(memory, text="Ana's cat is called Leo")
    [use] = (await here.contexts.why(WhyRequest(turn_id="t1"), ME)).uses
    assert (use.turn_id, use.session_id, use.bank) == ("t1", "s1", "main")
    assert [(item.id, item.revision, item.score) for item in use.memories] == [(memory.id, 1, given.used[0].score)]
    assert [(rule.name, rule.revision) for rule in use.rules] == [("style", 1)]


async def test_why_tells_in_which_turns_a_memory_was_used(here: Room) -> None:
    """Newest first, a page at a time."""
    memory = await here.save("Ana's cat is called Mio")
    for n in range(5):
        await here.context(CAT, session_id=f"s{n}", turn_id=f"t{n}")
    first = await here.contexts.why(WhyRequest(memory_id=memory.id, limit=2), ME)
    assert [use.turn_id for use in first.uses] == ["t4", "t3"]
    second = await here.contexts.why(WhyRequest(memory_id=memory.id, limit=3, cursor=first.cursor), ME)
    assert [use.turn_id for use in second.uses] == ["t2", "t1", "t0"]
    assert second.cursor is None


@pytest.mark.parametrize("request_", [WhyRequest(), WhyRequest(turn_id="t", memory_id="m")])
async def test_why_wants_exactly_one_of_the_two(here: Room, request_: WhyRequest) -> None:
    """Neither or both is an invalid request."""
    with pytest.raises(FunctionError, match="either turn_id or memory_id"):
        await here.contexts.why(request_, ME)


async def test_why_shows_nothing_of_a_bank_the_caller_may_not_see(here: Room) -> None:
    """A use in a private bank, and a private memory in a shared bank's use, are for the owner alone."""
    ana = caller("human", "ana")
    await here.bank("diary", owner="human.ana", by=ana)
    await here.save("Ana's cat is called Secret", ana, bank="diary")
    await here.context(CAT, turn_id="t1", metadata={"memory": "private", "memory_owner": "human.ana"})
    assert len((await here.contexts.why(WhyRequest(turn_id="t1"), ana)).uses) == 1
    assert (await here.contexts.why(WhyRequest(turn_id="t1"), caller("human", "ben"))).uses == []
    note = await here.save("Ana's cat is called Kitkat", agent("coder"), bank="agent-coder")
    await here.context(CAT, session_id="s2", turn_id="t2", agent="coder")
    [use] = (await here.contexts.why(WhyRequest(turn_id="t2"), agent("coder"))).uses
    assert [item.id for item in use.memories] == [note.id]
    [use] = (await here.contexts.why(WhyRequest(turn_id="t2"), ME)).uses
    assert use.memories == ()
    assert (await here.contexts.why(WhyRequest(memory_id=note.id), ME)).uses == []


async def test_uses_are_kept_ninety_days(here: Room) -> None:
    """The sweep removes what is older and nothing else."""
    await here.context("Hello", turn_id="old")
    await here.contexts.flush()
    here.clock.at += 60 * DAY
    await here.context("Hello", turn_id="new")
    await here.contexts.flush()
    here.clock.at += 31 * DAY
    assert await here.contexts.sweep() == 1
    assert (await here.contexts.why(WhyRequest(turn_id="old"), ME)).uses == []
    assert len((await here.contexts.why(WhyRequest(turn_id="new"), ME)).uses) == 1


async def test_forgetting_a_memory_removes_every_trace_of_its_use(here: Room) -> None:
    """After its uses are forgotten no turn is known to have had it, and the count goes into the receipt."""
    memory = await here.save("Ana's cat is called Mio")
    await here.context(CAT, turn_id="t1")
    await here.contexts.flush()
    assert await here.store.write(lambda tx: uses.forget_memories(tx, [memory.id])) == 1
    assert (await here.contexts.why(WhyRequest(memory_id=memory.id), ME)).uses == []
    [use] = (await here.contexts.why(WhyRequest(turn_id="t1"), ME)).uses
    assert use.memories == ()


async def test_what_a_session_was_given_is_recognised_when_it_comes_back(here: Room) -> None:
    """Wordings as given and as they are now, and each rule line, are known to extraction."""
    await here.rule("style", "- Answer briefly.\n- Use metric units.")
    memory = await here.save("Ana's cat is called Mio")
    await here.context(CAT)
    await here.rewrite(memory, text="Ana's cat is called Leo")
    assert set(await here.contexts.handed_out("s1")) == {
        "Ana's cat is called Mio",
        "Ana's cat is called Leo",
        "Answer briefly.",
        "Use metric units.",
    }
    assert await here.contexts.handed_out("s2") == ()


async def test_a_harness_may_ask_why(here: Room) -> None:
    """The system route sees shared banks as everyone does."""
    await here.context("Hello", turn_id="t1")
    assert len((await here.contexts.why(WhyRequest(turn_id="t1"), HARNESS)).uses) == 1
