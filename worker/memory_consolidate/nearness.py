"""Finds pairs of texts that may be near-duplicates, in bounded work: MinHash signatures, cut into bands.

Two texts with Jaccard similarity s of their character trigrams share a band of r values out of b with probability
1 - (1 - s^r)^b (Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3.4). With b = 42 and r = 3 that is .997 at
s = .5, .94 at .4 and .68 at .3, since short texts lose a third of their trigrams to one word. Pairs are never all
compared: a band that many texts share gives each of them only its nearest neighbours in the order of the rows.
"""

from collections.abc import Sequence

import numpy as np
from datasketch import MinHash
from numpy.typing import NDArray

BANDS = 42
ROWS_PER_BAND = 3
SIGNATURE = BANDS * ROWS_PER_BAND
"""Values per signature: 126 of 4 bytes, 50 MB for 100,000 texts."""
SEED = 20_260_101
"""Seed of the permutations; fixed, so that a second run finds what the first one found."""
SHINGLE_CHARS = 3
SIMILARITY_MIN = 0.3
"""Least estimated Jaccard similarity of a pair worth a closer look."""
CROWD = 16
"""Largest group of texts sharing a band whose pairs are all taken."""
NEIGHBOURS = 6
"""Rows after each row that are paired with it in a larger group."""

_MULTIPLIERS = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D))
# The primes of xxHash32, one per position, so that “abc” and “cba” differ.


def candidate_pairs(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of row numbers (first < second) with their estimated similarity, the most similar first.

    At most BANDS × (CROWD - 1) / 2 pairs per text are looked at. Texts should come sorted, so that the neighbours taken
    out of a large group are the most alike ones; an empty text pairs with nothing.
    """
    signatures = _signatures(texts)
    usable = np.array([len(text) >= SHINGLE_CHARS for text in texts], dtype=bool)
    rows = np.flatnonzero(usable)
    codes = [_pairs_of_band(signatures[rows, start : start + ROWS_PER_BAND], rows, len(texts)) for start in _starts()]
    pairs = np.unique(np.concatenate(codes)) if codes else np.empty(0, dtype=np.int64)
    first, second = pairs // max(len(texts), 1), pairs % max(len(texts), 1)
    similarity = np.concatenate(
        [
            np.empty(0),
            *((signatures[first[a:b]] == signatures[second[a:b]]).mean(axis=1) for a, b in _slices(len(pairs))),
        ]
    )
    near = np.flatnonzero(similarity >= SIMILARITY_MIN)
    order = near[np.argsort(-similarity[near], kind="stable")]
    return np.stack([first[order], second[order]], axis=1), similarity[order]


def _starts() -> range:
    return range(0, SIGNATURE, ROWS_PER_BAND)


def _slices(total: int, step: int = 100_000) -> list[tuple[int, int]]:
    return [(start, min(start + step, total)) for start in range(0, total, step)]


def _signatures(texts: Sequence[str]) -> NDArray[np.uint32]:
    blank = MinHash(num_perm=SIGNATURE, seed=SEED, hashfunc=int)
    signatures = np.empty((len(texts), SIGNATURE), dtype=np.uint32)
    for row, text in enumerate(texts):
        sketch = blank.copy()
        sketch.update_batch(_shingles(text))
        signatures[row] = sketch.hashvalues
    return signatures


def _shingles(text: str) -> list[int]:
    """Character trigrams as 32-bit numbers; datasketch mixes them itself (Murmur3 finaliser)."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if len(points) < SHINGLE_CHARS:
        return []
    first, second, third = _MULTIPLIERS
    grams = points[:-2] * first ^ points[1:-1] * second ^ points[2:] * third
    unique: list[int] = np.unique(grams).tolist()
    return unique


def _pairs_of_band(band: NDArray[np.uint32], rows: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Pairs of rows with equal bands, coded as first × total + second."""
    if len(rows) < 2:
        return np.empty(0, dtype=np.int64)
    order = np.lexsort(band.T)
    ordered = band[order]
    starts = np.flatnonzero(np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)]))
    sizes = np.diff(np.append(starts, len(ordered)))
    group_end = np.repeat(starts + sizes, sizes)
    reach = np.where(np.repeat(sizes, sizes) <= CROWD, CROWD - 1, NEIGHBOURS)
    found = []
    positions = np.arange(len(ordered))
    for step in range(1, CROWD):
        here = positions[(positions + step < group_end) & (reach >= step)]
        one, other = rows[order[here]], rows[order[here + step]]
        found.append(np.minimum(one, other) * total + np.maximum(one, other))
    return np.concatenate(found)
