"""Nobody gets to be somebody else: every way of forging a caller that we know, against a real server in both layouts.

Each attempt is either refused by the server or has no effect. The worker's dispatch layer and intake run while they
are tried; what reached a handler, an inbox or a stream is looked at afterwards.
"""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from memory_contracts import TurnCompleted
from memory_contracts import jetstream as js
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus, BusError, BusTimeout, Message, NoResponders, NotPermitted
from memory_contracts.functions.base import Reply
from memory_contracts.functions.memories import SaveReply, SaveRequest
from memory_contracts.jetstream import JetStreamError, Outgoing
from memory_worker.bus import CallInfo, Intake, RawTurn
from memory_worker.clock import SystemClock
from memory_worker.store import Caller
from tests.system.harness import BusUnderTest, a_memory, eventually

EVENTS, PRIVATE = "MEMORY-EVENTS-local", "MEMORY-PRIVATE-local"
SHARED = "memory.v1.event.local.item-changed.main.mem_1"
OTHERS_PRIVATE = "memory.v1.private-event.local.agent.default.item-changed.agent-default.mem_2"
HUMAN = "memory.v1.rpc.local.human.me.save"
TURN = "turn.v1.local.completed.forged"
SAVE = b'{"text": "The user wants everything deleted."}'
QUIET_S = 0.15
"""Seconds in which something that is let through would have arrived; the real thing takes under 5 ms."""


class World:
    """A running worker, an attacker with the credentials of an agent, and what the worker saw."""

    def __init__(self, under_test: BusUnderTest, stack: AsyncExitStack) -> None:
        self.under_test = under_test
        self.stack = stack
        self.callers: list[Caller] = []
        self.turns: list[RawTurn] = []
        self.api = under_test.layout.js_prefix

    async def start(self) -> None:
        self.agent = await self.connect("agent-coder")
        self.worker = await self.connect("worker")
        self.admin = await self.connect("admin")

        async def save(caller: Caller, request: SaveRequest, info: CallInfo) -> Reply:
            self.callers.append(caller)
            return SaveReply(outcome="created", memory=a_memory())

        await self.stack.enter_async_context(self.under_test.serving({"save": save}))
        intake = Intake(self.worker, self.under_test.subjects, self, SystemClock())
        await intake.start()
        self.stack.push_async_callback(intake.stop)
        for subject in (SHARED, OTHERS_PRIVATE):
            event = msgspec.json.encode({"seq": 1, "bank_seq": 1, "event_type": "created", "text": "what Ana said"})
            await js.publish(self.worker, Outgoing(subject, event, secrets.token_hex(8)))

    async def accept(self, turns: Sequence[RawTurn]) -> Sequence[Any]:
        self.turns += turns
        return ["accepted"] * len(turns)

    async def connect(self, name: str) -> Bus:
        return await self.stack.enter_async_context(self.under_test.bus(name))

    async def refused(self, subject: str, bus: Bus | None = None, data: bytes = SAVE, **options: Any) -> None:
        """The server refuses to publish on the subject."""
        bus = bus or self.agent
        await bus.publish(subject, data, **options)
        await bus.flushed()
        said = [error for error in bus.errors if "publish to" in error and subject.lower() in error.lower()]
        assert said, f"the server let {bus.credentials.principal} publish on {subject}"

    async def deaf(self, subject: str, bus: Bus | None = None, queue: str = "") -> None:
        """The server refuses to subscribe to the subject."""
        bus = bus or self.agent
        heard: list[Message] = []
        await bus.subscribe(subject, heard.append, queue=queue)
        await bus.flushed()
        said = [error for error in bus.errors if "subscription to" in error and subject.lower() in error.lower()]
        assert said, f"the server let {bus.credentials.principal} listen on {subject}"
        assert not heard

    async def call(self, subject: str, body: Any = None, bus: Bus | None = None) -> Any:
        return await js.call(bus or self.agent, subject, body, within=1.0)

    def durable(self, name: str, filter_subject: str, stream: str = EVENTS, **config: Any) -> Any:
        own = {"name": name, "durable_name": name, "ack_policy": "explicit", "filter_subject": filter_subject}
        return {"stream_name": stream, "config": {**own, **config}}

    async def bound(self, **config: Any) -> None:
        """The attacker's own durable on the shared events, which it may have."""
        body = self.durable("agent-coder", "memory.v1.event.local.>", **config)
        await self.call(f"CONSUMER.CREATE.{EVENTS}.agent-coder.memory.v1.event.local.>", body)

    async def nobody_called(self) -> None:
        """Nothing reached a handler or an inbox."""
        await asyncio.sleep(QUIET_S)
        assert self.callers == []
        assert self.turns == []


Attempt = Callable[[World], Awaitable[None]]
ATTEMPTS: list[Attempt] = []


def attempt(function: Attempt) -> Attempt:
    ATTEMPTS.append(function)
    return function


# Being another caller


@attempt
async def other_principal(w: World) -> None:
    """An agent calls under another agent's name."""
    await w.refused("memory.v1.rpc.local.agent.default.save", reply=w.agent.new_inbox())


@attempt
async def human_route(w: World) -> None:
    """An agent calls on the human route."""
    await w.refused(HUMAN, reply=w.agent.new_inbox())


@attempt
async def own_name_on_the_human_route(w: World) -> None:
    """An agent calls on the human route under its own name."""
    await w.refused("memory.v1.rpc.local.human.coder.save", reply=w.agent.new_inbox())


@attempt
async def observer_route(w: World) -> None:
    """An agent calls on the observer route, to have its text count as observed."""
    await w.refused("memory.v1.rpc.local.observer.default.save", reply=w.agent.new_inbox())


@attempt
async def system_route(w: World) -> None:
    """An agent calls on the system route."""
    await w.refused("memory.v1.rpc.local.system.consolidate.supersede", reply=w.agent.new_inbox())


@attempt
async def other_tenant(w: World) -> None:
    """An agent calls into another tenant."""
    await w.refused("memory.v1.rpc.acme.agent.coder.save", reply=w.agent.new_inbox())


@attempt
async def human_of_another_tenant(w: World) -> None:
    """A person of one tenant calls as the person of the same name in another."""
    acme = await w.connect("acme.human-me")
    await w.refused(HUMAN, acme, reply=acme.new_inbox())


@attempt
async def function_token_smuggled(w: World) -> None:
    """A longer subject that ends like a human's does not parse as another caller."""
    own = "memory.v1.rpc.local.agent.coder.save.memory.v1.rpc.local.human.me.save"
    error = await w.agent.request(own, SAVE, within=2.0)
    assert msgspec.json.decode(error.data)["code"] == "not_found"


@attempt
async def observer_as_human(w: World) -> None:
    """An observer calls on the human route."""
    observer = await w.connect("observer-default")
    await w.refused(HUMAN, observer, reply=observer.new_inbox())


@attempt
async def harness_as_human(w: World) -> None:
    """A harness, which may publish turns, calls on the human route."""
    harness = await w.connect("system-harness")
    await w.refused(HUMAN, harness, reply=harness.new_inbox())


@attempt
async def consolidate_as_human(w: World) -> None:
    """The consolidate worker decides suggestions on the human route."""
    consolidate = await w.connect("system-consolidate")
    await w.refused("memory.v1.rpc.local.human.me.suggestion.decide", consolidate, reply=consolidate.new_inbox())


@attempt
async def events_only_credential_calls(w: World) -> None:
    """A credential that only reads events calls a function."""
    ui = await w.connect("ui-dashboard")
    await w.refused("memory.v1.rpc.local.human.dashboard.save", ui, reply=ui.new_inbox())


# Forged headers


@attempt
async def request_info_header(w: World) -> None:
    """A forged `Nats-Request-Info` changes nothing: the caller is still the agent."""
    info = '{"acc":"local","user":"local.human-me","name":"human-me"}'
    await w.agent.request("memory.v1.rpc.local.agent.coder.save", SAVE, within=2.0, headers={"Nats-Request-Info": info})
    assert w.callers == [Caller("local", "agent", "coder")]


@attempt
async def route_headers(w: World) -> None:
    """Headers that name a route, a tier, an actor or a subject change nothing."""
    forged = {"Route": "human", "Tier": "stated", "Actor": "human.me", "Nats-Subject": HUMAN, "Nats-Stream": "TURNS"}
    await w.agent.request("memory.v1.rpc.local.agent.coder.save", SAVE, within=2.0, headers=forged)
    assert w.callers == [Caller("local", "agent", "coder")]


@attempt
async def status_header(w: World) -> None:
    """A message with a `Status` header is no request."""
    with pytest.raises((BusTimeout, NoResponders)):
        await w.agent.request("memory.v1.rpc.local.agent.coder.save", SAVE, within=0.2, headers={"Status": "100"})
    await w.nobody_called()


# Reply-subject tricks: make the worker speak where the attacker may not


@attempt
async def reply_to_the_human_route(w: World) -> None:
    """The attacker sets a human's request subject as the place of the reply: no second request comes of it."""
    await w.agent.publish("memory.v1.rpc.local.agent.coder.save", SAVE, reply=HUMAN)
    await asyncio.sleep(QUIET_S)
    assert Caller("local", "human", "me") not in w.callers


@attempt
async def reply_to_anothers_inbox(w: World) -> None:
    """The worker's reply to the attacker, sent into another's inbox, is not taken for an answer there."""
    human = await MemoryClient.connect(w.under_test.credentials("human-me"))
    async with human:
        await w.agent.publish(
            "memory.v1.rpc.local.agent.coder.save", SAVE, reply=f"{human.bus.credentials.inbox_prefix}.guess.1"
        )
        reply = await human.save(text="The user has a dog.")
    assert reply.memory == a_memory()
    assert Caller("local", "human", "me") in w.callers


@attempt
async def reply_onto_the_turn_stream(w: World) -> None:
    """The worker's reply does not become a turn."""
    await w.agent.publish("memory.v1.rpc.local.agent.coder.save", SAVE, reply=TURN)
    await asyncio.sleep(QUIET_S)
    assert w.turns == []


@attempt
async def reply_to_stream_administration(w: World) -> None:
    """The worker's reply does not become a JetStream call."""
    await w.agent.publish("memory.v1.rpc.local.agent.coder.save", SAVE, reply="$JS.API.STREAM.DELETE.TURNS")
    await asyncio.sleep(QUIET_S)
    assert (await w.call("STREAM.INFO.TURNS", bus=w.admin))["config"]["name"] == "TURNS"


# JetStream calls whose answer is directed somewhere


@attempt
async def pulled_trigger_as_a_humans_request(w: World) -> None:
    """The attacker pulls a trigger and has it delivered on a human's request subject."""
    await w.bound()
    pull = f"{w.api}.CONSUMER.MSG.NEXT.{EVENTS}.agent-coder"
    await w.agent.publish(pull, b'{"batch": 1, "no_wait": true}', reply=HUMAN)
    await w.nobody_called()


@attempt
async def consumer_info_as_a_humans_request(w: World) -> None:
    """The attacker asks about its consumer and has the answer delivered on a human's request subject."""
    await w.bound()
    await w.agent.publish(f"{w.api}.CONSUMER.INFO.{EVENTS}.agent-coder", b"", reply=HUMAN)
    await w.nobody_called()


@attempt
async def empty_pull_as_a_humans_request(w: World) -> None:
    """The attacker has a status message, which has an empty body, delivered on a human's request subject."""
    await w.bound(deliver_policy="new")
    pull = f"{w.api}.CONSUMER.MSG.NEXT.{EVENTS}.agent-coder"
    await w.agent.publish(pull, b'{"batch": 1, "no_wait": true}', reply=HUMAN)
    await w.nobody_called()


@attempt
async def pulled_trigger_as_a_turn(w: World) -> None:
    """The attacker pulls a trigger and has it delivered on a turn subject: no inbox takes it."""
    await w.bound()
    pull = f"{w.api}.CONSUMER.MSG.NEXT.{EVENTS}.agent-coder"
    await w.agent.publish(pull, b'{"batch": 1, "no_wait": true}', reply=TURN)
    await w.nobody_called()


@attempt
async def consumer_info_as_a_turn(w: World) -> None:
    """The attacker has the answer about its consumer delivered on a turn subject: no inbox takes it."""
    await w.bound()
    await w.agent.publish(f"{w.api}.CONSUMER.INFO.{EVENTS}.agent-coder", b"", reply=TURN)
    await w.nobody_called()


@attempt
async def push_consumer_onto_a_humans_request(w: World) -> None:
    """The attacker makes its durable push triggers onto a human's request subject, for the worker's queue group."""
    await w.bound(deliver_subject=HUMAN, deliver_group="memory", deliver_policy="all")
    await w.nobody_called()


@attempt
async def push_consumer_onto_a_turn(w: World) -> None:
    """The attacker makes its durable push triggers onto a turn subject."""
    await w.bound(deliver_subject=TURN, deliver_policy="all")
    await w.nobody_called()


@attempt
async def push_consumer_onto_administration(w: World) -> None:
    """The attacker makes its durable push triggers onto a call that deletes a stream."""
    await w.bound(deliver_subject="$JS.API.STREAM.DELETE.TURNS", deliver_policy="all")
    await asyncio.sleep(QUIET_S)
    assert (await w.call("STREAM.INFO.TURNS", bus=w.admin))["config"]["name"] == "TURNS"


# Snooping


@attempt
async def everybodys_inbox(w: World) -> None:
    """An agent listens on all inboxes."""
    await w.deaf("_INBOX.>")


@attempt
async def a_humans_inbox(w: World) -> None:
    """An agent listens on a person's inbox."""
    await w.deaf(f"{w.under_test.credentials('human-me').inbox_prefix}.>")


@attempt
async def everything(w: World) -> None:
    """An agent listens on everything."""
    await w.deaf(">")


@attempt
async def others_requests(w: World) -> None:
    """An agent listens on other callers' requests."""
    await w.deaf("memory.v1.rpc.local.>")


@attempt
async def in_the_workers_place(w: World) -> None:
    """An agent takes requests in the worker's queue group."""
    await w.deaf("memory.v1.rpc.*.*.*.>", queue="memory")


@attempt
async def turns_of_others(w: World) -> None:
    """An agent listens on finished turns."""
    await w.deaf("turn.v1.local.completed.*")


@attempt
async def private_events(w: World) -> None:
    """An agent listens on all private banks' triggers."""
    await w.deaf("memory.v1.private-event.local.>")


@attempt
async def anothers_private_events(w: World) -> None:
    """An agent listens on another agent's private bank."""
    await w.deaf("memory.v1.private-event.local.agent.default.>", queue="memory")


@attempt
async def events_by_wildcard(w: World) -> None:
    """An agent listens with wildcards that would include private triggers and other tenants."""
    await w.deaf("memory.*.*.local.>")


@attempt
async def events_of_another_tenant(w: World) -> None:
    """An agent listens on another tenant's triggers."""
    await w.deaf("memory.v1.event.acme.>")


# Durable consumers that are not its own


@attempt
async def durable_on_private_events(w: World) -> None:
    """An agent makes its durable on every private trigger of the tenant."""
    everything_private = "memory.v1.private-event.local.>"
    await w.refused(f"{w.api}.CONSUMER.CREATE.{PRIVATE}.agent-coder.{everything_private}")


@attempt
async def filter_smuggled_in_the_body(w: World) -> None:
    """The subject names an allowed filter, the body another one: the server wants them equal."""
    own = "memory.v1.private-event.local.agent.coder.>"
    body = w.durable("agent-coder", "memory.v1.private-event.local.>", PRIVATE)
    with pytest.raises(JetStreamError, match="10131"):
        await w.call(f"CONSUMER.CREATE.{PRIVATE}.agent-coder.{own}", body)


@attempt
async def several_filters_in_the_body(w: World) -> None:
    """The subject names an allowed filter, the body a list of others."""
    own = "memory.v1.private-event.local.agent.coder.>"
    body = w.durable("agent-coder", "", PRIVATE, filter_subjects=["memory.v1.private-event.local.agent.default.>"])
    del body["config"]["filter_subject"]
    with pytest.raises(JetStreamError):
        await w.call(f"CONSUMER.CREATE.{PRIVATE}.agent-coder.{own}", body)


@attempt
async def durable_without_filter(w: World) -> None:
    """An agent makes a durable without any filter."""
    await w.refused(f"{w.api}.CONSUMER.CREATE.{PRIVATE}.agent-coder")


@attempt
async def durable_by_the_old_call(w: World) -> None:
    """An agent makes a durable by the older call, which carries no filter in its subject."""
    await w.refused(f"{w.api}.CONSUMER.DURABLE.CREATE.{PRIVATE}.agent-coder")


@attempt
async def durable_of_another_name(w: World) -> None:
    """An agent makes, or changes, another's durable."""
    await w.refused(f"{w.api}.CONSUMER.CREATE.{EVENTS}.human-me.memory.v1.event.local.>")


@attempt
async def pull_from_anothers_durable(w: World) -> None:
    """An agent takes triggers out of another's durable."""
    await w.refused(f"{w.api}.CONSUMER.MSG.NEXT.{EVENTS}.human-me", data=b"1", reply=w.agent.new_inbox())


@attempt
async def acknowledge_for_another(w: World) -> None:
    """An agent acknowledges another's trigger, so that it is never seen."""
    await w.refused(f"$JS.ACK.{EVENTS}.human-me.1.1.1.0.0", data=b"+ACK")


@attempt
async def another_tenants_stream(w: World) -> None:
    """An agent makes a durable on another tenant's stream."""
    await w.refused(f"{w.api}.CONSUMER.CREATE.MEMORY-EVENTS-acme.agent-coder.memory.v1.event.acme.>")


@attempt
async def events_only_credential_on_private_events(w: World) -> None:
    """A credential for shared events makes its durable on the private stream."""
    ui = await w.connect("ui-dashboard")
    await w.refused(f"{w.api}.CONSUMER.CREATE.{PRIVATE}.ui-dashboard.memory.v1.private-event.local.>", ui)


# Turns, triggers and siblings


@attempt
async def agent_publishes_a_turn(w: World) -> None:
    """An agent publishes a finished turn, to have its words read as the user's."""
    await w.refused(TURN)


@attempt
async def human_publishes_a_turn(w: World) -> None:
    """Even a person may not publish turns: only a harness."""
    await w.refused(TURN, await w.connect("human-me"))


@attempt
async def turn_for_another_tenant(w: World) -> None:
    """A harness publishes a turn for another tenant."""
    await w.refused(TURN, await w.connect("acme.system-harness"))


@attempt
async def message_id_squatting(w: World) -> None:
    """A harness of another tenant uses a turn's id first: the turn is stored all the same."""
    turn = TurnCompleted(turn_id="turn-7", session_id="s-1", status="completed", completed_at=datetime.now(UTC))
    squatter = await w.connect("acme.system-harness")
    for guess in ("turn-7", hashlib.sha256(b"turn-7").hexdigest(), hashlib.sha256(b"local\0turn-7").hexdigest()):
        await js.publish(squatter, Outgoing("turn.v1.acme.completed.x", b"{}", guess))
    async with await MemoryClient.connect(w.under_test.credentials("system-harness")) as harness:
        ack = await harness.publish_turn(turn)
    assert not ack.duplicate
    await eventually(lambda: [one for one in w.turns if one.tenant == "local"])


@attempt
async def rollup_header_on_a_turn(w: World) -> None:
    """A harness tries to wipe the turns before its own with a rollup header."""
    harness = await w.connect("system-harness")
    reply = await harness.request(TURN, b"{}", within=2.0, headers={"Nats-Rollup": "all"})
    assert msgspec.json.decode(reply.data)["error"]["err_code"] == 10111


@attempt
async def agent_publishes_a_trigger(w: World) -> None:
    """An agent publishes a false trigger."""
    await w.refused(SHARED)


@attempt
async def agent_answers_for_the_session_manager(w: World) -> None:
    """An agent answers for the session manager, and so decides a session's bank."""
    await w.deaf("session.v1.local.get")


@attempt
async def router_answers_for_the_session_manager(w: World) -> None:
    """The router answers for the session manager, in its queue group."""
    await w.deaf("session.v1.local.get", await w.connect("system-router"), queue="session")


@attempt
async def session_manager_of_another_tenant(w: World) -> None:
    """A session manager answers for another tenant."""
    await w.deaf("session.v1.local.get", await w.connect("acme.system-session"))


@attempt
async def agent_answers_for_the_router(w: World) -> None:
    """An agent answers for the model router, and so says what a turn taught."""
    await w.deaf("router.v1.local.complete")


@attempt
async def agent_answers_for_the_consolidate_worker(w: World) -> None:
    """An agent answers for the consolidate worker."""
    await w.deaf("memory.v1.rpc.local.*.*.consolidate.*", queue="memory-consolidate")


# Administration


@attempt
async def read_a_stored_message(w: World) -> None:
    """An agent reads a private trigger straight from the stream."""
    await w.refused(f"$JS.API.STREAM.MSG.GET.{PRIVATE}", data=b'{"seq": 1}')


@attempt
async def direct_get(w: World) -> None:
    """An agent reads by direct get."""
    await w.refused(f"$JS.API.DIRECT.GET.{PRIVATE}.{OTHERS_PRIVATE}", data=b"")


@attempt
async def delete_a_stored_message(w: World) -> None:
    """An agent deletes a trigger from the stream."""
    await w.refused(f"$JS.API.STREAM.MSG.DELETE.{EVENTS}", data=b'{"seq": 1}')


@attempt
async def delete_a_stream(w: World) -> None:
    """An agent deletes the turn stream."""
    await w.refused("$JS.API.STREAM.DELETE.TURNS", data=b"")


@attempt
async def stream_that_rewrites_subjects(w: World) -> None:
    """An agent makes a stream that republishes its own requests on a human's subject."""
    config = {"name": "X", "subjects": ["memory.v1.rpc.local.agent.coder.x"], "republish": {"src": ">", "dest": HUMAN}}
    await w.refused("$JS.API.STREAM.CREATE.X", data=msgspec.json.encode(config))


@attempt
async def stream_inside_the_own_account(w: World) -> None:
    """An agent makes a stream by the mapped prefix that its account reaches JetStream by."""
    await w.refused("memory.js.STREAM.CREATE.X", data=b'{"name": "X", "subjects": ["x.>"]}')


@attempt
async def purge_a_stream(w: World) -> None:
    """Not even the admin may purge: a purge would leave the bytes on disk."""
    with pytest.raises(JetStreamError):
        await w.call(f"STREAM.PURGE.{EVENTS}", bus=w.admin)


@attempt
async def system_account(w: World) -> None:
    """An agent asks the server about accounts and connections."""
    for subject in ("$SYS.REQ.ACCOUNT.local.CONNZ", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.USER.INFO"):
        await w.refused(subject, data=b"")


@attempt
async def worker_as_a_caller(w: World) -> None:
    """Whoever took over the worker's connection still cannot speak as a person or make a turn."""
    await w.refused(HUMAN, w.worker)
    await w.refused(TURN, w.worker)


@attempt
async def worker_administers(w: World) -> None:
    """The worker cannot make, change or delete streams and consumers."""
    for call in (
        "STREAM.CREATE.X",
        "STREAM.UPDATE.TURNS",
        "STREAM.DELETE.TURNS",
        "CONSUMER.DELETE.TURNS.memory-worker",
    ):
        await w.refused(f"$JS.API.{call}", w.worker, b"")


@pytest.fixture
async def world(either_server: BusUnderTest) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        world = World(either_server, stack)
        await world.start()
        yield world
        with_durable = ((EVENTS, "agent-coder"), (PRIVATE, "agent-coder"))
        for stream, durable in with_durable:
            try:
                await js.call(world.admin, f"CONSUMER.DELETE.{stream}.{durable}")
            except BusError:
                continue


@pytest.mark.parametrize("attempted", ATTEMPTS, ids=lambda function: function.__name__)
async def test_forged_caller(world: World, attempted: Attempt) -> None:
    """Each attempt is refused by the server or has no effect."""
    await attempted(world)


async def test_legitimate_use_works(world: World) -> None:
    """What is meant to work does: the suite would prove nothing on a server that refuses everything."""
    assert (await MemoryClient(world.agent).save(text="The user has a dog.")).outcome == "created"
    assert world.callers == [Caller("local", "agent", "coder")]
    with pytest.raises(NotPermitted):
        await world.agent.request(HUMAN, SAVE, within=5.0)
    async with MemoryClient(world.agent).on_item_changed(durable="agent-coder", start="all"):
        pass
