"""The records that replies and events carry."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from memory_contracts.names import Confidence, Kind, Label, MemoryState, Route, Tier

CauseKind = Literal["request", "turn", "file", "expiry", "revert", "suggestion", "forget"]
MemoryEventType = Literal[
    "created", "reinforced", "updated", "pinned", "superseded", "deleted", "expired", "restored", "forgotten"
]
BankEventType = Literal[
    "created", "updated", "trashed", "restored", "rules-changed", "wiped", "suggestions-changed", "notices-changed"
]
Expiry = Literal["month", "quarter", "year", "never"]
Review = Literal["auto", "all"]
Cardinality = Literal["one", "many"]
SuggestionState = Literal["open", "approved", "rejected", "stale", "expired"]


class Record(msgspec.Struct, kw_only=True):
    """Base of what the worker sends: readers ignore fields they do not know."""


class Source(Record):
    """Where a record's text came from. The route it came by decides the tier, never the caller's word."""

    route: Route
    principal: str
    session_id: str | None = None
    turn_id: str | None = None
    message_ids: tuple[str, ...] = ()
    role: str | None = None
    quote: str | None = None
    pattern: str | None = None
    model: str | None = None


class Claim(Record, forbid_unknown_fields=True):
    """The typed part of a memory: the value of one property of one entity."""

    entity: Label
    property: Label
    value: Label


class Memory(Record):
    """One short self-contained statement with a label, recalled when relevant.

    Times are UTC. `revision` counts from 1 and rises by one per change. `tier` belongs to the text of this
    revision. A protected value reads `•••` in `text`, with its reference in `protected`.
    """

    id: str
    bank: str
    text: str
    kind: Kind
    tier: Tier
    source: Source
    created_at: datetime
    updated_at: datetime
    last_seen_at: datetime
    subject: str | None = None
    slot: str | None = None
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    claim: Claim | None = None
    confidence: Confidence = "normal"
    pinned: bool = False
    corroboration: int = 0
    occurred_at: datetime | None = None
    expires_at: datetime | None = None
    state: MemoryState = "live"
    superseded_by: str | None = None
    reason: str | None = None
    protected: str | None = None
    revision: int = 1


class LearnedLine(Record):
    """One line of the `learned` rule, with where it came from."""

    id: str
    text: str
    source: Source
    at: datetime


class Rule(Record):
    """A markdown document injected whole into every turn's system prompt; lower `priority` comes first."""

    bank: str
    name: str
    content: str
    priority: int
    revision: int
    updated_at: datetime
    source: Source
    lines: tuple[LearnedLine, ...] = ()


class BankCounts(Record):
    """How much a bank holds."""

    live: int = 0
    superseded: int = 0
    deleted: int = 0
    expired: int = 0
    rules: int = 0
    suggestions: int = 0


class Bank(Record):
    """A named scope of rules, memories and settings. `owner` (`<route>.<principal>`) makes it private."""

    name: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    owner: str | None = None
    managers: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    review: Review = "auto"
    expiry: Expiry = "quarter"
    mirror: bool = True
    revision: int = 1
    trashed_at: datetime | None = None
    trash_id: str | None = None
    counts: BankCounts | None = None


class Alias(Record, forbid_unknown_fields=True):
    """Another name of an entity, or its identity on a channel (`email`, `github`, `name`)."""

    channel: Label
    value: Label


class Entity(Record):
    """A person, pet, organisation, project, place or thing that memories are about; tenant-wide."""

    id: str
    name: str
    kind: str = "thing"
    aliases: tuple[Alias, ...] = ()
    links: tuple[str, ...] = ()
    state: Literal["live", "merged", "forgotten"] = "live"
    merged_into: str | None = None
    revision: int = 1


class Property(Record):
    """A kind of claim: `one` value at a time or `many`; `protected` values lie in the vault."""

    name: str
    cardinality: Cardinality = "many"
    protected: bool = False


class Actor(Record):
    """Who made a change."""

    route: Route
    principal: str


class Cause(Record):
    """What a change came from: the kind and its id (request, turn, file path hash, suggestion, ...)."""

    kind: CauseKind
    id: str


class ProposedChange(Record, forbid_unknown_fields=True):
    """A change as data: the function that would make it and its arguments."""

    function: str
    args: dict[str, Any]


class Suggestion(Record):
    """A change that code would not decide alone and that waits for a person.

    `now` is what is believed today, `proposed` what approval would make of it.
    """

    id: str
    bank: str
    change: ProposedChange
    by: Actor
    reason: str
    created_at: datetime
    expires_at: datetime
    source: Source | None = None
    targets: tuple[str, ...] = ()
    now: Any = None
    proposed: Any = None
    diff: str | None = None
    destructive: bool = False
    state: SuggestionState = "open"
    decided_by: Actor | None = None
    decided_at: datetime | None = None


class Notice(Record):
    """Something a person should be told, repeated until acknowledged."""

    id: str
    bank: str
    kind: str
    text: str
    at: datetime
    target: str | None = None
    acked_at: datetime | None = None


class UsedMemory(Record):
    """A memory as a turn was given it."""

    id: str
    revision: int
    score: float


class UsedRule(Record):
    """A rule as a turn was given it."""

    name: str
    bank: str
    revision: int


class Use(Record):
    """What one turn was given; ids only."""

    turn_id: str
    session_id: str
    at: datetime
    bank: str
    memories: tuple[UsedMemory, ...] = ()
    rules: tuple[UsedRule, ...] = ()


class Change(Record):
    """One row of the journal. `bank_seq` is dense over the published rows of one bank."""

    seq: int
    id: str
    at: datetime
    bank: str
    type: str
    target: str
    actor: Actor
    cause: Cause
    bank_seq: int | None = None
    before: Any = None
    after: Any = None


class Receipt(Record):
    """What a forgetting destroyed: counts per place, no values. `pending` until every place is done."""

    id: str
    at: datetime
    state: Literal["pending", "done"]
    counts: dict[str, int] = {}
    unreachable: tuple[str, ...] = ()
