"""Requests and replies about memories: save, get, history, list, update, delete, pin, tags, supersede."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import (
    LIST_LIMIT_DEFAULT,
    Confidence,
    Cursor,
    Id,
    Kind,
    Label,
    Labels,
    Limit,
    MemoryState,
    Name,
    Reason,
    Revision,
    Text,
    Tier,
)
from memory_contracts.records import Change, Claim, Memory, Suggestion

Instant = Annotated[datetime, Meta(tz=True, description="RFC 3339 with a UTC offset.")]
Outcome = Literal["created", "reinforced", "replaced", "awaiting_review"]


class SaveRequest(Request):
    """Keep one statement. The route decides the tier: human `stated`, observer `observed`, agent `inferred`.

    `slot` (observer route) is rewritten in place. `protected` puts the text into the vault. What a person had
    forgotten, or whom a person ruled out, is refused with `forbidden`, in the same words; a person can save it.
    """

    text: Text
    bank: Name | None = None
    kind: Kind = "fact"
    subject: Label | None = None
    slot: Label | None = None
    entities: Labels = []
    tags: Labels = []
    about: Labels = []
    claim: Claim | None = None
    pinned: bool = False
    protected: bool = False
    confidence: Confidence = "normal"
    occurred_at: Instant | None = None
    expires_at: Instant | None = None


class SaveReply(Reply):
    """The memory as it is now, or the suggestion that waits for a person (`awaiting_review`)."""

    outcome: Outcome
    memory: Memory | None = None
    suggestion: Suggestion | None = None


class GetRequest(Request):
    """Read one memory in any state."""

    id: Id


class MemoryReply(Reply):
    """The memory as it is now, or the suggestion that waits for a person."""

    memory: Memory | None = None
    outcome: Literal["done", "unchanged", "awaiting_review"] = "done"
    suggestion: Suggestion | None = None


class HistoryRequest(Request):
    """Read every revision of one memory, oldest first."""

    id: Id
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None


class HistoryReply(Reply):
    """Changes of one memory with actor and cause; `after` holds the revision."""

    revisions: list[Change]
    cursor: str | None = None


class ListRequest(Request):
    """Page through a bank. `render` adds the page as readable text, grouped by tier and entity.

    In the orders `newest` and `oldest` each memory comes once, whatever is written meanwhile; in `updated` one that
    changes moves to the front. A cursor goes with the filters and the order it was made for.

    `protected_value` (human route) finds the memories whose protected text, claim, number or address is exactly that,
    but for spaces, punctuation and case; nothing else finds them by their value.
    """

    bank: Name | None = None
    tag: Label | None = None
    kind: Kind | None = None
    tier: Tier | None = None
    entity: Label | None = None
    session_id: Id | None = None
    state: MemoryState | None = None
    include_superseded: bool = False
    order: Literal["newest", "oldest", "updated"] = "newest"
    limit: Limit = LIST_LIMIT_DEFAULT
    cursor: Cursor | None = None
    render: bool = False
    protected_value: Text | None = None


class ListReply(Reply):
    """A page of memories; `cursor` asks for the next page, null on the last.

    `total` counts all that match; the pages that follow carry the first one's count.
    """

    memories: list[Memory]
    total: int
    cursor: str | None = None
    text: str | None = None


class UpdateRequest(Request):
    """Correct a memory; only the fields that are present change. A person's new text is `stated`."""

    id: Id
    expected_revision: Revision | None = None
    text: Text | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    subject: Label | None | UnsetType = UNSET
    entities: Labels | UnsetType = UNSET
    tags: Labels | UnsetType = UNSET
    about: Labels | UnsetType = UNSET
    claim: Claim | None | UnsetType = UNSET
    confidence: Confidence | UnsetType = UNSET
    expires_at: Instant | None | UnsetType = UNSET


class DeleteRequest(Request):
    """Delete a memory; a tombstone stays and the change can be reverted."""

    id: Id
    expected_revision: Revision | None = None


class PinRequest(Request):
    """Pin or un-pin a memory; a pinned one never expires and no automatic path touches it."""

    id: Id
    pinned: bool
    expected_revision: Revision | None = None


class TagsRequest(Request):
    """Count the tags of a bank's live memories."""

    bank: Name | None = None


class TagCount(Reply):
    """One tag and how many live memories carry it."""

    tag: str
    count: int


class TagsReply(Reply):
    """Tags by falling count, then name; `cut` is true when the bank has more than the reply may hold."""

    tags: list[TagCount]
    cut: bool = False


class SupersedeRequest(Request):
    """Retire memory `id` in favour of memory `by` of the same bank.

    The expected revisions refuse with `conflict` what was decided on a text that has changed since.
    """

    id: Id
    by: Id
    reason: Reason
    run_id: Id | None = None
    expected_revision: Revision | None = None
    expected_by_revision: Revision | None = None


class SupersedeReply(Reply):
    """Both records as they are now."""

    memory: Memory
    by: Memory
