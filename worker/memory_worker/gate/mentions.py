"""Finds names in texts: whole words, whatever the case and the accents."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from memory_worker.store.fingerprint import normalise

MARKER = "[forgotten]"
"""What stands where a name or a text was."""


class Names:
    """The name and aliases of someone, ready to be looked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(dict.fromkeys(name.strip() for name in names if name.strip()))
        parts = sorted({fold(name) for name in self.names}, key=len, reverse=True)
        self._pattern = re.compile("|".join(_bounded(part) for part in parts)) if parts else None

    def within(self, text: str) -> bool:
        """Tell whether a text mentions one of the names."""
        return self._pattern is not None and self._pattern.search(fold(text)) is not None

    def within_json(self, data: bytes) -> bool:
        """Tell whether a JSON document mentions one of the names, whether its characters are escaped or not."""
        if self._pattern is None or not data:
            return False
        return any(self.within(text) for text in readings(data))

    def cut(self, text: str) -> str | None:
        """Put the marker in place of every mention; None where they cannot be cut cleanly."""
        if self._pattern is None:
            return text
        folded, places = _fold_with_places(text)
        parts: list[str] = []
        at = 0
        for match in self._pattern.finditer(folded):
            parts.extend((text[at : places[match.start()]], MARKER))
            at = places[match.end()]
        result = "".join((*parts, text[at:]))
        return None if self.within(result) else result


SHORTEST_WORDING = 12
"""Shortest text, in characters, that is looked for by itself: shorter ones occur by chance."""


class Texts:
    """Whole texts, in normal form, ready to be looked for in stored documents."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.all = tuple(dict.fromkeys(text for text in texts if len(text) >= SHORTEST_WORDING))
        # By their beginning, so that a bank of many thousand texts is looked for in one pass over a document.
        self._starts: dict[str, list[str]] = {}
        for text in self.all:
            self._starts.setdefault(text[:SHORTEST_WORDING], []).append(text)

    def within_json(self, data: bytes) -> bool:
        """Tell whether a document holds one of the texts, whether its characters are escaped or not."""
        if not self._starts or not data:
            return False
        return any(self._within(normalise(reading)) for reading in readings(data))

    def _within(self, text: str) -> bool:
        if len(self.all) == 1:
            return self.all[0] in text
        return any(
            text.startswith(whole, place)
            for place in range(len(text) - SHORTEST_WORDING + 1)
            for whole in self._starts.get(text[place : place + SHORTEST_WORDING], ())
        )


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
NESTED_MAX = 3
"""How often JSON may lie inside a string of JSON and still be read."""
_JOINED = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u318f\u3400-\u9fff\uac00-\ud7ff\U00020000-\U0003ffff]"
)
"""Scripts where a name has no word boundary: without spaces, or, as Korean, with particles attached."""
_HANGUL_REST = "\u1160-\u11ff"
"""Folded Hangul is written in letters; a vowel or a last consonant goes on with the syllable before it."""
_SYLLABLE_GOES_ON = re.compile(f"[{_HANGUL_REST}]")
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u00b4`"), "'")
_GAP = r"[\s_\-\u2010-\u2015\u2212]+"
"""What may stand between the words of a name: spaces, and the dashes and underscores that join words."""
_GAPS = re.compile(_GAP)


def readings(data: bytes) -> list[str]:
    """A JSON document as it stands and with its escapes undone: a name may follow a line break, written `\\n`."""
    found = [data.decode("utf-8", "replace")]
    while "\\" in found[-1] and len(found) <= NESTED_MAX:
        text = _ESCAPE.sub(_unescaped, found[-1])
        # Escapes write a letter outside the basic plane as two halves.
        found.append(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return found


def _unescaped(match: re.Match[str]) -> str:
    code, letter = match.groups()
    return chr(int(code, 16)) if code else _CONTROLS.get(letter, letter)


def fold(text: str) -> str:
    """Case and accents folded, compatibility forms decomposed."""
    return _fold_with_places(text)[0]


def _fold_with_places(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters (and its end) the place in the original."""
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text.translate(_APOSTROPHES)):
        for part in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold()):
            if not unicodedata.combining(part) and unicodedata.category(part) != "Cf":
                folded.append(part)
                places.append(place)
    places.append(len(text))
    return "".join(folded), places


def spelled(name: str) -> str:
    """The one spelling of a name that is compared: folded, its words a single space apart."""
    return _GAPS.sub(" ", fold(name)).strip()


def candidates(text: str, lengths: Iterable[int]) -> Iterator[str]:
    """Every part of a text, of one of these lengths and as `spelled` writes it, that `Names` would find as a name."""
    line = _GAPS.sub(" ", fold(text))
    for length in lengths:
        for start in range(len(line) - length + 1):
            end = start + length
            if line[start] == " " or line[end - 1] == " ":
                continue
            part = line[start:end]
            before, after = line[start - 1 : start], line[end : end + 1]
            if _JOINED.search(part):
                if not _SYLLABLE_GOES_ON.match(after):
                    yield part
            elif not (before.isalnum() or after.isalnum()):
                yield part


def _bounded(name: str) -> str:
    words = _GAP.join(re.escape(word) for word in _GAPS.split(name) if word) or re.escape(name)
    if _JOINED.search(name):
        return rf"{words}(?![{_HANGUL_REST}])"
    return rf"(?<![^\W_]){words}(?![^\W_])"
