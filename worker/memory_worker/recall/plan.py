"""Reads a query into the groups of terms to look up, the dates it names and the entities it mentions."""

from datetime import UTC, date, datetime
from itertools import pairwise
from typing import NamedTuple

import regex

from memory_worker.recall import background, dates
from memory_worker.recall.analysis import WHOLE, Group, detect, fold, groups_of
from memory_worker.recall.bank import ENTITY
from memory_worker.recall.entities import EntityTable, name_terms
from memory_worker.recall.languages import ENGLISH, asking_words, foreign_stems, says_its_language
from memory_worker.recall.settings import RecallSettings

DATE_WEIGHT = 6.0
"""How telling a date in a query is when coverage is judged; a rare word is 10, a common one 4."""

_AUXILIARIES = frozenset(
    ("is", "was", "are", "were", "do", "does", "did", "has", "have", "had", "can", "could", "will", "would", "should")
)
_POSSESSIVE = regex.compile(r"['’]s?$")
_NAME = regex.compile(r"^\p{Lu}\p{Ll}+")


FOREIGN_FACTOR = 0.8
"""Factor of the stem that a word would have in another language, where a query does not say which it is in."""
ASKING_FACTOR = 0.3
"""Factor on the weight of a word that says how to answer (“list”, “in detail”) instead of what is asked for."""


class QueryGroup(NamedTuple):
    """One thing a query asks for: any of its terms (each with a factor in (0, 1]) satisfies it.

    `kind`: `word`, `name` (somebody asked about), `title` (written like a name), `entity` (a known one), `identifier`
    (or a number) or `date`.
    """

    surface: str
    terms: tuple[tuple[str, float], ...]
    weight: float
    kind: str
    factor: float = 1.0


class Span(NamedTuple):
    """A stretch of days in a query, first and last included."""

    first: date
    last: date


class Plan(NamedTuple):
    """A query, read. `cut` tells that words were left out by a bound."""

    text: str
    groups: tuple[QueryGroup, ...]
    spans: tuple[Span, ...]
    entities: frozenset[str]
    cut: bool


def clipped(text: str, most: int) -> str:
    """The beginning and the end of a text that is longer than `most` characters: requests sit at either."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} {text[-half:]}"


def make(text: str, now: float, entities: EntityTable, settings: RecallSettings) -> Plan:
    """Reads a query; `now` (unix seconds) is the reference of “last week” and “yesterday”."""
    read = clipped(text, settings.query_chars)
    found = dates.mentions(read, datetime.fromtimestamp(now, UTC))
    rest = read
    groups: list[QueryGroup] = []
    spans: list[Span] = []
    if found:
        rest, groups, spans = _dated(read, found)
    words = [g for g in groups_of(rest) if g.terms]
    names: set[str] = set()
    widened: dict[int, set[str]] = {}
    for mention in entities.mentions(words):
        names |= mention.names
        for at in range(mention.start, mention.end):
            widened[at] = set(mention.names)
    named = _named(read)
    says = says_its_language(fold(read).split())
    taken: set[tuple[str, ...]] = set()
    for at, word in enumerate(words):
        if word.terms not in taken:
            taken.add(word.terms)
            groups.append(
                _word(word, widened.get(at, set()), written=named.get(word.surface, "word"), foreign=not says)
            )
    groups.sort(key=lambda g: (-g.weight, g.surface))
    cut = len(groups) > settings.query_terms or len(text) > settings.query_chars
    return Plan(read, tuple(groups[: settings.query_terms]), tuple(spans), frozenset(names), cut)


def _named(text: str) -> dict[str, str]:
    """The folded words of an English question that are written like names, each with the kind of its group.

    `name` is asked about: after an auxiliary verb or with a possessive. `title` is any other capitalised word that does
    not begin a sentence. “What is Ben allergic to?” asks about Ben and nobody else; “Where did I park the Tesla?” does
    not ask about Tesla.
    """
    words = text.split()
    if detect(text) != ENGLISH or not any(w.islower() for w in words):
        return {}
    kinds: dict[str, str] = {}
    for before, word in pairwise(words):
        if match := _NAME.match(word):
            asked = before.lower() in _AUXILIARIES or _POSSESSIVE.search(word)
            if asked or before[-1] not in ".!?:":
                kinds[fold(match.group())] = "name" if asked else "title"
    return kinds


def _word(word: Group, names: set[str], *, written: str, foreign: bool) -> QueryGroup:
    terms: dict[str, float] = dict.fromkeys(word.terms, 1.0)
    if foreign and not word.whole:
        terms.update((stem, FOREIGN_FACTOR) for stem in foreign_stems(word.surface) if stem not in terms)
    factor = ASKING_FACTOR if word.surface in asking_words() else 1.0
    weight = factor * min(background.weight(term) for term in word.terms)
    for name in sorted(names):
        terms.setdefault(ENTITY + name, 1.0)
        parts = name_terms(name)
        for part in parts:
            terms.setdefault(part, 1.0 if len(parts) == 1 else 0.6)
    kind = "entity" if names else written
    if word.terms[0].startswith(WHOLE) or (word.terms[0].isdecimal() and len(word.terms[0]) > 1):
        kind = "identifier"
    return QueryGroup(word.surface, tuple(terms.items()), weight, kind, factor)


def _dated(text: str, found: list[dates.DateMention]) -> tuple[str, list[QueryGroup], list[Span]]:
    """The text without its absolute dates, the groups that look for those, and the days they span."""
    folded = fold(text)
    groups: dict[str, QueryGroup] = {}
    spans: list[Span] = []
    kept: list[str] = []
    at = 0
    for mention in sorted(found, key=lambda m: m.start):
        if mention.first is not None and mention.last is not None:
            spans.append(Span(mention.first, mention.last))
        relative = not any(c.isdigit() for c in folded[mention.start : mention.end]) and mention.first is not None
        if not relative and mention.start >= at:
            kept.append(folded[at : mention.start])
            at = mention.end
            groups.setdefault(mention.term, _date_group(mention))
    if not groups:
        return text, [], spans
    kept.append(folded[at:])
    return " ".join(kept), list(groups.values()), spans


def _date_group(mention: dates.DateMention) -> QueryGroup:
    terms: dict[str, float] = {mention.term: 1.0}
    if mention.first is not None and mention.first == mention.last:
        terms[f"@{mention.first:%Y-%m}"] = 0.5
        terms[f"@{mention.first:%m-%d}"] = 0.7
    elif mention.term.startswith("@m"):
        pass
    elif mention.first is not None and mention.term.count("-") == 1:
        terms[f"@m{mention.first.month:02d}"] = 0.4
    elif mention.first is None:
        terms[f"@m{mention.term[1:3]}"] = 0.5
    return QueryGroup(mention.term, tuple(terms.items()), DATE_WEIGHT, "date")
