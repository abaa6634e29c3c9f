"""Dates: days and months are read out of text, relative ones against a reference, and nothing else is."""

from datetime import UTC, datetime

import pytest

from memory_worker.recall.dates import mentions, terms_of_memory

MONDAY = datetime(2023, 5, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("on May 3, 2023", "2023-05-03", "2023-05-03"),
        ("due 15 March 2024", "2024-03-15", "2024-03-15"),
        ("on 2024-03-15", "2024-03-15", "2024-03-15"),
        ("am 5. Mai 2024", "2024-05-05", "2024-05-05"),
        ("3 de mayo de 2023", "2023-05-03", "2023-05-03"),
        ("2024年3月15日", "2024-03-15", "2024-03-15"),
        ("in March 2024", "2024-03-01", "2024-03-31"),
        ("back in 2019", "2019-01-01", "2019-12-31"),
        ("yesterday", "2023-05-07", "2023-05-07"),
        ("last week", "2023-05-01", "2023-05-07"),
        ("two weeks ago", "2023-04-24", "2023-04-30"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("last Friday", "2023-05-05", "2023-05-05"),
        ("next year", "2024-01-01", "2024-12-31"),
    ],
)
def test_a_date_is_read(text: str, first: str, last: str) -> None:
    """Absolute and relative dates give the days they span."""
    (found,) = mentions(text, MONDAY)
    assert (str(found.first), str(found.last)) == (first, last)


@pytest.mark.parametrize("text", ["You may go", "version 2.3.1", "2024-13-45", "room 12", "march on", "at 10:30"])
def test_what_is_no_date_is_left_alone(text: str) -> None:
    """Modal verbs, versions, impossible days and plain numbers are no dates."""
    assert mentions(text, MONDAY) == []


def test_a_memory_is_found_under_when_it_happened_and_what_it_names() -> None:
    """“Yesterday” in a text counts from when it was said."""
    terms = set(terms_of_memory("I went there yesterday", MONDAY, MONDAY))
    assert {"@2023-05-08", "@2023-05-07", "@2023-05", "@m05"} <= terms


@pytest.mark.parametrize("text", ["9999-12", "December 31, 9999", "tomorrow", "next year", "next month", "next week"])
def test_the_last_days_of_the_calendar_are_read_or_left_alone(text: str) -> None:
    """A date at the end of the calendar never makes a text or a question unreadable."""
    for reference in (datetime(9999, 12, 30, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        list(terms_of_memory(text, reference, reference))


@pytest.mark.parametrize("text", ["yesterday", "last week", "99 years ago", "last month", "90 days ago"])
def test_the_first_days_of_the_calendar_are_read_or_left_alone(text: str) -> None:
    """What would lie before the calendar names no day."""
    list(terms_of_memory(text, datetime(1, 1, 1, tzinfo=UTC), MONDAY))
