"""Writes the contract for other languages: a JSON Schema per message and an AsyncAPI 3 document, from the structs.

Run as `python -m memory_contracts.generate [DIRECTORY]`; a test fails when what lies there is stale.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from memory_contracts import siblings
from memory_contracts.credentials import Credentials
from memory_contracts.errors import ERROR_CODE_HEADER, ERROR_HEADER, IDEMPOTENCY_HEADER, ErrorBody
from memory_contracts.events import BankChanged, ItemChanged
from memory_contracts.functions import FUNCTIONS, Function
from memory_contracts.names import ID_MAX_CHARS, ROUTES
from memory_contracts.turns import TurnCompleted

VERSION = "1.0.0"
"""Version of the contract: an addition raises the middle number, a break the first (and `memory.v1` with it)."""

SIBLINGS: tuple[tuple[str, str, type[msgspec.Struct], type[msgspec.Struct]], ...] = (
    ("session.get", "session.v1.{tenant}.get", siblings.SessionGetRequest, siblings.SessionGetReply),
    (
        "session.messages",
        "session.v1.{tenant}.messages",
        siblings.SessionMessagesRequest,
        siblings.SessionMessagesReply,
    ),
    ("router.complete", "router.v1.{tenant}.complete", siblings.CompleteRequest, siblings.CompleteReply),
    ("router.embed", "router.v1.{tenant}.embed", siblings.EmbedRequest, siblings.EmbedReply),
    ("router.models", "router.v1.{tenant}.models", siblings.ModelsRequest, siblings.ModelsReply),
)
"""What the worker asks of its siblings: name, default subject, request, reply."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SAFE_TOKEN = "[A-Za-z0-9_-], any other byte as =XX"  # noqa: S105 - a subject token


def messages() -> dict[str, type[msgspec.Struct]]:
    """Give every message by the name of its schema file."""
    found: dict[str, type[msgspec.Struct]] = {}
    for name, function in FUNCTIONS.items():
        found[f"{name}.request"] = function.request
        found[f"{name}.reply"] = function.reply
    for name, _, request, reply in SIBLINGS:
        found[f"{name}.request"] = request
        found[f"{name}.reply"] = reply
    return found | {
        "error": ErrorBody,
        "item-changed": ItemChanged,
        "bank-changed": BankChanged,
        "turn-completed": TurnCompleted,
        "credentials": Credentials,
    }


def schemas() -> dict[str, str]:
    """Give the text of every schema file by its name."""
    texts = {}
    for name, kind in messages().items():
        schema = {"$schema": _DIALECT, "title": name, **msgspec.json.schema(kind)}
        texts[f"{name}.json"] = json.dumps(schema, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    return texts


def asyncapi() -> str:
    """Give the AsyncAPI document: every subject, who may use it, and what lies on it."""
    kinds = messages()
    _, components = msgspec.json.schema_components(kinds.values(), ref_template="#/components/schemas/{name}")
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    for function in FUNCTIONS.values():
        _add_function(function, channels, operations)
    _add_events(channels, operations)
    _add_turns(channels, operations)
    _add_siblings(channels, operations)
    document = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "memory-worker",
            "version": VERSION,
            "description": "Durable memory for agents: functions by request-reply, change triggers, finished turns.\n"
            "The prefixes memory.v1 and turn.v1 and the siblings' subjects are settings; these are the defaults.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "embedded": {
                "host": "127.0.0.1:4222",
                "protocol": "nats",
                "description": "The bus of `memory up`; its credentials lie in the data directory.",
            }
        },
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": {name: _message(name, kind) for name, kind in kinds.items() if name != "credentials"},
            "schemas": dict(sorted(components.items())),
        },
    }
    return yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path) -> list[Path]:
    """Write all files, remove schemas of messages that are no more, and give what was written."""
    wanted = {directory / "schemas" / name: text for name, text in schemas().items()}
    (directory / "schemas").mkdir(parents=True, exist_ok=True)
    for old in set((directory / "schemas").glob("*.json")) - set(wanted):
        old.unlink()
    wanted[directory / "asyncapi.yaml"] = asyncapi()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return sorted(wanted)


def _add_function(function: Function, channels: dict[str, Any], operations: dict[str, Any]) -> None:
    name = function.name
    routes = {
        "description": "How the call arrived; it decides the tier of what is written.",
        "enum": list(function.routes),
    }
    channels[name] = {
        "address": f"memory.v1.rpc.{{tenant}}.{{route}}.{{principal}}.{name}",
        "parameters": {"tenant": _tenant(), "route": routes, "principal": {"description": "Who calls."}},
        "messages": _references(f"{name}.request"),
    }
    channels[f"{name}.reply"] = {
        "address": None,
        "description": "The request's reply subject.",
        "messages": _references(f"{name}.reply", "error"),
    }
    operations[name] = {
        "action": "receive",
        "summary": _first_line(function.request),
        "channel": {"$ref": f"#/channels/{name}"},
        "reply": {"channel": {"$ref": f"#/channels/{name}.reply"}},
        "x-routes": list(function.routes),
        "x-writes": function.writes,
        "x-answered-by": function.answered_by,
    }


def _add_events(channels: dict[str, Any], operations: dict[str, Any]) -> None:
    bank = {"description": f"The bank, made token-safe ({_SAFE_TOKEN})."}
    memory = {"description": "The memory's id."}
    owner = {
        "owner_route": {"description": "Route of the private bank's owner.", "enum": list(ROUTES)},
        "owner_principal": {"description": "Principal of the private bank's owner."},
    }
    private = "memory.v1.private-event.{tenant}.{owner_route}.{owner_principal}"
    for start, prefix, more in (("", "memory.v1.event.{tenant}", {}), ("private-", private, owner)):
        for kind, rest, own in (
            ("item-changed", "{bank}.{memory_id}", {"bank": bank, "memory_id": memory}),
            ("bank-changed", "{bank}", {"bank": bank}),
        ):
            name = f"{start}{kind}"
            channels[name] = {
                "address": f"{prefix}.{kind}.{rest}",
                "parameters": {"tenant": _tenant(), **more, **own},
                "messages": _references(kind),
            }
            operations[f"on-{name}"] = {
                "action": "send",
                "summary": _first_line(messages()[kind]),
                "channel": {"$ref": f"#/channels/{name}"},
            }


def _add_turns(channels: dict[str, Any], operations: dict[str, Any]) -> None:
    session = {"description": f"The session's id, made token-safe ({_SAFE_TOKEN})."}
    channels["turn-completed"] = {
        "address": "turn.v1.{tenant}.completed.{session_id}",
        "description": "Stored by JetStream: wait for its acknowledgement.",
        "parameters": {"tenant": _tenant(), "session_id": session},
        "messages": _references("turn-completed"),
    }
    operations["turn-completed"] = {
        "action": "receive",
        "summary": _first_line(TurnCompleted),
        "channel": {"$ref": "#/channels/turn-completed"},
    }


def _add_siblings(channels: dict[str, Any], operations: dict[str, Any]) -> None:
    for name, address, request, _ in SIBLINGS:
        channels[name] = {
            "address": address,
            "parameters": {"tenant": _tenant()},
            "messages": _references(f"{name}.request"),
        }
        channels[f"{name}.reply"] = {
            "address": None,
            "description": "The request's reply subject.",
            "messages": _references(f"{name}.reply", "error"),
        }
        operations[name] = {
            "action": "send",
            "summary": _first_line(request),
            "channel": {"$ref": f"#/channels/{name}"},
            "reply": {"channel": {"$ref": f"#/channels/{name}.reply"}},
        }


def _message(name: str, kind: type[msgspec.Struct]) -> dict[str, Any]:
    message: dict[str, Any] = {"name": name, "summary": _first_line(kind)}
    if name == "error":
        message["headers"] = {
            "type": "object",
            "required": [ERROR_CODE_HEADER, ERROR_HEADER],
            "properties": {ERROR_CODE_HEADER: {"type": "string"}, ERROR_HEADER: {"type": "string"}},
        }
    function = FUNCTIONS.get(name.removesuffix(".request"))
    if function is not None and function.writes and name.endswith(".request"):
        key = {"type": "string", "minLength": 1, "maxLength": ID_MAX_CHARS}
        message["headers"] = {"type": "object", "properties": {IDEMPOTENCY_HEADER: key}}
    message["payload"] = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return message


def _references(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _tenant() -> dict[str, Any]:
    return {"description": "The tenant; a single user's is `local`.", "default": "local"}


def _first_line(kind: type[msgspec.Struct]) -> str:
    return (kind.__doc__ or kind.__name__).strip().splitlines()[0]


def main(arguments: Iterable[str]) -> int:
    """Write the files under the directory given, or under `contracts/`."""
    given = list(arguments)
    directory = Path(given[0]) if given else Path(__file__).resolve().parent.parent
    sys.stdout.write(f"{len(write(directory))} files written under {directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
