"""What code does not decide alone waits for a person: once, shown beside what it would replace, and never for good."""

from typing import Any

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import BankCreateRequest, BankUpdateRequest, RuleGetRequest, RuleSetRequest
from memory_contracts.functions.memories import (
    DeleteRequest,
    PinRequest,
    SaveRequest,
    SupersedeRequest,
    UpdateRequest,
)
from memory_contracts.functions.review import (
    LearnRequest,
    PropertyProposeRequest,
    SuggestionDecideRequest,
    SuggestionListRequest,
    SuggestRequest,
)
from memory_contracts.records import Claim, ProposedChange, Suggestion
from memory_worker.gate import GateSettings, Lessons, proposals
from memory_worker.gate.access import open_bank
from memory_worker.store import Caller, Origin
from tests.gate.conftest import ANA, BEN, CODER, CONSOLIDATE, SENSOR, WRITER, MakeWorld, World, code_of, said


def suggestion_of(reply: Any) -> Suggestion:
    assert reply.suggestion is not None, reply
    suggestion: Suggestion = reply.suggestion
    return suggestion


async def decide(world: World, decision: Any, *ids: str, caller: Caller = ANA, edit: Any = None) -> Any:
    request = SuggestionDecideRequest(ids=list(ids), decision=decision, edit=edit)
    return (await world.review.suggestion_decide(caller, request)).decided


async def propose(world: World, caller: Caller, function: str, **args: Any) -> Any:
    change = ProposedChange(function=function, args=args)
    return await world.review.suggest(caller, SuggestRequest(change=change, reason="said so in the meeting"))


# What is held back


@pytest.mark.parametrize("pinned", [False, True])
async def test_contradiction_of_subject_waits(world: World, pinned: bool) -> None:
    """Another statement about the subject of a stated or pinned memory waits, shown beside the one it contradicts."""
    author = CODER if pinned else ANA
    held_by = await world.save(author, "Ana lives in Rome", subject="Home")
    if pinned:
        await world.gate.pin(ANA, PinRequest(id=held_by.id, pinned=True))
    reply = await world.gate.save(WRITER, SaveRequest(text="Ana lives in Paris", subject="home"))
    suggestion = suggestion_of(reply)
    assert (reply.outcome, reply.memory) == ("awaiting_review", None)
    assert suggestion.now["text"] == "Ana lives in Rome"
    assert suggestion.proposed["text"] == "Ana lives in Paris"
    assert suggestion.diff == "Ana lives in [-Rome-] {+Paris+}"
    assert suggestion.by.principal == "writer"
    assert (await world.live()).keys() == {"Ana lives in Rome"}


async def test_contradiction_of_single_valued_property_waits(world: World) -> None:
    """Another value of a property that has one value at a time waits; the same value, and other properties, do not."""
    await world.review.property_propose(ANA, _property("birthday", "one"))
    await world.save(ANA, "Ana was born in May", claim=Claim(entity="Ana", property="birthday", value="May"))
    other = await world.gate.save(
        CODER, SaveRequest(text="Ana was born in June", claim=Claim(entity="ana", property="Birthday", value="June"))
    )
    same = await world.gate.save(
        CODER, SaveRequest(text="Ana: a May child", claim=Claim(entity="Ana", property="birthday", value="may"))
    )
    many = await world.gate.save(
        CODER, SaveRequest(text="Ana plays chess", claim=Claim(entity="Ana", property="hobby", value="chess"))
    )
    assert (other.outcome, same.outcome, many.outcome) == ("awaiting_review", "created", "created")


async def test_agents_edit_into_a_contradiction_waits(world: World) -> None:
    """An agent cannot reach by an edit of its own note what its save would not be let do."""
    await world.save(ANA, "Ana lives in Rome", subject="home")
    note = await world.save(CODER, "Ana lives in Paris")
    reply = await world.gate.update(CODER, UpdateRequest(id=note.id, subject="home"))
    assert reply.outcome == "awaiting_review"
    assert (await world.live())["Ana lives in Paris"].subject is None


async def test_review_all_holds_everything_but_a_persons_word(world: World) -> None:
    """In a bank with review: all an agent's, a sensor's and a turn's statements wait; a person's are kept at once."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    for caller in (CODER, SENSOR):
        reply = await world.gate.save(caller, SaveRequest(text=f"from {caller.route}", bank="strict"))
        assert reply.outcome == "awaiting_review"
    result = await world.turn("t1", said("Ana likes tea"), bank="strict")
    assert result.awaiting_review == 1
    stated = await world.save(ANA, "Ana likes coffee", bank="strict")
    note = await world.save(ANA, "An old note", bank="strict")
    supersede = SupersedeRequest(id=note.id, by=stated.id, reason="older")
    assert await code_of(world.gate.supersede(CONSOLIDATE, supersede)) == "forbidden"
    assert (await world.live(bank="strict")).keys() == {"Ana likes coffee", "An old note"}
    assert len(await world.waiting(bank="strict")) == 3


async def test_review_all_lets_repetition_through(world: World) -> None:
    """Saying again what a bank with review: all has is no change to decide: it is counted, nothing waits."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    await world.save(ANA, "Ana likes tea", bank="strict")
    reply = await world.gate.save(CODER, SaveRequest(text="Ana likes tea", bank="strict", pinned=True))
    assert (reply.outcome, reply.memory and reply.memory.pinned) == ("reinforced", False)
    assert await world.waiting(bank="strict") == []


async def test_protected_value_never_waits_in_plain_text(world: World) -> None:
    """A protected value is not put into a suggestion, whose record and journal row would carry it readable."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    request = SaveRequest(text="Ana's number is 555 0100", bank="strict", protected=True)
    assert await code_of(world.gate.save(CODER, request)) == "forbidden"
    assert await code_of(propose(world, CODER, "save", text="Ana's number is 555 0100", protected=True)) == "forbidden"
    assert not any("555 0100" in str(change) for change in await world.changes())


# Once


async def test_same_suggestion_twice_is_one(world: World) -> None:
    """The same change proposed again, for another reason and by whatever path, is the suggestion that waits already."""
    await world.save(ANA, "Ana lives in Rome", subject="home")
    first = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    second = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    third = await propose(world, WRITER, "save", text="Ana lives in Paris", subject="home", bank="main")
    assert first.id == second.id == suggestion_of(third).id
    assert third.outcome == "known"


async def test_rejected_is_remembered(world: World) -> None:
    """What a person rejected is not proposed again; over another text it may be."""
    stated = await world.save(ANA, "Ana lives in Rome", subject="home")
    held = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    [one] = await decide(world, "reject", held.id)
    assert (one.state, one.error) == ("rejected", None)
    again = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    assert (again.id, again.state) == (held.id, "rejected")
    assert await world.waiting() == []
    await world.gate.update(ANA, UpdateRequest(id=stated.id, text="Ana lives in Milan"))
    fresh = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    assert (fresh.id == held.id, fresh.state) == (False, "open")


async def test_suggest_tells_what_is_true_already(world: World) -> None:
    """Proposing what is so already makes no suggestion."""
    stated = await world.save(ANA, "Ana likes tea", tags=["drinks"])
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content="Be brief."))
    gone = await world.save(ANA, "old")
    await world.gate.delete(ANA, DeleteRequest(id=gone.id))
    for function, args in (
        ("save", {"text": "ana likes tea"}),
        ("update", {"id": stated.id, "text": "Ana likes tea", "tags": ["drinks"]}),
        ("pin", {"id": stated.id, "pinned": False}),
        ("delete", {"id": gone.id}),
        ("rule.set", {"name": "style", "content": "Be brief.\n"}),
    ):
        reply = await propose(world, CODER, function, **args)
        assert (function, reply.outcome, reply.suggestion) == (function, "already_true", None)


# Approving


async def test_approved_contradiction_replaces_what_was_shown(world: World) -> None:
    """Approval retires the memory that was shown; who approved, and the suggestion, are in its history."""
    stated = await world.save(ANA, "Ana lives in Rome", subject="home")
    held = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    [one] = await decide(world, "approve", held.id, caller=BEN)
    assert (one.state, one.error, one.memory.text) == ("approved", None, "Ana lives in Paris")
    assert (await world.live()).keys() == {"Ana lives in Paris"}
    [retired] = await world.changes(target=stated.id, cause_kind="suggestion")
    assert (retired.type, retired.actor.principal, retired.cause.id) == ("memory.superseded", "ben", held.id)


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        ("update", {"text": "Ana likes green tea"}, ("live", "Ana likes green tea", False)),
        ("delete", {}, ("deleted", "Ana likes tea", False)),
        ("pin", {"pinned": True}, ("live", "Ana likes tea", True)),
    ],
)
async def test_every_held_back_change_can_be_approved(
    world: World, function: str, args: dict[str, Any], wanted: tuple[str, str, bool]
) -> None:
    """An update, a deletion and a pin of a stated memory do on approval what was proposed."""
    stated = await world.save(ANA, "Ana likes tea")
    held = suggestion_of(await propose(world, CODER, function, id=stated.id, **args))
    [one] = await decide(world, "approve", held.id)
    assert (one.memory.state, one.memory.text, one.memory.pinned) == wanted


async def test_supersede_shows_both(world: World) -> None:
    """A proposed retirement shows the memory and the one that would stand for both."""
    old = await world.save(ANA, "Ana drinks tea")
    new = await world.save(ANA, "Ana drinks green tea")
    held = suggestion_of(await propose(world, CONSOLIDATE, "supersede", id=old.id, by=new.id, reason="nearly the same"))
    assert (held.now["memory"]["text"], held.now["by"]["text"]) == ("Ana drinks tea", "Ana drinks green tea")
    [one] = await decide(world, "approve", held.id)
    assert (one.memory.state, one.memory.superseded_by) == ("superseded", new.id)


async def test_rule_waits_and_is_written(world: World) -> None:
    """An agent may propose a rule: it is shown with its difference, and written when approved."""
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content="Be brief."))
    held = suggestion_of(await propose(world, CODER, "rule.set", name="style", content="Be kind."))
    assert held.diff == "Be [-brief.-] {+kind.+}"
    [one] = await decide(world, "approve", held.id)
    assert one.state == "approved"
    rule = await world.gate.reading.rule_get(ANA, _rule("style"))
    assert rule.rule is not None
    assert (rule.rule.content, rule.rule.source.route) == ("Be kind.", "agent")


async def test_private_to_shared(world: World) -> None:
    """An agent carries something from its private bank into a shared one as a proposal, which waits in the shared."""
    await world.save(CODER, "The build needs jq", bank="agent-coder")
    held = suggestion_of(await propose(world, CODER, "save", text="The build needs jq", bank="main"))
    assert held.bank == "main"
    assert await world.live() == {}
    await decide(world, "approve", held.id)
    assert (await world.live())["The build needs jq"].tier == "inferred"


async def test_many_at_once_each_on_its_own(world: World) -> None:
    """One request decides many; what cannot be done is named at its entry and costs the others nothing."""
    first = suggestion_of(await propose(world, CODER, "save", text="one"))
    second = suggestion_of(await propose(world, CODER, "save", text="two"))
    stated = await world.save(ANA, "three")
    third = suggestion_of(await propose(world, CODER, "update", id=stated.id, text="four"))
    await world.restart()
    decided = await decide(world, "approve", first.id, "sug_unknown", third.id, second.id)
    assert [(one.id, one.state, bool(one.error)) for one in decided] == [
        (first.id, "approved", False),
        ("sug_unknown", "stale", True),
        (third.id, "approved", False),
        (second.id, "approved", False),
    ]
    assert (await world.live()).keys() == {"one", "two", "four"}


async def test_deciding_twice_changes_nothing(world: World) -> None:
    """An approval that is repeated says so again; the opposite decision is refused."""
    held = suggestion_of(await propose(world, CODER, "save", text="one"))
    await decide(world, "approve", held.id)
    [again] = await decide(world, "approve", held.id)
    [other] = await decide(world, "reject", held.id)
    assert (again.state, again.error) == ("approved", None)
    assert other.state == "approved"
    assert other.error.startswith("conflict")
    assert (await world.live())["one"].revision == 1


async def test_two_of_the_same_memory_in_one_request(world: World) -> None:
    """Of two approved corrections of one revision the first is made, and the second is refused as stale."""
    stated = await world.save(ANA, "Ana likes tea")
    first = suggestion_of(await propose(world, CODER, "update", id=stated.id, text="Ana likes green tea"))
    second = suggestion_of(await propose(world, CODER, "update", id=stated.id, text="Ana likes black tea"))
    decided = await decide(world, "approve", first.id, second.id)
    assert [one.state for one in decided] == ["approved", "stale"]
    assert (await world.live()).keys() == {"Ana likes green tea"}


# Stale, needless, lapsed


async def test_change_of_the_target_ends_it(world: World) -> None:
    """A proposal about a revision ends with it: approving it afterwards is refused with `conflict`."""
    stated = await world.save(ANA, "Ana likes tea")
    held = suggestion_of(await world.gate.update(CODER, UpdateRequest(id=stated.id, text="Ana likes coffee")))
    await world.gate.update(ANA, UpdateRequest(id=stated.id, text="Ana likes juice"))
    assert await world.waiting() == []
    [one] = await decide(world, "approve", held.id)
    assert one.state == "stale"
    assert one.error.startswith("conflict")
    assert (await world.live()).keys() == {"Ana likes juice"}


async def test_what_stood_against_it_is_gone(world: World) -> None:
    """A statement that waited because of a memory stays open when a person deletes that memory, and can be approved."""
    stated = await world.save(ANA, "Ana lives in Rome", subject="home")
    held = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    await world.gate.delete(ANA, DeleteRequest(id=stated.id))
    [one] = await decide(world, "approve", held.id)
    assert (one.state, one.error) == ("approved", None)


async def test_unseen_contradiction_is_refused(world: World) -> None:
    """Approval does not put a statement over one that a person made since and the approver was not shown."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    held = suggestion_of(
        await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home", bank="strict"))
    )
    await world.save(BEN, "Ana lives in Rome", subject="home", bank="strict")
    [one] = await decide(world, "approve", held.id)
    assert one.state == "stale"
    assert one.error.startswith("conflict")
    assert (await world.live(bank="strict")).keys() == {"Ana lives in Rome"}


async def test_becomes_true_anyway(world: World) -> None:
    """A suggestion is dropped when what it proposes is said by a person meanwhile."""
    await world.save(ANA, "Ana lives in Rome", subject="home")
    held = suggestion_of(await world.gate.save(CODER, SaveRequest(text="Ana lives in Paris", subject="home")))
    await world.save(ANA, "Ana lives in Paris", subject="home")
    assert await world.waiting() == []
    [dropped] = await world.waiting(state="stale")
    assert dropped.id == held.id


async def test_rule_becomes_another(world: World) -> None:
    """A proposed rule is dropped when a person writes that rule."""
    await propose(world, CODER, "rule.set", name="style", content="Be kind.")
    await world.gate.rule_set(ANA, RuleSetRequest(name="style", content="Be brief."))
    assert await world.waiting() == []


async def test_lapses_after_its_days(world: World) -> None:
    """An undecided suggestion lapses after 90 days and not before; it may be made again then."""
    held = suggestion_of(await propose(world, CODER, "save", text="one"))
    world.clock.forward(days=89.9)
    assert (await world.sweeper.sweep()).suggestions == 0
    world.clock.forward(days=0.1)
    assert (await world.sweeper.sweep()).suggestions == 1
    [lapsed] = await world.waiting(state="expired")
    assert lapsed.id == held.id
    assert (await propose(world, CODER, "save", text="one")).outcome == "awaiting_review"


# Who, and in what form


@pytest.mark.parametrize("caller", [CODER, SENSOR, CONSOLIDATE])
async def test_only_people_decide(world: World, caller: Caller) -> None:
    """Every route but human is refused to decide, its own suggestion included."""
    held = suggestion_of(await propose(world, CODER, "save", text="one"))
    request = SuggestionDecideRequest(ids=[held.id], decision="approve")
    assert await code_of(world.review.suggestion_decide(caller, request)) == "forbidden"
    assert len(await world.waiting()) == 1


async def test_deciders_setting(make_world: MakeWorld) -> None:
    """With deciders named, other people are refused."""
    world = await make_world(GateSettings(deciders=("ben",)))
    held = suggestion_of(await propose(world, CODER, "save", text="one"))
    request = SuggestionDecideRequest(ids=[held.id], decision="approve")
    assert await code_of(world.review.suggestion_decide(ANA, request)) == "forbidden"
    [one] = (await world.review.suggestion_decide(BEN, request)).decided
    assert one.state == "approved"


@pytest.mark.parametrize(
    "function",
    ["get", "list", "recall", "context", "suggest", "suggestion.decide", "learn", "person.forget", "erase", "no.such"],
)
async def test_functions_that_cannot_be_proposed(world: World, function: str) -> None:
    """Reading, deciding, and what destroys cannot be proposed; the error names what can."""
    with pytest.raises(Exception, match="cannot be proposed") as caught:
        await propose(world, CODER, function, id="x")
    assert "supersede" in str(caught.value)


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"text": "x", "tier": "stated"}, "change.args"),
        ({"text": ""}, "change.args.text"),
        ({"text": "x", "tags": [7]}, "change.args.tags[0]"),
        ({}, "change.args"),
    ],
)
async def test_arguments_are_checked_when_proposed(world: World, args: dict[str, Any], field: str) -> None:
    """Arguments that the function would refuse are refused when proposed, naming the field's path."""
    with pytest.raises(Exception, match="invalid_input") as caught:
        await propose(world, CODER, "save", **args)
    assert getattr(caught.value, "field", None) == field


@pytest.mark.parametrize(
    ("function", "args", "field"),
    [
        ("save", {"text": "a\0b"}, "change.args.text"),
        ("save", {"text": "x", "slot": "seen"}, "change.args.slot"),
        ("save", {"text": "x", "bank": "nowhere"}, "change.args.bank"),
        ("update", {"id": "mem_none", "text": "x"}, "change.args.id"),
        ("rule.set", {"name": "style", "content": "a\0b"}, "change.args.content"),
        ("entity.merge", {"entity": "nobody", "into": "none"}, "change.args.entity"),
    ],
)
async def test_what_the_function_itself_refuses_is_named_by_its_path(
    world: World, function: str, args: dict[str, Any], field: str
) -> None:
    """Whatever is wrong with a proposed change, the field is the one of the request that was sent."""
    with pytest.raises(FunctionError) as caught:
        await propose(world, CODER, function, **args)
    assert caught.value.field == field


async def test_a_bank_named_beside_the_change_is_named_so(world: World) -> None:
    """The field is `bank` where the request itself named the bank."""
    change = ProposedChange(function="save", args={"text": "x"})
    with pytest.raises(FunctionError) as caught:
        await world.review.suggest(CODER, SuggestRequest(change=change, reason="heard", bank="nowhere"))
    assert (caught.value.code, caught.value.field) == ("not_found", "bank")


async def test_edit_is_bound_to_its_one_change(world: World) -> None:
    """An edit goes with one approval, is checked like the request itself, and cannot aim at another record."""
    stated = await world.save(ANA, "Ana likes tea")
    other = await world.save(ANA, "Ben likes tea")
    held = suggestion_of(await propose(world, CODER, "update", id=stated.id, text="Ana likes coffee"))
    more = suggestion_of(await propose(world, CODER, "save", text="more"))
    two = SuggestionDecideRequest(ids=[held.id, more.id], decision="approve", edit={"text": "x"})
    reject = SuggestionDecideRequest(ids=[held.id], decision="reject", edit={"text": "x"})
    assert await code_of(world.review.suggestion_decide(ANA, two)) == "invalid_input"
    assert await code_of(world.review.suggestion_decide(ANA, reject)) == "invalid_input"
    for edit in ({"id": other.id}, {"tier": "stated"}, {"text": ""}):
        [one] = await decide(world, "approve", held.id, edit=edit)
        assert (one.state, one.error.split(":")[0]) == ("open", "invalid_input")
    assert (await world.live()).keys() == {"Ana likes tea", "Ben likes tea"}


async def test_destructive_is_decided_alone(world: World) -> None:
    """A suggestion that destroys is never decided together with others, and is handed to forgetting."""
    plain = suggestion_of(await propose(world, CODER, "save", text="one"))

    def ask(tx: Any) -> str:
        act = world.gate.act(tx, ANA, Origin.of(ANA, "req_x"))
        bank = open_bank(act, None, write=True)
        made, _ = proposals.propose(act, bank, "person.forget", {"entity": "ent_1"}, reason="asked", destructive=True)
        return made.id

    destructive = await world.store.write(ask)
    together = SuggestionDecideRequest(ids=[plain.id, destructive], decision="approve")
    assert await code_of(world.review.suggestion_decide(ANA, together)) == "invalid_input"
    assert len(await world.waiting()) == 2
    [one] = await decide(world, "approve", destructive)
    assert (one.receipt.state, world.forgetting.carried_out) == ("pending", [destructive])


async def test_list_filters_and_counts(world: World) -> None:
    """The queue is paged oldest first, filtered by bank, state and target, with counts by state."""
    stated = await world.save(ANA, "Ana likes tea")
    await world.gate.bank_create(ANA, BankCreateRequest(name="other"))
    ids = [suggestion_of(await propose(world, CODER, "save", text=f"note {n}")).id for n in range(3)]
    await propose(world, CODER, "save", text="elsewhere", bank="other")
    about = suggestion_of(await propose(world, CODER, "update", id=stated.id, text="Ana likes coffee"))
    await decide(world, "reject", ids[0])
    first = await world.review.suggestion_list(ANA, SuggestionListRequest(bank="main", limit=2))
    rest = await world.review.suggestion_list(ANA, SuggestionListRequest(bank="main", limit=2, cursor=first.cursor))
    assert [one.id for one in (*first.suggestions, *rest.suggestions)] == [*ids[1:], about.id]
    assert (first.total, first.counts, rest.cursor) == (3, {"open": 3, "rejected": 1}, None)
    of_target = await world.review.suggestion_list(ANA, SuggestionListRequest(target=stated.id))
    assert [one.id for one in of_target.suggestions] == [about.id]


async def test_learn_makes_suggestions_only(world: World) -> None:
    """What a note teaches waits, whoever wrote it, and is inferred when approved: extraction put it in words."""
    world.notes.lessons = Lessons(
        items=(said("The staging host is eu-2", pattern="is"), said("Ana likes tea")),
        learned=(said("Always run the linter first"),),
    )
    await world.save(ANA, "Ana likes tea")
    reply = await world.review.learn(ANA, LearnRequest(text="bad run: …", turn_id="t9"))
    assert [one.change.function for one in reply.suggestions] == ["save", "learned.add"]
    assert (await world.live()).keys() == {"Ana likes tea"}
    decided = await decide(world, "approve", *[one.id for one in reply.suggestions])
    assert [one.state for one in decided] == ["approved", "approved"]
    kept = (await world.live())["The staging host is eu-2"]
    assert (kept.tier, kept.source.turn_id) == ("inferred", "t9")
    rule = await world.gate.reading.rule_get(ANA, _rule("learned"))
    assert rule.rule is not None
    assert rule.rule.content == "- Always run the linter first"


async def test_bank_change_can_be_proposed(world: World) -> None:
    """A change of a bank's settings waits and is made on approval."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
    held = suggestion_of(await propose(world, CODER, "bank.update", name="project", expiry="year"))
    [one] = await decide(world, "approve", held.id)
    assert one.state == "approved"
    bank = await world.gate.directory.named("project")
    assert bank is not None
    assert bank.bank.expiry == "year"
    assert (await world.gate.bank_update(ANA, BankUpdateRequest(name="project"))).bank.revision == 2


def _property(name: str, cardinality: Any) -> Any:
    return PropertyProposeRequest(name=name, cardinality=cardinality)


def _rule(name: str) -> Any:
    return RuleGetRequest(name=name)


async def test_a_note_with_control_characters_is_refused(world: World) -> None:
    """A note to learn from is held to what a save is: NUL is named, and nothing is read."""
    with pytest.raises(FunctionError) as refused:
        await world.review.learn(CODER, LearnRequest(text="Use metric\x00 units."))
    assert (refused.value.code, refused.value.field) == ("invalid_input", "text")
    assert await world.waiting() == []
