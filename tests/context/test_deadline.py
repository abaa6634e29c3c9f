"""A context answers in time with what it has, rules first, and names what it left out."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from memory_worker.context import ContextSettings, RecallAnswer
from tests.context.room import Room, texts

CAT = "What is the name of Ana's cat?"


class StuckRecaller:
    """A recaller that never answers."""

    async def recall(
        self, scope: Sequence[str], text: str, *, about: Sequence[str], limit: int, deadline_ms: float, explain: bool
    ) -> RecallAnswer:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError


class BrokenRecaller(StuckRecaller):
    """A recaller whose index is gone."""

    async def recall(
        self, scope: Sequence[str], text: str, *, about: Sequence[str], limit: int, deadline_ms: float, explain: bool
    ) -> RecallAnswer:
        """Fail."""
        raise RuntimeError("no index")


class StuckSessions:
    """A session manager that never answers."""

    def __init__(self) -> None:
        self.asked = 0

    async def metadata(self, session_id: str) -> Mapping[str, Any] | None:
        """Wait for ever."""
        self.asked += 1
        await asyncio.Event().wait()
        return None


async def test_a_recall_that_is_late_is_cut_and_named(here: Room) -> None:
    """Rules and pinned memories are given; the cut arm is named in `truncated` and `mode`."""
    await here.rule("style", "Answer briefly.")
    await here.save("Ana's cat is called Mio")
    await here.save("Ana is the boss", pinned=True)
    contexts = here.service(recaller=StuckRecaller(), settings=ContextSettings(deadline_s=0.1))
    here.contexts, before = contexts, here.contexts
    reply = await here.context(CAT)
    assert "Answer briefly." in reply.system
    assert texts(reply) == ["Ana is the boss"]
    assert reply.mode == "cut"
    assert reply.truncated == ["recall: cut at the deadline"]
    await before.close()


async def test_a_recall_that_fails_costs_no_turn_its_rules(here: Room) -> None:
    """The turn is answered with rules and pinned memories, and says that recall is down."""
    await here.rule("style", "Answer briefly.")
    await here.save("Ana is the boss", pinned=True)
    here.contexts, before = here.service(recaller=BrokenRecaller()), here.contexts
    reply = await here.context(CAT)
    assert "Answer briefly." in reply.system
    assert texts(reply) == ["Ana is the boss"]
    assert (reply.mode, reply.truncated) == ("down", ["recall: down"])
    await before.close()


async def test_a_late_session_manager_costs_its_own_deadline_once(here: Room) -> None:
    """Sibling calls have a shorter deadline and a negative entry: the next turn does not wait for it again."""
    sessions = StuckSessions()
    contexts = here.service(sessions, settings=ContextSettings(deadline_s=5.0, session_deadline_s=0.05))
    here.contexts, before = contexts, here.contexts
    for _ in range(3):
        reply = await here.context(CAT)
        assert (reply.bank, reply.system, reply.memories) == (None, "", "")
        assert reply.reason == "the session manager does not answer"
    assert sessions.asked == 1
    await before.close()


async def test_turns_asked_side_by_side_get_one_answer(here: Room) -> None:
    """A turn that is asked twice at once has the same bytes; two turns are not both given the same memory."""
    await here.save("Ana's cat is called Mio")
    same = await asyncio.gather(*(here.context(CAT, turn_id="t1") for _ in range(5)))
    assert all(reply == same[0] for reply in same)
    two = await asyncio.gather(*(here.context(CAT, session_id="s2", turn_id=f"t{n}") for n in range(2)))
    assert sorted(len(reply.items) for reply in two) == [0, 1]
