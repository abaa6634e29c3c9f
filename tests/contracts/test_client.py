"""The typed client and the trigger bindings, against a real server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
import pytest

from memory_contracts import FunctionError, ItemChanged, TurnCompleted
from memory_contracts import jetstream as js
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus, Message, NotPermitted
from memory_contracts.errors import not_found
from memory_contracts.events import BankChanged
from memory_contracts.functions.base import Reply, Request
from memory_contracts.functions.memories import MemoryReply, SaveRequest
from memory_contracts.jetstream import ConsumerGone, JetStreamError, Outgoing
from memory_contracts.keyvalue import Bucket, Entry, WrittenMeanwhile
from memory_contracts.records import Actor, Cause
from memory_contracts.serving import FunctionCall, serve, serve_functions
from memory_contracts.siblings import SessionGetReply
from memory_worker.bus import CallInfo, Router, SessionManager
from memory_worker.extraction import SiblingAway
from memory_worker.store import Caller
from tests.conftest import BusAs, ConnectAs
from tests.system.harness import BusUnderTest, a_memory, eventually

NOW = datetime(2026, 11, 30, 3, 51, 42, tzinfo=UTC)
_numbers = iter(range(1_000_000))


def item(bank: str = "main", id: str = "mem_1") -> ItemChanged:
    """A trigger with an id of its own."""
    number = next(_numbers)
    return ItemChanged(
        seq=number,
        bank_seq=number,
        id=f"chg_{number}",
        at=NOW,
        event_type="created",
        bank=bank,
        memory_id=id,
        actor=Actor(route="human", principal="me"),
        cause=Cause(kind="request", id="req_1"),
        memory=a_memory(id, bank),
    )


async def publish(worker: Bus, event: ItemChanged, owner: str | None = None, msg_id: str | None = None) -> None:
    root = f"memory.v1.private-event.local.{owner}" if owner else "memory.v1.event.local"
    subject = f"{root}.item-changed.{event.bank}.{event.memory_id}"
    await js.publish(worker, Outgoing(subject, msgspec.json.encode(event), msg_id or event.id))


@pytest.fixture
async def worker(bus_as: BusAs) -> Bus:
    return await bus_as("worker")


@pytest.fixture
async def fresh(nats_server: BusUnderTest, bus_as: BusAs) -> AsyncIterator[None]:
    """No durable of an earlier test is left."""
    yield
    admin = await bus_as("admin")
    for stream in ("MEMORY-EVENTS-local", "MEMORY-PRIVATE-local"):
        for name in ("human-me", "human-me-banks", "agent-coder"):
            try:
                await js.call(admin, f"CONSUMER.DELETE.{stream}.{name}")
            except JetStreamError:
                continue


async def test_live_subscription_sees_what_happens_from_now_on(connect_as: ConnectAs, worker: Bus) -> None:
    """A plain binding gives the typed events of its bank, and only those."""
    ui = await connect_as("human-me")
    await publish(worker, item())
    async with ui.on_item_changed(bank="main") as events:
        await publish(worker, item("other"))
        wanted = item("main", "mem_2")
        await publish(worker, wanted)
        assert await anext(events) == wanted


async def test_repeats_are_dropped_by_id(connect_as: ConnectAs, worker: Bus) -> None:
    """An event that is published twice is given once."""
    ui = await connect_as("human-me")
    async with ui.on_item_changed(bank="main") as events:
        first, second = item(), item()
        await publish(worker, first)
        await publish(worker, first, msg_id="another-1")
        await publish(worker, second)
        assert [await anext(events), await anext(events)] == [first, second]


@pytest.mark.usefixtures("fresh")
async def test_durable_misses_nothing_across_restarts(connect_as: ConnectAs, worker: Bus) -> None:
    """What was published while nobody listened is given to the durable when it comes back, in order."""
    seen = []
    expected = [item("durable") for _ in range(5)]
    for event in expected[:2]:
        await publish(worker, event)
    ui = await connect_as("human-me")
    async with ui.on_item_changed(bank="durable", durable="human-me") as events:
        seen += [await anext(events), await anext(events)]
    for event in expected[2:]:
        await publish(worker, event)
    again = await connect_as("human-me")
    async with again.on_item_changed(bank="durable", durable="human-me") as events:
        seen += [await anext(events) for _ in range(3)]
    assert seen == expected


@pytest.mark.usefixtures("fresh")
async def test_event_left_in_the_middle_comes_again(connect_as: ConnectAs, worker: Bus, bus_as: BusAs) -> None:
    """An event whose handling failed is not acknowledged."""
    event = item("middle")
    await publish(worker, event)
    ui = await connect_as("human-me")
    with contextlib.suppress(RuntimeError):
        async with ui.on_item_changed(bank="middle", durable="human-me") as events:
            assert await anext(events) == event
            raise RuntimeError("the reader fails")
    await ui.bus.flushed()
    info = await js.call(await bus_as("admin"), "CONSUMER.INFO.MEMORY-EVENTS-local.human-me")
    assert (info["num_ack_pending"], info["ack_floor"]["consumer_seq"]) == (1, 0)


@pytest.mark.usefixtures("fresh")
async def test_durable_may_change_its_bank(connect_as: ConnectAs, worker: Bus) -> None:
    """Binding the same durable to another bank makes it read that one from then on."""
    ui = await connect_as("human-me")
    async with ui.on_item_changed(bank="first", durable="human-me", start="new"):
        pass
    async with ui.on_item_changed(bank="second", durable="human-me", start="new") as events:
        wanted = item("second")
        await publish(worker, item("first"))
        await publish(worker, wanted)
        assert await anext(events) == wanted


async def test_durable_of_another_name_is_refused(connect_as: ConnectAs) -> None:
    """A durable that is not of these credentials is refused at once."""
    ui = await connect_as("human-me")
    with pytest.raises(NotPermitted):
        async with ui.on_item_changed(durable="agent-coder"):
            pass


@pytest.mark.usefixtures("fresh")
async def test_private_events_reach_their_owner(connect_as: ConnectAs, worker: Bus) -> None:
    """The owner of a private bank may bind to it, live and with its durable."""
    agent = await connect_as("agent-coder")
    event = item("agent-coder")
    async with agent.on_item_changed(owner="agent.coder") as live:
        await publish(worker, event, owner="agent.coder")
        assert await anext(live) == event
    async with agent.on_item_changed(owner="agent.coder", durable="agent-coder") as events:
        assert await anext(events) == event


async def test_private_events_of_another_are_refused_by_name(connect_as: ConnectAs) -> None:
    """Who may not see a private bank is told so, instead of waiting for triggers that never come."""
    client = await connect_as("human-me")
    for binding in (client.on_item_changed(owner="agent.coder"), client.on_bank_changed(owner="agent.coder")):
        with pytest.raises(NotPermitted, match=r"private-event\.local\.agent\.coder"):
            async with binding:
                pass


async def test_a_sibling_outside_its_queue_group_is_refused_by_name(bus_as: BusAs) -> None:
    """A session manager that serves in another group than its duty's learns it at the start."""

    async def answer(message: Message) -> SessionGetReply:
        return SessionGetReply(session_id="s1")

    bus = await bus_as("system-session")
    with pytest.raises(NotPermitted, match="queue group mine"):
        await serve(bus, "session.v1.local.get", answer, queue="mine")
    serving = await serve(bus, "session.v1.local.get", answer, queue="session")
    await serving.stop()


@pytest.mark.usefixtures("fresh")
async def test_bank_changes_have_a_durable_of_their_own(connect_as: ConnectAs, worker: Bus) -> None:
    """Changes of a bank's rules are given as typed events to the second durable of the credentials."""
    changed = BankChanged(
        seq=1,
        bank_seq=1,
        id="chg_bank",
        at=NOW,
        event_type="rules-changed",
        bank="main",
        actor=Actor(route="human", principal="me"),
        rule="style",
    )
    await js.publish(
        worker, Outgoing("memory.v1.event.local.bank-changed.main", msgspec.json.encode(changed), "chg_bank")
    )
    ui = await connect_as("human-me")
    async with ui.on_bank_changed(bank="main", durable="human-me-banks") as events:
        assert await anext(events) == changed


@pytest.mark.usefixtures("fresh")
async def test_deleted_durable_is_told(connect_as: ConnectAs, bus_as: BusAs) -> None:
    """A reader whose durable was deleted under it is told, rather than waiting for ever."""
    ui = await connect_as("human-me")
    async with ui.on_item_changed(bank="gone", durable="human-me") as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await js.call(await bus_as("admin"), "CONSUMER.DELETE.MEMORY-EVENTS-local.human-me")
        with pytest.raises(ConsumerGone):
            await asyncio.wait_for(waiting, 20.0)


async def test_unreadable_event_does_not_stop_the_reader(connect_as: ConnectAs, worker: Bus) -> None:
    """A message that is no event is skipped and counted; fields of a later version are ignored."""
    ui = await connect_as("human-me")
    async with ui.on_item_changed(bank="odd") as events:
        subject = "memory.v1.event.local.item-changed.odd.mem_1"
        event = item("odd")
        await js.publish(worker, Outgoing(subject, b"\xff not json", "odd-1"))
        later = {**msgspec.to_builtins(event), "field_of_tomorrow": 1}
        await js.publish(worker, Outgoing(subject, msgspec.json.encode(later), "odd-2"))
        assert await anext(events) == event
        assert events.skipped == 1


def turn(number: int) -> TurnCompleted:
    return TurnCompleted(turn_id=f"turn-{number}", session_id="s/1", status="completed", completed_at=NOW)


async def test_turns_are_stored_once(connect_as: ConnectAs) -> None:
    """A published turn is acknowledged by the bus; publishing it again does not store it again."""
    harness = await connect_as("system-harness")
    first, again = await harness.publish_turn(turn(1)), await harness.publish_turn(turn(1))
    assert (first.stream, first.duplicate) == ("TURNS", False)
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_many_turns_go_in_batches(connect_as: ConnectAs, bus_as: BusAs) -> None:
    """A list of turns is stored whole and in order, also when some of it was stored before."""
    harness = await connect_as("system-harness")
    admin = await bus_as("admin")
    before = (await js.call(admin, "STREAM.INFO.TURNS"))["state"]["messages"]
    assert await harness.publish_turns([turn(i) for i in range(1_000, 1_700)]) == 700
    assert await harness.publish_turns([turn(i) for i in range(1_650, 1_750)]) == 50
    assert (await js.call(admin, "STREAM.INFO.TURNS"))["state"]["messages"] == before + 750


async def test_who_may_not_publish_turns_is_told(connect_as: ConnectAs) -> None:
    """A credential without that duty is `forbidden`."""
    agent = await connect_as("agent-coder")
    for publishing in (agent.publish_turn(turn(2)), agent.publish_turns([turn(2), turn(3)])):
        with pytest.raises(FunctionError) as caught:
            await publishing
        assert caught.value.code == "forbidden"


async def test_events_only_credentials_call_nothing(connect_as: ConnectAs) -> None:
    """Credentials without a route are refused before anything is sent."""
    ui = await connect_as("ui-dashboard")
    with pytest.raises(FunctionError) as caught:
        await ui.tags()
    assert (caught.value.code, caught.value.message) == ("forbidden", "the ui credentials call no functions")


async def test_worker_that_does_not_run_is_told(connect_as: ConnectAs) -> None:
    """With no worker there, a call is `unavailable` at once and asks the right question."""
    with pytest.raises(FunctionError) as caught:
        await (await connect_as("human-me")).tags()
    assert caught.value.code == "unavailable"
    assert "is the worker running" in caught.value.message


async def test_sibling_answers_functions(connect_as: ConnectAs, nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """A sibling in the tenant's account answers its own functions beside the worker; its errors arrive typed."""
    calls: list[FunctionCall] = []

    async def status(call: FunctionCall, request: Request) -> Reply:
        calls.append(call)
        raise not_found("no such run", "bank")

    async def tags(caller: Caller, request: object, info: CallInfo) -> Reply:
        raise FunctionError("conflict", "from the worker")

    consolidate = await bus_as("system-consolidate")
    serving = await serve_functions(consolidate, {"consolidate.status": status}, queue="memory-consolidate")
    human = await connect_as("human-me")
    async with nats_server.serving({"tags": tags}):
        with pytest.raises(FunctionError, match="no such run"):
            await human.with_key("k").consolidate_status()
        with pytest.raises(FunctionError, match="from the worker"):
            await human.tags()
    for one in serving:
        await one.stop()
    assert calls == [FunctionCall("local", "human", "me", "consolidate.status", "k")]


async def test_worker_asks_the_siblings(worker: Bus, bus_as: BusAs) -> None:
    """The session manager's answers reach the worker across accounts: known, unknown, away."""
    manager = SessionManager(worker, "local", deadline_s=2.0)
    with pytest.raises(SiblingAway):
        await manager.get("s-1")

    async def answer(message: Message) -> msgspec.Struct:
        session_id = msgspec.json.decode(message.data)["session_id"]
        if session_id == "unknown":
            raise not_found("no such session", "session_id")
        if session_id == "broken":
            return a_memory()
        if session_id == "swapped":
            return SessionGetReply(session_id="s-1", metadata={"memory_bank": "work"})
        return SessionGetReply(session_id=session_id, metadata={"memory_bank": "work"})

    serving = await serve(await bus_as("system-session"), "session.v1.local.get", answer, queue="session")
    with pytest.raises(SiblingAway):  # metadata of another session decides no bank
        await manager.get("swapped")
    known = await manager.get("s-1")
    assert known is not None
    assert known.metadata == {"memory_bank": "work"}
    assert await manager.metadata("unknown") is None
    with pytest.raises(SiblingAway):
        await manager.get("broken")
    await serving.stop()


async def test_router_that_is_away(worker: Bus) -> None:
    """A router that does not answer is away, and the observer is told."""
    seen: list[tuple[str, str]] = []
    router = Router(worker, "local", observer=lambda sibling, outcome, seconds: seen.append((sibling, outcome)))
    with pytest.raises(SiblingAway):
        await router.models()
    assert seen == [("router", "away")]


async def test_bucket_keeps_one_writer(bus_as: BusAs) -> None:
    """A key is read back with its revision, and a write that expects an older one is refused."""
    bucket = Bucket(await bus_as("system-consolidate"), "MEMORY-CONSOLIDATE-local")
    assert await bucket.get("bank.main") is None
    first = await bucket.put("bank.main", b"one", expected=0)
    assert await bucket.get("bank.main") == Entry(b"one", first)
    with pytest.raises(WrittenMeanwhile):
        await bucket.put("bank.main", b"two", expected=0)
    second = await bucket.put("bank.main", b"two", expected=first)
    assert await bucket.get("bank.main") == Entry(b"two", second)


async def test_keys_belong_to_one_view(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """`with_key` binds the key to the view it gives, not to the client it came from."""
    keys: list[str | None] = []

    async def save(caller: Caller, request: SaveRequest, info: CallInfo) -> Reply:
        keys.append(info.idempotency_key)
        return MemoryReply()

    client: MemoryClient = await connect_as("human-me")
    async with nats_server.serving({"save": save}):
        for view in (client, client.with_key("a"), client):
            with pytest.raises(FunctionError):  # the handler's reply is no SaveReply: the client says so
                await view.save(text="x")
    assert keys == [None, "a", None]
    await eventually(lambda: client.bus.connected)
