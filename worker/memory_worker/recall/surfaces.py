"""Finds the words of a bank that are one edit away from a misspelled one."""

from array import array
from collections.abc import Collection

import numpy as np

from memory_worker.recall.languages import known_words

TYPO_CHARS_MIN = 5
"""Shortest word that may be a typo, in letters; of shorter ones too many are one edit apart."""
NEAR_MAX = 64
"""Most words that are looked at for one misspelled word."""


def one_edit(a: str, b: str) -> bool:
    """Tell whether two different words differ by one insertion, deletion, substitution or swap of neighbours."""
    if len(a) > len(b):
        a, b = b, a
    gap = len(b) - len(a)
    if gap > 1 or a == b:
        return False
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if gap == 1:
        return a[at:] == b[at + 1 :]
    return a[at + 1 :] == b[at + 1 :] or (
        a[at : at + 2] == b[at : at + 2][::-1] and len(a[at : at + 2]) == 2 and a[at + 2 :] == b[at + 2 :]
    )


def _letters(word: str) -> int:
    """The set of a word's letters as 32 bits."""
    mask = 0
    for c in word:
        mask |= 1 << (ord(c) & 31)
    return mask


class Surfaces:
    """The unstemmed words of a bank, each with its term, in buckets of first letter and length."""

    def __init__(self) -> None:
        self.terms: dict[str, str] = {}
        self.buckets: dict[tuple[str, int], tuple[list[str], array[int]]] = {}

    def add(self, word: str, term: str) -> None:
        """Adds a word of at least TYPO_CHARS_MIN letters; shorter ones are ignored."""
        if len(word) < TYPO_CHARS_MIN - 1 or word in self.terms:
            return
        self.terms[word] = term
        words, masks = self.buckets.setdefault((word[0], len(word)), ([], array("I")))
        words.append(word)
        masks.append(_letters(word))

    def keep(self, terms: dict[str, int]) -> None:
        """Forgets the words whose term no row has any more."""
        kept = {w: t for w, t in self.terms.items() if t in terms}
        self.terms, self.buckets = {}, {}
        for word, term in kept.items():
            self.add(word, term)

    def drop(self, words: Collection[str]) -> None:
        """Forgets these words, whatever has their terms."""
        gone = frozenset(words) & self.terms.keys()
        if gone:
            self.terms = {w: t for w, t in self.terms.items() if w not in gone}
            self.keep(dict.fromkeys(self.terms.values(), 0))

    def near(self, word: str) -> list[str]:
        """The terms of the bank's words one edit from `word`, first letter kept, the closest in length first.

        Two words that are both spelled right (“Martha” and “Marta”) are different words, never a typo of each other.
        """
        if len(word) < TYPO_CHARS_MIN or not word.isalpha():
            return []
        right = word in known_words()
        mask = _letters(word)
        found: list[tuple[int, str]] = []
        for size in (len(word), len(word) + 1, len(word) - 1):
            words, masks = self.buckets.get((word[0], size), ([], array("I")))
            if not words:
                continue
            close = np.bitwise_count(np.array(masks, np.uint32) ^ np.uint32(mask)) <= 2
            for at in np.flatnonzero(close).tolist():
                other = words[at]
                if one_edit(word, other) and not (right and other in known_words()):
                    found.append((abs(size - len(word)), other))
        return list(dict.fromkeys(self.terms[w] for _, w in sorted(found)[:NEAR_MAX]))
