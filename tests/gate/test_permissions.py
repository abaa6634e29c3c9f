"""Who may do what, generated from the contract's table: every function on every route over every kind of memory."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions import FUNCTIONS
from memory_contracts.functions.banks import (
    BankCreateRequest,
    BankDeleteRequest,
    BankRestoreRequest,
    BankUpdateRequest,
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
    ChangesRevertRequest,
    EntityAliasRequest,
    EntityLinkRequest,
    EntityMergeRequest,
    LearnRequest,
    NoticeAckRequest,
    PropertyProposeRequest,
    SuggestionDecideRequest,
    SuggestRequest,
)
from memory_contracts.names import ROUTES, Route
from memory_contracts.records import Alias, Memory, ProposedChange
from memory_worker.store import Caller
from tests.gate.conftest import ANA, BEN, CODER, SENSOR, WRITER, MakeWorld, World

CALLERS: dict[Route, Caller] = {
    "human": BEN,
    "agent": CODER,
    "observer": SENSOR,
    "system": Caller("local", "system", "harness"),
}
KINDS = ("own", "other", "pinned", "stated", "private")

Call = Callable[[World, Caller, Memory], Awaitable[Any]]

ON_A_MEMORY: dict[str, Call] = {
    "get": lambda w, c, m: w.gate.reading.get(c, GetRequest(id=m.id)),
    "history": lambda w, c, m: w.gate.reading.history(c, HistoryRequest(id=m.id)),
    "save": lambda w, c, m: w.gate.save(c, SaveRequest(text="something else", subject=m.subject, bank=m.bank)),
    "update": lambda w, c, m: w.gate.update(c, UpdateRequest(id=m.id, text="something else")),
    "delete": lambda w, c, m: w.gate.delete(c, DeleteRequest(id=m.id)),
    "pin": lambda w, c, m: w.gate.pin(c, PinRequest(id=m.id, pinned=not m.pinned)),
    "supersede": lambda w, c, m: w.gate.supersede(c, SupersedeRequest(id=m.id, by=m.reason or "", reason="the same")),
    "suggest": lambda w, c, m: w.review.suggest(c, _suggest("update", id=m.id, text="something else")),
}
"""The functions that act on one memory, each as a call about it."""

READ = dict.fromkeys(KINDS, "done") | {"private": "not_found"}
FORBIDDEN = dict.fromkeys(KINDS, "forbidden")
PERSON = dict.fromkeys(KINDS, "done") | {"private": "not_found"}
AGENT = dict.fromkeys(KINDS, "awaiting_review") | {"own": "done", "private": "not_found"}

DOCUMENTED: dict[str, dict[Route, dict[str, str]]] = {
    "get": dict.fromkeys(ROUTES, READ),
    "history": dict.fromkeys(ROUTES, READ),
    "save": {
        "human": PERSON,
        # A statement about the subject of another's plain note stands beside it; of a firm one it waits.
        "agent": AGENT | {"other": "done"},
        "observer": AGENT | {"other": "done"},
        "system": FORBIDDEN,
    },
    "update": {"human": PERSON, "agent": AGENT, "observer": FORBIDDEN, "system": FORBIDDEN},
    "delete": {"human": PERSON, "agent": AGENT, "observer": FORBIDDEN, "system": FORBIDDEN},
    # An agent never takes a pin off.
    "pin": {"human": PERSON, "agent": AGENT | {"pinned": "pinned"}, "observer": FORBIDDEN, "system": FORBIDDEN},
    "supersede": {
        "human": PERSON,
        "agent": FORBIDDEN,
        "observer": FORBIDDEN,
        "system": PERSON | {"pinned": "pinned", "stated": "forbidden"},
    },
    "suggest": dict.fromkeys(ROUTES, dict.fromkeys(KINDS, "awaiting_review") | {"private": "not_found"}),
}

NOT_ON_A_MEMORY: dict[str, Call] = {
    "bank.create": lambda w, c, m: w.gate.bank_create(c, BankCreateRequest(name="fresh")),
    "bank.update": lambda w, c, m: w.gate.bank_update(c, BankUpdateRequest(name="main", expiry="year")),
    "bank.delete": lambda w, c, m: w.gate.bank_delete(c, BankDeleteRequest(name="main")),
    "bank.restore": lambda w, c, m: w.gate.bank_restore(c, BankRestoreRequest(name="gone")),
    "rule.set": lambda w, c, m: w.gate.rule_set(c, RuleSetRequest(name="style", content="Be brief.")),
    "learn": lambda w, c, m: w.review.learn(c, LearnRequest(text="a bad run")),
    "suggestion.decide": lambda w, c, m: w.review.suggestion_decide(
        c, SuggestionDecideRequest(ids=["sug_1"], decision="reject")
    ),
    "changes.revert": lambda w, c, m: w.review.changes_revert(c, ChangesRevertRequest(id=m.id)),
    "entity.link": lambda w, c, m: w.review.entity_link(c, EntityLinkRequest(entity="Ana", ref="x")),
    "entity.unlink": lambda w, c, m: w.review.entity_unlink(c, EntityLinkRequest(entity="Ana", ref="x")),
    "entity.alias": lambda w, c, m: w.review.entity_alias(
        c, EntityAliasRequest(entity="Ana", alias=Alias(channel="email", value="ana@x.org"))
    ),
    "entity.merge": lambda w, c, m: w.review.entity_merge(c, EntityMergeRequest(entity="Ana", into="Annie")),
    "property.propose": lambda w, c, m: w.review.property_propose(c, PropertyProposeRequest(name="birthday")),
    "notice.ack": lambda w, c, m: w.review.notice_ack(c, NoticeAckRequest(ids=["ntc_1"])),
}
"""The other functions of the gate that write."""

WAITS: dict[str, tuple[Route, ...]] = {
    "entity.alias": ("agent", "observer", "system"),
    "entity.merge": ROUTES,
    "property.propose": ("agent", "observer", "system"),
}
"""Which of them wait for a person, by route."""


def _suggest(function: str, **args: Any) -> SuggestRequest:
    return SuggestRequest(change=ProposedChange(function=function, args=args), reason="x")


async def furnish(world: World, caller: Caller, kind: str) -> Memory:
    """Make one memory of that kind, seen from that caller; its `reason` names another memory of its bank."""
    author = {"own": caller, "other": WRITER, "pinned": WRITER, "stated": ANA}.get(kind, WRITER)
    if author.route == "system":  # it keeps no statements of its own
        author = WRITER
    bank = "agent-writer" if kind == "private" else None
    memory = await world.save(author, "The door code is new", subject="door", bank=bank)
    if kind == "pinned":
        await world.gate.pin(ANA, PinRequest(id=memory.id, pinned=True))
        memory.pinned = True
    memory.reason = (await world.save(WRITER, "The door is blue", bank=bank)).id
    return memory


async def outcome(work: Awaitable[Any]) -> str:
    try:
        reply = await work
    except FunctionError as error:
        return error.code
    found = getattr(reply, "outcome", "done")
    return "awaiting_review" if found == "awaiting_review" else "done"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", ROUTES)
async def test_every_function_on_a_memory(make_world: MakeWorld, route: Route, kind: str) -> None:
    """Each function over one memory does what is documented: it is done, waits for a person, or is refused."""
    caller = CALLERS[route]
    for function, call in ON_A_MEMORY.items():
        world = await make_world(under=function)
        memory = await furnish(world, caller, kind)
        found = await outcome(call(world, caller, memory))
        assert (function, found) == (function, DOCUMENTED[function][route][kind])
        if found != "done":
            kept = await world.gate.reading.get(ANA if kind != "private" else WRITER, GetRequest(id=memory.id))
            assert kept.memory is not None
            assert (kept.memory.text, kept.memory.state, kept.memory.pinned) == (memory.text, "live", memory.pinned)


@pytest.mark.parametrize("route", ROUTES)
async def test_every_other_function(make_world: MakeWorld, route: Route) -> None:
    """Each other writing function is refused to the routes that the table does not give it, and to no other."""
    caller = CALLERS[route]
    for function, call in NOT_ON_A_MEMORY.items():
        world = await make_world(under=function)
        memory = await world.save(ANA, "Ana and Annie", entities=["Ana", "Annie"])
        found = await outcome(call(world, caller, memory))
        if route not in FUNCTIONS[function].routes:
            assert (function, found) == (function, "forbidden")
        elif route in WAITS.get(function, ()):
            assert (function, found) == (function, "awaiting_review")
        else:
            assert (function, found) in ((function, "done"), (function, "not_found"))


def test_no_function_is_left_out() -> None:
    """Every function that writes, and that this room answers, is in one of the two tables."""
    elsewhere = {
        "context",
        "person.forget",
        "erase",
        "bank.wipe",
        "value.reveal",
        "extraction.retry",
        "doctor",
        "reload",
        "export",
        "import",
    }
    writing = {name for name, one in FUNCTIONS.items() if one.writes and one.answered_by == "memory"}
    assert writing - elsewhere == ON_A_MEMORY.keys() - {"get", "history"} | NOT_ON_A_MEMORY.keys()


def test_nothing_destructive_but_for_people() -> None:
    """What decides, undoes or destroys is on the human route alone."""
    for function in (
        "suggestion.decide",
        "changes.revert",
        "person.forget",
        "erase",
        "bank.wipe",
        "value.reveal",
        "bank.delete",
        "rule.set",
        "import",
    ):
        assert FUNCTIONS[function].routes == ("human",), function
