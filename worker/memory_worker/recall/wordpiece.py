"""Cuts text into rows of the embedding table: known words whole, other words into the longest known pieces."""

from collections.abc import Mapping, Sequence

import regex

from memory_worker.recall.analysis import fold

WORD_CHARS_MAX = 40
"""Longest word that is cut into pieces, in characters; a longer one is no word."""
PIECES_MAX = 4
"""Most pieces one word may fall into; what falls apart further is no word that the teacher knows."""
CACHE_WORDS_MAX = 200_000
"""Most words whose pieces are remembered."""

_TOKEN = regex.compile(r"\d+|[\p{L}\p{M}]+")


class WordPieces:
    """The vocabulary of the table, with the pieces of the words seen so far."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.rows: Mapping[str, int] = {name: row for row, name in reversed(list(enumerate(vocabulary)))}
        self.cache: dict[str, tuple[int, ...]] = {}

    def cut(self, text: str) -> list[int]:
        """The rows of a text in order; words that cannot be built from known pieces are left out."""
        rows: list[int] = []
        cache = self.cache
        for word in _TOKEN.findall(fold(text)):
            found = cache.get(word)
            if found is None:
                if len(cache) > CACHE_WORDS_MAX:
                    cache.clear()
                found = cache[word] = self._pieces(word)
            rows.extend(found)
        return rows

    def _pieces(self, word: str) -> tuple[int, ...]:
        row = self.rows.get(word)
        if row is not None:
            return (row,)
        if len(word) > WORD_CHARS_MAX:
            return ()
        pieces: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                row = self.rows.get(word[start:end] if start == 0 else "##" + word[start:end])
                if row is not None:
                    break
            if row is None or len(pieces) == PIECES_MAX:
                return ()
            pieces.append(row)
            start = end
        return tuple(pieces)
