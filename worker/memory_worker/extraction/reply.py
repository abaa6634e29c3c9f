"""Reads a model's reply item by item: prose around it, a cut end and bad items cost no more than themselves."""

import json
import re
from typing import Any, get_args

from memory_contracts.names import LABEL_MAX_CHARS, Confidence, Kind
from memory_contracts.records import Claim
from memory_worker.extraction.dates import read_date, said_date
from memory_worker.extraction.items import Candidate, ReadMessage

REPLY_MAX_CHARS = 400_000
"""Longest part of a reply that is read, in characters."""
ITEMS_READ_MAX = 1_000
"""Most items of one reply that are looked at."""

_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
"""What some models write before they answer."""
_KINDS = frozenset(get_args(Kind))
_CONFIDENCES = frozenset(get_args(Confidence))
_DECODER = json.JSONDecoder(strict=False)


class Unreadable(Exception):
    """The reply holds no items and no empty list of them."""


def read_items(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Give the complete items of a reply, and whether it was cut short; raises `Unreadable`.

    The reply should be `{"items": [...]}`. A bare list, one bare item, a fence or prose around it, and a list that
    breaks off are read as well.
    """
    text = _THOUGHTS.sub("", text[:REPLY_MAX_CHARS])
    start = _list_start(text)
    if start is None:
        alone = _objects(text, 0)[0]
        if alone:
            return alone, False
        raise Unreadable("no items")
    items, complete = _objects(text, start + 1)
    return items, not complete


def _list_start(text: str) -> int | None:
    """Where the list of items opens: after `"items":`, or the first bracket that opens a list of objects."""
    at = text.find('"items"')
    if at >= 0:
        bracket = text.find("[", at)
        if bracket >= 0 and not text[at + 7 : bracket].strip(" \t\r\n:"):
            return bracket
    at = -1
    while (at := text.find("[", at + 1)) >= 0:
        if text[at + 1 :].lstrip()[:1] in ("{", "]"):
            return at
    return None


def _objects(text: str, at: int) -> tuple[list[dict[str, Any]], bool]:
    """The objects of a list from `at` on, and whether its end was reached. What does not decode is stepped over."""
    out: list[dict[str, Any]] = []
    while at < len(text) and len(out) < ITEMS_READ_MAX:
        char = text[at]
        if char == "]":
            return out, True
        if char not in "{[":
            at += 1
            continue
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            at += 1
            continue
        if isinstance(value, dict) and "text" in value:
            out.append(value)
    return out, at < len(text)


def candidate(item: dict[str, Any], messages: dict[str, ReadMessage], model: str) -> Candidate | None:
    """Make a candidate of one item; `None` when it lacks what it must have: `text`, `quote`, `message_id`."""
    text, quote = item.get("text"), item.get("quote")
    message_id = item.get("message_id")
    if isinstance(message_id, int) and not isinstance(message_id, bool):
        message_id = str(message_id)
    if not (isinstance(text, str) and isinstance(quote, str) and isinstance(message_id, str)):
        return None
    message = messages.get(message_id)
    role = item.get("role")
    at = message.at if message else None
    occurred = item.get("occurred_at")
    occurred_at = read_date(occurred, at) if isinstance(occurred, str) and occurred.strip() else None
    kind: Kind = item["kind"] if _known(item.get("kind"), _KINDS) else "fact"
    confidence: Confidence = item["confidence"] if _known(item.get("confidence"), _CONFIDENCES) else "normal"
    subject = item.get("subject")
    return Candidate(
        text=text,
        kind=kind,
        quote=quote,
        message_id=message_id,
        role=role if isinstance(role, str) else (message.role if message else "user"),
        subject=subject if isinstance(subject, str) else None,
        entities=_strings(item.get("entities")),
        tags=_strings(item.get("tags")),
        claim=_claim(item.get("claim")),
        confidence=confidence,
        occurred_at=occurred_at if occurred_at is not None else said_date(quote, at),
        model=model,
        standing=kind == "instruction" and item.get("standing") is True,
    )


def _known(value: Any, values: frozenset[str]) -> bool:
    return isinstance(value, str) and value in values


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _claim(value: Any) -> Claim | None:
    if not isinstance(value, dict):
        return None
    parts = [value.get(name) for name in ("entity", "property", "value")]
    if not all(isinstance(p, str) and 0 < len(p.strip()) <= LABEL_MAX_CHARS for p in parts):
        return None
    entity, prop, said = (" ".join(str(p).split()) for p in parts)
    return Claim(entity=entity, property=prop, value=said)
