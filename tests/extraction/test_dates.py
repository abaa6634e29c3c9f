"""Dates are read from the time of the message, and a time that was not said is not made up."""

from datetime import UTC, datetime

import pytest

from memory_worker.clock import EARLIEST, LATEST
from memory_worker.extraction.dates import read_date, said_date

SUNDAY = datetime(2025, 11, 30, 10, 53, tzinfo=UTC).timestamp()


def day(seconds: float | None) -> str | None:
    """The UTC day of a time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I signed it last Friday", "2025-11-28"),
        ("we meet next Tuesday", "2025-12-02"),
        ("this Sunday", "2025-11-30"),
        ("yesterday", "2025-11-29"),
        ("the day after tomorrow", "2025-12-02"),
        ("three weeks ago", "2025-11-09"),
        ("in 2 days", "2025-12-02"),
        ("two months ago", "2025-09-28"),
        ("a year ago", "2024-11-28"),
        ("on 3 March 2024", "2024-03-03"),
        ("March 3rd, 2024", "2024-03-03"),
        ("on 2024-03-03", "2024-03-03"),
        ("on 15 January", "2026-01-15"),
        ("on December 24", "2025-12-24"),
        ("from May 3 to May 9", None),
        ("on 31 February 2024", None),
        ("some day", None),
        ("on Friday", None),
    ],
)
def test_a_said_date_is_a_day(text: str, expected: str | None) -> None:
    """Relative words, month and day nearest to the message, full dates; several or impossible ones give none."""
    assert day(said_date(text, SUNDAY)) == expected


def test_without_a_message_time_only_full_dates_count() -> None:
    """“Yesterday” of an unknown day is no date."""
    assert said_date("yesterday", None) is None
    assert day(said_date("on 3 March 2024", None)) == "2024-03-03"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-03", "2024-03-03"),
        ("2024-03-03T10:00:00Z", "2024-03-03"),
        ("last Friday", "2025-11-28"),
        ("soon", None),
    ],
)
def test_a_models_date_is_read_as_iso_or_words(text: str, expected: str | None) -> None:
    """Models give ISO dates, or repeat the words."""
    assert day(read_date(text, SUNDAY)) == expected


@pytest.mark.parametrize("text", ["yesterday", "tomorrow", "last week", "on 9999-12-31", "on 0001-01-01", "May 3rd"])
@pytest.mark.parametrize("at", [EARLIEST.timestamp(), LATEST.timestamp()])
def test_what_lies_beyond_the_calendar_is_no_date(text: str, at: float) -> None:
    """A date that no zone's calendar could show is none, and never makes a turn unreadable."""
    said = said_date(text, at)
    assert said is None or EARLIEST.timestamp() <= said <= LATEST.timestamp()


@pytest.mark.parametrize("field", ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00", "9999-12-31"])
def test_a_model_names_no_date_beyond_the_calendar(field: str) -> None:
    """A model's date field is held to the same limits."""
    assert read_date(field, None) is None
