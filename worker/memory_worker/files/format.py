"""Markdown files to records and back: front matter between two lines of `---`, then the text."""

import re
from datetime import datetime
from typing import Any

import msgspec

from memory_contracts.names import RULE_MAX_CHARS, TEXT_MAX_CHARS, Confidence, Kind, Label, Labels, Tier
from memory_contracts.records import Bank, Claim, Expiry, Memory, Review, Rule, Source
from memory_worker.files.frontmatter import (
    FENCE,
    FRONT_MAX_BYTES,
    Unreadable,
    decode,
    dump,
    fields,
    mapping,
    quoted,
    split,
    whole,
)

_SECOND = re.compile(r"^---[ \t]*\n(?:[a-z_]+:.*\n(?:[ \t-].*\n)*)+---[ \t]*$", re.MULTILINE)
_SPACE = re.compile(r"[\s\x85\u2028\u2029]+")
_BINARY = "\x00"


class Front(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a memory's front matter may hold."""

    id: str | None = None
    kind: Kind | None = None
    subject: Label | None = None
    tier: Tier | None = None
    source: dict[str, Any] | None = None
    entities: Labels = []
    tags: Labels = []
    about: Labels = []
    claim: Claim | None = None
    pinned: bool | None = None
    confidence: Confidence | None = None
    slot: Label | None = None
    protected: str | None = None
    learned: datetime | None = None
    occurred: datetime | None = None
    expires: datetime | None = None
    updated: datetime | None = None
    seen: datetime | None = None
    corroboration: int | None = None
    revision: int | None = None


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file as it was read. `front` is None where there was no front matter at all: then only the text counts.

    Otherwise a label that is missing is an emptied one, while a missing `kind`, `pinned` or `confidence` is unchanged.
    """

    text: str
    front: Front | None = None

    @property
    def id(self) -> str | None:
        """The id the file claims."""
        return None if self.front is None else self.front.id

    @property
    def revision(self) -> int | None:
        """The revision the file was written from."""
        return None if self.front is None else self.front.revision


class RuleFile(msgspec.Struct, frozen=True):
    """A rule file as it was read; a missing priority is unchanged."""

    content: str
    priority: int | None = None
    revision: int | None = None


class BankFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A `bank.yaml` as it was read. A missing setting is unchanged."""

    name: str | None = None
    description: str | None = None
    owner: str | None = None
    managers: list[str] | None = None
    layers: list[str] | None = None
    review: Review | None = None
    expiry: Expiry | None = None
    mirror: bool | None = None
    revision: int | None = None


# Writing


def render_memory(memory: Memory, *, full: bool = False) -> bytes:
    """Give the file of a memory. `full` adds what only an archive needs to bring the record back whole."""
    values: dict[str, Any] = {
        "id": memory.id,
        "kind": memory.kind,
        "subject": memory.subject,
        "tier": memory.tier,
        "source": source_fields(memory.source),
        "entities": list(memory.entities),
        "tags": list(memory.tags),
        "about": list(memory.about),
        "claim": None if memory.claim is None else msgspec.structs.asdict(memory.claim),
        "pinned": memory.pinned,
        "confidence": memory.confidence,
        "slot": memory.slot,
        "protected": memory.protected,
        "learned": memory.created_at,
        "occurred": memory.occurred_at,
        "expires": memory.expires_at,
    }
    if full:
        values |= {
            "updated": memory.updated_at,
            "seen": memory.last_seen_at,
            "corroboration": memory.corroboration,
        }
    values["revision"] = memory.revision
    return f"{FENCE}\n{dump(values)}{FENCE}\n\n{memory.text}\n".encode()


def source_fields(source: Source) -> dict[str, Any]:
    """Give the fields of a source that are set, as front matter holds them."""
    kept = {key: value for key, value in msgspec.structs.asdict(source).items() if value not in (None, ())}
    if "message_ids" in kept:
        kept["message_ids"] = list(kept["message_ids"])
    return kept


def render_rule(rule: Rule) -> bytes:
    """Give the file of a rule: its priority and revision, then the markdown as it is."""
    front = dump({"priority": rule.priority, "revision": rule.revision})
    return f"{FENCE}\n{front}{FENCE}\n\n{rule.content.rstrip()}\n".encode()


def render_bank(bank: Bank) -> bytes:
    """Give the `bank.yaml` of a bank."""
    values: dict[str, Any] = {
        "name": bank.name,
        "description": bank.description,
        "owner": bank.owner,
        "managers": list(bank.managers),
        "layers": list(bank.layers),
        "review": bank.review,
        "expiry": bank.expiry,
        "mirror": bank.mirror,
        "revision": bank.revision,
    }
    return dump(values).encode()


# Reading


def parse_memory(data: bytes) -> MemoryFile:
    """Read a memory file; raises `Unreadable`."""
    front, body = split(decode(data))
    if _SECOND.search(body):
        raise Unreadable("two memories in one file: give each a file of its own")
    text = fold(body)
    if not text:
        raise Unreadable("no text below the front matter" if front is not None else "the file is empty")
    if _BINARY in text:
        raise Unreadable("not a text: it holds NUL bytes")
    if len(text) > TEXT_MAX_CHARS:
        raise Unreadable(f"the text has {len(text):,} characters, at most {TEXT_MAX_CHARS:,} make one memory")
    return MemoryFile(text=text, front=None if front is None else fields(front, Front))


def parse_rule(data: bytes) -> RuleFile:
    """Read a rule file; raises `Unreadable`. A file without front matter is all content."""
    front, body = split(decode(data))
    content = body.strip("\n").rstrip()
    if not content.strip():
        raise Unreadable("the rule is empty: to remove it, remove the file")
    if _BINARY in content:
        raise Unreadable("not a text: it holds NUL bytes")
    if len(content) > RULE_MAX_CHARS:
        raise Unreadable(f"the rule has {len(content):,} characters, at most {RULE_MAX_CHARS:,} are injected")
    values = {} if front is None else mapping(front)
    unknown = sorted(values.keys() - {"priority", "revision"})
    if unknown:
        raise Unreadable(f"a rule's front matter holds priority and revision, not {quoted(unknown)}")
    return RuleFile(content, whole(values, "priority", 0, 1_000), whole(values, "revision", 1, None))


def parse_bank(data: bytes) -> BankFile:
    """Read a `bank.yaml`; raises `Unreadable`."""
    if len(data) > FRONT_MAX_BYTES:
        raise Unreadable(f"bank.yaml is larger than {FRONT_MAX_BYTES:,} bytes")
    text = decode(data)
    if not text.strip():
        raise Unreadable("the file is empty")
    return fields(text, BankFile)


def fold(body: str) -> str:
    """Make one line of a text, as the store keeps it: runs of white space become one space."""
    return _SPACE.sub(" ", body).strip()
