"""Finds names in texts: whole words, whatever the case and the accents."""

import re
import unicodedata
from collections.abc import Sequence

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


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
NESTED_MAX = 3
"""How often JSON may lie inside a string of JSON and still be read."""
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts written without spaces, where a name has no word boundary."""


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
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold()):
            if not unicodedata.combining(part):
                folded.append(part)
                places.append(place)
    places.append(len(text))
    return "".join(folded), places


def _bounded(name: str) -> str:
    words = r"\s+".join(re.escape(word) for word in name.split())
    if _NO_SPACES.search(name):
        return words
    return rf"(?<!\w){words}(?!\w)"
