"""What was said in private stays in private: nothing widens who sees a fact but a person who approves exactly that."""

import json
import tarfile
from pathlib import Path

import pytest

from memory_contracts.functions.banks import BankCreateRequest, BankDeleteRequest, BankRestoreRequest, BankUpdateRequest
from memory_contracts.functions.memories import (
    DeleteRequest,
    ListRequest,
    PinRequest,
    SupersedeRequest,
    UpdateRequest,
)
from memory_contracts.functions.operations import ExportRequest, ImportRequest
from memory_contracts.functions.review import (
    ChangesRevertRequest,
    EntityAliasRequest,
    EntityLinkRequest,
    EntityMergeRequest,
    NoticeListRequest,
    SuggestionDecideRequest,
    SuggestRequest,
)
from memory_contracts.records import Alias, Claim, ProposedChange
from memory_worker.files import Archives
from memory_worker.store import Caller
from tests.gate.conftest import ANA, BEN, CODER, CONSOLIDATE, WRITER, World, code_of, said

SECRET = "zanzibar"
DIARY = "diary"
EVERYBODY_ELSE = (BEN, CODER, WRITER, CONSOLIDATE)


async def private(world: World) -> None:
    """A bank that only Ana reads."""
    await world.gate.bank_create(ANA, BankCreateRequest(name=DIARY, owner="human.ana"))


async def in_the_open(world: World) -> list[str]:
    """Where the secret stands that is not the private bank: rows of the journal that are published to all, records."""
    found = []
    queries = {
        "journal": "SELECT type, coalesce(before, '') || coalesce(after, '') FROM journal WHERE owner IS NULL",
        "memories": "SELECT m.id, m.record FROM memories m JOIN banks b ON b.n = m.bank WHERE b.owner IS NULL",
        "rules": "SELECT r.name, r.record FROM rules r JOIN banks b ON b.n = r.bank WHERE b.owner IS NULL",
        "notices": "SELECT n.id, n.record FROM notices n JOIN banks b ON b.n = n.bank WHERE b.owner IS NULL",
        "suggestions": "SELECT s.id, s.record FROM suggestions s JOIN banks b ON b.n = s.bank WHERE b.owner IS NULL",
    }
    for place, query in queries.items():
        for name, data in await world.store.readers.all(query):
            text = data.decode() if isinstance(data, bytes) else str(data)
            if SECRET in text.lower():
                found.append(f"{place}: {name}")
    return found


async def test_whatever_is_done_in_private_stays_there(world: World) -> None:
    """A turn, saves, corrections, names, proposals, lapses and their undoing leave no word of it outside the bank."""
    await private(world)
    await world.turn("t1", said(f"{SECRET} is where we go", entities=("Zanzibar",)), bank=DIARY)
    await world.turn("t2", learned=(said(f"Always say {SECRET}"),), bank=DIARY)
    claim = Claim(entity="Zanzibar", property="zanzibar", value=SECRET)
    mine = await world.save(ANA, f"{SECRET} by boat", bank=DIARY, tags=[SECRET], claim=claim)
    await world.gate.update(ANA, UpdateRequest(id=mine.id, text=f"{SECRET} by plane"))
    await world.gate.pin(ANA, PinRequest(id=mine.id, pinned=True))
    other = await world.save(ANA, f"{SECRET} on foot", bank=DIARY)
    await world.gate.supersede(ANA, SupersedeRequest(id=other.id, by=mine.id, reason=SECRET))
    alias = Alias(channel="name", value="zanzibar city")
    await world.review.entity_alias(ANA, EntityAliasRequest(entity="Zanzibar", alias=alias))
    await world.review.entity_link(ANA, EntityLinkRequest(entity="Zanzibar", ref=f"https://{SECRET}.example"))
    change = ProposedChange(function="delete", args={"id": mine.id})
    await world.review.suggest(ANA, SuggestRequest(change=change, reason=SECRET))
    await world.gate.delete(ANA, DeleteRequest(id=mine.id))
    [removal, *_] = await world.changes(target=mine.id)
    await world.review.changes_revert(ANA, ChangesRevertRequest(id=removal.id))
    world.clock.forward(days=100)
    await world.sweeper.sweep()
    world.clock.forward(days=1)
    [lapse] = [one for one in await world.changes(cause_kind="expiry") if one.type == "memory.expired"][:1]
    await world.review.changes_revert(ANA, ChangesRevertRequest(id=lapse.id))
    await world.gate.bank_delete(ANA, BankDeleteRequest(name=DIARY))
    await world.gate.bank_restore(ANA, BankRestoreRequest(name=DIARY))
    assert await in_the_open(world) == []
    assert (await world.live(ANA, DIARY)).keys() >= {f"{SECRET} by plane"}


async def test_a_private_lapse_is_told_in_private(world: World) -> None:
    """The notice that a private memory lapsed is the private bank's; nobody else lists it."""
    await private(world)
    await world.save(ANA, f"{SECRET} by boat", bank=DIARY)
    world.clock.forward(days=100)
    await world.sweeper.sweep()
    assert [notice.bank for notice in (await world.review.notice_list(ANA, NoticeListRequest())).notices] == [DIARY]
    for caller in (BEN, CONSOLIDATE):
        assert (await world.review.notice_list(caller, NoticeListRequest())).notices == []


@pytest.mark.parametrize("caller", EVERYBODY_ELSE, ids=lambda caller: caller.name)
async def test_nobody_else_carries_it_out(world: World, caller: Caller) -> None:
    """Superseding into another bank, merging, undoing, proposing and layering find nothing there to widen."""
    await private(world)
    secret = await world.save(ANA, f"{SECRET} by boat", bank=DIARY, entities=["Zanzibar"])
    shared = await world.save(ANA, "Ana likes boats", entities=["Boat"])
    [made] = await world.changes(target=secret.id)
    supersede = SupersedeRequest(id=shared.id, by=secret.id, reason="r")
    merge = EntityMergeRequest(entity="Boat", into="Zanzibar", reason="r")
    change = ProposedChange(function="update", args={"id": secret.id, "text": "x"})
    attempts = {
        "supersede": world.gate.supersede(caller, supersede),
        "merge": world.review.entity_merge(caller, merge),
        "suggest": world.review.suggest(caller, SuggestRequest(change=change, reason="r")),
        "revert": world.review.changes_revert(caller, ChangesRevertRequest(id=made.id)),
        "layer": world.gate.bank_update(caller, BankUpdateRequest(name="main", layers=[DIARY])),
    }
    for name, attempt in attempts.items():
        assert await code_of(attempt) in ("not_found", "forbidden", "invalid_input"), name
    assert await in_the_open(world) == []


async def test_not_even_its_owner_widens_it_by_the_way(world: World) -> None:
    """Superseding across banks and layering a private bank are refused to its owner too; a merge moves no memory."""
    await private(world)
    secret = await world.save(ANA, f"{SECRET} by boat", bank=DIARY, entities=["Zanzibar"])
    shared = await world.save(ANA, "Ana likes boats", entities=["Boat"])
    assert await code_of(world.gate.supersede(ANA, SupersedeRequest(id=shared.id, by=secret.id, reason="r"))) == (
        "invalid_input"
    )
    assert await code_of(world.gate.bank_update(ANA, BankUpdateRequest(name="main", layers=[DIARY]))) == "forbidden"
    merged = await world.review.entity_merge(ANA, EntityMergeRequest(entity="Boat", into="Zanzibar", reason="r"))
    if merged.suggestion is not None:
        await world.review.suggestion_decide(
            ANA, SuggestionDecideRequest(ids=[merged.suggestion.id], decision="approve")
        )
    rows = await world.store.readers.all(
        "SELECT m.id FROM memories m JOIN banks b ON b.n = m.bank WHERE b.owner IS NULL ORDER BY m.id"
    )
    assert rows == [(shared.id,)]
    assert (await world.live(BEN)).keys() == {"Ana likes boats"}


async def test_a_proposal_from_private_to_shared_waits_for_a_person(world: World) -> None:
    """An agent proposes a fact of its private bank for main: nothing is in main until a person approves it."""
    await world.save(CODER, f"{SECRET} is the code name", bank="agent-coder")
    change = ProposedChange(function="save", args={"text": f"{SECRET} is the code name", "bank": "main"})
    asked = await world.review.suggest(CODER, SuggestRequest(change=change, reason="all should know", bank="main"))
    assert asked.suggestion is not None
    assert await world.live(BEN) == {}
    for caller in (CODER, WRITER, CONSOLIDATE):
        request = SuggestionDecideRequest(ids=[asked.suggestion.id], decision="approve")
        assert await code_of(world.review.suggestion_decide(caller, request)) == "forbidden"
    assert await world.live(BEN) == {}
    await world.review.suggestion_decide(BEN, SuggestionDecideRequest(ids=[asked.suggestion.id], decision="approve"))
    [memory] = (await world.live(BEN)).values()
    assert (memory.text, memory.tier, memory.source.principal) == (f"{SECRET} is the code name", "inferred", "coder")


async def test_an_export_holds_what_its_asker_sees(world: World) -> None:
    """Another person's archive has no word of a private bank, in no file, name or journal row; the owner's has it."""
    await private(world)
    await world.save(ANA, f"{SECRET} by boat", bank=DIARY, entities=["Zanzibar"])
    await world.save(ANA, "Ana likes boats")
    archives = Archives(world.store.directory, world.gate, world.clock, "1", _no_reveal, data_dir=world.store.directory)
    others = Path((await archives.export(BEN, ExportRequest())).path)
    world.clock.forward(seconds=1)
    own = Path((await archives.export(ANA, ExportRequest())).path)
    assert SECRET not in _everything(others).lower()
    assert "ana likes boats" in _everything(others).lower()
    assert SECRET in _everything(own).lower()
    assert await code_of(archives.export(BEN, ExportRequest(bank=DIARY))) == "not_found"


async def test_an_import_brings_a_private_bank_back_as_private(world: World) -> None:
    """A private bank that comes back from an archive is private again, and its memories and events with it."""
    await private(world)
    await world.save(ANA, f"{SECRET} by boat", bank=DIARY)
    archives = Archives(world.store.directory, world.gate, world.clock, "1", _no_reveal, data_dir=world.store.directory)
    path = (await archives.export(ANA, ExportRequest())).path
    await world.gate.bank_delete(ANA, BankDeleteRequest(name=DIARY))
    await archives.import_(ANA, ImportRequest(path=path, trust=True))
    assert (await world.live(ANA, DIARY)).keys() == {f"{SECRET} by boat"}
    assert await in_the_open(world) == []
    for caller in EVERYBODY_ELSE:
        assert await code_of(world.gate.reading.list(caller, ListRequest(bank=DIARY))) == "not_found"


async def _no_reveal(caller: object, ref: str) -> str:
    raise AssertionError("nothing is protected here")


def _everything(path: Path) -> str:
    """Names and contents of an archive."""
    with tarfile.open(path) as tar:
        members = [(member.name, tar.extractfile(member)) for member in tar]
        return json.dumps([(name, file.read().decode() if file else "") for name, file in members])
