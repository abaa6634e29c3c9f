"""The one source of wall-clock time, so that tests can move it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        return time.time()


EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)
"""The first and the last time that is kept: a day within the calendar, so that every zone can show it."""


def to_datetime(seconds: float) -> datetime:
    """Unix seconds as an aware UTC datetime, to the microsecond."""
    return datetime.fromtimestamp(round(seconds, 6), UTC)


def to_seconds(at: datetime) -> float:
    """An aware datetime as Unix seconds."""
    return at.timestamp()
