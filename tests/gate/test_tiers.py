"""The route decides the label, and nothing but a person's own words raises it."""

import msgspec
import pytest

from memory_contracts.functions.memories import DeleteRequest, PinRequest, SaveRequest, UpdateRequest
from memory_contracts.functions.review import SuggestionDecideRequest, SuggestRequest
from memory_contracts.records import ProposedChange
from memory_worker.store import Caller
from tests.gate.conftest import ANA, BEN, CODER, SENSOR, WRITER, World, code_of, said


@pytest.mark.parametrize(("caller", "tier"), [(ANA, "stated"), (CODER, "inferred"), (SENSOR, "observed")])
async def test_route_decides_tier(world: World, caller: Caller, tier: str) -> None:
    """A person's text is stated, a sensor's observed, an agent's inferred; the source names route and principal."""
    memory = await world.save(caller, "The office is in Ghent")
    assert (memory.tier, memory.source.route, memory.source.principal) == (tier, caller.route, caller.principal)


async def test_extraction_is_inferred(world: World) -> None:
    """What extraction reads from a person's turn is inferred: nothing checked it."""
    await world.turn("t1", said("Ana likes tea"))
    memory = (await world.live())["Ana likes tea"]
    assert (memory.tier, memory.source.turn_id, memory.source.quote) == ("inferred", "t1", "Ana likes tea")


@pytest.mark.parametrize("field", ["tier", "route", "actor", "principal", "tenant", "source"])
def test_no_payload_field_names_a_label(field: str) -> None:
    """A request that tries to name a tier, a route, an actor or a tenant is refused, naming the field."""
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.json.decode(msgspec.json.encode({"text": "x", field: "stated"}), type=SaveRequest)


async def test_metadata_edit_keeps_tier(world: World) -> None:
    """A person who only tags an agent's note does not make it the person's words."""
    note = await world.save(CODER, "Ana likes tea")
    reply = await world.gate.update(ANA, UpdateRequest(id=note.id, tags=["drinks"], confidence="high"))
    assert reply.memory is not None
    assert (reply.memory.tier, reply.memory.tags) == ("inferred", ("drinks",))


async def test_pin_keeps_tier(world: World) -> None:
    """Pinning keeps a memory, it does not vouch for it."""
    note = await world.save(CODER, "Ana likes tea")
    reply = await world.gate.pin(ANA, PinRequest(id=note.id, pinned=True))
    assert reply.memory is not None
    assert reply.memory.tier == "inferred"


async def test_rewriting_makes_it_stated(world: World) -> None:
    """A text that a person rewrote is the person's, with the person as its source."""
    note = await world.save(CODER, "Ana likes tea")
    reply = await world.gate.update(ANA, UpdateRequest(id=note.id, text="Ana likes green tea"))
    assert reply.memory is not None
    assert (reply.memory.tier, reply.memory.source.principal, reply.memory.revision) == ("stated", "ana", 2)


async def test_same_text_is_no_rewriting(world: World) -> None:
    """An update with the text as it is changes nothing and raises nothing."""
    note = await world.save(CODER, "Ana likes tea")
    reply = await world.gate.update(ANA, UpdateRequest(id=note.id, text="  Ana likes\ntea "))
    assert reply.outcome == "unchanged"
    assert reply.memory is not None
    assert (reply.memory.tier, reply.memory.revision) == ("inferred", 1)


async def test_person_saying_it_makes_it_stated(world: World) -> None:
    """An agent's note that a person says in the same words becomes the person's statement, once."""
    note = await world.save(CODER, "Ana likes tea")
    stated = await world.save(ANA, "ana likes tea.")
    assert (stated.id, stated.tier, stated.corroboration) == (note.id, "stated", 1)


async def test_agent_saying_it_lowers_nothing(world: World) -> None:
    """An agent that repeats what a person stated leaves it stated, and words, source and revision as they were."""
    stated = await world.save(ANA, "Ana likes tea")
    again = await world.save(CODER, "Ana likes tea")
    assert (again.id, again.tier, again.source, again.revision) == (stated.id, "stated", stated.source, 1)
    assert again.corroboration == 1


async def test_approval_keeps_the_authors_tier(world: World) -> None:
    """A person's approval commits an agent's words as the agent's."""
    await world.save(ANA, "Ana lives in Rome", subject="home")
    held = await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home"))
    assert held.suggestion is not None
    reply = await world.review.suggestion_decide(
        BEN, SuggestionDecideRequest(ids=[held.suggestion.id], decision="approve")
    )
    memory = reply.decided[0].memory
    assert memory is not None
    assert (memory.text, memory.tier) == ("Ana lives in Paris", "inferred")
    assert (memory.source.route, memory.source.principal) == ("agent", "coder")


async def test_approved_update_keeps_the_authors_tier(world: World) -> None:
    """A stated text that an approved agent's edit replaces is no longer stated: the new words are the agent's."""
    stated = await world.save(ANA, "Ana lives in Rome")
    held = await world.gate.update(CODER, UpdateRequest(id=stated.id, text="Ana lives in Paris"))
    assert held.suggestion is not None
    reply = await world.review.suggestion_decide(
        ANA, SuggestionDecideRequest(ids=[held.suggestion.id], decision="approve")
    )
    memory = reply.decided[0].memory
    assert memory is not None
    assert (memory.text, memory.tier, memory.source.principal) == ("Ana lives in Paris", "inferred", "coder")


async def test_words_a_person_edits_are_the_persons(world: World) -> None:
    """Edit-and-approve with other words commits the person's words as stated; an edit of a label raises nothing."""
    await world.save(ANA, "Ana lives in Rome", subject="home")
    first = await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home"))
    second = await world.gate.save(WRITER, SaveRequest(text="Ana is in Lyon", subject="home"))
    assert first.suggestion is not None
    assert second.suggestion is not None
    reply = await world.review.suggestion_decide(
        ANA, SuggestionDecideRequest(ids=[second.suggestion.id], decision="approve", edit={"tags": ["move"]})
    )
    assert reply.decided[0].memory is not None
    assert (reply.decided[0].memory.tier, reply.decided[0].memory.tags) == ("inferred", ("move",))
    held = await world.review.suggest(
        CODER,
        SuggestRequest(change=ProposedChange(function="save", args={"text": "Ana likes tea"}), reason="heard it"),
    )
    assert held.suggestion is not None
    reply = await world.review.suggestion_decide(
        ANA,
        SuggestionDecideRequest(ids=[held.suggestion.id], decision="approve", edit={"text": "Ana likes mint tea"}),
    )
    memory = reply.decided[0].memory
    assert memory is not None
    assert (memory.text, memory.tier, memory.source.principal) == ("Ana likes mint tea", "stated", "ana")


async def test_agent_cannot_take_over(world: World) -> None:
    """An agent's update or deletion of another's, a stated or a pinned memory waits; the record stays as it was."""
    mine = await world.save(CODER, "Build with make")
    await world.gate.pin(ANA, PinRequest(id=mine.id, pinned=True))
    others = await world.save(WRITER, "Deploy on Tuesdays")
    stated = await world.save(ANA, "Ana likes tea")
    for memory in (mine, others, stated):
        update = await world.gate.update(CODER, UpdateRequest(id=memory.id, text=f"not {memory.text}"))
        delete = await world.gate.delete(CODER, DeleteRequest(id=memory.id))
        assert (update.outcome, delete.outcome) == ("awaiting_review", "awaiting_review")
    assert {"Build with make", "Deploy on Tuesdays", "Ana likes tea"} == (await world.live()).keys()


async def test_only_a_person_unpins(world: World) -> None:
    """An agent may pin its own note; taking the pin off is refused to it, its own note included."""
    note = await world.save(CODER, "Remember the milk", pinned=True)
    assert note.pinned
    assert note.expires_at is None
    assert await code_of(world.gate.pin(CODER, PinRequest(id=note.id, pinned=False))) == "pinned"
