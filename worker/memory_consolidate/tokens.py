"""Cuts a text into the tokens that are compared: everything that can carry meaning, and nothing that cannot."""

import unicodedata
from typing import NamedTuple

import regex

from memory_consolidate.lexicon import Lexicon, cjk_words, lexicon_of

_EMPHASIS = regex.compile(r"(\*\*|__|`)(?=\S)(.+?)(?<=\S)\1")
_QUOTES = regex.compile(
    r"(?<!\d)[\"“”„‟«»‹›‘‚`「」『』]|(?<=\d)[“”„«»]|’(?!\p{L})|(?<![\p{L}\p{N}])['’]|(?<!\d)'(?![\p{L}\p{N}\"])"
)
# Quotation marks show who speaks, not what is so; after a digit the straight ones are feet and inches.
_RAISED = {character: f"^{digit}" for digit, character in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_LOWERED = {character: f"_{digit}" for digit, character in enumerate("₀₁₂₃₄₅₆₇₈₉")}
_SUPERSCRIPT = str.maketrans(_RAISED | _LOWERED)
# Compatibility normalisation would read 10² as 102.
_UNIFIED = str.maketrans({"’": "'", "ʼ": "'", "–": "-", "—": "-", "‒": "-", "―": "-", "−": "-", "‐": "-", "‑": "-"})
_LETTER = r"[\p{L}\p{M}\p{N}_--[\p{Han}\p{Hiragana}\p{Katakana}]]"
_TOKEN = regex.compile(
    "|".join(
        [
            *(regex.escape(word) for word in cjk_words()),
            r"[\p{Katakana}ー]+",
            r"°\s?[CF]\b",
            r"(?<![\p{L}\p{N}])-?\d+(?:[.,:/\-]\d+)*",
            rf"(?!\p{{Nd}}){_LETTER}(?:{_LETTER}|['.\-@:&·](?={_LETTER}))*",
            r"\S",
        ]
    ),
    regex.V1,
)
_DROPPED_AT_ENDS = frozenset(".!¡¿,;:-*•·()[]{}。、،؛")
_SENTENCE_END = {"!": ".", "。": ".", "．": ".", "؟": "?", "،": ","}


class Tokens(NamedTuple):
    """A text as tokens, case-folded and as written, in the same order, with its language's word classes."""

    folded: tuple[str, ...]
    raw: tuple[str, ...]
    lexicon: Lexicon


def tokens_of(text: str) -> Tokens:
    """Cut `text` into tokens.

    Case, width, composition, white space, quotation marks, emphasis, the kind of dash, a comma before a conjunction and
    outer punctuation are folded away; words, numbers, signs, symbols, inner punctuation and a question mark stay.
    """
    prepared = _EMPHASIS.sub(r"\2", text.translate(_SUPERSCRIPT))
    prepared = unicodedata.normalize("NFKC", prepared)
    prepared = _QUOTES.sub(" ", prepared).translate(_UNIFIED)
    raw = [_SENTENCE_END.get(token, token) for token in _TOKEN.findall(prepared)]
    start, end = 0, len(raw)
    while start < end and raw[start] in _DROPPED_AT_ENDS:
        start += 1
    while end > start and raw[end - 1] in _DROPPED_AT_ENDS:
        end -= 1
    raw = raw[start:end] or raw
    folded = [_fold(token) for token in raw]
    lexicon = lexicon_of(folded)
    kept = [index for index in range(len(raw)) if not _is_serial_comma(folded, index, lexicon)]
    return Tokens(tuple(folded[i] for i in kept), tuple(raw[i] for i in kept), lexicon)


def _fold(token: str) -> str:
    return token.casefold() if token.isascii() else unicodedata.normalize("NFKC", token.casefold())


def _is_serial_comma(folded: list[str], index: int, lexicon: Lexicon) -> bool:
    return folded[index] == "," and index + 1 < len(folded) and folded[index + 1] in lexicon.conjunction
