"""Recognises the question for the whole memory, and reads a bank back as text, with no model."""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import pairwise

from memory_contracts.names import Tier
from memory_contracts.records import Memory
from memory_worker.context import safe
from memory_worker.context.block import happened

SHORT_MESSAGE_CHARS = 300
"""A longer message is read only in its first and last sentence: the question may stand in something pasted."""
SENTENCE_CHARS = 160
"""Longest sentence that is read, in characters; a question for everything is short."""
SENTENCES_MAX = 12
"""Most sentences of one message that are read."""

_SENTENCE_END = re.compile(r"[.!?。！？؟।\n]+")
_APOSTROPHE_IN_WORD = re.compile(r"(?<=\w)['’ʼ](?=(?:s|d|ve|m|re|ll|t)\b)")
_NO_WORD = re.compile(r"[^\w\u0900-\u0dff\u0300-\u036f]+|_")

_TIERS: tuple[tuple[Tier, str], ...] = (
    ("stated", "What you told me"),
    ("observed", "What I noticed"),
    ("inferred", "What I wrote down myself; nothing has checked it"),
)
_NO_ENTITY = "Other"


def asks_for_everything(message: str) -> bool:
    """Tell whether a message asks what is remembered, as in “what do you remember about me”, in any known language."""
    patterns = _patterns()
    return any(pattern.fullmatch(sentence) for sentence in _sentences(message) for pattern in patterns)


def render_bank(memories: Sequence[Memory], total: int, bank: str) -> str:
    """Read memories of a bank back: grouped by tier and entity, each line with its date and how sure it is.

    `total` counts all that match; what is not on this page is said. Stored text cannot add a line or a heading.
    """
    if not memories:
        return f"Nothing is remembered in {bank}." if total == 0 else f"No more of the {total} memories in {bank}."
    shown = f"All {total}" if len(memories) == total else f"{len(memories)} of {total}"
    lines = [f"{shown} memories in {bank}:"]
    for tier, heading in _TIERS:
        of_tier = [memory for memory in memories if memory.tier == tier]
        if not of_tier:
            continue
        lines += ["", f"## {heading}"]
        for entity, group in _by_entity(of_tier):
            lines.append(f"### {safe.line(entity)}")
            lines += [_line(memory) for memory in group]
    return "\n".join(lines)


def _line(memory: Memory) -> str:
    notes = [f"{happened(memory):%Y-%m-%d}", _certainty(memory)]
    if memory.pinned:
        notes.append("pinned")
    if memory.state != "live":
        notes.append(memory.state)
    return f"- ({', '.join(notes)}) {safe.line(memory.text)}"


def _certainty(memory: Memory) -> str:
    if memory.tier == "stated":
        sure = "your words"
    elif memory.tier == "observed":
        sure = "reported by a sensor or system"
    else:
        sure = "my reading, unchecked" if memory.source.quote else "unchecked, without a source"
    if memory.confidence == "low":
        sure = f"unsure, {sure}"
    elif memory.confidence == "high":
        sure = f"sure, {sure}"
    return f"{sure}, said {memory.corroboration} times" if memory.corroboration > 1 else sure


def _by_entity(memories: Sequence[Memory]) -> list[tuple[str, list[Memory]]]:
    groups: dict[str, list[Memory]] = {}
    names: dict[str, str] = {}
    for memory in memories:
        name = memory.entities[0] if memory.entities else ""
        key = safe.line(name).casefold()
        names.setdefault(key, name)
        groups.setdefault(key, []).append(memory)
    order = sorted(groups, key=lambda key: (key == "", key))
    return [(names[key] or _NO_ENTITY, groups[key]) for key in order]


def _sentences(message: str) -> list[str]:
    ends = [0, *(found.end() for found in _SENTENCE_END.finditer(message)), len(message)]
    parts = [message[start:end] for start, end in pairwise(ends) if message[start:end].strip()]
    if len(message) > SHORT_MESSAGE_CHARS:
        parts = [*parts[:1], *parts[-1:]]
    return [_plain(part) for part in parts[:SENTENCES_MAX] if len(part) <= SENTENCE_CHARS]


def _plain(sentence: str) -> str:
    text = unicodedata.normalize("NFKC", sentence).replace("İ", "i").casefold()
    text = _APOSTROPHE_IN_WORD.sub("", text)
    return _NO_WORD.sub(" ", text).strip()


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    text = resources.files(__package__).joinpath("readback.toml").read_text("utf-8")
    compiled = []
    for language in tomllib.loads(text).values():
        choices = "|".join(f"(?:{pattern})" for pattern in language["patterns"])
        expression = unicodedata.normalize("NFKC", f"{language['before']}(?:{choices}){language['after']}")
        compiled.append(re.compile(expression.casefold()))
    return tuple(compiled)


def languages() -> tuple[str, ...]:
    """Codes of the languages in which the question is known."""
    text = resources.files(__package__).joinpath("readback.toml").read_text("utf-8")
    return tuple(tomllib.loads(text))
