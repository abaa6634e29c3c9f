"""Requests and replies about reading memory back: recall, context, preview, why."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from memory_contracts.functions.base import Reply, Request
from memory_contracts.functions.memories import Instant
from memory_contracts.names import (
    LIST_LIMIT_DEFAULT,
    QUERY_MAX_CHARS,
    RECALL_LIMIT_DEFAULT,
    RECALL_LIMIT_MAX,
    Cursor,
    Id,
    Ids,
    Kind,
    Label,
    Labels,
    Limit,
    Name,
    Tier,
)
from memory_contracts.records import Memory, Notice, Use, UsedMemory, UsedRule

Query = Annotated[str, Meta(min_length=1, max_length=QUERY_MAX_CHARS)]
MetadataMap = Annotated[dict[str, Any], Meta(max_length=100)]


class RecallRequest(Request):
    """Find the memories relevant to `query`. All filters apply before the best are chosen."""

    query: Query
    bank: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=RECALL_LIMIT_MAX)] = RECALL_LIMIT_DEFAULT
    tag: Label | None = None
    kind: Kind | None = None
    tier: Tier | None = None
    entity: Label | None = None
    about: Labels = []
    session_id: Id | None = None
    since: Instant | None = None
    until: Instant | None = None
    include_superseded: bool = False
    explain: bool = False


class ArmReport(Reply):
    """One retrieval arm: how many candidates it gave, and its time in milliseconds."""

    name: str
    candidates: int
    ms: float
    state: Literal["ok", "empty", "off", "cut", "down"] = "ok"
    model: str | None = None
    embedded: float | None = None


class Recalled(Reply):
    """A recalled memory; `score` in [0, 1], `arms` its normalised score per arm, `parts` when asked to explain."""

    memory: Memory
    score: float
    arms: dict[str, float]
    parts: dict[str, float] | None = None


class RecallReply(Reply):
    """Ranked memories and an honest account of how they were found; `cut` names what was shortened and why."""

    memories: list[Recalled]
    mode: str
    arms: list[ArmReport]
    bank: str
    cut: str | None = None


class ContextRequest(Request):
    """Ask for what a turn is given. `known` = memory ids still in the caller's window, authoritative."""

    session_id: Id
    message: Annotated[str, Meta(max_length=QUERY_MAX_CHARS)]
    turn_id: Id | None = None
    agent: Name | None = None
    metadata: MetadataMap = {}
    about: Labels = []
    known: Ids | None = None
    etag: Annotated[str, Meta(max_length=128)] | None = None


class PreviewRequest(Request):
    """As `context`, by the same code, recording nothing."""

    message: Annotated[str, Meta(max_length=QUERY_MAX_CHARS)]
    session_id: Id | None = None
    turn_id: Id | None = None
    bank: Name | None = None
    agent: Name | None = None
    metadata: MetadataMap = {}
    about: Labels = []
    known: Ids | None = None


class ContextItem(Reply):
    """One memory as it was given: for harnesses that render themselves."""

    id: str
    revision: int
    text: str
    tier: Tier
    label: str
    at: datetime
    bank: str
    kind: Kind
    pinned: bool = False
    confidence: str = "normal"
    score: float = 0.0
    clipped: bool = False
    arms: dict[str, float] = {}


class ContextRule(Reply):
    """One rule as it was given."""

    name: str
    bank: str
    revision: int
    content: str
    clipped: bool = False


class LeftOut(Reply):
    """A memory that was not given, and why (`budget`, `floor`, `known`, `expired`, `subject`)."""

    id: str
    reason: str
    score: float = 0.0


class ContextReply(Reply):
    """A turn's blocks. `system` = rules section, `update` = rules changed since this session began, sent once,
    `notices_text` = `notices` as a block.

    `unchanged` is true when the caller's `etag` still holds; then `system` is empty and the caller keeps its copy.
    """

    bank: str | None
    system: str
    memories: str
    update: str = ""
    items: list[ContextItem] = []
    rules: list[ContextRule] = []
    notices: list[Notice] = []
    notices_text: str = ""
    used: list[UsedMemory] = []
    used_rules: list[UsedRule] = []
    mode: str = ""
    truncated: list[str] = []
    etag: str = ""
    unchanged: bool = False
    readback: bool = False
    reason: str | None = None
    total: int = 0


class PreviewReply(ContextReply):
    """What a turn would be given, and what it would not."""

    left_out: list[LeftOut] = []
    arms: list[ArmReport] = []


class WhyRequest(Request):
    """Ask what a turn was given, or which turns a memory was given to; exactly one of the two."""

    turn_id: Id | None = None
    memory_id: Id | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class WhyReply(Reply):
    """Uses, newest first."""

    uses: list[Use]
    cursor: str | None = None
