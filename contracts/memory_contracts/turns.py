"""The turn-completed event that a harness publishes."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from memory_contracts.names import Id

MESSAGES_MAX = 2_000
"""Most messages in one turn event."""


class TurnMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message of a turn. `parts` is the list form some harnesses use; `text` wins when both are there."""

    id: Annotated[str, Meta(max_length=256)]
    role: str
    text: str | None = None
    parts: list[Any] | str | None = None
    at: datetime | None = None


class TurnCompleted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One finished turn of a session. Unknown fields are ignored; `turn_id` makes redelivery harmless."""

    turn_id: Id
    session_id: Id
    status: str
    completed_at: datetime
    agent: str | None = None
    metadata: dict[str, Any] | None = None
    parent_session_id: str | None = None
    depth: Annotated[int, Meta(ge=0)] = 0
    messages: Annotated[list[TurnMessage], Meta(max_length=MESSAGES_MAX)] | None = None
