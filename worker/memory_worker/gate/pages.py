"""Cursors of pages: opaque to the caller, bound to the list they were made for, checked when they come back."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from memory_contracts.errors import invalid
from memory_contracts.functions.base import Request
from memory_contracts.names import SEQ_MAX, Seq

FREE_FIELDS = frozenset({"cursor", "limit", "render"})
"""Fields of a request that may differ from page to page; with any other it would be another list."""
MARK_BYTES = 6
"""Length of the mark that tells lists apart, in bytes."""

BYTES_MAX = 640 * 1_024
"""Most bytes of the records of one page: the bus takes 1 MiB a message, and the rest of a reply needs room."""

At = Annotated[float, Meta(ge=-SEQ_MAX, le=SEQ_MAX)]


class Position(msgspec.Struct, array_like=True, frozen=True):
    """Where a page ended: the order's value and the id."""

    at: At
    id: str


class CountedPosition(Position, array_like=True, frozen=True):
    """Where a page ended, and how many there were in all when the first page was counted."""

    total: Seq


class NamePosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a page by name ended."""

    name: str
    id: str


class _Cursor(msgspec.Struct, array_like=True, frozen=True):
    """What a cursor holds: the mark of its list, and where the page ended."""

    list: str
    position: msgspec.Raw


R = TypeVar("R")


def fit(records: Sequence[R], limit: int, bytes_max: int = BYTES_MAX) -> tuple[list[R], bool]:
    """Cut what was found to a page: at most `limit` records and `bytes_max` bytes of JSON, one record at least.

    Tells whether there are more; then the caller's cursor goes on behind the last one of the page.
    """
    page: list[R] = []
    size = 0
    for record in records[:limit]:
        size += len(msgspec.json.encode(record))
        if page and size > bytes_max:
            break
        page.append(record)
    return page, len(page) < len(records)


P = TypeVar("P", Position, CountedPosition, NamePosition)


def to_cursor(request: Request, position: Position | NamePosition) -> str:
    """Give the cursor that asks for the next page of the list that `request` asked for."""
    held = _Cursor(_mark(request), msgspec.Raw(msgspec.json.encode(position)))
    return base64.urlsafe_b64encode(msgspec.json.encode(held)).decode().rstrip("=")


def from_cursor(request: Request) -> Position | None:
    """Read a request's cursor back. Raises `invalid_input` for one that this worker did not make for this list."""
    return read_cursor(request, Position)


def read_cursor(request: Request, kind: type[P]) -> P | None:
    """Read a request's cursor back as one kind of position.

    Raises `invalid_input` for one that this worker did not make, and for one of another list: read on from there, rows
    would be missing without a word.
    """
    cursor: str | None = getattr(request, "cursor", None)
    if cursor is None:
        return None
    hint = "use the cursor of the page before"
    try:
        held = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=_Cursor)
        position = msgspec.json.decode(held.position, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise invalid("cursor is not one of this worker's", "cursor", hint) from error
    if held.list != _mark(request):
        raise invalid("cursor belongs to another list", "cursor", f"{hint}, with the same filters and order")
    return position


def after(request: Request) -> tuple[float, str] | None:
    """Read a request's cursor as the pair that the store's pages take."""
    position = from_cursor(request)
    return None if position is None else (position.at, position.id)


def _mark(request: Request) -> str:
    """What tells one list from another: the function, its filters and its order."""
    fields = {name: getattr(request, name) for name in request.__struct_fields__ if name not in FREE_FIELDS}
    written = msgspec.json.encode([type(request).__name__, fields])
    return hashlib.blake2b(written, digest_size=MARK_BYTES).hexdigest()
