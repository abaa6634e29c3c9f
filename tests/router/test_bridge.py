"""The bridge speaks the OpenAI protocol with a real HTTP server, good and bad, and names every fault."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.siblings import ChatMessage, CompleteRequest, EmbedRequest, ModelInfo
from memory_router import Bridge, RouterSettings
from tests.router import endpoint as http
from tests.router.endpoint import Endpoint, running_endpoint

SCHEMA = {"type": "object", "properties": {"items": {"type": "array"}}}
ASKED = CompleteRequest(
    system="You read.",
    messages=[ChatMessage(role="user", content="I like tea")],
    max_output_tokens=100,
    temperature=0.0,
    schema=SCHEMA,
)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A running HTTP server."""
    with running_endpoint() as running:
        yield running


@pytest.fixture
async def bridge(endpoint: Endpoint) -> AsyncIterator[Bridge]:
    """A bridge to it, with a short deadline."""
    settings = RouterSettings(
        url=endpoint.url, api_key="key-of-test", timeout_s=0.5, deadline_s=3.0, embed_deadline_s=3.0
    )
    made = Bridge(settings)
    yield made
    await made.close()


async def refused(bridge: Bridge) -> FunctionError:
    """The error that a completion ends in."""
    with pytest.raises(FunctionError) as caught:
        await bridge.complete(ASKED)
    return caught.value


async def test_a_completion_carries_everything_that_was_asked(bridge: Bridge, endpoint: Endpoint) -> None:
    """System text, messages, schema, limit and temperature reach the endpoint; text, model and usage come back."""
    reply = await bridge.complete(ASKED)

    assert reply.text == '{"items": []}'
    assert reply.model == "llama-3.1-8b"
    assert reply.finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage["total_tokens"] == 8
    _, headers, body = endpoint.requests[-1]
    assert headers["authorization"] == "Bearer key-of-test"
    assert body["messages"] == [
        {"role": "system", "content": "You read."},
        {"role": "user", "content": "I like tea"},
    ]
    assert body["max_tokens"] == 100
    assert body["temperature"] == 0.0
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA


async def test_the_model_of_the_request_wins(bridge: Bridge, endpoint: Endpoint) -> None:
    """A model named in the request is asked for; without one the first that completes is taken."""
    await bridge.complete(msgspec.structs.replace(ASKED, model="mine"))

    assert [body["model"] for body in endpoint.bodies("/chat/completions")] == ["mine"]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_passing_fault_is_tried_again(bridge: Bridge, endpoint: Endpoint, code: int) -> None:
    """After 429 and 5xx the request is repeated, and the answer of the repetition counts."""
    endpoint.script = [http.status(code), http.status(code)]

    assert (await bridge.complete(msgspec.structs.replace(ASKED, model="m"))).text == '{"items": []}'
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize("code", [401, 403, 404, 429, 500])
async def test_a_lasting_fault_is_unavailable(bridge: Bridge, endpoint: Endpoint, code: int) -> None:
    """What the operator or time can put right makes the worker wait; the endpoint's words are not passed on."""
    endpoint.script = [http.status(code, "quoting: I like tea")] * 10
    error = await refused(bridge)

    assert error.code == "unavailable"
    assert "tea" not in str(error)


async def test_a_request_the_endpoint_refuses_is_invalid(bridge: Bridge, endpoint: Endpoint) -> None:
    """A request that is too long for the model is not repeated and not waited for."""
    endpoint.script = [http.Request.ordinary, http.status(400, "maximum context length exceeded")]
    error = await refused(bridge)

    assert error.code == "invalid_input"
    assert len(endpoint.bodies("/chat/completions")) == 1


@pytest.mark.parametrize("behaviour", [http.not_json, http.other_json, http.broken_json, http.cut_off])
async def test_an_answer_that_is_none_is_unavailable(
    bridge: Bridge, endpoint: Endpoint, behaviour: http.Behaviour
) -> None:
    """A web page, other JSON, broken JSON and a connection cut in the middle are no completion."""
    endpoint.script = [http.Request.ordinary, *[behaviour] * 10]

    assert (await refused(bridge)).code == "unavailable"


async def test_a_silent_endpoint_is_given_up(bridge: Bridge, endpoint: Endpoint) -> None:
    """An endpoint that never answers costs no more than the deadline."""
    endpoint.script = [http.silent] * 10

    assert (await refused(bridge)).code == "unavailable"


async def test_an_endpoint_that_is_not_there_is_unavailable() -> None:
    """Nobody listening is an ordinary state, not a crash."""
    bridge = Bridge(RouterSettings(url="http://127.0.0.1:9/v1", retries=0))
    try:
        assert (await refused(bridge)).code == "unavailable"
    finally:
        await bridge.close()


async def test_what_an_endpoint_refuses_by_name_is_left_out(bridge: Bridge, endpoint: Endpoint) -> None:
    """JSON Schema falls back to a JSON object, then to nothing; an old limit takes its new name; once and for all."""
    endpoint.script = [
        http.Request.ordinary,
        http.status(400, "response_format json_schema is not supported"),
        http.status(400, "response_format is not supported"),
        http.status(400, "Unsupported parameter: 'max_tokens'"),
    ]
    await bridge.complete(ASKED)
    last = endpoint.bodies("/chat/completions")[-1]
    await bridge.complete(msgspec.structs.replace(ASKED, model="m"))

    assert "response_format" not in last
    assert "max_tokens" not in last
    assert last["max_completion_tokens"] == 100
    assert len(endpoint.bodies("/chat/completions")) == 5


async def test_vectors_come_in_the_order_of_the_texts(bridge: Bridge, endpoint: Endpoint) -> None:
    """Whatever order the endpoint lists them in, and across batches."""
    bridge_of_two = Bridge(RouterSettings(url=endpoint.url, embed_batch=2))
    try:
        reply = await bridge_of_two.embed(EmbedRequest(input=["a", "bb", "ccc"]))
    finally:
        await bridge_of_two.close()

    assert reply.embeddings == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    assert reply.model == "nomic-embed-text"


async def test_missing_vectors_are_no_answer(bridge: Bridge, endpoint: Endpoint) -> None:
    """Fewer vectors than texts would attach a vector to the wrong text."""
    endpoint.script = [
        lambda request: request.reply(200, b'{"object":"list","model":"m","data":[{"index":0,"embedding":[1.0]}]}')
    ]
    with pytest.raises(FunctionError) as caught:
        await bridge.embed(EmbedRequest(model="m", input=["a", "b"]))

    assert caught.value.code == "unavailable"


async def test_models_are_listed_with_their_kind(bridge: Bridge) -> None:
    """What is for embeddings is told from what completes."""
    assert (await bridge.models()).models == [
        ModelInfo(id="llama-3.1-8b", kind="complete"),
        ModelInfo(id="nomic-embed-text", kind="embed"),
    ]
