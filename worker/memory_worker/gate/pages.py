"""Cursors of pages: opaque to the caller, checked when they come back."""

import base64
import binascii

import msgspec

from memory_contracts.errors import invalid


class Position(msgspec.Struct, array_like=True, frozen=True):
    """Where a page ended: the order's value and the id."""

    at: float
    id: str


def to_cursor(position: Position) -> str:
    """Give the cursor of a position."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def from_cursor(cursor: str | None) -> Position | None:
    """Read a cursor back. Raises `invalid_input` for one that this worker did not make."""
    if cursor is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=Position)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise invalid("cursor is not one of this worker's", "cursor", "use the cursor of the page before") from error


def after(cursor: str | None) -> tuple[float, str] | None:
    """Read a cursor as the pair that the store's pages take."""
    position = from_cursor(cursor)
    return None if position is None else (position.at, position.id)
