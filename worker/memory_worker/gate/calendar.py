"""When a memory lapses: calendar months after it was last said, exact to the second, in UTC."""

import calendar
from datetime import datetime

from memory_contracts.records import Expiry

MONTHS: dict[Expiry, int | None] = {"month": 1, "quarter": 3, "year": 12, "never": None}
"""Calendar months of each bank setting."""


def add_months(at: datetime, months: int) -> datetime:
    """The same day and time `months` later; the last day of the month where that day does not exist."""
    index = at.month - 1 + months
    year, month = at.year + index // 12, index % 12 + 1
    return at.replace(year=year, month=month, day=min(at.day, calendar.monthrange(year, month)[1]))


def expires_at(expiry: Expiry, said_at: datetime) -> datetime | None:
    """When something said at `said_at` lapses under a bank's setting; None for never."""
    months = MONTHS[expiry]
    return None if months is None else add_months(said_at, months)
