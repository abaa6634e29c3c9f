"""Where things lie in a tenant's folder, and what a path there stands for."""

import re
from datetime import UTC, datetime
from typing import Literal

import msgspec

from memory_contracts.records import Bank
from memory_worker.files.naming import MEMORY_SUFFIX, name_of_component, safe_component

BANKS = "banks"
TRASH = ".trash"
PROBLEMS = "problems"
EXPORTS = "exports"
BANK_FILE = "bank.yaml"

Area = Literal["memory", "rule", "bank", "stray"]


class Place(msgspec.Struct, frozen=True):
    """What a path stands for. `name` is the rule's or bank's name; None where the path's own is not a valid one.

    `stray` is a file that is neither a memory, a rule nor `bank.yaml`: it is left alone and not read.
    """

    bank: str | None
    folder: str
    area: Area
    name: str | None = None


def bank_folder(bank: str) -> str:
    """Give the folder of a bank."""
    return f"{BANKS}/{safe_component(bank)}"


def bank_file(folder: str) -> str:
    """Give the path of a bank's settings."""
    return f"{folder}/{BANK_FILE}"


def memories_folder(folder: str) -> str:
    """Give the folder of a bank's memories."""
    return f"{folder}/memories"


def rules_folder(folder: str) -> str:
    """Give the folder of a bank's rules."""
    return f"{folder}/rules"


def rule_file(folder: str, rule: str) -> str:
    """Give the path of a rule."""
    return f"{rules_folder(folder)}/{safe_component(rule)}{MEMORY_SUFFIX}"


def trash_folder(bank: Bank) -> str:
    """Give the folder of a bank in the trash, `bank` as it was trashed: its name, when, and which of that moment."""
    at = (bank.trashed_at or datetime.fromtimestamp(0, UTC)).astimezone(UTC)
    mark = (bank.trash_id or "")[-6:].lower()
    return f"{TRASH}/{safe_component(bank.name)}-{at:%Y%m%dT%H%M%SZ}-{mark}"


def place_of(path: str) -> Place | None:
    """Tell what a path stands for; None where it lies in no bank's folder."""
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != BANKS:
        return None
    folder = f"{BANKS}/{parts[1]}"
    bank = name_of_component(parts[1])
    below = parts[2:]
    if below == [BANK_FILE]:
        return Place(bank, folder, "bank", bank)
    markdown = path.endswith(MEMORY_SUFFIX)
    if below[0] == "memories" and len(below) > 1 and markdown:
        return Place(bank, folder, "memory")
    if below[0] == "rules" and len(below) == 2 and markdown:
        return Place(bank, folder, "rule", name_of_component(below[1].removesuffix(MEMORY_SUFFIX)))
    return Place(bank, folder, "stray")


def printable(path: str) -> str:
    """Give a path as one safe line, for reports: what is not plain text in it is written as an escape."""
    shown = re.sub(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", _escape, path)
    return shown if len(shown) <= 300 else f"{shown[:299]}…"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
