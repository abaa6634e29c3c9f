"""Turns the dates people say into days, seen from the time of the message: “last Friday”, “15 March”, “2024-03-15”.

A day is given as the unix seconds of its start in UTC: a chat does not say in which zone its user lives.
"""

import re
from datetime import UTC, date, datetime, time, timedelta

from memory_worker.clock import EARLIEST, LATEST, to_datetime
from memory_worker.extraction.patterns import MONTHS

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NUMBERS = {
    word: n
    for n, word in enumerate(("a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_COUNT = r"\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|a couple of"
_SAID = re.compile(
    rf"(?P<iso>\b\d{{4}}-\d\d-\d\d\b)"
    rf"|\b(?P<m1>{MONTHS})\.? (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,? (?P<y1>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\.? (?:of )?(?P<m2>{MONTHS})\b(?:,? (?P<y2>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<rel>today|tonight|yesterday|tomorrow|(?:the )?day before yesterday|(?:the )?day after tomorrow)\b"
    rf"|\b(?P<dir>last|this past|next|this|this coming|on) (?P<wd>{_WEEKDAY})\b"
    rf"|\b(?P<ago>{_COUNT}) (?P<unit1>day|week|month|year)s? ago\b"
    rf"|\bin (?P<hence>{_COUNT}) (?P<unit2>day|week|month|year)s?(?: from now)?\b",
    re.IGNORECASE,
)
_RELATIVE = {
    "today": 0,
    "tonight": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "day before yesterday": -2,
    "day after tomorrow": 2,
}


def said_date(text: str, at: float | None) -> float | None:
    """Give the one day that `text` names, seen from the message's time `at`; `None` for no date or several."""
    days = {day for day in (_day(match, at) for match in _SAID.finditer(text)) if day is not None}
    return _kept(datetime.combine(days.pop(), time(), UTC)) if len(days) == 1 else None


def read_date(text: str, at: float | None) -> float | None:
    """Read a date field of a model: ISO 8601, or words as in `said_date`; `None` when it is neither."""
    try:
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return said_date(text, at)
    return _kept(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _kept(at: datetime) -> float | None:
    """A time as unix seconds; None for one that is not kept because some zone's calendar cannot show it."""
    return at.timestamp() if EARLIEST <= at <= LATEST else None


def _day(match: re.Match[str], at: float | None) -> date | None:
    try:
        return _named_day(match, at)
    except (ValueError, OverflowError):  # before the first or after the last day of the calendar
        return None


def _named_day(match: re.Match[str], at: float | None) -> date | None:
    if match["iso"]:
        return _make(int(match["iso"][:4]), int(match["iso"][5:7]), int(match["iso"][8:]))
    base = to_datetime(at).date() if at is not None else None
    month = match["m1"] or match["m2"]
    if month:
        number = _MONTHS.index(month[:3].lower()) + 1
        day = int(match["d1"] or match["d2"])
        year = match["y1"] or match["y2"]
        if year:
            return _make(int(year), number, day)
        return _nearest(base, number, day) if base else None
    if base is None:
        return None
    if match["rel"]:
        return base + timedelta(days=_RELATIVE[match["rel"].lower().removeprefix("the ")])
    if match["wd"]:
        return _weekday(base, _DAYS.index(match["wd"][:3].lower()), match["dir"].lower())
    count = match["ago"] or match["hence"]
    sign = -1 if match["ago"] else 1
    number = int(count) if count.isdigit() else _NUMBERS.get(count.lower(), 1)
    return _shift(base, sign * number, (match["unit1"] or match["unit2"]).lower())


def _weekday(base: date, wanted: int, direction: str) -> date | None:
    ahead = (wanted - base.weekday()) % 7
    if direction in ("last", "this past"):
        return base - timedelta(days=(base.weekday() - wanted) % 7 or 7)
    if direction == "next":
        return base + timedelta(days=ahead or 7)
    return base + timedelta(days=ahead) if direction.startswith("this") else None


def _shift(base: date, number: int, unit: str) -> date | None:
    if unit in ("day", "week"):
        return base + timedelta(days=number * (7 if unit == "week" else 1))
    months = base.year * 12 + base.month - 1 + number * (12 if unit == "year" else 1)
    return _make(months // 12, months % 12 + 1, min(base.day, 28))


def _nearest(base: date, month: int, day: int) -> date | None:
    """The day of that month nearest to the message: “15 March” said in February is this year's."""
    options = [d for d in (_make(base.year + n, month, day) for n in (-1, 0, 1)) if d is not None]
    return min(options, key=lambda d: abs((d - base).days), default=None)


def _make(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
