"""The one place where bus subjects are built and parsed."""

import re
from typing import Literal

import msgspec

from memory_contracts.names import ROUTES, Route, is_name

_SAFE = re.compile(r"[A-Za-z0-9_-]+\Z")
# Wider than any function's name, so that a misspelt one is answered as unknown.
_FUNCTION = re.compile(r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*\Z")
_ESCAPE = re.compile(r"=([0-9A-F]{2})")

SUBJECT_MAX_CHARS = 4_096
"""Longest subject that is parsed, in characters; the server's own protocol line limit."""


TURN_STREAM = "TURNS"
"""Name of the stream that holds finished turns until they are in the inbox."""


class RpcAddress(msgspec.Struct, frozen=True):
    """Who calls which function: the parsed form of a request subject."""

    tenant: str
    route: Route
    principal: str
    function: str


class EventAddress(msgspec.Struct, frozen=True):
    """The parsed form of a trigger subject; `owner` is set for private banks."""

    tenant: str
    kind: Literal["item-changed", "bank-changed"]
    bank: str
    memory_id: str | None = None
    owner: str | None = None


class TurnAddress(msgspec.Struct, frozen=True):
    """The parsed form of a turn-completed subject."""

    tenant: str
    session_id: str


def token(value: str) -> str:
    """Make `value` safe as one subject token: `[A-Za-z0-9_-]` stays, any other byte becomes `=XX`."""
    if _SAFE.match(value):
        return value
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or byte in b"_-") else f"={byte:02X}"
        for byte in value.encode("utf-8")
    )


def untoken(value: str) -> str | None:
    """Read a token back; None when it is not one that `token` makes."""
    try:
        raw = _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), value).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return None
    return raw if raw and token(raw) == value else None


class Subjects(msgspec.Struct, frozen=True):
    """Builds and parses every subject under configurable prefixes."""

    prefix: str = "memory.v1"
    turn_prefix: str = "turn.v1"
    turn_stream: str = TURN_STREAM

    @property
    def owns_turns(self) -> bool:
        """Whether the turn stream is ours; one of another name is a harness's, and not made or judged by us."""
        return self.turn_stream == TURN_STREAM

    # Requests

    def rpc(self, tenant: str, route: str, principal: str, function: str) -> str:
        """Subject on which `principal` of `route` calls `function`."""
        return f"{self.prefix}.rpc.{tenant}.{route}.{principal}.{function}"

    def rpc_all(self) -> str:
        """Subscription of the worker: every request of every tenant."""
        return f"{self.prefix}.rpc.*.*.*.>"

    def rpc_of(self, tenant: str, route: str, principal: str) -> str:
        """Publish permission of one credential."""
        return f"{self.prefix}.rpc.{tenant}.{route}.{principal}.>"

    def parse_rpc(self, subject: str) -> RpcAddress | None:
        """Read a request subject; None when it is not one."""
        start = f"{self.prefix}.rpc."
        if len(subject) > SUBJECT_MAX_CHARS or not subject.startswith(start):
            return None
        parts = subject[len(start) :].split(".", 3)
        if len(parts) != 4:
            return None
        tenant, route, principal, function = parts
        if route not in ROUTES or not is_name(tenant) or not is_name(principal) or not _FUNCTION.match(function):
            return None
        return RpcAddress(tenant, route, principal, function)

    # Triggers

    def item_changed(self, tenant: str, bank: str, memory_id: str, owner: str | None = None) -> str:
        """Subject of the trigger of one memory."""
        return f"{self._events(tenant, owner)}.item-changed.{token(bank)}.{token(memory_id)}"

    def bank_changed(self, tenant: str, bank: str, owner: str | None = None) -> str:
        """Subject of the trigger of one bank."""
        return f"{self._events(tenant, owner)}.bank-changed.{token(bank)}"

    def item_changed_filter(self, tenant: str, bank: str | None = None, owner: str | None = None) -> str:
        """Filter for the memories of one bank, or of all banks."""
        return f"{self._events(tenant, owner)}.item-changed.{token(bank) if bank else '*'}.*"

    def bank_changed_filter(self, tenant: str, bank: str | None = None, owner: str | None = None) -> str:
        """Filter for the changes of one bank, or of all banks."""
        return f"{self._events(tenant, owner)}.bank-changed.{token(bank) if bank else '*'}"

    def events(self, tenant: str) -> str:
        """Subjects of a tenant's shared event stream."""
        return f"{self.prefix}.event.{tenant}.>"

    def private_events(self, tenant: str, owner: str | None = None) -> str:
        """Subjects of a tenant's private event stream, or of one owner in it."""
        if owner is None:
            return f"{self.prefix}.private-event.{tenant}.>"
        return f"{self.prefix}.private-event.{tenant}.{owner}.>"

    def parse_event(self, subject: str) -> EventAddress | None:
        """Read a trigger subject; None when it is not one."""
        for start, private in ((f"{self.prefix}.event.", False), (f"{self.prefix}.private-event.", True)):
            if not subject.startswith(start):
                continue
            parts = subject[len(start) :].split(".")
            tenant, rest = parts[0], parts[1:]
            owner = None
            if private:
                if len(rest) < 3:
                    return None
                owner, rest = ".".join(rest[:2]), rest[2:]
            if len(rest) == 3 and rest[0] == "item-changed":
                bank, memory_id = untoken(rest[1]), untoken(rest[2])
                if bank and memory_id:
                    return EventAddress(tenant, "item-changed", bank, memory_id, owner)
            if len(rest) == 2 and rest[0] == "bank-changed":
                bank = untoken(rest[1])
                if bank:
                    return EventAddress(tenant, "bank-changed", bank, None, owner)
            return None
        return None

    def _events(self, tenant: str, owner: str | None) -> str:
        if owner is None:
            return f"{self.prefix}.event.{tenant}"
        return f"{self.prefix}.private-event.{tenant}.{owner}"

    # Turns

    def turn_completed(self, tenant: str, session_id: str) -> str:
        """Subject on which a harness publishes a finished turn."""
        return f"{self.turn_prefix}.{tenant}.completed.{token(session_id)}"

    def turns_all(self) -> str:
        """Subjects of the turn stream: every tenant's."""
        return f"{self.turn_prefix}.*.completed.*"

    def turns_of(self, tenant: str) -> str:
        """Publish permission of a tenant's harness."""
        return f"{self.turn_prefix}.{tenant}.completed.*"

    def parse_turn(self, subject: str) -> TurnAddress | None:
        """Read a turn subject; None when it is not one."""
        start = f"{self.turn_prefix}."
        if not subject.startswith(start):
            return None
        parts = subject[len(start) :].split(".")
        if len(parts) != 3 or parts[1] != "completed" or not is_name(parts[0]):
            return None
        session_id = untoken(parts[2])
        return TurnAddress(parts[0], session_id) if session_id else None


TURN_CONSUMER = "memory-worker"
"""Durable name of the intake consumer."""


def event_stream(tenant: str) -> str:
    """Name of a tenant's stream of shared triggers."""
    return f"MEMORY-EVENTS-{tenant}"


def private_stream(tenant: str) -> str:
    """Name of a tenant's stream of private banks' triggers."""
    return f"MEMORY-PRIVATE-{tenant}"


def consolidate_bucket(tenant: str) -> str:
    """Name of the bucket in which a tenant's consolidate worker keeps its schedule; its stream is `KV_` and this."""
    return f"MEMORY-CONSOLIDATE-{tenant}"
