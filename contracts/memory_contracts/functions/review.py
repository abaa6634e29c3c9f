"""Requests and replies about suggestions, changes, entities, properties and notices."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import LIST_LIMIT_DEFAULT, Cursor, Id, Ids, Label, Limit, Name, Reason, Seq
from memory_contracts.records import (
    Alias,
    Cardinality,
    CauseKind,
    Change,
    Entity,
    Memory,
    Notice,
    Property,
    ProposedChange,
    Receipt,
    Suggestion,
    SuggestionState,
)


class SuggestRequest(Request):
    """Propose a change that a person decides."""

    change: ProposedChange
    reason: Reason
    bank: Name | None = None
    run_id: Id | None = None


class SuggestReply(Reply):
    """The suggestion; `known` when the same one was already open or already rejected."""

    outcome: Literal["awaiting_review", "known", "already_true"]
    suggestion: Suggestion | None


class LearnRequest(Request):
    """A correction or a note on a bad run, read for what will still be true next month."""

    text: Annotated[str, Meta(min_length=1, max_length=20_000)]
    turn_id: Id | None = None
    bank: Name | None = None


class LearnReply(Reply):
    """What was found, all of it as suggestions."""

    suggestions: list[Suggestion]


class SuggestionListRequest(Request):
    """List suggestions, open ones by default, oldest first."""

    bank: Name | None = None
    state: SuggestionState = "open"
    target: Id | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class SuggestionListReply(Reply):
    """The queue, each with `now` beside `proposed`; `counts` by state."""

    suggestions: list[Suggestion]
    total: int
    counts: dict[str, int]
    cursor: str | None = None


class SuggestionDecideRequest(Request):
    """Approve or reject suggestions. `edit` replaces arguments of the one change that is approved."""

    ids: Annotated[list[Id], Meta(min_length=1, max_length=200)]
    decision: Literal["approve", "reject"]
    edit: dict[str, Any] | None = None


class Decided(Reply):
    """What became of one suggestion."""

    id: str
    state: SuggestionState
    memory: Memory | None = None
    receipt: Receipt | None = None
    error: str | None = None


class SuggestionDecideReply(Reply):
    """One entry per id, in order."""

    decided: list[Decided]


class ChangesListRequest(Request):
    """Read the journal, newest first; with `after_seq`, oldest first from there on."""

    bank: Name | None = None
    target: Id | None = None
    actor: Annotated[str, Meta(max_length=128)] | None = None
    cause: Id | None = None
    cause_kind: CauseKind | None = None
    session_id: Id | None = None
    after_seq: Seq | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class ChangesListReply(Reply):
    """A page of changes."""

    changes: list[Change]
    cursor: str | None = None


class ChangesRevertRequest(Request):
    """Undo a change (`chg_…`), or all of a turn, a session or a run, by its id."""

    id: Id


class Refused(Reply):
    """A change that could not be undone, and why."""

    id: str
    reason: str


class ChangesRevertReply(Reply):
    """The inverse changes that were written, and those refused because later changes stand in the way."""

    reverted: list[Change]
    refused: list[Refused]


class EntityListRequest(Request):
    """List entities by name."""

    query: Annotated[str, Meta(max_length=128)] | None = None
    bank: Name | None = None
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class EntityListReply(Reply):
    """Entities that have a memory the caller may see, or that the caller made."""

    entities: list[Entity]
    total: int
    cursor: str | None = None


class EntityGetRequest(Request):
    """Open an entity's page, by id, name or alias."""

    entity: Label
    bank: Name | None = None


class EntityFact(Reply):
    """One claim of an entity: the value, the memory that says it, and whether a better one contradicts it."""

    property: str
    value: str
    memory: Memory
    current: bool


class EntityGetReply(Reply):
    """An entity's page."""

    entity: Entity
    facts: list[EntityFact]
    mentions: list[Memory]
    suggestions: list[Suggestion]
    total: int
    cut: bool = False


class EntityLinkRequest(Request):
    """Link an entity to a reference (a URL, a ticket, a file); a link carries no fact."""

    entity: Label
    ref: Annotated[str, Meta(min_length=1, max_length=500)]


class EntityAliasRequest(Request):
    """Give an entity another name or a contact identity; never silently taken from another entity."""

    entity: Label
    alias: Alias


class EntityMergeRequest(Request):
    """Propose that two entities are one; `into` stays."""

    entity: Label
    into: Label
    reason: Reason = ""


class EntityReply(Reply):
    """The entity as it is now, or the suggestion that waits for a person."""

    entity: Entity | None
    outcome: Literal["done", "unchanged", "awaiting_review"] = "done"
    suggestion: Suggestion | None = None


class PropertyListRequest(Request):
    """List the properties that claims may use."""


class PropertyListReply(Reply):
    """Properties by name."""

    properties: list[Property]


class PropertyProposeRequest(Request):
    """Propose a property; waits for a person unless a person proposes it."""

    name: Name
    cardinality: Cardinality = "many"
    protected: bool = False
    reason: Reason = ""


class PropertyReply(Reply):
    """The property as it is now, or the suggestion that waits for a person."""

    property: Property | None
    outcome: Literal["done", "unchanged", "awaiting_review"] = "done"
    suggestion: Suggestion | None = None


class NoticeListRequest(Request):
    """List notices, unacknowledged by default, oldest first."""

    bank: Name | None = None
    include_acked: bool = False
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class NoticeListReply(Reply):
    """A page of notices."""

    notices: list[Notice]
    total: int
    cursor: str | None = None


class NoticeAckRequest(Request):
    """Say that a person has been told."""

    ids: Ids


class NoticeAckReply(Reply):
    """How many were acknowledged now."""

    acked: int
