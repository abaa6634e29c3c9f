"""Says which language a text is in and holds what analysis needs of each: stop words, irregular forms, numerals."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Protocol

import regex
import Stemmer

ENGLISH = "english"
FOREIGN_STEM_MIN = 4
"""Shortest stem, in letters, that a word of an unknown language is also looked up under."""
OTHER = "other"
"""Text in scripts that have neither stemmer nor stop words here: Han, kana, Hangul, Thai, ..."""
_LATIN, _LETTERS = regex.compile(r"\p{Latin}"), regex.compile(r"\p{L}")


class Stem(Protocol):
    """A Snowball stemmer of one language."""

    def stemWord(self, word: str, /) -> str:
        """The stem of a lower-case word."""


_BY_SCRIPT = {"Cyrillic": "russian", "Greek": "greek", "Arabic": "arabic", "Devanagari": "hindi", "Tamil": "tamil",
              "Armenian": "armenian"}  # fmt: skip
_SCRIPTS = {name: regex.compile(rf"\p{{Script={name}}}") for name in _BY_SCRIPT}
# Letters that only the second language of a script has.
_MARKED = {"Cyrillic": (regex.compile("[іїєґ]"), "ukrainian"), "Arabic": (regex.compile("[پچژگ]"), "persian")}


def _lines(name: str, *, comments: bool = True) -> list[str]:
    """The lines of a data file, comments left out where it has any."""
    text = resources.files("memory_worker.recall").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not (comments and line.startswith("#"))]


@cache
def vocabulary() -> tuple[str, ...]:
    """The names of the embedding table's rows, pieces with `##`, roughly in order of frequency."""
    return tuple(_lines("vocabulary.txt", comments=False))


@cache
def known_words() -> frozenset[str]:
    """Words that are spelled right: a word of this list is never taken for a typo."""
    return frozenset(word for word in vocabulary() if word.isalpha())


@cache
def asking_words() -> frozenset[str]:
    """English words that say how to answer rather than what is asked for."""
    return frozenset(word for line in _lines("asking-words.txt") for word in line.split())


@cache
def _stop_lists() -> dict[str, str]:
    lists: dict[str, list[str]] = {}
    for line in _lines("stop-words.txt"):
        if line.startswith("["):
            words = lists[line.strip("[]")] = []
        else:
            words.append(line)
    return {language: " ".join(words) for language, words in lists.items()}


@cache
def irregular() -> dict[str, str]:
    """English form → the form it is indexed under; digits stand for their numeral so that “12” finds “twelve”."""
    return {
        form: base for line in _lines("irregular.txt") for base, forms in [line.split(":")] for form in forms.split()
    }


@cache
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language, folded as `analysis.fold` does; empty for a language without a list."""
    from memory_worker.recall.analysis import fold

    return frozenset(fold(_stop_lists().get(language, "")).split())


@cache
def _languages_of_word() -> dict[str, tuple[str, ...]]:
    table: dict[str, list[str]] = {}
    for language in _stop_lists():
        for word in stop_words(language):
            table.setdefault(word, []).append(language)
    return {word: tuple(languages) for word, languages in table.items()}


@cache
def stemmer(language: str) -> Stem:
    """The Snowball stemmer of a language; its own cache is off, since analysis caches whole words."""
    name = "russian" if language == "ukrainian" else language
    made: Stem = Stemmer.Stemmer(name, 0)
    return made


LATIN_LANGUAGES = (
    "german",
    "french",
    "spanish",
    "portuguese",
    "italian",
    "dutch",
    "swedish",
    "polish",
    "czech",
    "turkish",
    "finnish",
    "hungarian",
    "romanian",
    "danish",
)
"""Languages a lone word in Latin letters may be of."""


def foreign_stems(word: str) -> tuple[str, ...]:
    """What a word that is not English would be indexed under in other languages; short stems would meet anything."""
    if word in known_words() or not word.isascii():
        return ()
    stems = {stemmer(language).stemWord(word) for language in LATIN_LANGUAGES}
    return tuple(sorted(s for s in stems if len(s) >= FOREIGN_STEM_MIN and s != word and s not in known_words()))


def says_its_language(words: Iterable[str]) -> bool:
    """Tell whether a text has any stop word."""
    return any(word in _languages_of_word() for word in words)


def detect(words: Iterable[str], folded: str) -> str:
    """The language of a text from its script and stop words; English when nothing says otherwise.

    `words` are folded words of `folded`. Latin text counts as another language when that language has more of
    its stop words than English has, with at least two hits or no English word at all.
    """
    if not folded.isascii():
        for script, pattern in _SCRIPTS.items():
            if pattern.search(folded):
                letters = _MARKED.get(script)
                if letters and letters[0].search(folded):
                    return letters[1]
                return _BY_SCRIPT[script]
        latin = len(_LATIN.findall(folded))
        if latin * 2 < len(_LETTERS.findall(folded)):
            return OTHER
    hits: Counter[str] = Counter()
    table = _languages_of_word()
    for word in words:
        for language in table.get(word, ()):
            hits[language] += 1
    if not hits:
        return ENGLISH
    best = max(hits, key=lambda language: (hits[language], language == ENGLISH, language))
    if hits[best] >= 2 or not hits[ENGLISH]:
        return best
    return ENGLISH
