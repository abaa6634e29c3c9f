"""What memories are about: pages by name and alias, better sourced facts first, names never silently taken."""

from datetime import timedelta
from typing import Any

import pytest

from memory_contracts.functions.memories import SaveRequest, UpdateRequest
from memory_contracts.functions.review import (
    EntityAliasRequest,
    EntityGetRequest,
    EntityLinkRequest,
    EntityListRequest,
    EntityMergeRequest,
    PropertyListRequest,
    PropertyProposeRequest,
    SuggestionDecideRequest,
)
from memory_contracts.records import Alias, Claim
from memory_worker.clock import to_datetime
from tests.gate.conftest import ANA, BEN, CODER, SENSOR, World, code_of


async def page(world: World, name: str) -> Any:
    return await world.review.entity_get(ANA, EntityGetRequest(entity=name))


async def approve(world: World, suggestion: Any) -> Any:
    request = SuggestionDecideRequest(ids=[suggestion.id], decision="approve")
    [one] = (await world.review.suggestion_decide(ANA, request)).decided
    assert one.error is None, one.error
    return one


async def test_page_by_name_alias_and_id(world: World) -> None:
    """An entity is found by its name in any case, by an alias, and by its id."""
    await world.save(ANA, "Ana likes tea", entities=["Ana Ruiz"])
    alias = EntityAliasRequest(entity="ana ruiz", alias=Alias(channel="email", value="ana@x.org"))
    assert (await world.review.entity_alias(ANA, alias)).outcome == "done"
    found = {(await page(world, name)).entity.id for name in ("Ana Ruiz", "ANA RUIZ", "ana@x.org")}
    [id] = found
    assert (await page(world, id)).entity.name == "Ana Ruiz"
    assert [memory.text for memory in (await page(world, "ana@x.org")).mentions] == ["Ana likes tea"]


async def test_better_sourced_fact_wins(world: World) -> None:
    """Of a property with one value the better sourced is current, by tier; the others are shown."""
    await world.save(CODER, "Ana is 40", claim=Claim(entity="Ana", property="age", value="40"))
    await world.save(SENSOR, "Ana is 41", claim=Claim(entity="Ana", property="age", value="41"))
    await world.review.property_propose(ANA, PropertyProposeRequest(name="age", cardinality="one"))
    facts = [(fact.value, fact.memory.tier, fact.current) for fact in (await page(world, "Ana")).facts]
    assert facts == [("41", "observed", True), ("40", "inferred", False)]
    await world.save(ANA, "Ana is 42", claim=Claim(entity="Ana", property="age", value="42"))
    facts = [(fact.value, fact.memory.state, fact.current) for fact in (await page(world, "Ana")).facts]
    assert facts == [("42", "live", True), ("41", "superseded", False), ("40", "superseded", False)]


async def test_low_confidence_gives_way(world: World) -> None:
    """Of two facts of one tier the surer is current, though the other is newer."""
    await world.save(CODER, "Ana is 40", claim=Claim(entity="Ana", property="age", value="40"))
    await world.save(SENSOR, "Ana is 41", claim=Claim(entity="Ana", property="size", value="41"), confidence="low")
    world.clock.forward(days=1)
    await world.save(CODER, "Ana may be 39", claim=Claim(entity="Ana", property="age", value="39"), confidence="low")
    await world.review.property_propose(ANA, PropertyProposeRequest(name="age", cardinality="one"))
    facts = [(fact.value, fact.current) for fact in (await page(world, "Ana")).facts if fact.property == "age"]
    assert facts == [("40", True), ("39", False)]


async def test_many_valued_facts_stand_together(world: World) -> None:
    """A property with many values shows all of them as current."""
    for hobby in ("chess", "tennis"):
        await world.save(CODER, f"Ana plays {hobby}", claim=Claim(entity="Ana", property="hobby", value=hobby))
    assert {(fact.value, fact.current) for fact in (await page(world, "Ana")).facts} == {
        ("chess", True),
        ("tennis", True),
    }


async def test_page_shows_what_waits(world: World) -> None:
    """What waits for a person about an entity or a memory on its page is shown there."""
    memory = await world.save(ANA, "Ana likes tea", entities=["Ana"])
    await world.gate.update(CODER, UpdateRequest(id=memory.id, text="Ana likes coffee"))
    await world.review.entity_alias(CODER, EntityAliasRequest(entity="Ana", alias=Alias(channel="name", value="Annie")))
    shown = (await page(world, "Ana")).suggestions
    assert sorted(one.change.function for one in shown) == ["entity.alias", "update"]


async def test_alias_is_never_taken(world: World) -> None:
    """A name or contact of one entity is refused to another, whoever asks, until a person merges the two."""
    await world.save(ANA, "Ana and Ben", entities=["Ana", "Ben"])
    given = EntityAliasRequest(entity="Ana", alias=Alias(channel="email", value="a@x.org"))
    await world.review.entity_alias(ANA, given)
    for caller in (BEN, CODER):
        taken = EntityAliasRequest(entity="Ben", alias=Alias(channel="Email", value="A@x.org"))
        assert await code_of(world.review.entity_alias(caller, taken)) == "conflict"
        name = EntityAliasRequest(entity="Ben", alias=Alias(channel="name", value="ana"))
        assert await code_of(world.review.entity_alias(caller, name)) == "conflict"
    assert (await page(world, "a@x.org")).entity.name == "Ana"


async def test_agents_alias_waits(world: World) -> None:
    """An agent's alias waits for a person, and is dropped when a person gives that alias anyway."""
    await world.save(ANA, "Ana likes tea", entities=["Ana"])
    request = EntityAliasRequest(entity="Ana", alias=Alias(channel="name", value="Annie"))
    held = await world.review.entity_alias(CODER, request)
    assert held.outcome == "awaiting_review"
    assert await code_of(page(world, "Annie")) == "not_found"
    await world.review.entity_alias(ANA, request)
    assert (await page(world, "Annie")).entity.name == "Ana"
    assert await world.waiting() == []


async def test_link_carries_no_fact(world: World) -> None:
    """A link is written at once by any route, once, and taken away again."""
    await world.save(ANA, "Ana likes tea", entities=["Ana"])
    request = EntityLinkRequest(entity="Ana", ref="https://x.org/ana")
    assert (await world.review.entity_link(CODER, request)).outcome == "done"
    assert (await world.review.entity_link(CODER, request)).outcome == "unchanged"
    assert (await page(world, "Ana")).entity.links == ("https://x.org/ana",)
    assert (await world.review.entity_unlink(SENSOR, request)).outcome == "done"
    assert (await page(world, "Ana")).entity.links == ()


async def test_merge_waits_for_a_person_always(world: World) -> None:
    """A merge waits even when a person proposes it; approved, both names open one page, and facts come together."""
    await world.save(ANA, "Ana is 40", claim=Claim(entity="Ana", property="age", value="40"))
    await world.save(ANA, "A. Ruiz plays chess", entities=["A. Ruiz"])
    held = await world.review.entity_merge(ANA, EntityMergeRequest(entity="A. Ruiz", into="Ana", reason="one person"))
    assert held.outcome == "awaiting_review"
    assert (await page(world, "A. Ruiz")).entity.name == "A. Ruiz"
    await approve(world, held.suggestion)
    one = await page(world, "A. Ruiz")
    assert (one.entity.name, one.total) == ("Ana", 2)
    assert Alias(channel="name", value="A. Ruiz") in one.entity.aliases
    await world.save(ANA, "Ruiz is tall", entities=["A. Ruiz"])
    assert (await page(world, "Ana")).total == 3


async def test_property_waits_unless_a_person_asks(world: World) -> None:
    """An agent's property waits; a person's is there at once; the list names both."""
    request = PropertyProposeRequest(name="Birthday", cardinality="one")
    held = await world.review.property_propose(CODER, request)
    assert held.outcome == "awaiting_review"
    assert (await world.review.property_list(ANA, PropertyListRequest())).properties == []
    await approve(world, held.suggestion)
    assert (await world.review.property_propose(ANA, request)).outcome == "unchanged"
    [known] = (await world.review.property_list(CODER, PropertyListRequest())).properties
    assert (known.name, known.cardinality) == ("birthday", "one")


async def test_list_pages_by_name(world: World) -> None:
    """Entities are listed by name, in pages, by part of a name or alias, and only while a live memory names them."""
    for n in range(5):
        await world.save(
            ANA, f"Person {n}", entities=[f"Person {n}"], expires_at=_in(world, days=1) if n == 4 else None
        )
    first = await world.review.entity_list(ANA, EntityListRequest(limit=2))
    rest = await world.review.entity_list(ANA, EntityListRequest(limit=200, cursor=first.cursor))
    assert [one.name for one in (*first.entities, *rest.entities)] == [f"Person {n}" for n in range(5)]
    assert (first.total, rest.cursor) == (5, None)
    found = await world.review.entity_list(ANA, EntityListRequest(query="SON 3"))
    assert [one.name for one in found.entities] == ["Person 3"]
    world.clock.forward(days=2)
    await world.sweeper.sweep()
    assert (await world.review.entity_list(ANA, EntityListRequest())).total == 4


@pytest.mark.parametrize("cursor", ["x", "WzEsMl0", "bm90IGpzb24"])
async def test_foreign_cursor(world: World, cursor: str) -> None:
    """A cursor that this worker did not make is refused."""
    assert await code_of(world.review.entity_list(ANA, EntityListRequest(cursor=cursor))) == "invalid_input"


async def test_claims_of_an_alias_meet(world: World) -> None:
    """A claim about an alias contradicts the claim about the name: both are one entity."""
    await world.review.property_propose(ANA, PropertyProposeRequest(name="city", cardinality="one"))
    await world.save(ANA, "Ana is in Rome", claim=Claim(entity="Ana", property="city", value="Rome"))
    await world.review.entity_alias(ANA, EntityAliasRequest(entity="Ana", alias=Alias(channel="name", value="Annie")))
    reply = await world.gate.save(
        CODER, SaveRequest(text="Annie is in Bonn", claim=Claim(entity="Annie", property="city", value="Bonn"))
    )
    assert reply.outcome == "awaiting_review"


def _in(world: World, *, days: float) -> Any:
    return to_datetime(world.clock.at) + timedelta(days=days)
