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

_SLICE = 50_000
# Pairs compared at a time: 25 MB of signatures on either side.

_MULTIPLIERS = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D))
# The primes of xxHash32, one per position, so that “abc” and “cba” differ.


def candidate_pairs(texts: Sequence[str], limit: int) -> tuple[NDArray[np.int64], bool]:
    """Pairs of row numbers (first < second) that may be near-duplicates, and whether `limit` cut the least alike off.

    At most BANDS × (CROWD - 1) / 2 pairs per text are looked at, and at most some 2 × `limit` are held at a time. Texts
    should come sorted, so that the neighbours taken out of a large group are the most alike ones; a text shorter than a
    trigram pairs with nothing.
    """
    total = max(len(texts), 1)
    signatures = _signatures(texts)
    rows = np.flatnonzero(np.array([len(text) >= SHINGLE_CHARS for text in texts], dtype=bool))
    kept, alike, cut = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), False
    for start in range(0, SIGNATURE, ROWS_PER_BAND):
        codes = np.setdiff1d(_pairs_of_band(signatures[rows, start : start + ROWS_PER_BAND], rows, total), kept)
        similarity = _similarity(signatures, codes // total, codes % total)
        near = similarity >= SIMILARITY_MIN
        kept, alike = np.concatenate([kept, codes[near]]), np.concatenate([alike, similarity[near]])
        if len(kept) > limit:
            cut = True
            best = np.lexsort((kept, -alike))[:limit]
            kept, alike = kept[best], alike[best]
    kept.sort()
    return np.stack([kept // total, kept % total], axis=1), cut


def _similarity(
    signatures: NDArray[np.uint32], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Estimated Jaccard similarity of pairs of rows: the share of equal values in their signatures."""
    similarity = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _SLICE):
        part = slice(start, start + _SLICE)
        similarity[part] = (signatures[first[part]] == signatures[second[part]]).mean(axis=1)
    return similarity


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
