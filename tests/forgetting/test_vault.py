"""Protected values lie in the vault alone, are found by who knows them, and go with their keys."""

import json
import sqlite3

import pytest

from memory_contracts.functions.banks import BankCreateRequest
from memory_contracts.functions.memories import DeleteRequest, ListRequest, SaveRequest, UpdateRequest
from memory_contracts.functions.operations import ValueRevealRequest
from memory_contracts.functions.review import PropertyProposeRequest, SuggestRequest
from memory_contracts.records import Claim, Memory, ProposedChange
from memory_worker.gate import GateSettings, KeyedVault, Plan
from memory_worker.gate.recognising import values_in
from memory_worker.store import Origin
from tests.forgetting.conftest import carry_out, forget, know
from tests.gate.conftest import ANA, CODER, CONSOLIDATE, SENSOR, MakeWorld, World, code_of, said

HIDDEN = "•••"

RECOGNISED = {
    "Ana's number is +49 170 1234567": "+49 170 1234567",
    "call Ana at 555 0100 99": "555 0100 99",
    "reach her on (415) 555-0132": "(415) 555-0132",
    "Telefon: 030/123456-78": "030/123456-78",
    "mail ana.quill+tea@example.org please": "ana.quill+tea@example.org",
    "her card is 4111 1111 1111 1111": "4111 1111 1111 1111",
    "pay to DE89 3704 0044 0532 0130 00": "DE89 3704 0044 0532 0130 00",
    "SSN 078-05-1120": "078-05-1120",
    "Ana lives at 12 Old Mill Road": "12 Old Mill Road",
    "Ana wohnt in der Lindenstraße 12": "Lindenstraße 12",
    "elle habite 5 rue Lepic": "5 rue Lepic",
    "vive en calle Mayor, 7": "calle Mayor, 7",
    "住所は東京都港区芝公園4丁目": "",
}
"""Texts with a value that is recognised; the last writes its address without a house number and is not."""

NOT_RECOGNISED = [
    "the release is on 2026-11-30",
    "am 01.02.2026 ist Schluss",
    "build 20261130 took 4 500 000 ms",
    "version 1.22.333 is out",
    "1,000,000 rows in 12 minutes",
    "she drives a long way on 5 days",
    "order 4111 1111 1111 1112 was lost",
    "mem_01JABCDEF is the id",
]


async def reveal(world: World, memory: Memory) -> str:
    """What the vault has for a memory."""
    vault = world.gate.vault
    assert isinstance(vault, KeyedVault)
    assert memory.protected is not None
    request = ValueRevealRequest(ref=memory.protected)
    reply = await world.store.write(lambda tx: vault.reveal(world.gate.act(tx, ANA, Origin.of(ANA, "req_1")), request))
    return reply.value


async def dump(world: World) -> str:
    """The whole store as text, blobs decoded."""
    rows = []
    with sqlite3.connect(world.store.path) as store:
        for (table,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            rows.extend(store.execute(f"SELECT * FROM {table}"))
    return "\n".join(str(v.decode("utf-8", "replace") if isinstance(v, bytes) else v) for row in rows for v in row)


async def keys(world: World) -> int:
    """How many keys the vault holds."""
    row = await world.store.readers.one("SELECT count(*) FROM vault_keys")
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(("text", "value"), RECOGNISED.items())
def test_contact_data_is_recognised(text: str, value: str) -> None:
    """Phone numbers, mail addresses, cards, accounts, identity numbers and street addresses, as they are written."""
    assert values_in(text)[:1] == ([value] if value else [])


@pytest.mark.parametrize("text", NOT_RECOGNISED)
def test_other_numbers_are_not(text: str) -> None:
    """Dates, versions, counts, ids, and a card number whose last digit is wrong are no contact data."""
    assert values_in(text) == []


@pytest.mark.parametrize("text", [text for text, value in RECOGNISED.items() if value])
async def test_recognised_values_are_protected_by_themselves(make_world: MakeWorld, text: str) -> None:
    """With the setting on, a turn, an agent, a sensor and a person put such a text into the vault unasked."""
    world = await make_world(GateSettings(protect_automatically=True))
    value = RECOGNISED[text]
    await world.turn("t1", said(f"a turn says: {text}"))
    saved = [
        await world.save(CODER, f"an agent says: {text}", tags=["contact", value]),
        await world.save(SENSOR, f"a sensor says: {text}", slot="where"),
        await world.save(ANA, f"a person says: {text}"),
    ]
    assert {memory.text for memory in saved} == {HIDDEN}
    assert (await world.live()).keys() == {HIDDEN}
    assert await reveal(world, saved[0]) == f"an agent says: {text}"
    stored = await dump(world)
    assert text not in stored
    assert value not in stored


async def test_nothing_is_recognised_unless_it_is_set(world: World) -> None:
    """The setting is off by default: the text is kept as it is."""
    await world.save(CODER, "Ana's number is +49 170 1234567")
    assert "Ana's number is +49 170 1234567" in await world.live()


async def test_no_way_around_the_vault(make_world: MakeWorld) -> None:
    """An update, a proposal and a learned line do not write in the open what a save would protect."""
    world = await make_world(GateSettings(protect_automatically=True))
    await world.review.property_propose(ANA, PropertyProposeRequest(name="code", protected=True))
    mine = await world.save(CODER, "Ana has a number")
    text = "Ana's number is +49 170 1234567"
    assert await code_of(world.gate.update(CODER, UpdateRequest(id=mine.id, text=text))) == "conflict"
    assert await code_of(world.gate.update(ANA, UpdateRequest(id=mine.id, text=text))) == "conflict"
    claim = Claim(entity="Ana", property="code", value="zinnia")
    assert await code_of(world.gate.update(ANA, UpdateRequest(id=mine.id, claim=claim))) == "conflict"
    change = ProposedChange(function="save", args={"text": text})
    assert await code_of(world.review.suggest(CODER, SuggestRequest(change=change, reason="r"))) == "forbidden"
    result = await world.turn("t1", learned=(said("Always call me on +49 170 1234567"),))
    assert result.learned == 0
    assert (await world.store.counters())["refused.protected"] == 1
    stored = await dump(world)
    assert "1234567" not in stored
    assert "zinnia" not in stored


async def test_a_protected_property_hides_its_value(world: World) -> None:
    """A claim of a protected property goes to the vault: text and value are hidden, the entity is not."""
    await world.review.property_propose(ANA, PropertyProposeRequest(name="code", protected=True))
    saved = await world.save(CODER, "Ana's code is zinnia", claim=Claim(entity="Ana", property="code", value="zinnia"))
    assert saved.claim == Claim(entity="Ana", property="code", value=HIDDEN)
    assert "zinnia" not in await dump(world)


@pytest.mark.parametrize(
    "asked",
    ["+49 170 1234567", "+491701234567", "Ana's number is +49 170 1234567", "ana's number is +49-170-1234567."],
)
async def test_a_person_finds_what_a_person_knows(world: World, asked: str) -> None:
    """The exact value, whatever stands between its parts, finds its memory on the human route."""
    saved = await world.save(ANA, "Ana's number is +49 170 1234567", protected=True)
    await world.save(ANA, "Ben's number is +49 170 7654321", protected=True)
    found = await world.gate.reading.list(ANA, ListRequest(protected_value=asked))
    assert ([memory.id for memory in found.memories], found.total) == ([saved.id], 1)


async def test_nobody_else_and_nothing_less_finds_it(world: World) -> None:
    """Part of a value finds nothing; no other route may ask; a claim's value finds its memory."""
    await world.save(ANA, "Ana's number is +49 170 1234567", protected=True)
    claimed = await world.save(
        ANA, "It opens with zinnia", claim=Claim(entity="safe", property="code", value="zinnia"), protected=True
    )
    for part in ("1234567", "+49 170 123456", "number"):
        assert (await world.gate.reading.list(ANA, ListRequest(protected_value=part))).total == 0
    for caller in (CODER, SENSOR, CONSOLIDATE):
        request = ListRequest(protected_value="+49 170 1234567")
        assert await code_of(world.gate.reading.list(caller, request)) == "forbidden"
    found = await world.gate.reading.list(ANA, ListRequest(protected_value="Zinnia"))
    assert [memory.id for memory in found.memories] == [claimed.id]


async def test_the_same_value_again_is_the_same_memory(world: World) -> None:
    """A protected value said again reinforces; one that was deleted does not stand in the way of a new one."""
    first = await world.gate.save(ANA, SaveRequest(text="the code is zinnia", protected=True), "k1")
    again = await world.gate.save(ANA, SaveRequest(text="The code is ZINNIA", protected=True), "k2")
    assert first.memory is not None
    assert again.memory is not None
    assert (again.outcome, again.memory.id) == ("reinforced", first.memory.id)
    await world.gate.delete(ANA, DeleteRequest(id=first.memory.id))
    new = await world.save(ANA, "the code is zinnia", protected=True)
    assert new.id != first.memory.id
    third = await world.gate.save(ANA, SaveRequest(text="the code is zinnia", protected=True), "k3")
    assert third.memory is not None
    assert (third.outcome, third.memory.id) == ("reinforced", new.id)


async def test_a_protected_slot_is_rewritten_in_place(make_world: MakeWorld) -> None:
    """A sensor's protected reading takes the place of its last one; of the old value nothing stays in the vault."""
    world = await make_world(GateSettings(protect_automatically=True))
    first = await world.save(SENSOR, "at 12 Old Mill Road", slot="where")
    second = await world.save(SENSOR, "at 14 New Mill Road", slot="where")
    assert second.id == first.id
    assert await reveal(world, second) == "at 14 New Mill Road"
    assert await world.store.readers.one("SELECT count(*) FROM vault") == (1,)
    third = await world.save(SENSOR, "in the garden", slot="where")
    assert (third.id, third.text, third.protected) == (first.id, "in the garden", None)
    assert await world.store.readers.one("SELECT count(*) FROM vault") == (0,)


async def test_erasing_the_last_value_destroys_its_key(world: World) -> None:
    """Erase and wipe destroy a key with the last value under it, those about nobody included, and no other."""
    ana = await world.save(ANA, "the code is zinnia", entities=["Ana"], protected=True)
    other = await world.save(ANA, "the other code is dahlia", entities=["Ana"], protected=True)
    nobody = await world.save(ANA, "the door is lilac", protected=True)
    ben = await world.save(ANA, "the gate is rose", entities=["Ben"], protected=True)
    assert await keys(world) == 3
    await carry_out(world, Plan(kind="memory", memory_ids=(nobody.id,)))
    assert await keys(world) == 2
    await carry_out(world, Plan(kind="memory", memory_ids=(ana.id,)))
    assert await keys(world) == 2
    assert await reveal(world, other) == "the other code is dahlia"
    row = await world.store.readers.one("SELECT n FROM banks WHERE name = 'main'")
    assert row is not None
    assert await reveal(world, ben) == "the gate is rose"
    done = await carry_out(world, Plan(kind="bank", bank="main", bank_n=row[0]))
    assert done.counts["keys"] == 2
    assert await keys(world) == 0
    assert await world.store.readers.one("SELECT count(*) FROM vault_values") == (0,)


async def test_forgetting_looks_into_the_vault(world: World) -> None:
    """A protected text that mentions the person is destroyed although no other field does; another one stays."""
    names = await know(world, "Zenobia Quill", "Zenny")
    await world.save(ANA, "Zénny's code is zinnia", protected=True)
    kept = await world.save(ANA, "Ben's code is dahlia", protected=True)
    await forget(world, *names)
    assert await world.store.readers.all("SELECT memory FROM vault") == [(kept.id,)]
    assert json.dumps("zinnia") not in await dump(world)


async def test_a_turn_waits_for_the_key(world: World) -> None:
    """Without the key a turn that says a protected value is put off whole, so that nothing of it is lost."""
    vault = world.gate.vault
    assert isinstance(vault, KeyedVault)
    await world.review.property_propose(ANA, PropertyProposeRequest(name="code", protected=True))
    items = (said("The kettle is red"), said("It is zinnia", claim=Claim(entity="Safe", property="code", value="z")))
    vault.lock("tenant.key is missing", "put it back")
    assert await code_of(world.turn("t1", *items)) == "unavailable"
    assert await world.live() == {}
    vault.use(b"k" * 32)
    assert (await world.turn("t1", *items)).created == 2


async def test_what_cannot_wait_is_counted(world: World) -> None:
    """In a bank that holds changes back a turn's protected value is refused and counted, and stands nowhere."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    await world.review.property_propose(ANA, PropertyProposeRequest(name="code", protected=True))
    item = said("It is zinnia", claim=Claim(entity="Safe", property="code", value="zinnia"))
    result = await world.turn("t1", item, bank="strict")
    assert (result.created, result.awaiting_review) == (0, 0)
    assert (await world.store.counters())["refused.protected"] == 1
    assert "zinnia" not in await dump(world)
