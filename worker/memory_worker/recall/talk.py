"""Finds what was said just before and after a row: the answer often follows the words that were asked for."""

import numpy as np
import numpy.typing as npt

from memory_worker.recall.bank import BankIndex, Rows, talk_term

TALK_GAP_S = 1_800.0
"""Longest pause, in seconds, between two rows that follow each other in one talk."""
TALK_ROWS_MAX = 2_000
"""Largest talk, in rows, that is put in order; in a larger one nothing is looked up."""

Pairs = npt.NDArray[np.int64]


def neighbours(bank: BankIndex, rows: Rows) -> Pairs:
    """Pairs (earlier, later) of live rows that follow each other in a talk, where at least one is of `rows`."""
    talks = bank.columns["talk"][rows]
    wanted = {int(r) for r, t in zip(rows.tolist(), talks.tolist(), strict=True) if t}
    pairs: list[tuple[int, int]] = []
    for number in sorted({t for t in talks.tolist() if t}):
        said = bank.postings.get(talk_term(number)).rows.astype(np.int64)
        if len(said) > TALK_ROWS_MAX:
            continue
        said = said[bank.columns["alive"][said] & (bank.columns["talk"][said] == number)]
        happened = bank.columns["happened"][said]
        order = np.lexsort((bank.columns["id"][said], happened))
        said, happened = said[order], happened[order]
        close = np.diff(happened) <= TALK_GAP_S
        ordered = said.tolist()
        pairs += [
            (ordered[i], ordered[i + 1])
            for i in np.flatnonzero(close).tolist()
            if ordered[i] in wanted or ordered[i + 1] in wanted
        ]
    return np.array(pairs, np.int64).reshape(-1, 2)


def positions(rows: Rows, pairs: Pairs) -> Pairs:
    """The pairs whose both rows are among the ascending `rows`, as positions in it."""
    if not len(pairs) or not len(rows):
        return np.empty((0, 2), np.int64)
    at = np.searchsorted(rows, pairs)
    at[at == len(rows)] = 0
    held: Pairs = at[(rows[at] == pairs).all(axis=1)]
    return held
