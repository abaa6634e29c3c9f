"""Makes stored text harmless inside the blocks a turn is given: it stays on its line and inside its element.

Stored text is data. Whatever it holds, it cannot end a block, start a heading, add a line, hide words from the reader
or pass for one of the labels that say how sure a memory is.
"""

import re
import unicodedata

# Characters that a reader does not see but a model reads, or that reorder what a reader sees: soft hyphen, combining
# joiner, Hangul fillers, zero-width and bidirectional marks, variation selectors, annotation and tag characters.
# The two joiners and the two emoji selectors are needed by Persian, Hindi and emoji, see `_needed`.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_SOMETIMES_NEEDED = frozenset("\u200c\u200d\ufe0e\ufe0f")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_UNENCODABLE = re.compile("[\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\ue000-\uf8ff]")
_LINE_BREAKS = re.compile("\r\n|[\r\n\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile(r"\s+")

# Every character that is, or under compatibility normalisation becomes, an opening angle bracket, unless a number, an
# equals sign or a dash follows ("x < 5", "<=", "<-"), which no element starts with. The replacement looks alike to a
# reader, and no normalisation turns it back.
_ANGLE = re.compile(r"[<﹤＜≮](?!\s*[0-9=.$€£-])")
# Fences that start a code block in markdown; two of the same are left alone.
_FENCE = re.compile(r"[`\u1fef｀]{3,}|[~～]{3,}")
_ELEMENT_NAME = re.compile(r"\bmemory\s*[-‐‑‒–—−_]\s*(block|rules|update|notices)\b", re.IGNORECASE)
# The words that lead a line of the block. In a memory's own text they lose their pronoun.
_LABEL = re.compile(
    r"(?<![^\W\d_])(?:you\s+(?=told\s+me(?![^\W\d_]))|i\s+(?=(?:noticed|wrote\s+this\s+down\s+myself)(?![^\W\d_])))",
    re.IGNORECASE,
)

# Without any of these a printable ASCII text is left as it is.
_SUSPECT = ("  ", "<", "```", "~~~", "memory", "told me", "noticed", "wrote this down myself")

_OPENING = re.compile("[<﹤＜≮]")
_ELEMENT_LOOKAHEAD = 24
"""Characters after an angle bracket that are looked at to tell whether it opens or closes one of our elements."""
_OUR_ELEMENTS = ("memory", "rule")


def line(text: str) -> str:
    """Give `text` as one harmless line, trimmed. A line that went through this once stays as it is."""
    if _plain(text):
        return text
    text = _one_line(text)
    folded = unicodedata.normalize("NFKC", text)
    # Full-width and other compatibility letters spell a label or an element as well as plain ones do.
    if folded != text and (_LABEL.search(folded) or _ELEMENT_NAME.search(folded)):
        text = _one_line(folded)
    while True:
        plain = _SPACES.sub(" ", _ELEMENT_NAME.sub(r"memory \1", _LABEL.sub("", text))).strip()
        if plain == text:
            return text
        text = plain


def document(text: str) -> str:
    """Give a rule's markdown without what could end its element; headings and lines stay, they are the rule's own."""
    text = _LINE_BREAKS.sub("\n", _visible(text))
    return _OPENING.sub(lambda found: _bracket(text, found.start()), text).strip("\n")


def clip(text: str, chars: int) -> str:
    """Give at most `chars` characters of a line, ending with “…” where something was left out, at a word if near."""
    if len(text) <= chars:
        return text
    kept = text[: max(chars - 1, 0)]
    space = kept.rfind(" ")
    if space >= len(kept) * 2 // 3:
        kept = kept[:space]
    return kept.rstrip(" ,;:") + "…"


def _plain(text: str) -> bool:
    """Tell cheaply of most texts that nothing below would change them."""
    if not (text.isascii() and text.isprintable()) or text[:1] == " " or text[-1:] == " ":
        return False
    lower = text.lower()
    return not any(mark in lower for mark in _SUSPECT)


def _one_line(text: str) -> str:
    text = _ANGLE.sub("⟨", _visible(_LINE_BREAKS.sub(" ", text)))
    text = _FENCE.sub(lambda found: found.group()[0], text)
    return _SPACES.sub(" ", text).strip()


def _visible(text: str) -> str:
    text = _UNENCODABLE.sub("\ufffd", _CONTROL.sub(" ", text))
    return _INVISIBLE.sub(lambda found: _needed(text, found.start()), text)


def _needed(text: str, at: int) -> str:
    """Keep a joiner or selector only between or after characters that use one; beside ASCII it only hides."""
    char = text[at]
    if char not in _SOMETIMES_NEEDED or at == 0 or text[at - 1].isascii() or _INVISIBLE.match(text[at - 1]):
        return ""
    if char in "\u200c\u200d" and (at + 1 == len(text) or text[at + 1].isascii() or text[at + 1].isspace()):
        return ""
    return char


def _bracket(text: str, at: int) -> str:
    after = unicodedata.normalize("NFKC", text[at + 1 : at + 1 + _ELEMENT_LOOKAHEAD]).casefold().lstrip("/ \t\n\\!?")
    return "⟨" if after.startswith(_OUR_ELEMENTS) else text[at]
