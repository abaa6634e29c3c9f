"""The bridge answers the router's subjects on a real bus, as its own identity, for those who may ask."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from memory_contracts.connection import Bus
from memory_contracts.siblings import ChatMessage, CompleteReply, CompleteRequest, EmbedReply, EmbedRequest, ModelsReply
from memory_contracts.wire import decode_as, encode, error_of
from memory_router import Bridge, RouterSettings
from memory_router.main import start
from tests.conftest import BusAs
from tests.router import endpoint as http
from tests.router.endpoint import Endpoint, running_endpoint
from tests.system.harness import eventually

ASKED = CompleteRequest(
    system="s", messages=[ChatMessage(role="user", content="hi")], max_output_tokens=10, temperature=0.0, model="m"
)


@pytest.fixture
async def served(bus_as: BusAs) -> AsyncIterator[tuple[Endpoint, Bus]]:
    """A bridge that serves, its endpoint, and the worker's connection."""
    with running_endpoint() as endpoint:
        settings = RouterSettings(url=endpoint.url, deadline_s=2.0, concurrency=2)
        bridge = Bridge(settings)
        servings = await start(await bus_as("system-router"), bridge, settings)
        yield endpoint, await bus_as("worker")
        endpoint.released.set()
        for serving in servings:
            await serving.stop()
        await bridge.close()


async def test_the_three_subjects_answer(served: tuple[Endpoint, Bus]) -> None:
    """Complete, embed and models answer in the structs of the contract."""
    _, bus = served
    complete = await bus.request("router.v1.local.complete", encode(ASKED), within=5)
    embed = await bus.request("router.v1.local.embed", encode(EmbedRequest(input=["ab"], model="e")), within=5)
    models = await bus.request("router.v1.local.models", b"{}", within=5)

    assert decode_as(CompleteReply, complete.data).text == '{"items": []}'
    assert decode_as(EmbedReply, embed.data).embeddings == [[2.0, 1.0]]
    assert [model.kind for model in decode_as(ModelsReply, models.data).models] == ["complete", "embed"]


async def test_an_unreadable_request_is_named(served: tuple[Endpoint, Bus]) -> None:
    """A body that is no completion request is the caller's mistake."""
    _, bus = served
    answer = await bus.request("router.v1.local.complete", b'{"system": 5}', within=5)
    error = error_of(answer.headers, answer.data)

    assert error is not None
    assert error.code == "invalid_input"


async def test_over_its_bound_the_bridge_refuses_at_once(served: tuple[Endpoint, Bus]) -> None:
    """While two completions hang, a third is told to try again rather than left waiting."""
    endpoint, bus = served
    endpoint.script = [http.silent, http.silent]
    hanging = [asyncio.create_task(bus.request("router.v1.local.complete", encode(ASKED), within=8)) for _ in range(2)]
    await eventually(lambda: len(endpoint.requests) == 2, "both requests at the endpoint")
    third = await bus.request("router.v1.local.complete", encode(ASKED), within=5)
    error = error_of(third.headers, third.data)
    endpoint.released.set()
    await asyncio.gather(*hanging)

    assert error is not None
    assert error.code == "unavailable"


async def test_a_reply_the_bus_cannot_carry_is_an_error(served: tuple[Endpoint, Bus]) -> None:
    """A reply over the bus's largest message is named, not silence until the deadline."""
    endpoint, bus = served
    endpoint.text = "x" * (bus.max_payload + 1)
    answer = await bus.request("router.v1.local.complete", encode(ASKED), within=5)
    error = error_of(answer.headers, answer.data)

    assert error is not None
    assert error.code == "too_large"
