"""Cursors of pages: opaque to the caller, checked when they come back."""

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from memory_contracts.errors import invalid


class Position(msgspec.Struct, array_like=True, frozen=True):
    """Where a page ended: the order's value and the id."""

    at: float
    id: str


class CountedPosition(Position, array_like=True, frozen=True):
    """Where a page ended, and how many there were in all when the first page was counted."""

    total: Annotated[int, Meta(ge=0)]


class NamePosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a page by name ended."""

    name: str
    id: str


P = TypeVar("P", Position, CountedPosition, NamePosition)


def to_cursor(position: Position | NamePosition) -> str:
    """Give the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def from_cursor(cursor: str | None) -> Position | None:
    """Read a cursor back. Raises `invalid_input` for one that this worker did not make."""
    return read_cursor(cursor, Position)


def read_cursor(cursor: str | None, kind: type[P]) -> P | None:
    """Read a cursor back as one kind of position. Raises `invalid_input` for one that this worker did not make."""
    if cursor is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise invalid("cursor is not one of this worker's", "cursor", "use the cursor of the page before") from error


def after(cursor: str | None) -> tuple[float, str] | None:
    """Read a cursor as the pair that the store's pages take."""
    position = from_cursor(cursor)
    return None if position is None else (position.at, position.id)
