"""One text is one memory, every wording belongs to its record, and saying it again counts once per cause."""

import asyncio

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import DeleteRequest, GetRequest, SaveRequest, UpdateRequest
from memory_contracts.records import Claim
from tests.gate.conftest import ANA, CODER, SENSOR, WRITER, World, code_of, said


async def test_fifty_at_once_make_one(world: World) -> None:
    """Fifty identical saves at once from two callers make one memory; each distinct request counts once."""
    request = SaveRequest(text="Ana likes tea")
    callers = [CODER, WRITER] * 25
    replies = await asyncio.gather(*(world.gate.save(caller, request) for caller in callers))
    assert sorted(reply.outcome for reply in replies) == ["created"] + ["reinforced"] * 49
    assert (await world.live())["Ana likes tea"].corroboration == 49


async def test_normal_form(world: World) -> None:
    """Case, white space and outer punctuation make no other text."""
    first = await world.save(CODER, "Ana likes tea")
    for text in ("ana LIKES tea", "  Ana likes\n tea ", "“Ana likes tea.”", "Ａna likes tea"):
        assert (await world.save(CODER, text)).id == first.id
    assert (await world.save(CODER, "Ana likes tea at 5%")).id != first.id


async def test_same_turn_five_times(world: World) -> None:
    """The same turn five times, out of order and across a restart, gives the same end state."""
    for turn in ("t2", "t1", "t2", "t1"):
        await world.turn(turn, said("Ana likes tea"))
    await world.restart()
    for turn in ("t1", "t2", "t1"):
        assert (await world.turn(turn, said("Ana likes tea"))).repeated
    assert (await world.live())["Ana likes tea"].corroboration == 1


async def test_twice_in_one_turn_counts_once(world: World) -> None:
    """A turn that says a thing twice counts as one cause."""
    await world.save(ANA, "Ana likes tea")
    await world.turn("t1", said("Ana likes tea"), said("ana likes tea"))
    assert (await world.live())["Ana likes tea"].corroboration == 1


async def test_corrected_away_wording(world: World) -> None:
    """Hearing a corrected-away wording again neither reinforces the record nor makes a second one."""
    note = await world.save(CODER, "Ana lives in Rome")
    await world.gate.update(ANA, UpdateRequest(id=note.id, text="Ana lives in Milan"))
    await world.turn("t1", said("Ana lives in Rome"))
    reply = await world.gate.save(CODER, SaveRequest(text="Ana lives in Rome"))
    assert reply.outcome == "awaiting_review"
    live = await world.live()
    assert live.keys() == {"Ana lives in Milan"}
    assert live["Ana lives in Milan"].corroboration == 0


async def test_deleted_by_a_person_stays_away(world: World) -> None:
    """What a person deleted is not learned again by a turn; an agent's save of it waits; a person may say it again."""
    memory = await world.save(CODER, "Ana likes tea")
    await world.gate.delete(ANA, DeleteRequest(id=memory.id))
    assert (await world.turn("t1", said("Ana likes tea"))).created == 0
    assert (await world.gate.save(CODER, SaveRequest(text="Ana likes tea"))).outcome == "awaiting_review"
    again = await world.save(ANA, "Ana likes tea")
    assert (again.id != memory.id, again.tier) == (True, "stated")


async def test_two_memories_never_get_one_text(world: World) -> None:
    """An edit that would give two memories one text is refused and names the other."""
    one, two = await world.save(ANA, "one"), await world.save(ANA, "two")
    assert await code_of(world.gate.update(ANA, UpdateRequest(id=one.id, text="Two."))) == "conflict"
    assert (await world.live()).keys() == {"one", "two"}
    assert two.id in str(await _error(world, one.id))


async def _error(world: World, memory_id: str) -> Exception:
    try:
        await world.gate.update(ANA, UpdateRequest(id=memory_id, text="two"))
    except Exception as error:
        return error
    raise AssertionError("not refused")


# Subjects and slots


async def test_person_supersedes_subject(world: World) -> None:
    """A person's new statement about a subject takes the place of every older one, whoever made it."""
    old = await world.save(ANA, "Ana lives in Rome", subject="Home")
    new = await world.save(ANA, "Ana lives in Paris", subject=" home ")
    reply = await world.gate.reading.get(ANA, GetRequest(id=old.id))
    assert reply.memory is not None
    assert (reply.memory.state, reply.memory.superseded_by) == ("superseded", new.id)


async def test_agent_replaces_only_its_own(world: World) -> None:
    """An agent's statement replaces its own note on the subject, and stands beside another agent's."""
    await world.save(CODER, "The host is eu-1", subject="host")
    await world.save(WRITER, "The host is eu-2", subject="host")
    reply = await world.gate.save(CODER, SaveRequest(text="The host is eu-3", subject="host"))
    assert reply.outcome == "replaced"
    assert (await world.live()).keys() == {"The host is eu-2", "The host is eu-3"}


async def test_extraction_only_adds(world: World) -> None:
    """What a turn says about a subject is added beside the other notes; over a stated one it waits."""
    await world.turn("t1", said("Ana lives in Rome", subject="home"))
    await world.turn("t2", said("Ana lives in Paris", subject="home"))
    assert len(await world.live()) == 2
    await world.save(ANA, "Ana lives in Milan", subject="home")
    result = await world.turn("t3", said("Ana lives in Bonn", subject="home"))
    assert result.awaiting_review == 1
    assert (await world.live()).keys() == {"Ana lives in Milan"}


async def test_slot_is_rewritten_in_place(world: World) -> None:
    """A sensor's slot keeps one id however often it reports, and does not gather wordings."""
    first = await world.save(SENSOR, "Ana is at home", slot="where")
    for place in ("at work", "in town", "at home", "at work"):
        last = await world.save(SENSOR, f"Ana is {place}", slot="where")
    assert (last.id, last.tier, last.revision) == (first.id, "observed", 5)
    assert (await world.live()).keys() == {"Ana is at work"}
    assert await world.store.readers.one("SELECT count(*) FROM wordings") == (1,)


async def test_slot_says_what_another_memory_says(world: World) -> None:
    """A reading whose text another memory has already gives way to that memory: no text is there twice."""
    await world.save(SENSOR, "Ana is at home", slot="where")
    note = await world.save(CODER, "Ana is at work")
    reply = await world.gate.save(SENSOR, SaveRequest(text="Ana is at work", slot="where"))
    assert (reply.outcome, reply.memory and reply.memory.id) == ("reinforced", note.id)
    assert (await world.live()).keys() == {"Ana is at work"}
    await world.save(SENSOR, "Ana is in town", slot="where")
    assert (await world.live()).keys() == {"Ana is at work", "Ana is in town"}


async def test_slot_is_the_observers(world: World) -> None:
    """Only an observer writes slots, and not into another observer's."""
    assert await code_of(world.gate.save(ANA, SaveRequest(text="x", slot="where"))) == "invalid_input"


# One bad item, revisions, keys


async def test_one_unfit_item_costs_no_other(world: World) -> None:
    """An item of a turn that cannot be kept is counted as refused; the others are kept and the turn is done."""
    bad = said("fine text", claim=Claim(entity="x" * 200, property="p", value="v"))
    result = await world.turn("t1", said("Ana likes tea"), bad, said("Ana has a cat"))
    assert result.created == 2
    assert (await world.store.counters())["refused.unfit"] == 1


async def test_expected_revision(world: World) -> None:
    """A change decided on an older revision is refused with `conflict`, whoever asks."""
    memory = await world.save(ANA, "one")
    await world.gate.update(ANA, UpdateRequest(id=memory.id, text="two", expected_revision=1))
    for request in (UpdateRequest(id=memory.id, text="three", expected_revision=1),):
        assert await code_of(world.gate.update(ANA, request)) == "conflict"
        assert await code_of(world.gate.update(CODER, request)) == "conflict"
    assert await code_of(world.gate.delete(ANA, DeleteRequest(id=memory.id, expected_revision=1))) == "conflict"


async def test_idempotency_key(world: World) -> None:
    """One key of one principal: same reply and one effect, across a restart, for a day; another request conflicts."""
    first = await world.gate.save(CODER, SaveRequest(text="one"), "k")
    await world.restart()
    again = await world.gate.save(CODER, SaveRequest(text="one"), "k")
    assert again == first
    assert await code_of(world.gate.save(CODER, SaveRequest(text="two"), "k")) == "conflict"
    other = await world.gate.save(WRITER, SaveRequest(text="two"), "k")
    assert other.outcome == "created"
    world.clock.forward(days=1.01)
    assert (await world.gate.save(CODER, SaveRequest(text="three"), "k")).outcome == "created"


async def test_a_change_of_a_superseded_memory_names_what_took_its_place(world: World) -> None:
    """The hint says that it was superseded, and by which memory."""
    old = await world.save(ANA, "Ana lives in Porto", subject="home")
    new = await world.save(ANA, "Ana lives in Paris", subject="home")
    with pytest.raises(FunctionError) as refused:
        await world.gate.update(ANA, UpdateRequest(id=old.id, text="Ana lives in Rome"))
    assert refused.value.code == "conflict"
    assert f"superseded by {new.id}" in (refused.value.hint or "")
