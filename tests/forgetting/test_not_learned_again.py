"""What was forgotten is refused when it is said again; a person may come back unless a person ruled that out."""

import json
import sqlite3

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import SaveRequest, UpdateRequest
from memory_contracts.functions.review import EntityAliasRequest, LearnRequest, SuggestionDecideRequest, SuggestRequest
from memory_contracts.records import Alias, ProposedChange
from memory_worker.gate import Names
from tests.forgetting.conftest import forget, know
from tests.gate.conftest import ANA, CODER, SENSOR, World, code_of, said

RULED_OUT = "this is not kept: a person has ruled it out"

MENTIONS = [
    (("Zenny",), "Zenny likes tea"),
    (("Zenny",), "ZENNY likes tea"),
    (("Zenny",), "Zenny's tea is green"),
    (("Zenny",), "Zenny’s tea is green"),
    (("Zenny",), "tea, says (zenny)"),
    (("Zenny",), "the Zenny-like way"),
    (("Zenny",), "Zénny likes tea"),
    (("Zénny",), "Zenny likes tea"),
    (("Zenny",), "the tag team_zenny"),
    (("Zenny",), "Zen\u00adny likes tea"),
    (("Zenobia Quill", "Zenny"), "what zenny said"),
    (("Zenobia Quill",), "Zenobia-Quill likes tea"),
    (("Zenobia Quill",), "mail zenobia_quill about tea"),
    (("Jean-Luc Quill",), "Jean Luc Quill likes tea"),
    (("María de los Ángeles Quill y Robles",), "maria de los angeles quill y robles likes tea"),
    (("Sean O'Quill",), "Sean O’Quill likes tea"),
    (("zenny@example.org",), "write to zenny@example.org, please"),
    (("지민",), "지민이 차를 좋아한다"),
    (("지민",), "어제 지민은 서울에 갔다"),
    (("김지민",), "김지민에게 물어봐"),
    (("美咲",), "昨日美咲さんが来た"),
    (("สมชาย",), "เมื่อวานสมชายมาที่นี่"),
    (("Straßer",), "STRASSER likes tea"),
]
"""Names of somebody, and a text that mentions them."""

OTHERS = [
    (("Zenny",), "Zennyx likes tea"),
    (("Zenny",), "the frenzenny dance"),
    (("Zenobia Quill",), "Zenobia met Mr Quill"),
    (("지수",), "지숙이 왔다"),
    (("Ann Lee",), "Anneli came"),
]
"""Names of somebody, and a text that is about somebody else."""


@pytest.mark.parametrize(("names", "text"), MENTIONS)
async def test_nobody_learns_about_them_again(world: World, names: tuple[str, ...], text: str) -> None:
    """“Never again” refuses every text in which the forgetting itself would find one of the names."""
    assert Names(names).within(text)
    await forget(world, *await know(world, *names), never_again=True)
    with pytest.raises(FunctionError) as refused:
        await world.gate.save(CODER, SaveRequest(text=text))
    assert (refused.value.code, refused.value.message) == ("forbidden", RULED_OUT)
    await world.turn("t1", said(text))
    assert await world.live() == {}


@pytest.mark.parametrize(("names", "text"), OTHERS)
async def test_others_are_learned_about(world: World, names: tuple[str, ...], text: str) -> None:
    """Part of a word is no mention, for the forgetting and for what comes later alike."""
    assert not Names(names).within(text)
    await forget(world, *await know(world, *names), never_again=True)
    await world.save(CODER, text)
    assert text in await world.live()


@pytest.mark.parametrize(
    "fields",
    [
        {"entities": ["zénny"]},
        {"tags": ["zenny"]},
        {"about": ["person:zenny"]},
        {"subject": "zenny's tea"},
        {"claim": {"entity": "Zenny", "property": "drinks", "value": "tea"}},
        {"claim": {"entity": "team", "property": "lead", "value": "Zenny"}},
    ],
)
async def test_no_label_brings_them_back(world: World, fields: dict[str, object]) -> None:
    """A name in a label, a subject or a claim is a mention as well."""
    await forget(world, *await know(world, "Zenobia Quill", "Zenny"), never_again=True)
    request = SaveRequest(text="likes tea", **fields) if "claim" not in fields else None
    if request is None:
        request = _with_claim(fields["claim"])
    assert await code_of(world.gate.save(CODER, request)) == "forbidden"
    assert await code_of(world.gate.save(SENSOR, request)) == "forbidden"


def _with_claim(claim: object) -> SaveRequest:
    return msgspec.convert({"text": "likes tea", "claim": claim}, SaveRequest)


async def test_no_other_way_in(world: World) -> None:
    """An update, a proposal, an alias, a learned line and a note are refused as a save is."""
    mine = await world.save(CODER, "somebody likes tea", entities=["Somebody"])
    await forget(world, *await know(world, "Zenobia Quill", "Zenny"), never_again=True)
    text = "Zenny’s tea is green"
    assert await code_of(world.gate.update(CODER, UpdateRequest(id=mine.id, text=text))) == "forbidden"
    assert await code_of(world.gate.update(CODER, UpdateRequest(id=mine.id, tags=["zenny"]))) == "forbidden"
    for change in (
        ProposedChange(function="save", args={"text": text}),
        ProposedChange(function="update", args={"id": mine.id, "text": text}),
        ProposedChange(function="rule.set", args={"name": "style", "content": f"Be kind.\n- {text}"}),
        ProposedChange(function="learned.add", args={"text": text}),
    ):
        assert await code_of(world.review.suggest(CODER, SuggestRequest(change=change, reason="r"))) == "forbidden"
    alias = EntityAliasRequest(entity="Somebody", alias=Alias(channel="name", value="zenny"))
    assert await code_of(world.review.entity_alias(CODER, alias)) == "forbidden"
    await world.turn("t1", learned=(said("Always greet Zenny first"),))
    world.notes.lessons = type(world.notes.lessons)(items=(said(text),), learned=(said("Always greet Zenny"),))
    assert (await world.review.learn(CODER, LearnRequest(text="note"))).suggestions == []
    assert await world.waiting() == []
    rows = await world.store.readers.all("SELECT record FROM rules")
    assert rows == []


async def test_the_same_words_are_refused_and_new_ones_are_not(world: World) -> None:
    """A forgotten text is refused in any case and spacing; a new fact is learned: a person may come back."""
    names = await know(world, "Zenobia Quill", "Zenny")
    await world.save(ANA, "Zenny likes green tea")
    await forget(world, *names)
    for text in ("Zenny likes green tea", "zenny  likes GREEN tea."):
        with pytest.raises(FunctionError) as refused:
            await world.gate.save(CODER, SaveRequest(text=text), "key-1")
        assert (refused.value.code, refused.value.message) == ("forbidden", RULED_OUT)
        await world.turn(f"t-{text}", said(text), said("Zenny moved to Oslo"))
    assert (await world.live()).keys() == {"Zenny moved to Oslo"}


async def test_the_refusal_tells_nothing(world: World) -> None:
    """Verbatim or about somebody, the answer is the same to the byte, names no one, and nothing is kept of the try."""
    names = await know(world, "Zenobia Quill", "Zenny")
    await world.save(ANA, "the kettle was a gift", entities=["Zenny"])
    await forget(world, *names, never_again=True)
    before = await world.store.readers.one("SELECT (SELECT count(*) FROM journal), (SELECT count(*) FROM suggestions)")
    bodies = []
    for text in ("the kettle was a gift", "Zenny is here"):
        with pytest.raises(FunctionError) as refused:
            await world.gate.save(CODER, SaveRequest(text=text), f"key-{text}")
        bodies.append(refused.value.body())
    assert bodies[0] == bodies[1]
    after = await world.store.readers.one("SELECT (SELECT count(*) FROM journal), (SELECT count(*) FROM suggestions)")
    assert after == before
    assert await world.store.readers.one("SELECT count(*) FROM idempotency") == (0,)


async def test_a_turn_counts_what_it_was_not_to_learn(world: World) -> None:
    """A turn's refused items are counted as ruled out, and cost the others nothing."""
    await forget(world, *await know(world, "Zenobia Quill", "Zenny"), never_again=True)
    result = await world.turn("t1", said("Zenny is here"), said("The kettle is red"))
    assert (result.created, result.awaiting_review) == (1, 0)
    assert (await world.store.counters())["refused.ruled_out"] == 1


async def test_a_person_may_say_it_again(world: World) -> None:
    """Forgetting binds what learns by itself and agents, not the person: what a person saves is kept."""
    await forget(world, *await know(world, "Zenobia Quill", "Zenny"), never_again=True)
    reply = await world.gate.save(ANA, SaveRequest(text="Zenny is back"))
    assert reply.outcome == "created"


async def test_an_approval_does_not_smuggle_it_in(world: World) -> None:
    """A proposal edited into a forgotten text is not carried out, and says why."""
    names = await know(world, "Zenobia Quill", "Zenny")
    await world.save(ANA, "Zenny likes green tea")
    asked = await world.review.suggest(
        CODER, SuggestRequest(change=ProposedChange(function="save", args={"text": "likes tea"}), reason="r")
    )
    await forget(world, *names, never_again=True)
    assert asked.suggestion is not None
    decided = await world.review.suggestion_decide(
        ANA, SuggestionDecideRequest(ids=[asked.suggestion.id], decision="approve", edit={"tags": ["zenny"]})
    )
    assert decided.decided[0].state == "open"
    assert RULED_OUT in (decided.decided[0].error or "")
    assert await world.live() == {}


async def test_no_name_can_be_read_in_the_store(world: World) -> None:
    """What stays of a name is keyed hashes of one length: no name, no part of it, not how long it is."""
    await forget(world, *await know(world, "Zenobia Quill", "Zenny"), never_again=True)
    rows = await world.store.readers.all("SELECT hash, kind FROM forgotten")
    assert {len(row[0]) for row in rows} == {16}
    stored = json.dumps([(row[0].hex(), row[1]) for row in rows])
    assert "zen" not in stored.lower()
    path = world.store.path
    await world.close()
    with sqlite3.connect(path) as store:
        dump = "\n".join(store.iterdump())
    assert "zenny" not in dump.lower()
    assert "quill" not in dump.lower()
    await world.open()
