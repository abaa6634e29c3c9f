"""Brings texts and labels into the one form in which they are kept and queried."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime

from memory_contracts.errors import invalid
from memory_contracts.names import LABEL_MAX_CHARS, TEXT_MAX_CHARS
from memory_worker.clock import EARLIEST, LATEST

_FOLD = re.compile(r"[\s\x85\u2028\u2029]+")


def _control(text: str, allowed: str) -> str | None:
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in allowed:
            return f"U+{ord(character):04X}"
    return None


def clean_text(text: str, field: str = "text", most: int = TEXT_MAX_CHARS) -> str:
    """Fold newlines and runs of white space to one space and cut both ends.

    Raises `invalid_input` for control characters, for nothing but white space, and beyond `most` characters.
    """
    found = _control(text, "\t\n\r\x0b\x0c\x85\x1c\x1d\x1e\x1f")
    if found:
        raise invalid(f"{field} holds the control character {found}", field, "remove control characters")
    folded = _FOLD.sub(" ", text).strip()
    if not folded:
        raise invalid(f"{field} is empty", field, f"give 1 to {most} characters")
    if len(folded) > most:
        raise invalid(f"{field} has {len(folded)} characters, at most {most}", field, "shorten it")
    return folded


def clean_document(text: str, field: str = "content") -> str:
    """Fold line ends to LF and cut trailing white space. Raises `invalid_input` for control characters."""
    found = _control(text, "\t\n\r")
    if found:
        raise invalid(f"{field} holds the control character {found}", field, "remove control characters")
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")).strip("\n")


def clean_label(value: str, field: str) -> str:
    """Give the form in which tags, handles, subjects and slots are written and queried: NFKC, case-folded, trimmed."""
    folded = unicodedata.normalize("NFKC", clean_text(value, field, LABEL_MAX_CHARS)).casefold()
    return clean_text(folded, field, LABEL_MAX_CHARS)


def clean_labels(values: Iterable[str], field: str) -> tuple[str, ...]:
    """Clean each label and drop repeats, keeping the order."""
    return tuple(dict.fromkeys(clean_label(value, f"{field}[{i}]") for i, value in enumerate(values)))


def clean_names(values: Iterable[str], field: str) -> tuple[str, ...]:
    """Clean each name, keeping its case, and drop repeats whatever their case."""
    found: dict[str, str] = {}
    for i, value in enumerate(values):
        name = clean_text(value, f"{field}[{i}]", LABEL_MAX_CHARS)
        found.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
    return tuple(found.values())


def clean_instant(at: datetime, field: str) -> datetime:
    """Give a time in UTC. Raises `invalid_input` for one that some zone's calendar cannot show."""
    if not EARLIEST <= at <= LATEST:
        raise invalid(f"{field} lies outside {EARLIEST.date()} to {LATEST.date()}", field, "give a nearer time")
    return at.astimezone(UTC)
