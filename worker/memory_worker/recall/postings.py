"""Holds which rows of one bank have which term, growing row by row and compacted into flat arrays.

Two layers: `base`, flat arrays of a compaction (term t's rows are `rows[offsets[t]:offsets[t+1]]`, ascending), and a
growing
tail per term since then. A posting is 5 bytes: the row, and the term's BM25 saturation in that row as one byte, which
is
possible because the length norm uses a fixed reference length instead of the bank's mean: adding unrelated rows
then changes no score.
"""

from array import array
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

K1 = 1.2
"""BM25's term saturation; .6 helps 20-word rows by a little and costs .10 recall@10 on long ones."""
B = 0.75
"""BM25's length norm; see K1."""
REFERENCE_TERMS = 30
"""Length, in terms, at which the norm is neutral: instead of a bank's mean length. 15 to 60 differ by .01 on short
and long rows."""
IMPACT_MAX = K1 + 1
"""Saturation of a term repeated for ever; one byte holds [0, IMPACT_MAX] in 255 steps."""

Rows = npt.NDArray[np.uint32]
Impacts = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

IMPACTS: Floats = (np.arange(256) * (IMPACT_MAX / 255)).astype(np.float32)
"""Byte → saturation."""


@cache
def impact(count: int, length: int) -> int:
    """BM25 saturation of a term that occurs `count` times in a row of `length` terms, as one byte (at least 1)."""
    norm = K1 * (1 - B + B * length / REFERENCE_TERMS)
    return max(1, round(count * IMPACT_MAX / (count + norm) / IMPACT_MAX * 255))


class PostingList(NamedTuple):
    """The rows of one term in ascending order, with one impact byte each."""

    rows: Rows
    impacts: Impacts


_NONE = PostingList(np.empty(0, np.uint32), np.empty(0, np.uint8))


class Postings:
    """The inverted index of one bank. Rows must be added in ascending order; a row is added once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.offsets: Ints = np.zeros(1, np.int64)
        self.rows: Rows = _NONE.rows
        self.impacts: Impacts = _NONE.impacts
        self.tail: dict[int, tuple[array[int], array[int]]] = {}
        self.tail_size = 0

    def add(self, row: int, impacts: Mapping[str, int]) -> None:
        """Adds a row under its terms with their impact bytes."""
        numbers, tail = self.numbers, self.tail
        for term, value in impacts.items():
            number = numbers.setdefault(term, len(numbers))
            grown = tail.get(number)
            if grown is None:
                tail[number] = (array("I", (row,)), array("B", (value,)))
            else:
                grown[0].append(row)
                grown[1].append(value)
        self.tail_size += len(impacts)

    def get(self, term: str) -> PostingList:
        """The posting list of a term; empty when no row has it."""
        number = self.numbers.get(term)
        return _NONE if number is None else self.numbered(number)

    def numbered(self, number: int) -> PostingList:
        """The posting list of a term by its number."""
        base = _NONE
        if number + 1 < len(self.offsets):
            low, high = self.offsets[number], self.offsets[number + 1]
            base = PostingList(self.rows[low:high], self.impacts[low:high])
        grown = self.tail.get(number)
        if grown is None:
            return base
        # Copied: a view would lock the growing array against the next append.
        rows, impacts = np.array(grown[0], np.uint32), np.array(grown[1], np.uint8)
        if not len(base.rows):
            return PostingList(rows, impacts)
        return PostingList(np.concatenate((base.rows, rows)), np.concatenate((base.impacts, impacts)))

    def size(self, term: str) -> int:
        """How many rows have the term, removed rows included."""
        number = self.numbers.get(term)
        if number is None:
            return 0
        base = int(self.offsets[number + 1] - self.offsets[number]) if number + 1 < len(self.offsets) else 0
        grown = self.tail.get(number)
        return base + (len(grown[0]) if grown else 0)

    @property
    def total(self) -> int:
        """Postings held, removed rows included."""
        return len(self.rows) + self.tail_size

    @property
    def nbytes(self) -> int:
        """Bytes of the flat arrays and the tails; the vocabulary is counted at 120 bytes a term."""
        return (
            self.rows.nbytes + self.impacts.nbytes + self.offsets.nbytes + 6 * self.tail_size + 120 * len(self.numbers)
        )

    def compact(self, moved: Ints) -> None:
        """Renumbers rows (`moved[row]` = new row, -1 = removed; the order stays) and folds the tails into the base.

        Terms left without a row are dropped, so that a forgotten word leaves the vocabulary too.
        """
        counts = np.zeros(len(self.numbers), np.int64)
        counts[: len(self.offsets) - 1] = np.diff(self.offsets)
        base_terms = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        tails = sorted(self.tail.items())
        terms = np.concatenate([base_terms, *(np.full(len(t[0]), n, np.int64) for n, t in tails)])
        rows = np.concatenate([self.rows, *(np.array(t[0], np.uint32) for _, t in tails)])
        impacts = np.concatenate([self.impacts, *(np.array(t[1], np.uint8) for _, t in tails)])
        new_rows = moved[rows]
        kept = new_rows >= 0
        if not kept.all():
            terms, new_rows, impacts = terms[kept], new_rows[kept], impacts[kept]
        if tails:
            # Stable: within a term base rows come before tail rows, which is ascending.
            order = np.argsort(terms, kind="stable")
            terms, new_rows, impacts = terms[order], new_rows[order], impacts[order]
        sizes = np.bincount(terms, minlength=len(counts))
        used = np.flatnonzero(sizes)
        names = list(self.numbers)
        self.numbers = {names[n]: i for i, n in enumerate(used.tolist())}
        self.offsets = np.concatenate(([0], np.cumsum(sizes[used]))).astype(np.int64)
        self.rows, self.impacts = new_rows.astype(np.uint32), impacts
        self.tail, self.tail_size = {}, 0

    def dead_weight(self) -> bool:
        """Tell whether the tails are worth folding into the base: half of it, so the cost per row stays constant."""
        return self.tail_size > max(200_000, len(self.rows) // 2)


def impacts_of(terms: Iterable[str]) -> dict[str, int]:
    """Term → impact byte of a row with these terms."""
    counts: dict[str, int] = {}
    length = 0
    for term in terms:
        counts[term] = counts.get(term, 0) + 1
        length += 1
    return {term: impact(count, length) for term, count in counts.items()}


def find(rows: Rows, wanted: Rows) -> Ints:
    """Positions of `wanted` in the ascending `rows`, -1 where absent."""
    if not len(rows):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(rows, wanted)
    at[at == len(rows)] = 0
    return np.where(rows[at] == wanted, at, -1).astype(np.int64)
