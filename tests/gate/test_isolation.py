"""A bank that is not the caller's to see does not exist for it, on any path; a tenant never meets another."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import (
    BankCreateRequest,
    BankListRequest,
    BankUpdateRequest,
    RuleGetRequest,
    RuleListRequest,
    RuleSetRequest,
)
from memory_contracts.functions.memories import (
    DeleteRequest,
    GetRequest,
    HistoryRequest,
    ListRequest,
    PinRequest,
    SaveRequest,
    SupersedeRequest,
    TagsRequest,
    UpdateRequest,
)
from memory_contracts.functions.review import (
    ChangesListRequest,
    ChangesRevertRequest,
    EntityAliasRequest,
    EntityGetRequest,
    EntityLinkRequest,
    EntityListRequest,
    EntityMergeRequest,
    NoticeAckRequest,
    NoticeListRequest,
    PropertyListRequest,
    SuggestionDecideRequest,
    SuggestionListRequest,
    SuggestRequest,
)
from memory_contracts.records import Alias, Claim, ProposedChange
from memory_worker.gate import GateSettings, noticing
from memory_worker.gate.access import open_bank
from memory_worker.store import Caller, Origin
from tests.gate.conftest import ANA, BEN, CODER, CONSOLIDATE, SENSOR, WRITER, MakeWorld, World, code_of

SECRET = "zanzibar"
"""A word that stands in every field of the private bank, and nowhere else."""

Path_ = Callable[[World, Caller, dict[str, str]], Awaitable[Any]]

PATHS: dict[str, Path_] = {
    "get": lambda w, c, ids: w.gate.reading.get(c, GetRequest(id=ids["memory"])),
    "history": lambda w, c, ids: w.gate.reading.history(c, HistoryRequest(id=ids["memory"])),
    "list": lambda w, c, ids: w.gate.reading.list(c, ListRequest(bank="agent-coder", render=True)),
    "list main": lambda w, c, ids: w.gate.reading.list(c, ListRequest(entity="Zanzibar Ltd")),
    "tags": lambda w, c, ids: w.gate.reading.tags(c, TagsRequest(bank="agent-coder")),
    "save": lambda w, c, ids: w.gate.save(c, SaveRequest(text="x", bank="agent-coder")),
    "update": lambda w, c, ids: w.gate.update(c, UpdateRequest(id=ids["memory"], text="x")),
    "delete": lambda w, c, ids: w.gate.delete(c, DeleteRequest(id=ids["memory"])),
    "pin": lambda w, c, ids: w.gate.pin(c, PinRequest(id=ids["memory"], pinned=True)),
    "supersede": lambda w, c, ids: w.gate.supersede(
        c, SupersedeRequest(id=ids["shared"], by=ids["memory"], reason="x")
    ),
    "bank.list": lambda w, c, ids: w.gate.reading.bank_list(c, BankListRequest(include_trash=True)),
    "bank.update": lambda w, c, ids: w.gate.bank_update(c, BankUpdateRequest(name="agent-coder", review="all")),
    "rule.list": lambda w, c, ids: w.gate.reading.rule_list(c, RuleListRequest(bank="agent-coder")),
    "rule.get": lambda w, c, ids: w.gate.reading.rule_get(c, RuleGetRequest(name="style", bank="agent-coder")),
    "rule.set": lambda w, c, ids: w.gate.rule_set(c, RuleSetRequest(name="style", bank="agent-coder", content="x")),
    "changes.list": lambda w, c, ids: w.gate.reading.changes_list(c, ChangesListRequest(limit=200)),
    "changes.list bank": lambda w, c, ids: w.gate.reading.changes_list(c, ChangesListRequest(bank="agent-coder")),
    "changes.list target": lambda w, c, ids: w.gate.reading.changes_list(c, ChangesListRequest(target=ids["memory"])),
    "changes.list seq": lambda w, c, ids: w.gate.reading.changes_list(c, ChangesListRequest(after_seq=0, limit=200)),
    "changes.revert": lambda w, c, ids: w.review.changes_revert(c, ChangesRevertRequest(id=ids["change"])),
    "changes.revert cause": lambda w, c, ids: w.review.changes_revert(c, ChangesRevertRequest(id="key-1")),
    "suggest": lambda w, c, ids: w.review.suggest(c, _suggest("update", id=ids["memory"], text="x")),
    "suggest bank": lambda w, c, ids: w.review.suggest(c, _suggest("save", bank="agent-coder", text="x")),
    "suggestion.list": lambda w, c, ids: w.review.suggestion_list(c, SuggestionListRequest()),
    "suggestion.list target": lambda w, c, ids: w.review.suggestion_list(
        c, SuggestionListRequest(target=ids["memory"])
    ),
    "suggestion.decide": lambda w, c, ids: w.review.suggestion_decide(
        c, SuggestionDecideRequest(ids=[ids["suggestion"]], decision="approve")
    ),
    "entity.list": lambda w, c, ids: w.review.entity_list(c, EntityListRequest(limit=200)),
    "entity.list query": lambda w, c, ids: w.review.entity_list(c, EntityListRequest(query="z")),
    "entity.get": lambda w, c, ids: w.review.entity_get(c, EntityGetRequest(entity="Zanzibar Ltd")),
    "entity.get id": lambda w, c, ids: w.review.entity_get(c, EntityGetRequest(entity=ids["entity"])),
    "entity.get shared": lambda w, c, ids: w.review.entity_get(c, EntityGetRequest(entity="Ana")),
    "entity.link": lambda w, c, ids: w.review.entity_link(c, EntityLinkRequest(entity="Zanzibar Ltd", ref="x")),
    "entity.alias": lambda w, c, ids: w.review.entity_alias(
        c, EntityAliasRequest(entity="Ana", alias=Alias(channel="name", value="zanzibar ltd"))
    ),
    "entity.merge": lambda w, c, ids: w.review.entity_merge(c, EntityMergeRequest(entity="Zanzibar Ltd", into="Ana")),
    "property.list": lambda w, c, ids: w.review.property_list(c, PropertyListRequest()),
    "notice.list": lambda w, c, ids: w.review.notice_list(c, NoticeListRequest()),
    "notice.list bank": lambda w, c, ids: w.review.notice_list(c, NoticeListRequest(bank="agent-coder")),
    "notice.ack": lambda w, c, ids: w.review.notice_ack(c, NoticeAckRequest(ids=[ids["notice"]])),
}


def _suggest(function: str, **args: Any) -> SuggestRequest:
    return SuggestRequest(change=ProposedChange(function=function, args=args), reason="x")


async def furnish(world: World, managers: list[str] | None = None) -> dict[str, str]:
    """Fill an agent's private bank with everything a bank can hold, each naming the secret; and a little in main."""
    shared = await world.save(ANA, "Ana likes tea", entities=["Ana"])
    memory = await world.save(
        CODER,
        f"{SECRET} is due on Friday",
        key="key-1",
        bank="agent-coder",
        entities=["Zanzibar Ltd", "Ana"],
        tags=[SECRET],
        claim=Claim(entity="Zanzibar Ltd", property=f"{SECRET} size", value=SECRET),
        subject=SECRET,
    )
    if managers:
        owner = Caller("local", "human", managers[0].partition(".")[2])
        bank = await world.gate.directory.named("agent-coder")
        assert bank is not None
        assert owner.name in bank.bank.managers
    held = await world.review.suggest(CODER, _suggest("update", id=memory.id, text=f"{SECRET} is late"))
    assert held.suggestion is not None
    await world.review.entity_link(CODER, EntityLinkRequest(entity="Zanzibar Ltd", ref=f"https://{SECRET}.org"))
    page = await world.review.entity_get(CODER, EntityGetRequest(entity="Zanzibar Ltd"))
    lapsing = await world.save(CODER, f"{SECRET} lapses", bank="agent-coder")

    def make_notice(tx: Any) -> str:
        act = world.gate.act(tx, CODER, Origin.of(CODER, "n"))
        return noticing.tell_lapsed(act, open_bank(act, "agent-coder", write=True), lapsing).id

    notice = await world.store.write(make_notice)
    [change] = [row for row in await world.changes(CODER, target=memory.id) if row.type == "memory.created"]
    return {
        "shared": shared.id,
        "memory": memory.id,
        "suggestion": held.suggestion.id,
        "entity": page.entity.id,
        "notice": notice,
        "change": change.id,
    }


async def shown(work: Awaitable[Any]) -> str:
    """Everything a call lets its caller see: the reply, or the error."""
    try:
        return msgspec.json.encode(await work).decode().casefold()
    except FunctionError as error:
        return f"{error} {error.field} {error.hint}".casefold()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("caller", [ANA, WRITER, SENSOR, CONSOLIDATE], ids=lambda caller: caller.name)
async def test_private_bank_is_invisible(world: World, caller: Caller, path: str) -> None:
    """On no path, in no reply and no error message, does another see anything of a private bank, or change it."""
    ids = await furnish(world)
    journal = len(await world.changes(CODER, bank="agent-coder"))
    text = (await shown(PATHS[path](world, caller, ids))).replace("no entity zanzibar ltd", "")
    assert SECRET not in text
    assert "agent.coder" not in text
    if (caller.route, path) != ("system", "notice.ack"):  # who delivers notices says that they were delivered
        assert len(await world.changes(CODER, bank="agent-coder")) == journal


@pytest.mark.parametrize("path", ["get", "history", "list", "update", "delete", "rule.list", "entity.get", "suggest"])
async def test_hidden_and_missing_look_the_same(world: World, make_world: MakeWorld, path: str) -> None:
    """What is hidden and what does not exist give the same error, name for name."""
    ids = await furnish(world)
    hidden = await shown(PATHS[path](world, WRITER, ids))
    missing = await shown(PATHS[path](await make_world(), WRITER, ids))
    assert hidden == missing


async def test_owner_sees_its_bank(world: World) -> None:
    """The owner reads and writes its private bank, from its first use."""
    ids = await furnish(world)
    for path in ("get", "list", "tags", "changes.list", "suggestion.list", "entity.get", "property.list"):
        assert SECRET in await shown(PATHS[path](world, CODER, ids)), path
    listed = await world.gate.reading.bank_list(CODER, BankListRequest())
    assert [bank.name for bank in listed.banks] == ["agent-coder", "main"]


async def test_manager_reads_and_does_not_write(make_world: MakeWorld) -> None:
    """A manager of a private bank reads all of it and writes nothing into it."""
    world = await make_world(GateSettings(agent_bank_managers=("human.ana",)))
    ids = await furnish(world, ["human.ana"])
    for path in ("get", "list", "tags", "changes.list bank", "suggestion.list", "entity.get", "notice.list"):
        assert SECRET in await shown(PATHS[path](world, ANA, ids)), path
        assert SECRET not in (await shown(PATHS[path](world, BEN, ids))).replace("no entity zanzibar ltd", ""), path
    for path in ("save", "update", "delete", "pin", "rule.set"):
        assert await code_of(PATHS[path](world, ANA, ids)) == "forbidden", path
    reply = await world.review.changes_revert(ANA, ChangesRevertRequest(id=ids["change"]))
    assert "not written" in reply.refused[0].reason


async def test_manager_of_one_bank_does_not_see_the_owners_others(world: World) -> None:
    """A manager of one private bank of an owner sees nothing of another one, in the journal neither."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="open", owner="agent.coder", managers=["human.ben"]))
    await world.gate.bank_create(ANA, BankCreateRequest(name="closed", owner="agent.coder"))
    await world.save(CODER, "fine to see", bank="open")
    await world.save(CODER, f"{SECRET} is closed", bank="closed", entities=[SECRET])
    seen = str(await world.changes(BEN))
    assert "fine to see" in seen
    assert SECRET not in seen


async def test_decider_manages_the_private_bank(make_world: MakeWorld) -> None:
    """A suggestion in a private bank is decided by a person who manages it; others do not find it."""
    world = await make_world(GateSettings(agent_bank_managers=("human.ana",)))
    ids = await furnish(world, ["human.ana"])
    request = SuggestionDecideRequest(ids=[ids["suggestion"]], decision="approve")
    [hidden] = (await world.review.suggestion_decide(BEN, request)).decided
    assert hidden.error is not None
    assert hidden.error.startswith("not_found")
    [done] = (await world.review.suggestion_decide(ANA, request)).decided
    assert (done.state, done.error) == ("approved", None)


async def test_private_entity_is_discussed_in_private(world: World) -> None:
    """A new name for an entity that only a private bank knows waits in that bank, not before everybody."""
    await furnish(world)
    request = EntityAliasRequest(entity="Zanzibar Ltd", alias=Alias(channel="name", value="Zed"))
    reply = await world.review.entity_alias(CODER, request)
    assert reply.suggestion is not None
    assert reply.suggestion.bank == "agent-coder"
    assert SECRET not in str(await world.waiting(ANA)).casefold()


async def test_three_banks_with_the_same_texts(world: World) -> None:
    """The same text in three banks is three memories: one changes, is deleted or pinned without the others."""
    for bank in ("one", "two"):
        await world.gate.bank_create(ANA, BankCreateRequest(name=bank))
    made = {bank: await world.save(ANA, "Ana likes tea", bank=bank, subject="drink") for bank in ("main", "one", "two")}
    assert len({memory.id for memory in made.values()}) == 3
    await world.save(ANA, "Ana likes coffee", bank="one", subject="drink")
    await world.gate.delete(ANA, DeleteRequest(id=made["two"].id))
    assert (await world.live(bank="main")).keys() == {"Ana likes tea"}
    assert (await world.live(bank="one")).keys() == {"Ana likes coffee"}
    assert await world.live(bank="two") == {}
    again = await world.save(CODER, "Ana likes tea", bank="main")
    assert (again.id, again.corroboration) == (made["main"].id, 1)
    assert [change.bank for change in await world.changes(bank="two", target=made["two"].id)] == ["two", "two"]


async def test_two_tenants_with_the_same_texts(make_world: MakeWorld) -> None:
    """Two tenants that hold the same texts share nothing: no id, no count, no change, and another's id is not found."""
    acme, zeta = await make_world(tenant="acme"), await make_world(tenant="zeta")
    ana, zoe = Caller("acme", "human", "ana"), Caller("zeta", "human", "zoe")
    mine = await acme.save(ana, "The launch is in May", key="k", entities=["Launch"], tags=["plan"])
    yours = await zeta.save(zoe, "The launch is in May", key="k", entities=["Launch"], tags=["plan"])
    assert (mine.id != yours.id, yours.corroboration, yours.source.principal) == (True, 0, "zoe")
    await acme.gate.update(ana, UpdateRequest(id=mine.id, text="The launch is in June"))
    assert (await zeta.live(zoe)).keys() == {"The launch is in May"}
    for world, caller, foreign in ((acme, ana, yours), (zeta, zoe, mine)):
        for call in (
            world.gate.reading.get(caller, GetRequest(id=foreign.id)),
            world.gate.reading.history(caller, HistoryRequest(id=foreign.id)),
            world.gate.delete(caller, DeleteRequest(id=foreign.id)),
            world.review.changes_revert(caller, ChangesRevertRequest(id=foreign.id)),
        ):
            assert await code_of(call) == "not_found"
    assert all(change.actor.principal in ("zoe", "worker") for change in await zeta.changes(zoe))
    assert b"June" not in (zeta.directory / "memory.db-wal").read_bytes()
