"""The plain values that pass through extraction: what was read, what was found, what is to be stored."""

from collections.abc import Iterable

import msgspec

from memory_contracts.names import Confidence, Kind
from memory_contracts.records import Claim


class Cursor(msgspec.Struct, frozen=True):
    """How far a session has been read: the last message's id and time (unix seconds, if the harness gave one)."""

    message_id: str
    at: float | None = None


class ReadMessage(msgspec.Struct, frozen=True):
    """One message after reading: `text` holds the words that may be learned from, injected blocks taken out."""

    id: str
    role: str
    text: str
    at: float | None = None


class ReadTurn(msgspec.Struct, frozen=True):
    """The messages of a turn that may be learned from, and how many of what was left out (reason → count)."""

    messages: list[ReadMessage]
    ignored: dict[str, int]
    cursor: Cursor | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One thing somebody said, ready for the store. The tier is always `inferred`; the gate sets it, not this value.

    `text` is 1 to 2,000 characters; `quote` occurs in message `message_id`, whose role is `role`. Exactly one of
    `pattern` (rules) and `model` is set. `standing` marks a standing instruction, a line for the `learned` rule.
    `occurred_at` is in unix seconds.
    """

    text: str
    kind: Kind
    quote: str
    message_id: str
    role: str
    subject: str | None = None
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    claim: Claim | None = None
    confidence: Confidence = "normal"
    occurred_at: float | None = None
    pattern: str | None = None
    model: str | None = None
    standing: bool = False


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn gave: memories, learned lines, and counts of what was refused (by check) and ignored (by reason).

    `suggested` holds the standing instructions that wait for a person: those over the per-turn bound, or all of them
    where learning is set to suggest.
    """

    items: list[Candidate] = []
    learned: list[Candidate] = []
    suggested: list[Candidate] = []
    refused: dict[str, int] = {}
    ignored: dict[str, int] = {}
    cursor: Cursor | None = None


def by_id(messages: Iterable[ReadMessage]) -> dict[str, ReadMessage]:
    """Give messages by id. Where an id was used twice the user's message stands, and two of theirs are joined."""
    out: dict[str, ReadMessage] = {}
    for message in messages:
        known = out.get(message.id)
        if known is None or (known.role != "user" and message.role == "user"):
            out[message.id] = message
        elif message.role == "user":
            out[message.id] = ReadMessage(message.id, "user", f"{known.text}\n{message.text}", known.at)
    return out


def add_counts(*parts: dict[str, int]) -> dict[str, int]:
    """Add up counts by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total
