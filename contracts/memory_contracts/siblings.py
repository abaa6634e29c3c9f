"""What the worker asks of its siblings: the session manager and the model router."""

from datetime import datetime
from typing import Any

import msgspec


class SessionGetRequest(msgspec.Struct, kw_only=True):
    """Ask the session manager for one session."""

    session_id: str


class SessionGetReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session's metadata: `memory_bank`, `memory`, `memory_owner`, `agent` are read, the rest ignored."""

    session_id: str
    metadata: dict[str, Any] = {}
    parent_session_id: str | None = None


class SessionMessagesRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ask for a session's messages after the message id `after`, oldest first."""

    session_id: str
    limit: int
    after: str | None = None


class SessionMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message as the session manager keeps it."""

    id: str
    role: str
    text: str
    at: datetime | None = None


class SessionMessagesReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A page of messages; `cursor` is the `after` of the next page, absent on the last."""

    messages: list[SessionMessage]
    cursor: str | None = None


class ChatMessage(msgspec.Struct, kw_only=True):
    """One message of a completion request."""

    role: str
    content: str


class CompleteRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ask the router for a completion; `schema` is a JSON Schema the text should obey."""

    system: str
    messages: list[ChatMessage]
    max_output_tokens: int
    temperature: float
    model: str | None = None
    schema: dict[str, Any] | None = None


class CompleteReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A completion. `finish_reason` is `length` when the output was cut."""

    text: str
    model: str
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None


class EmbedRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Ask the router for one vector per input text."""

    input: list[str]
    model: str | None = None


class EmbedReply(msgspec.Struct, kw_only=True):
    """Vectors in the order of the input."""

    model: str
    embeddings: list[list[float]]


class ModelsRequest(msgspec.Struct, kw_only=True):
    """Ask the router which models it has."""


class ModelInfo(msgspec.Struct, kw_only=True):
    """A model of the router; `kind` is `complete` or `embed`."""

    id: str
    kind: str


class ModelsReply(msgspec.Struct, kw_only=True):
    """The router's models."""

    models: list[ModelInfo]
