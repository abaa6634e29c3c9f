"""Ranks the candidates of all banks in one order: weighted sum, floor, one per subject, no repeats."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_worker.recall.search import Found
from memory_worker.recall.settings import RecallSettings

Floats = npt.NDArray[np.float32]


class Ranked(NamedTuple):
    """One row in the final order, with the parts of its score."""

    bank: str
    row: int
    id: str
    score: float
    arms: dict[str, float]
    parts: dict[str, float]


class Ranking(NamedTuple):
    """The final order, and how many candidates were not relevant."""

    rows: list[Ranked]
    below_floor: int


def rank(found: Sequence[Found], limit: int, settings: RecallSettings, *, vectors: bool) -> Ranking:
    """The best `limit` rows over all banks, nearest bank first among equals."""
    best_lexical = max((float(f.lexical.max()) for f in found if len(f.rows)), default=0.0)
    scored: list[tuple[float, int, int, Floats]] = []
    entries: list[tuple[Ranked, int, int, int]] = []
    below = 0
    for depth, f in enumerate(found):
        if not len(f.rows):
            continue
        lexical = f.lexical / np.float32(best_lexical or 1.0)
        span = float(f.cosine.max() - f.cosine.min())
        semantic = (f.cosine - f.cosine.min()) / np.float32(span or 1.0) if vectors else np.zeros_like(lexical)
        order_score = 0.5 * lexical + 0.5 * semantic if vectors else lexical
        order_score = order_score + 0.1 * f.dated + 0.05 * f.about
        relevance = np.maximum(f.coverage, (f.cosine - 0.2) / 0.6)
        kept = relevance >= settings.floor
        below += int((~kept).sum())
        c = f.bank.columns
        for i in np.flatnonzero(kept).tolist():
            row = int(f.rows[i])
            tie = 0.01 * float(c["tier"][row]) + 0.005 * float(c["confidence"][row])
            score = float(order_score[i]) + tie
            entries.append(
                (
                    Ranked(
                        bank=f.bank.name,
                        row=row,
                        id=bytes(c["id"][row]).decode(),
                        score=score,
                        arms={"lexical": float(lexical[i]), "semantic": float(semantic[i])},
                        parts={
                            "bm25": float(f.lexical[i]),
                            "coverage": float(f.coverage[i]),
                            "cosine": float(f.cosine[i]),
                            "dated": float(f.dated[i]),
                            "about": float(f.about[i]),
                        },
                    ),
                    depth,
                    int(c["subject"][row]),
                    int(c["family"][row]),
                )
            )
    del scored
    entries.sort(key=lambda e: (-round(e[0].score, 6), e[1], e[0].id))
    top = max((e[0].score for e in entries), default=1.0)
    chosen = [e[0]._replace(score=min(1.0, max(0.0, e[0].score / max(1.0, top)))) for e in entries[:limit]]
    return Ranking(chosen, below)
