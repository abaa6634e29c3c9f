"""Any change that is not a forgetting can be undone, by a new change that can be undone itself."""

from typing import Any

import pytest

from memory_contracts.functions.banks import (
    BankCreateRequest,
    BankDeleteRequest,
    BankRestoreRequest,
    BankUpdateRequest,
    RuleGetRequest,
    RuleSetRequest,
)
from memory_contracts.functions.memories import (
    DeleteRequest,
    GetRequest,
    HistoryRequest,
    PinRequest,
    SaveRequest,
    SupersedeRequest,
    UpdateRequest,
)
from memory_contracts.functions.review import (
    ChangesRevertReply,
    ChangesRevertRequest,
    EntityAliasRequest,
    EntityGetRequest,
    EntityLinkRequest,
    EntityMergeRequest,
    PropertyProposeRequest,
    SuggestionDecideRequest,
    SuggestRequest,
)
from memory_contracts.records import Alias, Memory, ProposedChange
from memory_worker.gate import filing
from memory_worker.store import Caller, Origin, Transaction, ledger
from tests.gate.conftest import ANA, BEN, CODER, CONSOLIDATE, SENSOR, World, code_of, said


async def revert(world: World, id: str, caller: Caller = ANA) -> ChangesRevertReply:
    return await world.review.changes_revert(caller, ChangesRevertRequest(id=id))


async def undo(world: World, id: str) -> str:
    """Revert, expecting nothing refused; gives the id under which that revert can be undone."""
    reply = await revert(world, id)
    assert reply.refused == [], reply.refused
    return reply.reverted[0].cause.id


async def reason(world: World, id: str) -> str:
    """Revert, expecting one refusal and no change; gives its reason."""
    reply = await revert(world, id)
    assert reply.reverted == []
    [refused] = reply.refused
    return refused.reason


async def get(world: World, memory_id: str) -> Memory:
    memory = (await world.gate.reading.get(ANA, GetRequest(id=memory_id))).memory
    assert memory is not None
    return memory


async def last(world: World, **keep: Any) -> str:
    return (await world.changes(**keep))[0].id


async def test_update_goes_back_with_its_old_tier(world: World) -> None:
    """The old text comes back with its old tier and source, as a new revision; undoing that restores the new text."""
    note = await world.save(CODER, "Ana likes tea")
    await world.gate.update(ANA, UpdateRequest(id=note.id, text="Ana likes coffee"))
    undone = await undo(world, await last(world, target=note.id))
    memory = await get(world, note.id)
    assert (memory.text, memory.tier, memory.source.principal, memory.revision) == (
        "Ana likes tea",
        "inferred",
        "coder",
        3,
    )
    await undo(world, undone)
    memory = await get(world, note.id)
    assert (memory.text, memory.tier, memory.source.principal, memory.revision) == (
        "Ana likes coffee",
        "stated",
        "ana",
        4,
    )


@pytest.mark.parametrize("how", ["delete", "pin", "unpin", "tag"])
async def test_each_change_of_a_memory(world: World, how: str) -> None:
    """A deletion, a pin, an un-pin and a label can be undone, and the undoing as well."""
    memory = await world.save(ANA, "Ana likes tea", tags=["a"], pinned=how == "unpin")
    if how == "delete":
        await world.gate.delete(ANA, DeleteRequest(id=memory.id))
    elif how == "tag":
        await world.gate.update(ANA, UpdateRequest(id=memory.id, tags=["b"]))
    else:
        await world.gate.pin(ANA, PinRequest(id=memory.id, pinned=how == "pin"))

    def shape(found: Memory) -> Any:
        return found.text, found.tier, found.state, found.pinned, found.tags, found.reason, found.expires_at is None

    changed = await get(world, memory.id)
    undone = await undo(world, await last(world, target=memory.id))
    assert shape(await get(world, memory.id)) == shape(memory)
    await undo(world, undone)
    assert shape(await get(world, memory.id)) == shape(changed)


async def test_replacement_is_undone_whole(world: World) -> None:
    """Undoing a statement that replaced another brings the other back."""
    old = await world.save(ANA, "Ana lives in Rome", subject="home")
    new = await world.save(ANA, "Ana lives in Paris", subject="home")
    await undo(world, await last(world, target=new.id))
    assert (await world.live()).keys() == {"Ana lives in Rome"}
    assert (await get(world, old.id)).superseded_by is None


async def test_run_is_undone(world: World) -> None:
    """Everything that one run of hygiene did is undone by the run's id."""
    for n in range(3):
        keep, drop = await world.save(CODER, f"keep {n}"), await world.save(CODER, f"drop {n}")
        request = SupersedeRequest(id=drop.id, by=keep.id, reason="the same", run_id="run_1")
        await world.gate.supersede(CONSOLIDATE, request)
    assert len(await world.live()) == 3
    undone = await undo(world, "run_1")
    assert len(await world.live()) == 6
    await undo(world, undone)
    assert len(await world.live()) == 3


async def test_unlearn_a_session(world: World) -> None:
    """What a session taught goes, with its rule lines and what it only said again; what was there before stays."""
    before = await world.save(ANA, "Ana likes tea")
    await world.turn("t1", said("Ana has a cat"), said("Ana likes tea"), session="s1")
    await world.turn("t2", said("Ana has a dog"), session="s1", learned=(said("Always answer briefly"),))
    await world.turn("t3", said("Ana has a fish"), session="s2", learned=(said("Never use emoji"),))
    assert (await get(world, before.id)).corroboration == 1
    undone = await undo(world, "s1")
    assert (await world.live()).keys() == {"Ana likes tea", "Ana has a fish"}
    assert (await get(world, before.id)).corroboration == 0
    rule = await world.gate.reading.rule_get(ANA, RuleGetRequest(name="learned"))
    assert rule.rule is not None
    assert rule.rule.content == "- Never use emoji"
    await undo(world, undone)
    assert (await world.live()).keys() == {"Ana likes tea", "Ana has a fish", "Ana has a cat", "Ana has a dog"}
    assert (await get(world, before.id)).corroboration == 1
    rule = await world.gate.reading.rule_get(ANA, RuleGetRequest(name="learned"))
    assert rule.rule is not None
    assert sorted(rule.rule.content.split("\n")) == ["- Always answer briefly", "- Never use emoji"]


async def test_unlearned_is_not_learned_again(world: World) -> None:
    """What a person had unlearned is not added again by a later turn, neither as a memory nor as a rule line."""
    await world.turn("t1", said("Ana has a cat"), learned=(said("Always answer briefly"),))
    await undo(world, "t1")
    result = await world.turn("t2", said("Ana has a cat"), session="s2", learned=(said("Always answer briefly"),))
    assert (result.created, result.learned) == (0, 0)
    assert await world.live() == {}


async def test_approval_is_undone(world: World) -> None:
    """Undoing an approval undoes what it did and leaves the suggestion rejected; undoing that restores both."""
    stated = await world.save(ANA, "Ana lives in Rome", subject="home")
    held = await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home"))
    assert held.suggestion is not None
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[held.suggestion.id], decision="approve"))
    undone = await undo(world, held.suggestion.id)
    assert (await world.live()).keys() == {"Ana lives in Rome"}
    assert (await get(world, stated.id)).tier == "stated"
    assert [one.id for one in await world.waiting(state="rejected")] == [held.suggestion.id]
    await undo(world, undone)
    assert (await world.live()).keys() == {"Ana lives in Paris"}
    assert [one.id for one in await world.waiting(state="approved")] == [held.suggestion.id]


async def test_rejection_is_undone(world: World) -> None:
    """A rejection that is undone leaves the suggestion open."""
    change = ProposedChange(function="save", args={"text": "one"})
    made = await world.review.suggest(CODER, SuggestRequest(change=change, reason="x"))
    assert made.suggestion is not None
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[made.suggestion.id], decision="reject"))
    await undo(world, made.suggestion.id)
    assert [one.id for one in await world.waiting()] == [made.suggestion.id]


async def test_rule_goes_back(world: World) -> None:
    """A rule's content, its making and its removal can be undone."""
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content="Be brief."))
    made = await last(world, target="style")
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content=""))
    await undo(world, await last(world, target="style"))
    rule = await world.gate.reading.rule_get(ANA, RuleGetRequest(name="style"))
    assert rule.rule is not None
    assert rule.rule.content == "Be brief."
    await undo(world, made)
    assert await code_of(world.gate.reading.rule_get(ANA, RuleGetRequest(name="style"))) == "not_found"


async def test_bank_goes_back(world: World) -> None:
    """A bank's settings, its trashing and its making can be undone; one that holds something is not trashed."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
    made = await last(world, bank="project")
    await world.gate.bank_update(ANA, BankUpdateRequest(name="project", review="all", expiry="year"))
    await undo(world, await last(world, bank="project"))
    bank = await world.gate.directory.named("project")
    assert bank is not None
    assert (bank.bank.review, bank.bank.expiry) == ("auto", "quarter")
    await world.save(ANA, "Ana likes tea", bank="project")
    assert "holds" in await reason(world, made)
    await world.gate.bank_delete(ANA, BankDeleteRequest(name="project"))
    await undo(world, await last(world, bank="project"))
    assert (await world.live(bank="project")).keys() == {"Ana likes tea"}


async def test_main_comes_back(world: World) -> None:
    """`main` that was deleted can be restored although a new one took its name; not over one that holds things."""
    await world.save(ANA, "Ana likes tea")
    await world.gate.bank_delete(ANA, BankDeleteRequest(name="main"))
    assert await world.live() == {}
    await world.gate.bank_restore(ANA, BankRestoreRequest(name="main"))
    assert (await world.live()).keys() == {"Ana likes tea"}
    await world.gate.bank_delete(ANA, BankDeleteRequest(name="main"))
    await world.save(ANA, "something new")
    assert await code_of(world.gate.bank_restore(ANA, BankRestoreRequest(name="main"))) == "conflict"


async def test_merge_is_undone(world: World) -> None:
    """A merge that is undone gives each entity its names and memories back; undoing that joins them again."""
    await world.save(ANA, "Ana likes tea", entities=["Ana"])
    await world.save(ANA, "Annie likes coffee", entities=["Annie"])
    held = await world.review.entity_merge(ANA, EntityMergeRequest(entity="Annie", into="Ana"))
    assert held.suggestion is not None
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[held.suggestion.id], decision="approve"))

    async def pages() -> dict[str, list[str]]:
        found = {}
        for name in ("Ana", "Annie"):
            page = await world.review.entity_get(ANA, EntityGetRequest(entity=name))
            found[name] = sorted(memory.text for memory in page.mentions)
        return found

    both = ["Ana likes tea", "Annie likes coffee"]
    assert await pages() == {"Ana": both, "Annie": both}
    undone = await undo(world, held.suggestion.id)
    assert await pages() == {"Ana": ["Ana likes tea"], "Annie": ["Annie likes coffee"]}
    await undo(world, undone)
    assert await pages() == {"Ana": both, "Annie": both}


async def test_alias_link_property_go_back(world: World) -> None:
    """An alias, a link and a property can be undone."""
    await world.save(ANA, "Ana likes tea", entities=["Ana"])
    await world.review.entity_alias(
        ANA, EntityAliasRequest(entity="Ana", alias=Alias(channel="email", value="ana@x.org"))
    )
    await undo(world, (await world.changes())[0].id)
    await world.review.entity_link(CODER, EntityLinkRequest(entity="Ana", ref="https://x.org/ana"))
    await undo(world, (await world.changes())[0].id)
    page = await world.review.entity_get(ANA, EntityGetRequest(entity="Ana"))
    assert (page.entity.aliases, page.entity.links) == ((), ())
    assert await code_of(world.review.entity_get(ANA, EntityGetRequest(entity="ana@x.org"))) == "not_found"
    await world.review.property_propose(ANA, PropertyProposeRequest(name="birthday", cardinality="one"))
    await undo(world, (await world.changes())[0].id)
    assert (await world.store.readers.one("SELECT count(*) FROM properties")) == (0,)


async def test_lapsed_comes_back_within_grace(world: World) -> None:
    """A memory that lapsed can be brought back for 30 days, with a new lease; not after."""
    memory = await world.save(ANA, "Ana likes tea")
    world.clock.forward(days=95)
    await world.sweeper.sweep()
    lapse = await last(world, target=memory.id, cause_kind="expiry")
    assert (await get(world, memory.id)).state == "expired"
    world.clock.forward(days=29)
    undone = await undo(world, lapse)
    back = await get(world, memory.id)
    assert back.state == "live"
    assert back.expires_at is not None
    assert back.expires_at.timestamp() > world.clock.at + 80 * 86_400
    await undo(world, undone)
    world.clock.forward(days=2)
    assert "30 days" in await reason(world, lapse)


# What stands in the way


async def test_later_changes_stand_in_the_way(world: World) -> None:
    """A text that was changed again since is not undone over the later one; a change elsewhere does not block."""
    memory = await world.save(ANA, "one")
    await world.gate.update(ANA, UpdateRequest(id=memory.id, text="two"))
    second = await last(world, target=memory.id)
    await world.gate.update(ANA, UpdateRequest(id=memory.id, tags=["later"]))
    await world.gate.update(ANA, UpdateRequest(id=memory.id, text="three"))
    third = await last(world, target=memory.id)
    assert "text" in await reason(world, second)
    await undo(world, third)
    await undo(world, second)
    found = await get(world, memory.id)
    assert (found.text, found.tags) == ("one", ("later",))


async def test_undone_once(world: World) -> None:
    """A change that is undone is not undone again."""
    memory = await world.save(ANA, "one")
    await world.gate.update(ANA, UpdateRequest(id=memory.id, text="two"))
    change = await last(world, target=memory.id)
    await undo(world, change)
    assert "already" in await reason(world, change)


@pytest.mark.parametrize("how", ["pinned", "said again", "stated"])
async def test_a_session_does_not_take_what_others_made_theirs(world: World, how: str) -> None:
    """What a session taught stays where a person pinned or stated it, or another turn said it, since; the rest goes."""
    await world.turn("t1", said("Ana has a cat"), said("Ana has a dog"))
    cat = (await world.live())["Ana has a cat"]
    if how == "pinned":
        await world.gate.pin(ANA, PinRequest(id=cat.id, pinned=True))
    elif how == "stated":
        await world.save(BEN, "Ana has a cat")
    else:
        await world.turn("t2", said("Ana has a cat"), session="s2")
    reply = await revert(world, "s1")
    assert len(reply.refused) == 1
    assert (await world.live()).keys() == {"Ana has a cat"}


async def test_text_is_taken_by_another(world: World) -> None:
    """A memory whose text another live one has by now is not brought back beside it."""
    memory = await world.save(ANA, "one")
    await world.gate.delete(ANA, DeleteRequest(id=memory.id))
    deletion = await last(world, target=memory.id)
    await world.save(ANA, "one")
    assert "has this text" in await reason(world, deletion)


async def test_trashed_bank_stands_in_the_way(world: World) -> None:
    """A change in a bank that is in the trash is refused with the reason."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
    memory = await world.save(ANA, "one", bank="project")
    await world.gate.bank_delete(ANA, BankDeleteRequest(name="project"))
    assert "trash" in await reason(world, await last(world, target=memory.id))


@pytest.mark.parametrize("caller", [CODER, SENSOR, CONSOLIDATE])
async def test_only_people_undo(world: World, caller: Caller) -> None:
    """Every route but human is refused to undo."""
    await world.save(ANA, "one")
    assert await code_of(revert(world, await last(world), caller)) == "forbidden"


async def test_unknown_id(world: World) -> None:
    """An id that names nothing is not found."""
    assert await code_of(revert(world, "nothing")) == "not_found"


async def test_history_shows_every_revision(world: World) -> None:
    """History shows each revision with who made it and from what cause, the undoing among them."""
    note = await world.save(CODER, "one", key="k1")
    await world.gate.update(ANA, UpdateRequest(id=note.id, text="two"))
    await undo(world, await last(world, target=note.id))
    reply = await world.gate.reading.history(BEN, HistoryRequest(id=note.id))
    shown = [(row.type, row.actor.principal, row.cause.kind, row.after["text"]) for row in reply.revisions]
    assert shown == [
        ("memory.created", "coder", "request", "one"),
        ("memory.updated", "ana", "request", "two"),
        ("memory.updated", "ana", "revert", "one"),
    ]
    assert reply.revisions[0].cause.id == "k1"


async def test_removal_of_many_is_undone(world: World) -> None:
    """Many records that one approval removed come back together when the approval is undone."""
    kept = [await world.save(ANA, f"note {n}") for n in range(3)]
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content="Be brief."))

    def ask(tx: Transaction) -> str:
        act = world.gate.act(tx, ANA, Origin.of(ANA, "files", "file"))
        asked = filing.ask_removal(act, "main", [memory.id for memory in kept], ["style"], "the folder is gone").id
        gone = [ledger.FileEntry(f"{memory.id}.md", "main", "memory", memory.id, 1, b"", asked) for memory in kept]
        gone.append(ledger.FileEntry("style.md", "main", "rule", "style", 1, b"", asked))
        ledger.record(tx, ledger.LedgerChange(entries=gone))
        return asked

    held = await world.store.write(ask)
    assert len(await world.live()) == 3
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[held], decision="approve"))
    assert await world.live() == {}
    await undo(world, held)
    assert len(await world.live()) == 3
    assert (await world.gate.reading.rule_get(ANA, RuleGetRequest(name="style"))).rule is not None


async def test_undoing_what_an_approval_did_undoes_the_approval(world: World) -> None:
    """By whichever id: the suggestion is rejected, the same is not proposed again, and undoing that restores both."""
    memory = await world.save(ANA, "The rent is 900 euros")
    change = ProposedChange(function="update", args={"id": memory.id, "text": "The rent is 950 euros"})
    held = (await world.review.suggest(CODER, SuggestRequest(change=change, reason="heard"))).suggestion
    assert held is not None
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[held.id], decision="approve"))
    approved = next(change for change in await world.changes(target=memory.id) if change.cause.id == held.id)
    undone = await revert(world, approved.id)
    assert undone.refused == []
    assert (await get(world, memory.id)).text == "The rent is 900 euros"
    assert [one.id for one in await world.waiting(state="rejected")] == [held.id]
    inverse = next(change for change in undone.reverted if change.target == memory.id)
    assert (await revert(world, inverse.id)).refused == []
    assert (await get(world, memory.id)).text == "The rent is 950 euros"
    assert [one.id for one in await world.waiting(state="approved")] == [held.id]


async def test_undoing_a_part_of_an_approval_leaves_it_approved(world: World) -> None:
    """An approved replacement whose old memory alone is brought back still stands."""
    old = await world.save(ANA, "Ana lives in Porto", subject="home")
    held = (await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home"))).suggestion
    assert held is not None
    await world.review.suggestion_decide(ANA, SuggestionDecideRequest(ids=[held.id], decision="approve"))
    retired = next(change for change in await world.changes(target=old.id) if change.type == "memory.superseded")
    await revert(world, retired.id)
    assert [one.id for one in await world.waiting(state="approved")] == [held.id]


async def test_a_reinforcement_is_undone_and_redone_any_number_of_times(world: World) -> None:
    """How often something was said goes down and up with every undoing of the last undoing."""
    memory = await world.save(CODER, "Ana likes tea")
    await world.turn("t1", said("Ana likes tea"))
    last = next(change for change in await world.changes(target=memory.id) if change.type == "memory.reinforced").id
    for expected in (0, 1, 0, 1):
        [made] = (await revert(world, last)).reverted
        assert (await get(world, memory.id)).corroboration == expected
        last = made.id


async def test_a_reinforcement_is_undone_once(world: World) -> None:
    """Undoing the same again, by the change, its turn or an inverse of it, is refused and counts nothing."""
    memory = await world.save(CODER, "Ana likes tea")
    for turn in ("t1", "t2", "t3"):
        await world.turn(turn, said("Ana likes tea"))
    rows = [one for one in await world.changes(target=memory.id) if one.type == "memory.reinforced"]
    [first] = [one.id for one in rows if one.cause.id == "t1"]

    async def undone(id: str, expected: int) -> str:
        [made] = (await revert(world, id)).reverted
        assert (await get(world, memory.id)).corroboration == expected
        return made.id

    async def refused(*ids: str, expected: int) -> None:
        for id in ids:
            reply = await revert(world, id)
            assert reply.reverted == []
            assert {one.reason for one in reply.refused} == {"it is undone already"}
            assert (await get(world, memory.id)).corroboration == expected

    down = await undone(first, 2)
    await refused(first, first, "t1", expected=2)
    up = await undone(down, 3)
    await refused(down, down, expected=3)
    again = await undone(first, 2)
    await refused(first, "t1", up, expected=2)
    await undone(again, 3)
    await refused(again, down, expected=3)
    await undone("t2", 2)
    await refused("t2", expected=2)
    await undone("t1", 1)


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_pin_that_was_taken_back_is_undone_already(world: World, pinned: bool) -> None:
    """Undoing it again changes nothing, not even the expiry, and writes no change that could not be undone itself."""
    memory = await world.save(ANA, "Ana likes tea", pinned=not pinned)
    await world.gate.pin(ANA, PinRequest(id=memory.id, pinned=pinned))
    [change] = [one for one in await world.changes(target=memory.id) if one.after["revision"] == 2]
    await world.gate.pin(ANA, PinRequest(id=memory.id, pinned=not pinned))
    before, head = await get(world, memory.id), world.store.head
    reply = await revert(world, change.id)
    assert [one.reason for one in reply.refused] == ["it is undone already"]
    assert (await get(world, memory.id), world.store.head) == (before, head)
