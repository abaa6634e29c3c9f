"""Reads the messages of a turn: which words in it may be learned from, and what is left out and counted.

Own output never comes back: blocks that `context` injected are cut out by their markers, here, and by what they said,
in `checks.py`. Roles other than `user` and `assistant`, tool parts, images and files are counted, not read.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any

from memory_contracts.turns import TurnMessage
from memory_worker.clock import EARLIEST, LATEST
from memory_worker.extraction.items import Cursor, ReadMessage, ReadTurn

MESSAGE_MAX_CHARS = 20_000
"""Longest part of one message that is read, in characters; the rest is counted as `long_message`."""

READ_ROLES = frozenset({"user", "assistant"})
_ROLE_REASONS = {
    "tool": "tool_output",
    "function": "tool_output",
    "tool_result": "tool_output",
    "system": "system_text",
    "developer": "system_text",
}

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_PART_REASONS = (
    ("image", "image"),
    ("audio", "audio"),
    ("video", "video"),
    ("tool", "tool_output"),
    ("function", "tool_output"),
    ("file", "file"),
    ("document", "file"),
    ("thinking", "thinking"),
    ("reasoning", "thinking"),
)

OWN_MARKERS = ("memory-block", "memory-rules", "memory-update", "memory-notices")
"""Names of the elements that `context` wraps its output in."""

_OWN = "|".join(OWN_MARKERS)
# Elements in which harnesses put text that no person typed: boot text, tool output, few-shot examples.
_OTHERS = "|".join(
    (
        "memory-[a-z]+",
        "system(?:[-_][a-z]+)*",
        "(?:tool|function)[-_](?:result|output|call|response)s?",
        "instructions?",
        "examples?",
        "few[-_]?shots?",
        "documents?",
        "context",
        "attachments?",
        "file(?:[-_]contents?)?",
        "search[-_]results?",
        "web[-_]?page",
        "untrusted[-_a-z]*",
    )
)
_OWN_BLOCK = re.compile(rf"<\s*({_OWN})\b[^<>]*>.*?(?:<\s*/\s*\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_OTHER_BLOCK = re.compile(rf"<\s*({_OTHERS})\b[^<>]*>.*?<\s*/\s*\1\s*>", re.IGNORECASE | re.DOTALL)
_STRAY_CLOSE = re.compile(rf"\A.*<\s*/\s*(?:{_OWN})\s*>", re.IGNORECASE | re.DOTALL)
OWN_LEAD = re.compile(
    r"^[ \t]*(?:[-*•][ \t]*)?"
    r"(?:you told me|i noticed|i wrote this down myself(?:, nothing has checked it)?)(?:, unsure)?"
    r"[ \t]*\(\d{4}-\d\d-\d\d[^)\n]*\)[ \t]*:[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
"""What leads a line of the memories block: its tier in plain words, and the date."""
_OWN_LINE = re.compile(
    OWN_LEAD.pattern + r".*$|^.*do not claim this is everything; if asked what you remember.*$", OWN_LEAD.flags
)
_OWN_WORDS = ("you told me", "i noticed", "i wrote this down myself", "do not claim this is everything")
_MAYBE_MARKUP = re.compile("[<＜﹤‹〈]")
_MARKUP_LOOKALIKES = str.maketrans(
    {"＜": "<", "﹤": "<", "‹": "<", "〈": "<", "＞": ">", "﹥": ">", "›": ">", "〉": ">"}
)
# Zero-width, bidirectional and tag characters: nobody types them, and they hide words from patterns.
# The joiners U+200C and U+200D stay: Persian, Hindi and emoji need them.
_INVISIBLE = re.compile("[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def _said_at(message: TurnMessage) -> float | None:
    """When a message was said, unix seconds; UTC where it names no zone, and unknown where no calendar shows it."""
    if message.at is None:
        return None
    at = message.at if message.at.tzinfo is not None else message.at.replace(tzinfo=UTC)
    return at.timestamp() if EARLIEST <= at <= LATEST else None


def read_messages(messages: Sequence[TurnMessage], after: Cursor | None = None) -> ReadTurn:
    """Give the messages of a turn that may be learned from, in order.

    `after` is the session's cursor: when its message is among these, everything up to and including it has been read
    before and is left out. A turn that does not hold it, a late or retried one, is read whole, since arrival order is
    not trusted.
    """
    ignored: dict[str, int] = {}
    new = list(_after(messages, after))
    if len(new) < len(messages):
        ignored["read_before"] = len(messages) - len(new)
    read: list[ReadMessage] = []
    for message in new:
        role = message.role.strip().lower()
        if role not in READ_ROLES:
            _count(ignored, _ROLE_REASONS.get(role, "unknown_role"))
            continue
        text = clean(_text_of(message, ignored), ignored)
        if not text:
            _count(ignored, "empty")
            continue
        read.append(ReadMessage(message.id, role, text, _said_at(message)))
    last = messages[-1] if messages else None
    cursor = Cursor(last.id, _said_at(last)) if last else after
    return ReadTurn(read, ignored, cursor)


def _after(messages: Sequence[TurnMessage], after: Cursor | None) -> Iterable[TurnMessage]:
    if after is None:
        return messages
    for n in range(len(messages) - 1, -1, -1):
        if messages[n].id == after.message_id:
            return messages[n + 1 :]
    return messages


def clean(text: str, ignored: dict[str, int]) -> str:
    """Take injected blocks, invisible and control characters out of `text`; count the blocks in `ignored`."""
    text = _CONTROL.sub(" ", _visible(text.replace("\r\n", "\n").replace("\r", "\n")))
    if _MAYBE_MARKUP.search(text):
        text = text.translate(_MARKUP_LOOKALIKES)
        text, own = _OWN_BLOCK.subn("\n", text)
        text, stray = _STRAY_CLOSE.subn("", text)
        text, others = _OTHER_BLOCK.subn("\n", text)
        if own + stray + others:
            ignored["injected_block"] = ignored.get("injected_block", 0) + own + stray + others
    lowered = text.lower()
    text, lines = _OWN_LINE.subn("", text) if any(words in lowered for words in _OWN_WORDS) else (text, 0)
    if lines:
        ignored["injected_block"] = ignored.get("injected_block", 0) + lines
    if len(text) > MESSAGE_MAX_CHARS:
        _count(ignored, "long_message")
        text = text[:MESSAGE_MAX_CHARS]
    return unicodedata.normalize("NFC", text).strip()


def _visible(text: str) -> str:
    return text if text.isascii() else _INVISIBLE.sub("", text)


def _text_of(message: TurnMessage, ignored: dict[str, int]) -> str:
    if message.text is not None:
        return message.text
    parts: list[Any] | str = message.parts if message.parts is not None else ""
    if isinstance(parts, str):
        return parts
    texts: list[str] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = str(part.get("type", "text")).lower() if isinstance(part, dict) else ""
        text = part.get("text") if isinstance(part, dict) else None
        if kind in _TEXT_PARTS and isinstance(text, str):
            texts.append(text)
        else:
            _count(ignored, next((reason for word, reason in _PART_REASONS if word in kind), "unknown_part"))
    return "\n".join(texts)


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
