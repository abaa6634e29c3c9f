"""Says how common a term is in text at large, so that a small bank's word statistics do not mislead.

The shipped vocabulary is the teacher's WordPiece list, which is ordered by frequency; Zipf's law turns a word's rank
into
the share of short statements that hold it. A term that is not listed counts as rare.
"""

from functools import cache
from math import log

from memory_worker.recall.analysis import fold
from memory_worker.recall.languages import ENGLISH, irregular, stemmer, vocabulary

STATEMENT_SHARE = 1.5
"""Zipf's constant (.1) times the words of a short statement (15): share of statements that hold the word of rank 1."""
RARE = 2e-5
"""Share of statements assumed for a term that is not listed: the end of the list's range."""
COMMON_MAX = 0.2
"""Largest share given to any listed term."""
PRIOR_ROWS = 1_000
"""Rows of text at large that a bank's own statistics are mixed with."""
HIRAGANA_SHARE = 0.02
"""Share assumed for a pair of hiragana, which is mostly grammar."""


@cache
def _shares() -> dict[str, float]:
    shares: dict[str, float] = {}
    stem = stemmer(ENGLISH).stemWord
    rank = 0
    for word in vocabulary():
        if word.startswith("##") or not word.isalpha():
            continue
        rank += 1
        base = irregular().get(word, word)
        term = stem(fold(base))
        shares[term] = min(COMMON_MAX, shares.get(term, 0.0) + STATEMENT_SHARE / (rank + 5))
    return shares


def share(term: str) -> float:
    """Share of statements at large that hold the term, in (0, COMMON_MAX]."""
    listed = _shares().get(term)
    if listed is not None:
        return max(RARE, listed)
    if len(term) == 2 and all("\u3041" <= c <= "\u309f" for c in term):
        return HIRAGANA_SHARE
    if term.isdecimal():
        return 0.02 if len(term) == 1 else 0.005 if len(term) == 2 else 5e-4
    return RARE


def weight(term: str) -> float:
    """How telling a term is whatever the bank holds: its inverse document frequency at large."""
    p = share(term)
    return log(1 + (1 - p) / p)


def weight_in_bank(term: str, rows: int, total: int) -> float:
    """How telling a term is in a bank where `rows` of `total` rows have it.

    The larger of the two shares counts: a word common in the bank tells little, one common at large never tells more
    because
    the bank is small or large.
    """
    p = min(0.999, max(share(term), rows / (total + PRIOR_ROWS)))
    return log(1 + (1 - p) / p)
