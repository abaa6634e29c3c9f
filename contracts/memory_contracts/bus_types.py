"""What can go wrong on the bus, and a message as it arrives: plain types, nothing of the library behind them."""

from collections.abc import Mapping
from typing import NamedTuple


class BusError(Exception):
    """The bus could not do what was asked."""


class BusClosed(BusError):
    """The connection is closed for good: credentials were refused, or the server sent a fatal error."""


class BusAway(BusError):
    """The bus is not connected, or the connection was lost before the answer came."""


class NoResponders(BusError):
    """Nobody answers on this subject."""


class BusTimeout(BusError):
    """No answer came in time; whether the request had an effect is unknown."""


class NotPermitted(BusError):
    """The server refused the publish: this identity may not use the subject."""


class BodyTooLarge(BusError):
    """The body is over the server's `max_payload`; nothing was sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"body of {size} bytes is over the bus limit of {limit}")
        self.size = size
        self.limit = limit


class Message(NamedTuple):
    """A message as it arrived. `reply` is empty when no answer is wanted."""

    subject: str
    reply: str
    data: bytes
    headers: Mapping[str, str]
