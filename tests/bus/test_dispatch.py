"""Requests become calls and replies: the rules of the dispatch layer, against a real server."""

import asyncio
from typing import Any

import msgspec
import pytest

from memory_contracts import FunctionError
from memory_contracts.connection import Bus, BusTimeout
from memory_contracts.errors import ERROR_CODE_HEADER, ERROR_HEADER
from memory_contracts.functions.base import Reply
from memory_contracts.functions.memories import GetRequest, MemoryReply, SaveReply, SaveRequest, TagsReply
from memory_worker.bus import CallInfo, Finished, Limits
from memory_worker.store import Caller
from tests.conftest import BusAs, ConnectAs
from tests.system.harness import BusUnderTest, a_memory, eventually


async def save(caller: Caller, request: SaveRequest, info: CallInfo) -> Reply:
    return SaveReply(outcome="created", memory=a_memory(text=request.text))


async def _raw(bus: Bus, function: str, data: bytes, headers: dict[str, str] | None = None) -> tuple[Any, Any]:
    creds = bus.credentials
    subject = f"memory.v1.rpc.{creds.tenant}.{creds.route}.{creds.principal}.{function}"
    message = await bus.request(subject, data, within=5.0, headers=headers)
    return message.headers, msgspec.json.decode(message.data)


async def test_caller_is_the_subject(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A handler is told tenant, route and principal of the subject that the server let the caller use."""
    callers: list[Caller] = []

    async def noting(caller: Caller, request: SaveRequest, info: CallInfo) -> Reply:
        callers.append(caller)
        return await save(caller, request, info)

    async with nats_server.serving({"save": noting}):
        for name in ("agent-coder", "human-me", "acme.agent-default"):
            await (await connect_as(name)).save(text="x")
    assert callers == [
        Caller("local", "agent", "coder"),
        Caller("local", "human", "me"),
        Caller("acme", "agent", "default"),
    ]


async def test_reply_is_typed(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A method of the client gives the function's reply type with the memory in it."""
    async with nats_server.serving({"save": save}):
        reply = await (await connect_as("agent-coder")).save(text="The user has a dog called Rex.")
    assert reply == SaveReply(outcome="created", memory=a_memory())


@pytest.mark.parametrize(
    ("body", "code", "field", "said"),
    [
        (b"", "invalid_input", "body", "JSON object"),
        (b"[]", "invalid_input", "body", "JSON object"),
        (b'{"text": ', "invalid_input", "body", "not JSON"),
        (b'{"text": "\xff\xfe"}', "invalid_input", "body", "not JSON"),
        (b'{"text": 3}', "invalid_input", "text", "Expected str, got int"),
        (b"{}", "invalid_input", "text", "required"),
        (b'{"text": "%s"}' % (b"x" * 2001), "invalid_input", "text", "2000"),
        (b'{"text": "x", "bank": "Not A Name"}', "invalid_input", "bank", "regex"),
        (b'{"text": "x", "tags": ["a", 7]}', "invalid_input", "tags[1]", "Expected str, got int"),
        (b'{"text": "x", "tags": ["ok", ""]}', "invalid_input", "tags[1]", "length >= 1"),
        (b'{"text": "x", "tags": [%s]}' % b",".join([b'"t"'] * 10_000), "invalid_input", "tags", "16"),
        (b'{"text": "x", "claim": {"entity": "a", "property": "b"}}', "invalid_input", "claim.value", "required"),
        (b'{"text": "x", "claim": {"entity":"a","property":"b","value":"c","d":1}}', "invalid_input", "claim.d", "d"),
        (b'{"text": "x", "expires_at": "2026-11-30"}', "invalid_input", "expires_at", "RFC3339"),
        (b'{"text": "x", "a": %s1%s}' % (b"[" * 5_000, b"]" * 5_000), "invalid_input", None, ""),
    ],
)
async def test_bad_body_names_field_and_limit(
    nats_server: BusUnderTest, bus_as: BusAs, body: bytes, code: str, field: str | None, said: str
) -> None:
    """Whatever is wrong with a body, the caller is told the field and the limit, and the worker stays up."""
    bus = await bus_as("agent-coder")
    async with nats_server.serving({"save": save}):
        headers, error = await _raw(bus, "save", body)
        good = await _raw(bus, "save", b'{"text": "still there"}')
    assert headers[ERROR_CODE_HEADER] == code == error["code"]
    assert headers[ERROR_HEADER]
    assert said in error["message"]
    if field:
        assert error["field"] == field
    assert good[1]["outcome"] == "created"


@pytest.mark.parametrize("field", ["tier", "route", "actor", "tenant", "principal", "source"])
async def test_no_field_says_who_called(nats_server: BusUnderTest, bus_as: BusAs, field: str) -> None:
    """A field that tries to name a tier, route, actor or tenant is refused, with the reason."""
    async with nats_server.serving({"save": save}):
        _, error = await _raw(await bus_as("agent-coder"), "save", b'{"text": "x", "%s": "human"}' % field.encode())
    assert (error["code"], error["field"]) == ("invalid_input", field)
    assert "the route decides" in error["hint"]


async def test_unknown_function_is_named(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """A function that does not exist is `not_found` by its name, however it is spelt."""
    async with nats_server.serving({"save": save}):
        for name in ("remember", "Bank_Create", "rule.set.all"):
            _, error = await _raw(await bus_as("agent-coder"), name, b"{}")
            assert error == {"code": "not_found", "message": f"no function {name}", "field": "function"}


async def test_function_without_handler_says_so(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A function of the contract that this build does not have is `unavailable` and says why."""
    client = await connect_as("agent-coder")
    async with nats_server.serving({"save": save}):
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_1")
    assert (caught.value.code, caught.value.message) == (
        "unavailable",
        "get is not available in this build or setting",
    )


async def test_route_that_may_not_call(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A function that is not for the caller's route is `forbidden` before its body is read."""
    agent = await connect_as("agent-coder")
    async with nats_server.serving({"save": save}):
        with pytest.raises(FunctionError) as caught:
            await agent.rule_set(name="style", content="be brief")
    assert (caught.value.code, caught.value.message) == ("forbidden", "rule.set is for the route human, not agent")


async def test_other_workers_functions_are_left_alone(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """The worker does not answer the consolidate worker's functions."""
    bus = await bus_as("human-me")
    async with nats_server.serving({"save": save}):
        with pytest.raises(BusTimeout):
            await bus.request("memory.v1.rpc.local.human.me.consolidate.status", b"{}", within=0.3)


async def test_exception_text_stays_inside(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A fault of a handler is `internal` with a request id; nothing of the exception's text leaves the worker."""

    async def failing(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        raise ValueError("secret-4711 in a stored text")

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": failing}):
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_1")
        stats = await client.bus.request("memory.v1.rpc.local.agent.coder.get", b'{"id": "x"}', within=5)
    assert caught.value.code == "internal"
    assert "req_" in caught.value.message
    assert b"4711" not in stats.data
    assert "4711" not in str(dict(stats.headers))


async def test_error_of_a_handler_arrives_whole(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """Code, message, field and hint of a refusal reach the caller."""

    async def refusing(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        raise FunctionError("not_found", "no memory mem_1 in bank main", field="id", hint="look in the trash")

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": refusing}):
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_1")
    error = caught.value
    assert (error.code, error.message, error.field, error.hint) == (
        "not_found",
        "no memory mem_1 in bank main",
        "id",
        "look in the trash",
    )


async def test_slow_requests_do_not_delay_others(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """Fifty calls of one function run at once, and another function answers while all of them wait."""
    gate, running = asyncio.Event(), 0

    async def waiting(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        nonlocal running
        running += 1
        await gate.wait()
        return MemoryReply(memory=a_memory())

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": waiting, "save": save}):
        calls = [asyncio.ensure_future(client.get(id=f"mem_{i}")) for i in range(50)]
        await eventually(lambda: running == 50)
        assert (await client.save(text="x")).outcome == "created"
        gate.set()
        assert len(await asyncio.gather(*calls)) == 50


async def test_over_the_bound_is_refused_at_once(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """One request more than a function's bound is `unavailable` at once; other functions are not touched."""
    gate, running = asyncio.Event(), 0

    async def waiting(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        nonlocal running
        running += 1
        await gate.wait()
        return MemoryReply(memory=a_memory())

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": waiting, "save": save}, limits=Limits(concurrency=2)):
        calls = [asyncio.ensure_future(client.get(id=f"mem_{i}")) for i in range(2)]
        await eventually(lambda: running == 2)
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_3")
        assert caught.value.code == "unavailable"
        assert (await client.save(text="x")).outcome == "created"
        gate.set()
        await asyncio.gather(*calls)
        assert (await client.get(id="mem_4")).memory == a_memory()


async def test_deadline_ends_a_request(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A handler that outlives the deadline is ended and the caller told that the outcome is unknown."""
    ended = asyncio.Event()

    async def stuck(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return MemoryReply()

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": stuck}, limits=Limits(deadline_s=0.05)):
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_1")
        assert ended.is_set()
    assert caught.value.code == "unavailable"
    assert "longer than 0.05 s" in caught.value.message


async def test_stop_answers_what_was_taken(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """At a stop, every request that reached the worker is answered, queued or running."""
    gate, begun = asyncio.Event(), 0

    async def waiting(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        nonlocal begun
        begun += 1
        await gate.wait()
        return MemoryReply(memory=a_memory())

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": waiting}):
        calls = [asyncio.ensure_future(client.get(id=f"mem_{i}")) for i in range(50)]
        await eventually(lambda: begun == 50)
        asyncio.get_running_loop().call_later(0.05, gate.set)
    replies = await asyncio.gather(*calls)
    assert [reply.memory for reply in replies] == [a_memory()] * 50


async def test_reply_too_large_is_said(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A reply over the bus limit becomes `too_large` with advice, not a silence."""

    async def huge(caller: Caller, request: GetRequest, info: CallInfo) -> Reply:
        return MemoryReply(memory=a_memory(text="x" * 2_000_000))

    client = await connect_as("agent-coder")
    async with nats_server.serving({"get": huge}):
        with pytest.raises(FunctionError) as caught:
            await client.get(id="mem_1")
    assert (caught.value.code, caught.value.hint) == ("too_large", "ask for less: a smaller limit, or a filter")


async def test_idempotency_key_reaches_the_handler(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """The key header arrives as it was sent; an over-long one is refused."""
    keys: list[str | None] = []

    async def noting(caller: Caller, request: SaveRequest, info: CallInfo) -> Reply:
        keys.append(info.idempotency_key)
        return await save(caller, request, info)

    client = await connect_as("agent-coder")
    async with nats_server.serving({"save": noting}):
        await client.with_key("turn-7/save-1").save(text="x")
        await client.save(text="x")
        with pytest.raises(FunctionError) as caught:
            await client.with_key("k" * 257).save(text="x")
    assert keys == ["turn-7/save-1", None]
    assert (caught.value.code, caught.value.field) == ("invalid_input", "Idempotency-Key")


async def test_unknown_tenant_is_refused(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """A worker that does not serve a tenant says so instead of making a store for it."""
    client = await connect_as("acme.human-me")
    async with nats_server.serving({"save": save}, serves=lambda tenant: tenant == "local"):
        with pytest.raises(FunctionError) as caught:
            await client.save(text="x")
    assert (caught.value.code, caught.value.field) == ("not_found", "tenant")


async def test_request_headers_do_not_come_back(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """A reply carries none of the request's headers."""
    async with nats_server.serving({"save": save}):
        headers, _ = await _raw(await bus_as("agent-coder"), "save", b'{"text": "x"}', {"X-Forged": "human"})
    assert "X-Forged" not in headers


async def test_every_request_is_observed(nats_server: BusUnderTest, connect_as: ConnectAs) -> None:
    """The observer is told function and outcome of every request, good or bad."""
    seen: list[Finished] = []
    client = await connect_as("agent-coder")
    async with nats_server.serving({"save": save}, observer=seen.append):
        await client.save(text="x")
        with pytest.raises(FunctionError):
            await client.tags()
        with pytest.raises(FunctionError):
            await client.save(text="x", bank="Bad Name")
    assert [(one.function, one.outcome) for one in seen] == [
        ("save", "ok"),
        ("tags", "unavailable"),
        ("save", "invalid_input"),
    ]


async def test_discovery_by_the_micro_protocol(nats_server: BusUnderTest, bus_as: BusAs) -> None:
    """PING, INFO and STATS answer as ADR-32 says, inside the worker's account."""

    async def tags(caller: Caller, request: Any, info: CallInfo) -> Reply:
        return TagsReply(tags=[])

    caller = await bus_as("agent-coder")
    worker = await bus_as("worker")
    async with nats_server.serving({"save": save, "tags": tags}):
        await _raw(caller, "tags", b"{}")
        await _raw(caller, "save", b'{"text": 1}')
        info = msgspec.json.decode((await worker.request("$SRV.INFO.memory", b"", within=2)).data)
    assert info["type"] == "io.nats.micro.v1.info_response"
    assert (info["name"], info["version"], info["metadata"]["store"]) == ("memory", "0.0.1", "store-of-test")
    point = next(point for point in info["endpoints"] if point["name"] == "bank-create")
    assert point["subject"] == "memory.v1.rpc.*.*.*.bank.create"
