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
        """Tell whether a JSON document mentions one of the names, whether its letters are escaped or not."""
        if self._pattern is None or not data:
            return False
        text = data.decode("utf-8", "replace")
        return self.within(_ESCAPE.sub(_unescaped, text) if "\\u" in text else text)

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


_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts written without spaces, where a name has no word boundary."""


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match.group(1), 16))


def fold(text: str) -> str:
    """Case and accents folded, compatibility forms decomposed."""
    return _fold_with_places(text)[0]


def _fold_with_places(text: str) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters (and its end) the place in the original."""
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character.casefold()):
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
