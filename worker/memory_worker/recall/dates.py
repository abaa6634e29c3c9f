"""Reads dates out of text, and names the days and months of a memory as index terms.

Terms: `@2024-03-15` a day, `@2024-03` a month of a year, `@2024` a year, `@m03` a month of any year, `@03-15` a day
of any year.
"""

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import regex

from memory_worker.clock import EARLIEST, LATEST
from memory_worker.recall.analysis import fold

TEXT_DATES_MAX = 12
"""Most dates read out of one text."""

_MONTHS = {
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
    "october": 10, "november": 11, "december": 12, "jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8,
    "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
    "januar": 1, "februar": 2, "marz": 3, "mai": 5, "juni": 6, "juli": 7, "oktober": 10, "dezember": 12,
    "janvier": 1, "fevrier": 2, "mars": 3, "avril": 4, "juin": 6, "juillet": 7, "aout": 8, "septembre": 9,
    "octobre": 10, "novembre": 11, "decembre": 12,
    "enero": 1, "febrero": 2, "marzo": 3, "abril": 4, "mayo": 5, "junio": 6, "julio": 7, "agosto": 8, "septiembre": 9,
    "octubre": 10, "noviembre": 11, "diciembre": 12,
    "января": 1, "февраля": 2, "марта": 3, "апреля": 4, "мая": 5, "июня": 6, "июля": 7, "августа": 8, "сентября": 9,
    "октября": 10, "ноября": 11, "декабря": 12,
}  # fmt: skip
_DAYS = {"monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}

_M = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ABSOLUTE = regex.compile(
    rf"""(?<![\w.])(?:
      (?P<iy>\d{{4}})[-/.](?P<im>\d{{1,2}})(?:[-/.](?P<id>\d{{1,2}}))?(?![\w])
    | (?P<jy>\d{{4}})年(?:(?P<jm>\d{{1,2}})月(?:(?P<jd>\d{{1,2}})日)?)?
    | (?P<sa>\d{{1,2}})/(?P<sb>\d{{1,2}})/(?P<sy>\d{{4}})
    | (?P<m1>{_M})\.?\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s*,?\s*(?P<y1>(?:19|20)\d\d))?(?!\w)
    |
    (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\.?\s+(?:of\s+|de\s+)?(?P<m2>{_M})(?!\w)\.?(?:\s*,?\s*(?:de\s+)?(?P<y2>(?:19|20)\d\d)(?!\w))?
    | (?P<m3>{_M})\s*,?\s+(?:of\s+|de\s+)?(?P<y3>(?:19|20)\d\d)(?!\w)
    | (?P<y4>(?:19|20)\d\d)(?![\w.:,]\d|\w)
    | (?:in|during|since|until|by|last|this|next|early|late|mid|of)[\s-]+(?P<m4>{_M})(?!\w)(?!\s*,?\s+(?:of\s+)?\d)
    )""",
    regex.VERBOSE,
)
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_TRIGGERS = frozenset(_MONTHS) | frozenset(
    ["today", "tomorrow", "yesterday", "tonight", "morning", "night", "last", "this", "next", "past", "ago"]
)
"""A text without a digit and without any of these words holds no date; the slower patterns need not look."""
_RELATIVE = regex.compile(
    r"""(?<!\w)(?:
      (?P<today>today|this\ morning|tonight|this\ afternoon|this\ evening) | (?P<yesterday>yesterday|last\ night)
    | (?P<tomorrow>tomorrow) | (?P<before>the\ day\ before\ yesterday)
    | (?P<which>last|this|next|past)\ (?P<unit>week|weekend|month|year)
    | (?P<wday>last|this|next|on)\ (?P<day>monday|tuesday|wednesday|thursday|friday|saturday|sunday)
    | (?P<n>a|an|one|two|three|four|five|six|seven|eight|\d{1,2})\ (?P<nunit>day|week|month|year)s?\ ago
    )(?!\w)""",
    regex.VERBOSE,
)


class DateMention(NamedTuple):
    """A stretch of time that a text names: [first, last] days, its place in the folded text, its most exact term.

    `first` is None for a month or day of no stated year.
    """

    start: int
    end: int
    first: date | None
    last: date | None
    term: str


def mentions(text: str, reference: datetime | None = None) -> list[DateMention]:
    """The dates in a text; relative ones (“yesterday”, “last week”) only against a reference time."""
    folded = fold(text)
    if not _DIGIT.search(folded) and _TRIGGERS.isdisjoint(_WORD.findall(folded)):
        return []
    found = [m for match in _ABSOLUTE.finditer(folded) if (m := _absolute(match))]
    if reference is not None:
        found += [m for match in _RELATIVE.finditer(folded) if (m := _relative(match, reference.date()))]
    return found[:TEXT_DATES_MAX]


def _absolute(match: regex.Match[str]) -> DateMention | None:
    g = match.groupdict()
    month_name = g["m1"] or g["m2"] or g["m3"] or g["m4"]
    year = g["iy"] or g["jy"] or g["sy"] or g["y1"] or g["y2"] or g["y3"] or g["y4"]
    month = _MONTHS[month_name] if month_name else int(g["im"] or g["jm"] or g["sa"] or 0)
    day = int(g["id"] or g["jd"] or g["sb"] or g["d1"] or g["d2"] or 0)
    if g["sa"] and month > 12 >= day:
        month, day = day, month
    start, end = match.span()
    try:
        if year and month and day:
            exact = date(int(year), month, day)
            return DateMention(start, end, exact, exact, f"@{exact.isoformat()}")
        if year and month:
            first = date(int(year), month, 1)
            return DateMention(start, end, first, _month_end(first), f"@{first:%Y-%m}")
        if year:
            return DateMention(start, end, date(int(year), 1, 1), date(int(year), 12, 31), f"@{int(year)}")
        date(2024, month, day or 1)
    except ValueError:
        return None
    return DateMention(start, end, None, None, f"@{month:02d}-{day:02d}" if day else f"@m{month:02d}")


def _month_end(first: date) -> date:
    return first.replace(day=calendar.monthrange(first.year, first.month)[1])


def _relative(match: regex.Match[str], today: date) -> DateMention | None:
    try:
        first, last = _days_meant(match.groupdict(), today)
    except (ValueError, OverflowError):  # beside the first or the last day of the calendar
        return None
    term = (
        f"@{first.isoformat()}" if first == last else f"@{first:%Y-%m}" if first.day == 1 else f"@{first.isoformat()}"
    )
    return DateMention(match.start(), match.end(), first, last, term)


def _days_meant(g: dict[str, str], today: date) -> tuple[date, date]:
    """The first and the last day of what is named relative to `today`."""
    first, last = today, today
    if g["yesterday"] or g["tomorrow"] or g["before"]:
        first = last = today + timedelta(days=1 if g["tomorrow"] else -1 if g["yesterday"] else -2)
    elif g["unit"]:
        step = {"next": 1, "this": 0}.get(g["which"], -1)
        first, last = _period(today, g["unit"], step)
    elif g["day"]:
        back = (today.weekday() - _DAYS[g["day"]]) % 7
        ahead = -back % 7
        first = last = (
            today + timedelta(days=ahead or 7) if g["wday"] in ("next", "this") else today - timedelta(back or 7)
        )
    elif g["nunit"]:
        count = _NUMBERS.get(g["n"]) or int(g["n"])
        if g["nunit"] == "day":
            first = last = today - timedelta(days=count)
        else:
            first, last = _period(today, g["nunit"], -count)
    return first, last


def _period(today: date, unit: str, step: int) -> tuple[date, date]:
    """The calendar week (Monday first), weekend, month or year `step` away from the one of `today`."""
    if unit in ("week", "weekend"):
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
        return (monday + timedelta(days=5 if unit == "weekend" else 0), monday + timedelta(days=6))
    if unit == "month":
        months = today.year * 12 + today.month - 1 + step
        first = date(max(1, months // 12), months % 12 + 1, 1)
        return first, _month_end(first)
    return date(max(1, today.year + step), 1, 1), date(max(1, today.year + step), 12, 31)


def day_terms(day: date) -> tuple[str, str, str, str, str]:
    """The terms of a day, most exact first."""
    return (f"@{day.isoformat()}", f"@{day:%Y-%m}", f"@{day.year}", f"@m{day.month:02d}", f"@{day:%m-%d}")


def terms_of_memory(text: str, happened: datetime | None, written: datetime) -> Iterator[str]:
    """The date terms a memory is indexed under: of when it happened, and of the dates its text names."""
    seen: set[str] = set()
    if happened is not None and not EARLIEST <= happened <= LATEST:
        happened = None  # an old record; no calendar shows its day
    named = list(day_terms(happened.astimezone(UTC).date())) if happened else []
    for mention in mentions(text, happened or written):
        if mention.first is None:
            named += [mention.term] if mention.term.startswith("@m") else [mention.term, f"@m{mention.term[1:3]}"]
        elif mention.first == mention.last:
            named += day_terms(mention.first)
        elif mention.term.count("-") == 1:
            named += [mention.term, f"@{mention.first.year}", f"@m{mention.first.month:02d}"]
        else:
            named.append(mention.term if mention.term.count("-") == 0 else f"@{mention.first:%Y-%m}")
    for term in named:
        if term not in seen:
            seen.add(term)
            yield term
