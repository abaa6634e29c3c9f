"""Subjects and bytes: what is built can be read back, and what is not ours never does more than one typed error."""

import contextlib
import string
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_contracts import FUNCTIONS, FunctionError, Subjects
from memory_contracts.connection import Message
from memory_contracts.errors import ERROR_CODE_HEADER
from memory_contracts.functions.base import Request
from memory_contracts.jetstream import _pulled
from memory_contracts.subjects import RpcAddress, token, untoken
from memory_contracts.turns import TurnCompleted
from memory_contracts.wire import decode_as, decode_reply, decode_request, encode, error_headers, error_of
from memory_worker.bus.intake import is_echo
from tests.system.harness import a_memory

SUBJECTS = Subjects()
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True)
functions = st.sampled_from(sorted(FUNCTIONS))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=6,
)


def _read(function: str, data: bytes) -> Request | FunctionError:
    try:
        return decode_request(FUNCTIONS[function], data)
    except FunctionError as error:
        return error


@given(st.text(min_size=1, max_size=100))
@example("s/1")
@example("a.b *>")
@example("=41")
@example("\x00\r\n")
def test_any_id_survives_as_one_token(text: str) -> None:
    """Any id can be a subject token: it holds no separator or wildcard, and reads back as it was."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # lone surrogates are no text and cannot be on the wire
    made = token(text)
    assert set(made) <= set(string.ascii_letters + string.digits + "_-=")
    assert untoken(made) == text


@given(names, st.sampled_from(["human", "agent", "observer", "system"]), names, functions)
def test_request_subjects_read_back(tenant: str, route: str, principal: str, function: str) -> None:
    """What `rpc` builds, `parse_rpc` reads."""
    address = SUBJECTS.parse_rpc(SUBJECTS.rpc(tenant, route, principal, function))
    assert address == RpcAddress(tenant, route, principal, function)  # type: ignore[arg-type]


@given(names, names, st.text(min_size=1, max_size=50), st.none() | st.just("agent.coder"))
def test_event_subjects_read_back(tenant: str, bank: str, memory: str, owner: str | None) -> None:
    """What `item_changed` builds, `parse_event` reads; a private one never looks like a shared one."""
    try:
        memory.encode()
    except UnicodeEncodeError:
        return
    subject = SUBJECTS.item_changed(tenant, bank, memory, owner)
    address = SUBJECTS.parse_event(subject)
    assert address is not None
    assert (address.tenant, address.bank, address.memory_id, address.owner) == (tenant, bank, memory, owner)
    assert subject.startswith("memory.v1.private-event.") is (owner is not None)


@given(st.text(max_size=200))
@example("memory.v1.rpc.local.human.me.")
@example("memory.v1.rpc.local.human.me.save\n")
@example("memory.v1.rpc.local.root.me.save")
@example("memory.v1.rpc.LOCAL.human.me.save")
@example("memory.v1.rpc.local.human.me.save..x")
@example("memory.v1.private-event.local.x")
@example("turn.v1.local.completed.=ZZ")
def test_any_subject_parses_or_does_not(subject: str) -> None:
    """A subject of nobody gives None, never an exception."""
    for parse in (SUBJECTS.parse_rpc, SUBJECTS.parse_event, SUBJECTS.parse_turn):
        parse(subject)
    if not subject.startswith(("memory.v1.", "turn.v1.")):
        assert SUBJECTS.parse_rpc(subject) is None


@pytest.mark.parametrize(
    "subject",
    ["memory.v1.rpc.local.human.me.save\n", "memory.v1.rpc.local.root.me.save", "memory.v1.rpc.local.human.me."],
)
def test_near_misses_are_no_requests(subject: str) -> None:
    """A trailing newline, an unknown route and a missing function do not parse."""
    assert SUBJECTS.parse_rpc(subject) is None


@given(functions, st.binary(max_size=400))
@settings(max_examples=200)
def test_any_bytes_are_a_request_or_one_typed_error(function: str, data: bytes) -> None:
    """Whatever bytes arrive as a request, the outcome is the struct or `invalid_input`."""
    outcome = _read(function, data)
    if isinstance(outcome, FunctionError):
        assert outcome.code == "invalid_input"
        assert outcome.field
        assert len(outcome.message) <= 500
    else:
        assert type(outcome) is FUNCTIONS[function].request


@given(functions, st.dictionaries(st.text(max_size=12), json_values, max_size=6), st.data())
@settings(max_examples=60)
def test_any_object_is_a_request_or_one_typed_error(function: str, body: dict[str, Any], data: st.DataObject) -> None:
    """Whatever JSON object arrives, also with the function's own fields at odd values, one typed error at most."""
    fields = [field.encode_name for field in msgspec.structs.fields(FUNCTIONS[function].request)]
    for field in data.draw(st.lists(st.sampled_from(fields), max_size=3)) if fields else []:
        body[field] = data.draw(json_values)
    outcome = _read(function, msgspec.json.encode(body))
    if isinstance(outcome, FunctionError):
        assert outcome.code == "invalid_input"
        assert outcome.field


@given(st.binary(max_size=300))
def test_any_bytes_from_others_are_a_message_or_one_typed_error(data: bytes) -> None:
    """Replies, turns and siblings' answers that do not fit are one typed error, never a traceback."""
    for kind in (TurnCompleted, FUNCTIONS["list"].reply):
        with contextlib.suppress(FunctionError):
            assert isinstance(decode_as(kind, data), kind)
    error_of({ERROR_CODE_HEADER: "conflict"}, data)


@given(st.text(max_size=100), st.text(max_size=300), st.binary(max_size=100))
def test_any_reply_subject_is_a_delivery_or_none(reply: str, subject: str, data: bytes) -> None:
    """A message whose reply is no acknowledgement subject is no delivery, never an exception."""
    pulled = _pulled(Message(subject, reply, data, {}))
    if pulled is not None:
        is_echo(pulled)


@pytest.mark.parametrize(
    ("reply", "stream_seq"),
    [
        ("$JS.ACK.TURNS.memory-worker.1.42.7.1700000000.3", 42),
        ("$JS.ACK.hub.ACCHASH.TURNS.memory-worker.1.42.7.1700000000.3", 42),
        ("$JS.ACK.hub.ACCHASH.TURNS.memory-worker.1.42.7.1700000000.3.random", 42),
        ("$JS.ACK.TURNS.memory-worker.1.x.7.1700000000.3", None),
        ("_INBOX.x", None),
    ],
)
def test_both_forms_of_acknowledgement(reply: str, stream_seq: int | None) -> None:
    """The acknowledgement subject is read in the old form and in the one with domain and account."""
    pulled = _pulled(Message("turn.v1.local.completed.s", reply, b"{}", {}))
    assert (pulled and pulled.stream_seq) == stream_seq


def test_errors_read_back() -> None:
    """An error written as headers and body reads back whole; its header cannot start another one."""
    error = FunctionError("conflict", "revision 3\r\nX-Evil: 1", field="expected_revision", hint="read it again")
    headers = error_headers(error)
    assert "\n" not in headers["Nats-Service-Error"]
    read = error_of(headers, encode(error.body()))
    assert read is not None
    assert (read.code, read.message, read.field, read.hint) == (error.code, error.message, error.field, error.hint)


def test_replies_ignore_what_they_do_not_know() -> None:
    """A reply of a later version is read by an older client."""
    body = {"outcome": "created", "memory": msgspec.to_builtins(a_memory()), "field_of_tomorrow": [1]}
    reply = decode_reply(FUNCTIONS["save"].reply, msgspec.json.encode(body))
    assert reply.memory == a_memory()  # type: ignore[attr-defined]
