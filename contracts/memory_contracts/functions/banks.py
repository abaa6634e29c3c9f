"""Requests and replies about banks and rules."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import LIST_LIMIT_MAX, RULE_MAX_CHARS, Cursor, Limit, Name, Reason, Revision
from memory_contracts.records import Bank, Expiry, Review, Rule, Suggestion

Owner = Annotated[
    str,
    Meta(
        pattern=r"^(human|agent|observer|system)\.[a-z0-9][a-z0-9_-]{0,63}$(?![\s\S])",
        description="`<route>.<principal>`",
    ),
]
Layers = Annotated[list[Name], Meta(max_length=4)]
Managers = Annotated[list[Owner], Meta(max_length=16)]
RuleContent = Annotated[str, Meta(max_length=RULE_MAX_CHARS)]
Priority = Annotated[int, Meta(ge=0, le=1000)]


class BankCreateRequest(Request):
    """Make a bank. With `owner` it is private: only the owner and its `managers` see it."""

    name: Name
    description: Reason = ""
    owner: Owner | None = None
    managers: Managers = []
    layers: Layers = []
    review: Review = "auto"
    expiry: Expiry = "quarter"
    mirror: bool = True


class BankUpdateRequest(Request):
    """Change a bank's settings; only the fields that are present change. The owner cannot be changed."""

    name: Name
    description: Reason | UnsetType = UNSET
    managers: Managers | UnsetType = UNSET
    layers: Layers | UnsetType = UNSET
    review: Review | UnsetType = UNSET
    expiry: Expiry | UnsetType = UNSET
    mirror: bool | UnsetType = UNSET


class BankReply(Reply):
    """The bank as it is now."""

    bank: Bank


class BankListRequest(Request):
    """List the banks the caller may see."""

    include_trash: bool = False


class BankListReply(Reply):
    """Banks by name; trashed ones carry `trashed_at` and `trash_id`."""

    banks: list[Bank]


class BankDeleteRequest(Request):
    """Move a bank to the trash; its name is free at once."""

    name: Name


class BankRestoreRequest(Request):
    """Bring a trashed bank back: the newest of that name, or the one named by `trash_id`."""

    name: Name
    trash_id: str | None = None


class RuleListRequest(Request):
    """Page through a bank's rules by priority, then name."""

    bank: Name | None = None
    limit: Limit = LIST_LIMIT_MAX
    cursor: Cursor | None = None


class RuleListReply(Reply):
    """The rules, whole; `cursor` asks for those that did not fit."""

    rules: list[Rule]
    cursor: str | None = None


class RuleGetRequest(Request):
    """Read one rule."""

    name: Name
    bank: Name | None = None


class RuleReply(Reply):
    """The rule as it is now; null when it was removed, or when the change waits for a person."""

    rule: Rule | None
    outcome: str = "done"
    suggestion: Suggestion | None = None


class RuleSetRequest(Request):
    """Write a rule; empty content removes it (its history stays)."""

    name: Name
    content: RuleContent
    bank: Name | None = None
    priority: Priority | None = None
    expected_revision: Revision | None = None
