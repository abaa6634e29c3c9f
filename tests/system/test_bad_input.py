"""Bad input over the bus: the typed error with field and limit, nothing half written, the worker stays up."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_contracts import FunctionError
from memory_contracts.client import MemoryClient
from memory_contracts.errors import ERROR_CODE_HEADER
from memory_contracts.functions.memories import SaveRequest
from tests.benchmarks.running import Running, running_worker
from tests.system.harness import eventually


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One worker with its embedded bus for the whole module."""
    folder = tmp_path_factory.mktemp("bad-input")
    with (folder / "log").open("wb") as log, running_worker(folder / "data", log, MEMORY_FILES="false") as running:
        yield running


@pytest.fixture
async def person(worker: Running) -> AsyncIterator[MemoryClient]:
    """A person's client."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as client:
        yield client


async def raw(client: MemoryClient, function: str, body: bytes) -> tuple[str | None, dict[str, Any]]:
    """Send bytes as they are; gives the error code, if any, and the body."""
    creds = client.bus.credentials
    subject = client.subjects.rpc(creds.tenant, creds.route, creds.principal, function)
    reply = await client.bus.request(subject, body, within=5.0)
    return reply.headers.get(ERROR_CODE_HEADER), json.loads(reply.data)


CASES: list[tuple[str, str, bytes, str, str | None]] = [
    ("a function that is not there", "explode", b'{"a": 1}', "not_found", None),
    ("no JSON", "save", b"{text", "invalid_input", None),
    ("a wrong type", "save", b'{"text": 5}', "invalid_input", "text"),
    ("a wrong type inside a list", "save", b'{"text": "a", "tags": ["x", 3]}', "invalid_input", "tags[1]"),
    ("no text", "save", b'{"bank": "main"}', "invalid_input", "text"),
    ("nothing but white space", "save", b'{"text": " \\n\\t "}', "invalid_input", "text"),
    ("a text over the limit", "save", json.dumps({"text": "x" * 2_001}).encode(), "invalid_input", "text"),
    ("a NUL character", "save", b'{"text": "a\\u0000b"}', "invalid_input", "text"),
    ("a NUL character in a query", "recall", b'{"query": "a\\u0000b"}', "invalid_input", "query"),
    ("a NUL character in a note", "learn", b'{"text": "a\\u0000b"}', "invalid_input", "text"),
    ("a control character", "save", b'{"text": "a\\u001bb"}', "invalid_input", "text"),
    ("bytes that are not UTF-8", "save", b'{"text": "\xff\xfe"}', "invalid_input", None),
    ("a lone surrogate", "save", b'{"text": "\\ud800"}', "invalid_input", None),
    ("a bad bank name", "save", b'{"text": "a", "bank": "Main Bank"}', "invalid_input", "bank"),
    ("a bank that is not there", "save", b'{"text": "a", "bank": "nowhere"}', "not_found", "bank"),
    ("ten thousand tags", "save", json.dumps({"text": "a", "tags": ["t"] * 10_000}).encode(), "invalid_input", "tags"),
    ("a field that names a tier", "save", b'{"text": "a", "tier": "stated"}', "invalid_input", "tier"),
    ("a field that names a route", "save", b'{"text": "a", "route": "human"}', "invalid_input", "route"),
    ("a field that names an actor", "save", b'{"text": "a", "actor": "me"}', "invalid_input", "actor"),
    ("a field that names a tenant", "save", b'{"text": "a", "tenant": "acme"}', "invalid_input", "tenant"),
    (
        "an expiry in the past",
        "save",
        b'{"text": "a", "expires_at": "2001-01-01T00:00:00Z"}',
        "invalid_input",
        "expires_at",
    ),
    (
        "a time without a zone",
        "save",
        b'{"text": "a", "expires_at": "2101-01-01T00:00:00"}',
        "invalid_input",
        "expires_at",
    ),
    ("an id that is not there", "get", b'{"id": "mem_nothing"}', "not_found", "id"),
    ("a limit over the page", "list", b'{"limit": 201}', "invalid_input", "limit"),
    ("a cursor of somebody else", "list", b'{"cursor": "abc"}', "invalid_input", "cursor"),
    ("a function of another route", "context", b'{"session_id": "s", "message": "m"}', "forbidden", None),
]


@pytest.mark.parametrize(("function", "body", "code", "field"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
async def test_bad_requests_get_a_typed_error(
    person: MemoryClient, function: str, body: bytes, code: str, field: str | None
) -> None:
    """The error names its code and the field, and nothing was written."""
    before = (await person.list()).total
    found, error = await raw(person, function, body)
    assert (found, error["code"]) == (code, code)
    assert error.get("field") == field or field is None
    assert error["message"]
    assert (await person.list()).total == before


async def test_a_limit_is_named_in_the_message(person: MemoryClient) -> None:
    """An over-long text is told how long it may be."""
    _, error = await raw(person, "save", json.dumps({"text": "x" * 2_001}).encode())
    assert "2000" in error["message"].replace(",", "")


async def test_what_a_name_is_stands_beside_the_pattern(person: MemoryClient) -> None:
    """Whoever names a bank wrongly is told in words what a name is."""
    _, body = await raw(person, "save", b'{"text": "a", "bank": "Main Bank"}')
    assert "lower case" in body["hint"]


async def test_a_wrong_revision_is_a_conflict(person: MemoryClient) -> None:
    """A change against an older revision is refused, and the memory stays as it was."""
    saved = await person.save(text="The clock on the wall is slow")
    assert saved.memory is not None
    await person.update(id=saved.memory.id, text="The clock on the wall is fast")
    with pytest.raises(FunctionError) as refused:
        await person.update(id=saved.memory.id, text="The clock is gone", expected_revision=1)
    assert (refused.value.code, refused.value.field) == ("conflict", "expected_revision")
    got = (await person.get(id=saved.memory.id)).memory
    assert got is not None
    assert (got.text, got.revision) == ("The clock on the wall is fast", 2)


async def test_a_body_over_the_bus_limit_is_refused_before_it_is_sent(person: MemoryClient) -> None:
    """The typed client says too_large and names the limit."""
    with pytest.raises(FunctionError) as refused:
        await person.call("save", SaveRequest(text="x" * (person.bus.max_payload + 1)))
    assert refused.value.code == "too_large"
    assert str(person.bus.max_payload) in refused.value.message.replace(",", "")


async def test_malformed_turns_are_parked_with_the_reason(worker: Running, person: MemoryClient) -> None:
    """Turns that cannot be read as they are show in extraction.status, and the worker goes on."""
    async with await MemoryClient.connect(worker.credentials("system-harness")) as harness:
        subject = harness.subjects.turn_completed("local", "broken")
        bodies = [b"", b"[]", b"{", b'{"turn_id": "no-session"}', b"\xff\xfe", b'{"turn_id": 5}', b"null"]
        # Nested deeper than anybody reads: it must not stop the turns behind it.
        bodies += [
            b"[" * 50_000,
            b'{"metadata": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
            b'{"a":' * 900 + b"1" + b"}" * 900,
        ]
        for body in bodies:
            await harness.bus.request(subject, body, within=5.0)

        async def parked() -> bool:
            return (await person.extraction_status()).parked_total >= len(bodies)

        await eventually(parked, "parking")
    status = await person.extraction_status()
    assert all(one.reason.startswith("malformed") for one in status.parked)
    assert "no-session" in {one.turn_id for one in status.parked}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    function=st.sampled_from(
        ["save", "list", "recall", "update", "rule.set", "suggest", "changes.list", "bank.create"]
    ),
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_whatever_bytes_come_the_answer_is_typed(worker: Running, function: str, body: bytes) -> None:
    """No bytes bring a traceback onto the wire or the worker down: a reply, or one of the nine codes."""

    async def ask() -> str | None:
        async with await MemoryClient.connect(worker.credentials("human-me")) as client:
            return (await raw(client, function, body or b"{}"))[0]

    code = asyncio.run(ask())
    assert code in (None, "invalid_input", "not_found", "conflict", "forbidden")
