"""Reads markdown that other tools wrote: folders of facts, and the rule files of coding agents."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import msgspec

from memory_contracts.names import LABEL_MAX_CHARS, LABELS_MAX, RULE_MAX_CHARS, TEXT_MAX_CHARS, Kind
from memory_contracts.records import Memory, Rule, Source
from memory_worker.files.disk import Disk
from memory_worker.files.format import MemoryFile, fold, parse_memory
from memory_worker.files.frontmatter import Unreadable, decode, mapping, split
from memory_worker.files.layout import printable
from memory_worker.gate.ruling import DEFAULT_PRIORITY

RULE_FILES = {"claude.md": "claude", "agents.md": "agents", "gemini.md": "gemini", "copilot-instructions.md": "copilot"}
"""Rule files of coding agents, by lower-case file name, and the rule each becomes."""
MARKDOWN = ".md"
"""How a markdown file's name ends, in any case; nothing else is read."""
FILES_MAX = 100_000
"""Most files of a folder that are read."""
FILE_MAX_BYTES = 1_024 * 1_024
"""Largest file that is read, in bytes."""

_ITEM = re.compile(r"[-*+]\s+(?:\[[ xX]\]\s+)?(\S.*)")
_HEADING = re.compile(r"#{1,6}\s")


class Arrival(msgspec.Struct, frozen=True):
    """One thing found: a memory without an id, or a rule; or a problem with its file."""

    path: str
    record: Memory | Rule | None = None
    problem: str = ""


def read(path: Path, now: datetime) -> Iterator[Arrival]:
    """Read a file, or every markdown file of a folder; links are not followed. `now` stands for times not given."""
    single = not path.is_dir()
    disk = Disk(path.parent if single else path, FILE_MAX_BYTES)
    names = [path.name] if single else [name for name in disk.files("") if name.lower().endswith(MARKDOWN)]
    for count, name in enumerate(names):
        shown = printable(name)
        if count >= FILES_MAX:
            yield Arrival(shown, problem=f"only the first {FILES_MAX:,} files are read")
            return
        look = disk.look(name)
        if look.state != "found":
            yield Arrival(shown, problem=look.reason or "it is not there")
            continue
        try:
            yield from _read_one(name, look.data, now)
        except Unreadable as error:
            yield Arrival(shown, problem=str(error))


def _read_one(name: str, data: bytes, now: datetime) -> Iterator[Arrival]:
    rule = RULE_FILES.get(name.rpartition("/")[2].lower())
    if rule is not None:
        yield Arrival(printable(name), _rule(rule, decode(data), now))
        return
    try:
        file = parse_memory(data)
    except Unreadable:
        for memory in _foreign(name, decode(data), now):
            yield Arrival(printable(name), memory)
        return
    if file.front is None:
        for memory in _foreign(name, decode(data), now):
            yield Arrival(printable(name), memory)
    else:
        yield Arrival(printable(name), record_of(file, "main", now))


def _rule(name: str, text: str, now: datetime) -> Rule:
    _, body = split(text)
    content = body.strip()
    if not content:
        raise Unreadable("the file is empty")
    if len(content) > RULE_MAX_CHARS:
        raise Unreadable(f"the rule has {len(content):,} characters, at most {RULE_MAX_CHARS:,} are injected")
    importer = Source(route="human", principal="import")
    return Rule(
        bank="main", name=name, content=content, priority=DEFAULT_PRIORITY, revision=1, updated_at=now, source=importer
    )


def _foreign(name: str, text: str, now: datetime) -> Iterator[Memory]:
    """Read a note: one fact, or one per item where it is nothing but a list under headings."""
    front, body = split(text)
    fields = {} if front is None else mapping(front)
    lines = [line.strip() for line in body.split("\n") if line.strip()]
    items = [match.group(1) for line in lines if (match := _ITEM.fullmatch(line))]
    headings = sum(_HEADING.match(line) is not None for line in lines)
    texts = items if items and len(items) + headings == len(lines) else [fold(_without_heading(body))]
    for one in texts:
        found = fold(one)
        if not found:
            raise Unreadable("the file is empty")
        if "\x00" in found:
            raise Unreadable("not a text: it holds NUL bytes")
        if len(found) > TEXT_MAX_CHARS:
            raise Unreadable(f"a fact has {len(found):,} characters, at most {TEXT_MAX_CHARS:,} make one memory")
        yield _memory(found, fields, now)


def _without_heading(body: str) -> str:
    """Drop a title line above a note."""
    stripped = body.strip()
    first, _, rest = stripped.partition("\n")
    return rest if _HEADING.match(first) and rest.strip() else stripped


def _memory(text: str, fields: dict[str, Any], now: datetime) -> Memory:
    said = fields.get("kind", fields.get("type"))
    kind: Kind = next((known for known in get_args(Kind) if known == said), "fact")
    return Memory(
        id="",
        bank="main",
        text=text,
        kind=kind,
        tier="inferred",
        source=Source(route="human", principal="import"),
        created_at=now,
        updated_at=now,
        last_seen_at=now,
        entities=_labels(fields.get("entities")),
        tags=_labels(fields.get("tags", fields.get("tag"))),
    )


def _labels(value: Any) -> tuple[str, ...]:
    """Read labels as people write them: a list, or words between commas, with or without `#`."""
    words = value if isinstance(value, list) else str(value or "").split(",")
    found = [str(word).strip().lstrip("#") for word in words if isinstance(word, str)]
    return tuple(dict.fromkeys(word for word in found if 0 < len(word) <= LABEL_MAX_CHARS))[:LABELS_MAX]


def record_of(file: MemoryFile, bank: str, now: datetime) -> Memory:
    """Give the memory that a file of ours describes; raises `Unreadable` for a source that is none."""
    front = file.front
    assert front is not None
    source = Source(route="human", principal="import")
    if front.source is not None:
        try:
            source = msgspec.convert(front.source, Source, strict=False)
        except msgspec.ValidationError as error:
            raise Unreadable("source: it does not say where the text came from") from error
    learned = front.learned or now
    return Memory(
        id=front.id or "",
        bank=bank,
        text=file.text,
        kind=front.kind or "fact",
        tier=front.tier or "inferred",
        source=source,
        created_at=learned,
        updated_at=front.updated or learned,
        last_seen_at=front.seen or learned,
        subject=front.subject,
        slot=front.slot,
        entities=tuple(front.entities),
        tags=tuple(front.tags),
        about=tuple(front.about),
        claim=front.claim,
        confidence=front.confidence or "normal",
        pinned=bool(front.pinned),
        corroboration=max(0, front.corroboration or 0),
        occurred_at=front.occurred,
        expires_at=front.expires,
        protected=front.protected,
        revision=max(1, front.revision or 1),
    )
