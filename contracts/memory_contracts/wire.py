"""How requests, replies and errors are read from and written to bytes."""

import re
from typing import Any, TypeVar

import msgspec

from memory_contracts.errors import ERROR_CODE_HEADER, ERROR_HEADER, ErrorBody, FunctionError, invalid
from memory_contracts.functions import Function
from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import NAME_PATTERN

T = TypeVar("T")

PROBED_ITEMS = 1_000
"""Most list items that are looked at to tell which one was wrong."""
MESSAGE_MAX_CHARS = 500
"""Longest error message, in characters."""

_PATH = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$.*)`)?\Z", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`\Z", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`\Z", re.DOTALL)

_DECIDED_BY_ROUTE = frozenset({"tier", "route", "actor", "tenant", "principal", "source", "trust", "owner", "by"})
ROUTE_HINT = "who called is read from the subject the bus let you publish on; the route decides the label"
"""What a caller is told who tries to name a tier, a route, an actor or a tenant."""
NAME_HINT = "a name has 1 to 64 of a-z, 0-9, _ and -, in lower case, and begins with a letter or a digit"
"""What a caller is told whose name is none, beside the pattern."""

_encoder = msgspec.json.Encoder()


def encode(value: msgspec.Struct) -> bytes:
    """Write a message as JSON, UTF-8."""
    return _encoder.encode(value)


def decode_request(function: Function, data: bytes) -> Request:
    """Read a request. Raises FunctionError `invalid_input` that names the field's path and the limit."""
    if not data.lstrip()[:1] == b"{":
        raise invalid("the body must be a JSON object", "body", "an empty request is {}")
    try:
        return msgspec.json.decode(data, type=function.request)
    except msgspec.ValidationError as error:
        raise _explained(str(error), data, function.request) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"the body is not JSON in UTF-8: {_cut(str(error))}", "body") from None
    except RecursionError:
        raise invalid("the body is nested too deeply", "body") from None


def decode_reply(reply: type[Reply], data: bytes) -> Reply:
    """Read a reply. Raises FunctionError `internal` when it does not fit."""
    return decode_as(reply, data)


def decode_as(kind: type[T], data: bytes) -> T:
    """Read any message that was sent to us. Raises FunctionError `internal` when it does not fit."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FunctionError("internal", f"the message is not a {kind.__name__}: {_cut(str(error))}") from None


def error_headers(error: FunctionError) -> dict[str, str]:
    """Give the two headers that mark a reply as an error (NATS ADR-32)."""
    return {ERROR_CODE_HEADER: error.code, ERROR_HEADER: _cut(" ".join(error.message.split()))}


def error_of(headers: Any, data: bytes) -> FunctionError | None:
    """Read the error of a reply, or None when the reply is a result."""
    code = headers.get(ERROR_CODE_HEADER)
    if code is None:
        return None
    try:
        body = msgspec.json.decode(data, type=ErrorBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return FunctionError("internal", f"{code}: {headers.get(ERROR_HEADER, 'no message')}")
    return FunctionError(body.code, body.message, field=body.field, hint=body.hint)


def _explained(text: str, data: bytes, request: type[Request]) -> FunctionError:
    match = _PATH.match(text)
    what, path = (match["what"], match["path"] or "$") if match else (text, "$")
    parent = path.removeprefix("$").removeprefix(".")
    unknown = _UNKNOWN.match(what)
    if unknown:
        name = _cut(unknown["field"], 64) or '""'
        field = f"{parent}.{name}" if parent else name
        hint = ROUTE_HINT if name in _DECIDED_BY_ROUTE else None
        return invalid(f"there is no field {name} here", field, hint)
    missing = _MISSING.match(what)
    if missing:
        name = missing["field"]
        return invalid(f"the field {name} is required", f"{parent}.{name}" if parent else name)
    if "[...]" in parent:
        parent = _with_index(parent, data, request)
    hint = NAME_HINT if repr(NAME_PATTERN) in what else None
    return invalid(_cut(what.replace("`", "")), _cut(parent, 128) or "body", hint)


def _with_index(path: str, data: bytes, request: type[Request]) -> str:
    """Name the item: msgspec writes `tags[...]` for any item of `tags`; the first that fails alone is the one."""
    field, _, rest = path.partition("[...]")
    try:
        body = msgspec.json.decode(data)
    except RecursionError:
        return path
    items = body.get(field)
    if not isinstance(items, list):
        return path
    for index, item in enumerate(items[:PROBED_ITEMS]):
        try:
            msgspec.convert({**body, field: [item]}, request)
        except msgspec.ValidationError as error:
            if f"$.{field}[...]" in str(error):
                return f"{field}[{index}]{rest}"
    return path


def _cut(text: str, limit: int = MESSAGE_MAX_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
