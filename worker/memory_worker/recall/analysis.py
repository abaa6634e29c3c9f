"""Turns text into index terms, the same way for memories and for queries.

A text is cut at white space into chunks; each chunk gives one or more *groups*. A group is one word of the text with
the
terms it is indexed under (its stem, and for other languages than English also its English stem, so that a wrong guess
of
the language never hides an exact word). Identifiers give a group for the whole and one for each part. Terms of plain
words hold only letters; every other kind starts with a mark, so that kinds never collide.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

import regex

from memory_worker.recall import languages
from memory_worker.recall.languages import ENGLISH, OTHER, irregular

TEXT_CHARS_MAX = 20_000
"""Longest text that is analysed, in characters; the rest is not indexed."""
TERM_CHARS_MAX = 80
"""Longest term, in characters; a longer identifier is cut."""
CACHE_CHUNKS_MAX = 200_000
"""Most chunks (per language) whose analysis is remembered, some 60 MB; then the memory starts again."""

CACHE_CHUNK_CHARS = 32
"""Longest chunk whose analysis is remembered, in characters: longer ones seldom come again."""

WHOLE = "="
"""Mark of a whole identifier: `=flasklogin`, `=v0.6.2`, `=https://example.org/a`."""


class Group(NamedTuple):
    """One word of a text: the terms it is indexed under, and its folded form before stemming (for typos)."""

    terms: tuple[str, ...]
    surface: str
    whole: bool = False


_MARKS_LATIN_GREEK = regex.compile(r"(?<=[\p{Latin}\p{Greek}])[\u0300-\u036f]+")
_MARKS_SEMITIC = regex.compile(r"[\u064b-\u065f\u0670\u0640\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]+")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i", "ё": "е",
                          "ی": "ي", "ک": "ك", "أ": "ا", "إ": "ا", "آ": "ا", "–": "-", "‑": "-",
                          "’": "'", "‘": "'", "ʼ": "'", "`": "'", "´": "'"})  # fmt: skip
# Scripts written without spaces: every two neighbouring characters are a term; Han characters also stand alone.
_SPACELESS = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\u30fc\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}々〆]+")
_HAN = regex.compile(r"[\p{Han}々]")
_KANA_ONLY = regex.compile(r"^\p{Hiragana}+$")
_SYMBOLS = regex.compile(r"[\p{Extended_Pictographic}\p{Regional_Indicator}]")
_EDGES = regex.compile(r"^[^\p{L}\p{N}\p{M}]+|[^\p{L}\p{N}\p{M}]+$")
_BREAKS = regex.compile(
    r"(?:(?<!\d),|,(?!\d)|[\s;!?()\[\]{}<>\"“”«»…|*=~^。、，！？；：「」『』（）—])+|\.{2,}|--+|(?<=\p{L})[.:](?=\p{Lu})"
)
_LANGUAGE_NAMES = regex.compile(r"^[cfj](\+\+|#)$")
_NUMBER = regex.compile(r"^[$€£¥#+-]?(\d{1,3}(?:[,'_]\d{3})+|\d+)(\.\d+)?(st|nd|rd|th)?([%a-zµ°/]{0,6})$")
_PART = regex.compile(r"\p{Lu}+(?=\p{Lu}\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+|[\p{L}\p{M}]+|\d+(?:\.\d+)*")
_PUNCTUATION = ".,;:!?\"'()"
_VERSION = regex.compile(r"^\d+(\.\d+)+$")
_SLASHED = regex.compile(r"^[\p{L}]+(/[\p{L}]+)+$")
_APOSTROPHES = regex.compile(r"['’‘ʼ`´]")
_THOUSANDS = regex.compile(r"[,'_]")
_INNER_CAPITAL = regex.compile(r"\p{Ll}\p{Lu}")
_LETTER_WORDS = regex.compile(r"[\p{L}\p{M}']+")
_WORD = regex.compile(r"^[\p{L}\p{M}]+$")
_JOINED = regex.compile(r"[-_ ]+")
_CONTRACTED = regex.compile(r"^(.*)n't$")
_HEBREW = regex.compile(r"^[הובלכמש](?=\p{Hebrew}{3,}$)")


def fold(text: str) -> str:
    """NFKC, case folding, accents of Latin and Greek letters and vowel marks of Arabic and Hebrew dropped."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", text).casefold().translate(_LETTERS)
    text = _MARKS_LATIN_GREEK.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", _MARKS_SEMITIC.sub("", text))


def _stems(word: str, language: str) -> tuple[str, ...]:
    """The terms of one folded word: English stem, then the stem of its own language when that differs."""
    base = irregular().get(word, word)
    if base.isdecimal():
        return (base,)
    english = languages.stemmer(ENGLISH).stemWord(base)
    if language in (ENGLISH, OTHER):
        bare = _HEBREW.sub("", word)
        return (english,) if bare == word else (english, bare)
    own = languages.stemmer(language).stemWord(word)
    return (english,) if own == english else (english, own)


def _word(word: str, language: str) -> list[Group]:
    """The group of a plain word, none for a stop word or a lone Latin letter."""
    if word in languages.stop_words(language) or (len(word) == 1 and word < "\u0250"):
        return []
    return [Group(_stems(word[:TERM_CHARS_MAX], language), word)]


def _spaceless(run: str) -> list[Group]:
    """Bigrams of a run of Han, kana, Hangul, Thai, ...; Han characters also alone."""
    if len(run) == 1:
        return [Group((run,), run)]
    groups = [Group((run[i : i + 2],), run[i : i + 2]) for i in range(len(run) - 1)]
    groups += [Group((c,), c) for c in run if _HAN.match(c)]
    return groups


def _number(match: regex.Match[str]) -> list[Group]:
    """`1,200`, `15th`, `250ms`, `$5.50`: the bare number, and the number with its unit as a whole."""
    digits = _THOUSANDS.sub("", match.group(1)) + (match.group(2) or "")
    groups = [Group((digits,), digits)]
    unit = match.group(4)
    if unit:
        groups.append(Group((WHOLE + digits + unit,), digits + unit, whole=True))
        if _WORD.match(unit) and len(unit) > 1:
            groups += _word(unit, ENGLISH)
    return groups


def _identifier(chunk: str, folded: str, language: str) -> list[Group]:
    """A chunk with inner marks, digits or inner capitals: the whole, and its parts."""
    pieces = [p for p in _PART.findall(chunk) if p]
    parts: list[Group] = []
    for piece in pieces:
        low = fold(piece)
        if low[0].isdigit():
            if len(low) > 1:
                parts.append(Group((low,), low))
        elif len(low) > 1:
            parts += _word(low, language)
    whole = _JOINED.sub("", folded)[:TERM_CHARS_MAX]
    if len(pieces) == 1 and len(parts) == 1 and parts[0].surface == whole:
        return parts
    # “wi-fi” is also “wifi”, written as one word.
    joined = _stems(whole, ENGLISH) if _WORD.match(whole) else ()
    groups = [Group((WHOLE + whole, *joined), folded, whole=True)]
    # “v0.6.2” and “0.6.2” are the same version.
    if len(whole) > 2 and whole[0] == "v" and whole[1].isdigit():
        groups = [Group((WHOLE + whole, WHOLE + whole[1:], whole[1:]), folded, whole=True)]
        parts = []
    elif whole[0].isdigit() and _VERSION.match(whole):
        groups = [Group((whole, WHOLE + whole), folded, whole=True)]
        parts = []
    elif "/" in whole and _SLASHED.match(whole) and "." not in whole:
        groups = []  # “and/or”, “UI/UX”: words, not a path
    return groups + parts


def _latin_chunk(chunk: str, language: str) -> list[Group]:
    """The groups of a chunk without spaceless script."""
    if _LANGUAGE_NAMES.match(chunk.rstrip(".:").lower()):
        return [Group((WHOLE + chunk.rstrip(".:").lower(),), chunk.lower(), whole=True)]
    chunk = _EDGES.sub("", chunk)
    if not chunk:
        return []
    folded = fold(chunk)
    if "'" in folded:
        if negated := _CONTRACTED.match(folded):
            return _word("not", language) + (_word(negated.group(1), language) if len(negated.group(1)) > 2 else [])
        groups: list[Group] = []
        for part in _APOSTROPHES.split(chunk):
            if len(part) > 2 or (len(part) > 1 and part.lower() not in ("ll", "re", "ve", "qu")):
                groups += _latin_chunk(part, language)
        return groups
    if _WORD.match(folded):
        inner_capital = _INNER_CAPITAL.search(chunk)
        if inner_capital and folded not in languages.known_words():
            return _identifier(chunk, folded, language)
        return _word(folded, language)  # “JavaScript” is a word, “parseDate” an identifier
    number = _NUMBER.match(folded)
    return _number(number) if number else _identifier(chunk, folded, language)


def _chunk(chunk: str, language: str) -> tuple[Group, ...]:
    """The groups of one white-space-delimited chunk."""
    groups: list[Group] = []
    if chunk.isascii():
        for part in _BREAKS.split(chunk) if not chunk.isalpha() else (chunk,):
            if part:
                groups += _latin_chunk(part, language)
        return tuple(groups)
    chunk = unicodedata.normalize("NFKC", chunk)
    at = 0
    rest: list[str] = []
    for run in _SPACELESS.finditer(chunk):
        rest.append(chunk[at : run.start()])
        groups += _spaceless(run.group())
        at = run.end()
    rest.append(chunk[at:])
    for piece in rest:
        groups += [Group((symbol,), symbol) for symbol in _SYMBOLS.findall(piece)]
        for part in _BREAKS.split(piece):
            if part:
                groups += _latin_chunk(part, language)
    return tuple(groups)


class Analysed(NamedTuple):
    """One chunk, analysed: its groups, and flat what indexing needs of them."""

    groups: tuple[Group, ...]
    terms: tuple[str, ...]
    words: tuple[tuple[str, str], ...]
    """Surface and first term of each group that is a plain word."""


_cache: dict[str, dict[str, Analysed]] = {}


def forget_cache() -> None:
    """Empties the memory of analysed chunks, which holds words of memories: part of forgetting."""
    _cache.clear()
    detect.cache_clear()


def analysed(text: str, language: str | None = None) -> list[Analysed]:
    """The chunks of a text in order; the language is detected when not given."""
    text = text[:TEXT_CHARS_MAX]
    if language is None:
        language = detect(text)
    cache = _cache.setdefault(language, {})
    if len(cache) > CACHE_CHUNKS_MAX:
        cache.clear()
    found: list[Analysed] = []
    for chunk in text.split():
        known = cache.get(chunk)
        if known is None:
            groups = _chunk(chunk, language)
            known = Analysed(
                groups,
                tuple(term for group in groups for term in group.terms),
                tuple((group.surface, group.terms[0]) for group in groups if not group.whole),
            )
            if len(chunk) <= CACHE_CHUNK_CHARS:
                cache[chunk] = known
        found.append(known)
    return found


def groups_of(text: str, language: str | None = None) -> list[Group]:
    """The groups of a text in order; the language is detected when not given."""
    return [group for chunk in analysed(text, language) for group in chunk.groups]


@lru_cache(maxsize=16)
def detect(text: str) -> str:
    """The language of a text. A row is asked about twice, for its words and for its vector."""
    if text.isascii():
        return languages.detect([chunk.strip(_PUNCTUATION).lower() for chunk in text.split()], text)
    folded = fold(text)
    return languages.detect(_LETTER_WORDS.findall(folded), folded)


def terms_of(text: str, language: str | None = None) -> list[str]:
    """The index terms of a text, with repeats."""
    return [term for group in groups_of(text, language) for term in group.terms]
