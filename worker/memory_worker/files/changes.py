"""What a person changed in a file, as requests to the gate."""

from datetime import datetime
from typing import Any

import msgspec

from memory_contracts.functions.banks import BankUpdateRequest
from memory_contracts.functions.memories import SaveRequest, UpdateRequest
from memory_contracts.records import Bank, Memory
from memory_worker.files.format import BankFile, MemoryFile, fold, source_fields
from memory_worker.store.journal import JournalRow

_memory = msgspec.json.Decoder(Memory).decode

FILE_PRINCIPAL = "file"
"""Principal under which hand edits arrive."""


def difference(file: MemoryFile, memory: Memory) -> dict[str, Any]:
    """Give the fields a file changes of a memory, by their names in the contract, `pinned` included.

    A label that is missing from front matter is an emptied one; a missing `kind`, `pinned` or `confidence` and front
    matter that is missing altogether change nothing.
    """
    wanted: dict[str, Any] = {"text": file.text}
    front = file.front
    if front is not None:
        wanted |= {
            "subject": front.subject,
            "entities": tuple(front.entities),
            "tags": tuple(front.tags),
            "about": tuple(front.about),
            "claim": front.claim,
            "expires_at": front.expires,
        }
        for name in ("kind", "pinned", "confidence"):
            if getattr(front, name) is not None:
                wanted[name] = getattr(front, name)
    now = {name: getattr(memory, name) for name in wanted}
    now["text"] = fold(memory.text)
    return {name: value for name, value in wanted.items() if value != now[name]}


def frozen(file: MemoryFile, memory: Memory) -> list[str]:
    """Name the fields a file changes although they are not a person's to change by hand."""
    front = file.front
    if front is None:
        return []
    known: dict[str, Any] = {
        "id": memory.id,
        "tier": memory.tier,
        "source": source_fields(memory.source),
        "slot": memory.slot,
        "protected": memory.protected,
        "learned": memory.created_at,
        "occurred": memory.occurred_at,
    }
    changed = [
        name for name, value in known.items() if getattr(front, name) is not None and getattr(front, name) != value
    ]
    if front.revision is not None and front.revision > memory.revision:
        changed.append("revision")
    return changed


def update_of(memory_id: str, revision: int | None, changed: dict[str, Any]) -> UpdateRequest | None:
    """Make the request for changed fields, None where only `pinned` changed."""
    fields = {name: value for name, value in changed.items() if name != "pinned"}
    for name in ("entities", "tags", "about"):
        if name in fields:
            fields[name] = list(fields[name])
    return UpdateRequest(id=memory_id, expected_revision=revision, **fields) if fields else None


def save_of(file: MemoryFile, bank: str, *, without_subject: str | None = None) -> SaveRequest:
    """Make the request for a new file. `without_subject` is left out, so that a copy does not replace its original."""
    front = file.front
    if front is None:
        return SaveRequest(text=file.text, bank=bank)
    pinned = bool(front.pinned)
    return SaveRequest(
        text=file.text,
        bank=bank,
        kind=front.kind or "fact",
        subject=None if front.subject == without_subject else front.subject,
        entities=front.entities,
        tags=front.tags,
        about=front.about,
        claim=front.claim,
        pinned=pinned,
        confidence=front.confidence or "normal",
        occurred_at=front.occurred,
        expires_at=None if pinned else front.expires,
    )


def bank_update_of(file: BankFile, bank: Bank) -> BankUpdateRequest | None:
    """Make the request for changed settings of a bank, None where nothing changed."""
    fields: dict[str, Any] = {}
    for name in ("description", "managers", "layers", "review", "expiry", "mirror"):
        value = getattr(file, name)
        now = getattr(bank, name)
        if value is not None and value != (list(now) if isinstance(now, tuple) else now):
            fields[name] = value
    return BankUpdateRequest(name=bank.name, **fields) if fields else None


def frozen_of_bank(file: BankFile, bank: Bank) -> list[str]:
    """Name the settings a file changes although they cannot be changed."""
    return [
        name
        for name in ("name", "owner")
        if getattr(file, name) is not None and getattr(file, name) != getattr(bank, name)
    ]


class Lineage:
    """The revisions of one record, as the journal tells them."""

    def __init__(self, rows: list[JournalRow]) -> None:
        self._rows = [(row, _revision(row)) for row in rows]

    def memory_at(self, revision: int) -> Memory | None:
        """Give a memory as it was at a revision."""
        found: Memory | None = None
        for row, number in self._rows:
            if number == revision and row.after is not None:
                found = _memory(row.after)
        return found

    def content_at(self, revision: int) -> bytes | None:
        """Give a record's stored JSON as it was at a revision."""
        found = None
        for row, number in self._rows:
            if number == revision:
                found = row.after
        return found

    def had_expiry(self, revision: int, at: datetime | None) -> bool:
        """Whether the memory had that expiry at a revision: being said again puts it off without a new revision."""
        return any(
            number == revision and row.after is not None and _memory(row.after).expires_at == at
            for row, number in self._rows
        )

    def by_hand_since(self, revision: int) -> bool:
        """Whether every revision after this one came from the file itself: then an edit continues its own text."""
        later = [row for row, number in self._rows if number is not None and number > revision]
        return bool(later) and all(
            row.actor_principal == FILE_PRINCIPAL or row.type == "memory.reinforced" for row in later
        )


class _Revised(msgspec.Struct):
    revision: int = 0


_revised = msgspec.json.Decoder(_Revised).decode


def _revision(row: JournalRow) -> int | None:
    return None if row.after is None else _revised(row.after).revision
