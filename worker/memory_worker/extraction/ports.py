"""What extraction needs of the others, as protocols: inbox, commit, bank, siblings, what was handed out."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from memory_contracts.siblings import CompleteReply, CompleteRequest, SessionMessagesReply
from memory_contracts.turns import TurnCompleted
from memory_worker.extraction.checks import Handed
from memory_worker.extraction.items import Cursor, Extraction


class SiblingAway(Exception):
    """A sibling did not answer; the turn waits, and no attempt is counted."""


class InboxTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed turn. `attempts` counts this one; `received_at` is unix seconds; `cursor` is the session's."""

    turn_id: str
    session_id: str
    payload: bytes
    attempts: int
    received_at: float
    cursor: Cursor | None = None


class ResolvedBank(msgspec.Struct, frozen=True):
    """The bank a turn belongs to, and its description for the model."""

    name: str
    description: str = ""


class Off(msgspec.Struct, frozen=True):
    """The turn is not to be remembered (`memory: off`, or private without an owner).

    `park` = its metadata is wrong, and a person should see the turn.
    """

    reason: str = "memory_off"
    park: bool = False


class Wait(msgspec.Struct, frozen=True):
    """The bank cannot be known yet; the turn waits rather than going to another bank."""

    reason: str = "session_manager"


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one turn changes, committed in one transaction.

    `bank` is `None` when nothing was extracted (a failed turn, a sub-agent's, `memory: off`). Memories are added by
    fingerprint, or reinforced with the turn's id as the cause; `extraction.learned` become lines of `learned`,
    `extraction.suggested` become suggestions of such lines. The cursor moves and the inbox row is done.
    """

    turn_id: str
    session_id: str
    bank: str | None
    extraction: Extraction
    agent: str | None = None
    extractor: str = "rules"


class Inbox(Protocol):
    """The turns that wait, in the store."""

    async def claim(self, now: float, limit: int, exclude_sessions: Collection[str]) -> list[InboxTurn]:
        """Mark up to `limit` due turns as working, the oldest of each session, and count the attempt."""
        ...

    async def wait(self, turn_id: str, next_at: float, reason: str) -> None:
        """Put a turn back until `next_at` and give its attempt back."""
        ...

    async def retry(self, turn_id: str, next_at: float, reason: str) -> None:
        """Put a turn back until `next_at`; the attempt stays counted."""
        ...

    async def park(self, turn_id: str, reason: str, raw: bytes | None) -> None:
        """Set a turn aside with the reason and, where a model's reply could not be read, that reply without secrets."""
        ...

    async def next_due(self) -> float | None:
        """When the next waiting turn is due, in unix seconds; `None` when none waits."""
        ...


class CommitTurn(Protocol):
    """The gate's side of a turn."""

    async def commit_turn(self, commit: TurnCommit) -> None:
        """Commit everything or nothing; returns after the commit. The same turn again changes nothing."""
        ...


class BankResolver(Protocol):
    """Finds the bank of a turn, the same way for extraction, context, recall and preview."""

    async def resolve(self, turn: TurnCompleted) -> ResolvedBank | Off | Wait:
        """Give the turn's bank, or that it has none, or that it must wait."""
        ...


class SessionMessages(Protocol):
    """The session manager's messages, for turns that come without."""

    async def messages(self, session_id: str, after: str | None, limit: int) -> SessionMessagesReply:
        """Give a page of messages after the id `after`; raises `SiblingAway`."""
        ...


class Completer(Protocol):
    """The model router."""

    async def complete(self, request: CompleteRequest) -> CompleteReply:
        """Give a completion; raises `SiblingAway` when the router does not answer."""
        ...


class HandedOut(Protocol):
    """What `context` gave to a session."""

    async def lines(self, session_id: str, bank: str) -> Handed:
        """Give fingerprints (and texts, where still known) of all memories and rule lines the session was given."""
        ...


class Nearest(Protocol):
    """What the bank already holds, so that a model does not say it again."""

    async def memories(self, bank: str, text: str, limit: int) -> Sequence[str]:
        """Give the texts of the live memories nearest to `text`, best first."""
        ...

    async def learned(self, bank: str) -> Sequence[str]:
        """Give the live lines of the `learned` rule."""
        ...
