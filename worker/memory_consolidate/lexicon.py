"""Closed word classes per language: what tells a difference that matters from one that does not.

The lists lie in `languages/*.toml`. They decide only how a difference is classed and which lists may be re-ordered; two
texts are never taken for the same because of them.
"""

import tomllib
from collections.abc import Iterable
from importlib import resources

import msgspec
import regex
import Stemmer

_SNOWBALL = {
    "en": "english",
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
    "ru": "russian",
}

_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_HAN = regex.compile(r"\p{Han}")
_CYRILLIC = regex.compile(r"\p{Cyrillic}")


class Lexicon(msgspec.Struct, frozen=True):
    """The word classes of one language, case-folded. `opposite` holds unordered pairs."""

    language: str
    function: frozenset[str]
    negation: frozenset[str]
    quantifier: frozenset[str]
    number: frozenset[str]
    unit: frozenset[str]
    calendar: frozenset[str]
    opposite: frozenset[frozenset[str]]
    conjunction: frozenset[str]
    sequence: frozenset[str]
    opener: frozenset[str]
    closer: frozenset[str]
    copula: frozenset[str]


def _words(value: str) -> frozenset[str]:
    return frozenset(value.casefold().split())


def _load() -> dict[str, Lexicon]:
    lexicons = {}
    for entry in sorted(resources.files("memory_consolidate").joinpath("languages").iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".toml"):
            continue
        table: dict[str, str] = tomllib.loads(entry.read_text("utf-8"))
        language = entry.name.removesuffix(".toml")
        pairs = frozenset(frozenset(pair.split(":")) for pair in table.pop("opposite").casefold().split())
        classes = {name: _words(value) for name, value in table.items()}
        lexicons[language] = Lexicon(language=language, opposite=pairs, **classes)
    return lexicons


LEXICONS = _load()
"""Every shipped language by its ISO 639-1 code."""

_VOCABULARY = {
    code: frozenset().union(*(group for group in msgspec.structs.astuple(lexicon) if isinstance(group, frozenset)))
    for code, lexicon in LEXICONS.items()
}
_LATIN = tuple(LEXICONS[code] for code in ("en", "de", "es", "fr", "it", "pt", "nl"))


def cjk_words() -> list[str]:
    """Words of two or more characters in languages that write without spaces, longest first."""
    words = {
        word
        for code in ("ja", "zh")
        for group in msgspec.structs.astuple(LEXICONS[code])[1:]
        for entry in group
        for word in (entry if isinstance(entry, frozenset) else (entry,))
        if len(word) > 1
    }
    return sorted(words, key=lambda word: (-len(word), word))


def lexicon_of(words: Iterable[str]) -> Lexicon:
    """Guess the language of case-folded words: by script, then by whose listed words occur most often."""
    words = list(words)
    joined = "".join(words)
    if _KANA.search(joined):
        return LEXICONS["ja"]
    if _HAN.search(joined):
        return LEXICONS["zh"]
    if _CYRILLIC.search(joined):
        return LEXICONS["ru"]
    return max(_LATIN, key=lambda lexicon: sum(word in _VOCABULARY[lexicon.language] for word in words))


_STEMMERS = {language: Stemmer.Stemmer(name) for language, name in _SNOWBALL.items()}


def stem(word: str, language: str) -> str:
    """Snowball stem of a case-folded word; the word itself in a language without a stemmer."""
    stemmer = _STEMMERS.get(language)
    return str(stemmer.stemWord(word)) if stemmer else word
