"""Turns are worked in order, side by side, once, whatever happens in between; what cannot be read is visibly parked."""

import asyncio
from pathlib import Path

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.siblings import SessionMessage
from memory_worker.extraction import ResolvedBank
from memory_worker.store import inbox
from tests.extraction.world import reply, said, turn, world_at
from tests.system.harness import eventually

MODEL = {"router": "required"}
TEA = turn("t1", said("I prefer tea over coffee"))


def tea_item(message_id: str = "t1-0") -> dict[str, object]:
    """What a careful model makes of it."""
    return {
        "text": "Prefers tea over coffee",
        "kind": "preference",
        "quote": "I prefer tea over coffee",
        "message_id": message_id,
        "standing": False,
        "confidence": "high",
    }


async def test_a_turn_becomes_memories_with_their_origin(tmp_path: Path) -> None:
    """What the user said is kept, `inferred`, with session, turn, message, role, quote and pattern."""
    async with world_at(tmp_path) as world:
        await world.publish(TEA)
        await world.settled()
        (memory,) = (await world.live()).values()

    assert memory.text == "I prefer tea over coffee"
    assert memory.tier == "inferred"
    assert memory.source.session_id == "s1"
    assert memory.source.turn_id == "t1"
    assert memory.source.message_ids == ("t1-0",)
    assert memory.source.role == "user"
    assert memory.source.quote == "I prefer tea over coffee"
    assert memory.source.pattern == "en.preference"


async def test_the_same_turn_five_times_counts_once(tmp_path: Path) -> None:
    """Redelivery, before and after a restart, changes neither memories nor corroboration."""
    async with world_at(tmp_path) as world:
        for _ in range(3):
            await world.publish(TEA)
        await world.settled()
        await world.restart()
        await world.publish(TEA, TEA)
        await world.settled()
        live = await world.live()

    assert list(live) == ["I prefer tea over coffee"]
    assert live["I prefer tea over coffee"].corroboration <= 1


async def test_the_order_of_arrival_does_not_matter(tmp_path: Path) -> None:
    """Turns of a session read forwards and backwards leave the same memories."""
    turns = [turn(f"t{n}", said(f"My locker number is {n} since March")) for n in range(4)]
    ends = []
    for name, order in (("forwards", turns), ("backwards", turns[::-1])):
        async with world_at(tmp_path / name) as world:
            for one in order:
                await world.publish(one)
            await world.settled()
            ends.append({text: memory.corroboration for text, memory in (await world.live()).items()})

    assert ends[0] == ends[1]
    assert len(ends[0]) == 4


async def test_a_transcript_that_grows_is_read_from_the_cursor_on(tmp_path: Path) -> None:
    """A harness that sends the whole session each turn does not make an old message count again."""
    first = turn("t1", said("I prefer tea over coffee"))
    second = {**turn("t2", said("I live in Porto since 2020")), "messages": [
        *first["messages"], *turn("t2", said("I live in Porto since 2020"))["messages"]
    ]}  # fmt: skip
    async with world_at(tmp_path) as world:
        await world.publish(first)
        await world.settled()
        before = (await world.live())["I prefer tea over coffee"].corroboration
        await world.publish(second)
        await world.settled()
        live = await world.live()

    assert set(live) == {"I prefer tea over coffee", "I live in Porto since 2020"}
    assert live["I prefer tea over coffee"].corroboration == before


async def test_two_hundred_steps_do_not_cost_the_users_words(tmp_path: Path) -> None:
    """A turn of two hundred assistant and tool messages still gives every user message."""
    steps = [("assistant" if n % 2 else "tool", f"step {n}: always obey step {n}") for n in range(200)]
    long = turn("t1", said("I live in Porto since 2020"), *steps, said("I prefer tea over coffee"))
    async with world_at(tmp_path) as world:
        await world.publish(long)
        await world.settled()

        assert set(await world.live()) == {"I live in Porto since 2020", "I prefer tea over coffee"}
        assert await world.lines() == []


async def test_what_is_not_to_be_read_is_recorded_and_done(tmp_path: Path) -> None:
    """Failed turns, sub-agents' turns and `memory: off` leave nothing but a count."""
    async with world_at(tmp_path) as world:
        await world.publish(
            turn("t1", said("I live in Porto since 2020"), status="failed"),
            turn("t2", said("I live in Porto since 2020"), depth=1),
            turn("t3", said("I live in Porto since 2020"), metadata={"memory": "off"}),
        )
        await world.settled()

        assert await world.live() == {}
        assert world.worker.status().ignored == {"not_completed": 1, "sub_agent": 1, "memory_off": 1}


async def test_turns_of_sub_agents_are_read_where_that_is_set(tmp_path: Path) -> None:
    """The setting `sub_agent_turns` lets them in."""
    async with world_at(tmp_path, sub_agent_turns=True) as world:
        await world.publish(turn("t1", said("I live in Porto since 2020"), depth=1))
        await world.settled()

        assert list(await world.live()) == ["I live in Porto since 2020"]


async def test_a_turn_goes_to_the_bank_it_names(tmp_path: Path) -> None:
    """Two sessions with the same words and two banks do not mix."""
    async with world_at(tmp_path) as world:
        await world.publish(turn("t1", said("I live in Porto since 2020"), metadata={"memory_bank": "work"}))
        await world.settled()

        assert list(await world.live("work")) == ["I live in Porto since 2020"]
        assert await world.live("main") == {}


async def test_a_session_manager_that_is_away_makes_the_turn_wait(tmp_path: Path) -> None:
    """The turn waits without an attempt being counted, and goes to its own bank when the answer comes."""
    async with world_at(tmp_path, session_manager="required", sibling_retry_s=60) as world:
        world.banks.waiting = True
        await world.publish(TEA)
        for n in range(1, 9):
            await eventually(lambda n=n: world.banks.asked == n, "another question")
            await world.waiting_for("session_manager")
            if n < 8:
                await world.forward(61)
        world.banks.waiting = False
        await world.forward(61)
        await world.settled()

        assert list(await world.live()) == ["I prefer tea over coffee"]


async def test_messages_are_fetched_where_a_turn_brings_none(tmp_path: Path) -> None:
    """All pages since the session's cursor are read, and the next turn goes on from there."""
    async with world_at(tmp_path, session_manager="required", session_page=1) as world:
        held = world.sessions.held.setdefault("s1", [])
        held += [SessionMessage(id="1", role="user", text="I live in Porto since 2020")]
        held += [SessionMessage(id="2", role="user", text="I prefer tea over coffee")]
        await world.publish({key: value for key, value in turn("t1").items() if key != "messages"})
        await world.settled()
        held += [SessionMessage(id="3", role="user", text="My dog Rex is 4 years old")]
        await world.publish({key: value for key, value in turn("t2").items() if key != "messages"})
        await world.settled()
        live = await world.live()

    assert set(live) == {"I live in Porto since 2020", "I prefer tea over coffee", "My dog Rex is 4 years old"}
    assert live["My dog Rex is 4 years old"].source.turn_id == "t2"


async def test_a_turn_without_messages_is_parked_where_nobody_has_them(tmp_path: Path) -> None:
    """Without a session manager the turn is set aside with the reason, not dropped."""
    async with world_at(tmp_path) as world:
        await world.publish({key: value for key, value in turn("t1").items() if key != "messages"})
        status = await world.settled()

    assert [(parked.turn_id, parked.reason) for parked in status.parked] == [("t1", "no_messages")]


async def test_a_router_that_is_away_holds_its_turns_and_counts_no_attempt(tmp_path: Path) -> None:
    """However long it is away no turn is parked; when it is back all are read."""
    async with world_at(tmp_path, **MODEL, extraction_attempts=1, sibling_retry_s=60) as world:
        world.router.away = True
        world.router.answers = [reply(tea_item())]
        await world.publish(TEA)
        for n in range(1, 7):
            await eventually(lambda n=n: len(world.router.asked) == n, "another call")
            await world.waiting_for("router")
            if n < 6:
                await world.forward(61)
        assert world.worker.status().router == "away"
        world.router.away = False
        await world.forward(200)
        status = await world.settled()

        assert status.parked_total == 0
        assert list(await world.live()) == ["Prefers tea over coffee"]
        assert world.worker.status().router == "ok"


async def test_an_open_circuit_spares_a_router_that_is_away(tmp_path: Path) -> None:
    """After three calls without an answer the next turns wait without a call being made."""
    async with world_at(tmp_path, **MODEL, sibling_retry_s=60, extraction_concurrency=1) as world:
        world.router.away = True
        await world.publish(*[turn(f"t{n}", said("I prefer tea"), session=f"s{n}") for n in range(8)])

        async def all_wait() -> bool:
            return (await world.status()).waiting.get("router") == 8

        await eventually(all_wait, "eight turns that wait")

        assert len(world.router.asked) == 3


async def test_a_slow_session_does_not_hold_up_others(tmp_path: Path) -> None:
    """While one session's turn hangs at the model, another session's turn is read."""
    async with world_at(tmp_path, **MODEL) as world:
        world.router.hold = asyncio.Event()
        await world.publish(TEA)
        await eventually(lambda: len(world.router.asked) == 1)
        held, world.router.hold = world.router.hold, None
        world.router.answers = [reply(tea_item("t2-0")), reply(tea_item())]
        await world.publish(turn("t2", said("I prefer tea over coffee"), session="s2"))

        async def read() -> bool:
            return bool(await world.live())

        await eventually(read, "the other session's memory")
        (memory,) = (await world.live()).values()
        held.set()
        await world.settled()

    assert memory.source.turn_id == "t2"


async def test_turns_of_one_session_are_read_one_after_the_other(tmp_path: Path) -> None:
    """The second turn of a session is not begun before the first is committed."""
    async with world_at(tmp_path, **MODEL) as world:
        world.router.hold = asyncio.Event()
        await world.publish(TEA, turn("t2", said("I live in Porto since 2020")))
        await eventually(lambda: len(world.router.asked) == 1)
        in_work = world.worker.status().in_work
        world.router.hold.set()
        await world.settled()

    assert in_work == 1
    assert [asked.messages[0].content.count('"id": "t1-0"') for asked in world.router.asked] == [1, 0]


async def test_a_turn_that_keeps_failing_is_parked_and_can_be_run_again(tmp_path: Path) -> None:
    """Attempts are counted, backoff grows, then the turn is parked with the reason; a retry starts anew."""
    async with world_at(tmp_path, **MODEL, extraction_attempts=3) as world:
        world.router.answers = [FunctionError("invalid_input", "too long")]
        await world.publish(TEA)
        for n in range(1, 3):
            await eventually(lambda n=n: len(world.router.asked) == n)
            await world.waiting_for("invalid_input")
            await world.forward(10 * 2**n)
        status = await world.settled()
        world.router.answers = [reply(tea_item())]
        await world.store.write(lambda tx: inbox.unpark(tx, None))
        world.worker.wake()
        await world.settled()

        assert [(parked.turn_id, parked.reason) for parked in status.parked] == [("t1", "failed: invalid_input")]
        assert len(world.router.asked) == 4
        assert list(await world.live()) == ["Prefers tea over coffee"]


async def test_a_failed_turn_holds_back_its_session_only(tmp_path: Path) -> None:
    """Later turns of the session wait behind it, other sessions go on, and the waiting is not a busy loop."""
    async with world_at(tmp_path, **MODEL) as world:
        world.router.answers = [FunctionError("invalid_input", "no"), reply()]
        await world.publish(TEA)
        await world.waiting_for("invalid_input")
        await world.publish(turn("t2", said("I prefer milk")), turn("t3", said("I prefer juice"), session="s2"))
        await eventually(lambda: len(world.router.asked) == 2)
        asked = world.router.asked[1].messages[0].content

        async def only_the_session_waits() -> bool:
            return (await world.status()).backlog == 2

        await eventually(only_the_session_waits, "two turns that wait")

    assert "juice" in asked
    assert len(world.router.asked) == 2


async def test_an_unreadable_reply_is_parked_with_the_reply_after_one_repair(tmp_path: Path) -> None:
    """One more try is made; then the raw reply is kept with the turn, without the secrets in it."""
    secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with world_at(tmp_path, **MODEL) as world:
        world.router.answers = ["I cannot do that.", f"Sorry, {secret} is not something I repeat."]
        await world.publish(TEA)
        status = await world.settled()
        raw = await world.store.write(lambda tx: tx.one("SELECT raw FROM inbox WHERE turn = 't1'"))

    assert status.parked[0].reason == "unreadable_reply"
    assert len(world.router.asked) == 2
    assert raw is not None
    assert b"is not something I repeat" in bytes(raw[0])
    assert secret.encode() not in bytes(raw[0])


async def test_a_repaired_reply_is_read(tmp_path: Path) -> None:
    """A model that answers in prose first and in JSON when asked again costs one call, not the turn."""
    async with world_at(tmp_path, **MODEL) as world:
        world.router.answers = ["Let me think.", reply(tea_item())]
        await world.publish(TEA)
        await world.settled()

        assert list(await world.live()) == ["Prefers tea over coffee"]


async def test_a_stop_in_the_middle_gives_the_turn_back(tmp_path: Path) -> None:
    """A turn that is at the model when the worker stops is read after the next start, its attempt not counted."""
    async with world_at(tmp_path, **MODEL, extraction_attempts=1) as world:
        world.router.hold = asyncio.Event()
        world.router.answers = [reply(tea_item())]
        await world.publish(TEA)
        await eventually(lambda: len(world.router.asked) == 1)
        await world.worker.stop(grace_s=0.01)
        world.router.hold = None
        await world.restart()
        status = await world.settled()

        assert status.parked_total == 0
        assert list(await world.live()) == ["Prefers tea over coffee"]


@pytest.mark.parametrize(("learning", "lines", "memories"), [("auto", 2, 0), ("suggest", 0, 0), ("off", 0, 3)])
async def test_what_becomes_of_standing_instructions(tmp_path: Path, learning: str, lines: int, memories: int) -> None:
    """`auto` learns up to the bound, the rest is suggested; `suggest` only suggests; `off` keeps them as memories."""
    text = "Always answer in French. Never use emojis. Always show the types in code."
    async with world_at(tmp_path, rule_learning=learning, learned_lines_per_turn=2) as world:
        await world.publish(turn("t1", said(text)))
        await world.settled()
        suggested = await world.store.write(lambda tx: tx.one("SELECT count(*) FROM suggestions"))

        assert len(await world.lines()) == lines
        assert len(await world.live()) == memories
        assert suggested is not None
        assert suggested[0] == 3 - lines - memories


async def test_the_same_instruction_twice_is_one_line(tmp_path: Path) -> None:
    """Saying it again in another session adds no second line."""
    async with world_at(tmp_path) as world:
        await world.publish(
            turn("t1", said("Always answer in French.")), turn("t2", said("always answer in French!"), session="s2")
        )
        await world.settled()

        assert await world.lines() == ["Always answer in French"]


async def test_what_context_handed_out_is_not_learned_back(tmp_path: Path) -> None:
    """A turn that repeats a line of the session's block, without its markers, leaves nothing new."""
    async with world_at(tmp_path) as world:
        world.around.handed = ("My sister Ana lives in Porto since 2019",)
        await world.publish(turn("t1", said("My sister Ana lives in Porto since 2019. Where does she live?")))
        await world.settled()

        assert await world.live() == {}
        assert world.worker.status().refused == {"handed_out": 1}


async def test_a_note_is_read_like_a_turn(tmp_path: Path) -> None:
    """A note gives the same checked items, with nothing committed by itself."""
    async with world_at(tmp_path) as world:
        found = await world.worker.read_note(
            world_bank(), "Always run the tests first. I prefer short names. My password is hunter2-Blue."
        )

        assert [line.text for line in found.learned] == ["Always run the tests first"]
        assert [item.text for item in found.items] == ["I prefer short names"]
        assert await world.live() == {}


def world_bank() -> ResolvedBank:
    """The main bank."""
    return ResolvedBank("main")


async def test_status_counts_what_was_kept_and_refused(tmp_path: Path) -> None:
    """Kept, refused by check, ignored by reason, and who reads."""
    async with world_at(tmp_path) as world:
        await world.publish(turn("t1", said("I prefer tea over coffee. My password is hunter2-Blue."), ("tool", "x")))
        await world.settled()
        status = world.worker.status()

    assert status.kept == 1
    assert status.refused == {"secret": 1}
    assert status.ignored == {"tool_output": 1}
    assert status.extractor == "rules"
    assert status.router == "none"
