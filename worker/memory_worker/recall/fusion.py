"""Ranks the candidates of all banks in one order: weighted sum, floor, one per subject, no repeats."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_worker.recall.query import Left
from memory_worker.recall.rowsets import distinct, minus
from memory_worker.recall.search import Found
from memory_worker.recall.settings import RecallSettings

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

COSINE_ZERO = 0.15
"""Cosine of texts that have nothing to do with each other, in the shipped table and in its teacher alike."""
COSINE_SURE = 0.75
"""Cosine from which a row is relevant for sure."""
COVERAGE_RANGE, COVERAGE_RANGE_ALONE = (0.1, 0.95), (0.05, 0.65)
"""Share of a query's weight that a row holds by chance, and from which it is relevant for sure; without
vectors there is no other sign, so less is asked for."""
COSINE_FULL = 0.5
"""Least cosine that the best row is measured against: below it a best row is no good one."""
LEXICAL_FULL = 0.4
"""Least BM25 points, as a share of the query's weight, that the best row is measured against, for the same reason."""
SHORT_QUERY, LONG_QUERY = 4, 0.5
"""Groups of a query up to which coverage is taken as it is, and the power by which it counts for more beyond."""
CLEAR_COVERAGE, CLEAR_COSINE = 0.95, 0.6
CLEAR_SHARE, CLEAR_ORDER = 0.65, 0.7
"""A row that holds nearly the whole query and means the same is a clear answer. Beside one, a row that holds less than
CLEAR_SHARE of the query and ranks below CLEAR_ORDER of the best is another matter, and is not returned."""
BESIDE = 0.15
"""Share of a row's ranking score that the rows said just before and after it get."""
BESIDE_RELEVANCE = 0.5
"""Share of a row's relevance that the rows said just before and after it have at least."""
DATED = 0.15
"""What a row gets for having happened in the time that the query names."""
ABOUT = 0.1
"""What a row gets for a handle of what is being looked at."""
TIER_STEP, CONFIDENCE_STEP, CORROBORATION_STEP, CORROBORATION_MAX, RECENCY = 0.004, 0.004, 0.001, 4, 0.004
"""Per step of tier, confidence and corroboration, and between the oldest and the newest row: they decide near-ties."""


LEFT_MAX = 20
"""Most rows that an explained recall names as left out."""


class Ranked(NamedTuple):
    """One row in the final order, with the parts of its score."""

    bank: str
    row: int
    id: str
    score: float
    arms: dict[str, float]
    parts: dict[str, float]


class Ranking(NamedTuple):
    """The final order; how many candidates were not relevant, and how many only repeated a better one."""

    rows: list[Ranked]
    below_floor: int
    repeats: int
    left: list[Left]
    """The best that were left out, when that was asked for."""


class _Scored(NamedTuple):
    lexical: Floats
    semantic: Floats
    beside: Floats
    order: Floats
    relevance: Floats


def rank(found: Sequence[Found], limit: int, settings: RecallSettings, *, explain: bool = False) -> Ranking:
    """The best `limit` rows over all banks (nearest first in `found`); with `explain` also what was left out."""
    top_lexical = max((max(float(f.lexical.max(initial=0)), LEXICAL_FULL * f.ideal) for f in found), default=0.0) or 1.0
    top_cosine = max((float(f.cosine.max(initial=0)) for f in found), default=0.0)
    scored = [_scores(f, top_lexical, max(top_cosine, COSINE_FULL), settings) for f in found]
    best = max((float(s.order.max(initial=0)) for s in scored), default=0.0)
    best_relevance = max((float(s.relevance.max(initial=0)) for s in scored), default=0.0)
    clear = settings.floor > 0 and any(
        ((f.coverage >= CLEAR_COVERAGE) & (f.cosine >= CLEAR_COSINE)).any() for f in found
    )
    kept = [_kept(f, s, best, clear, settings) for f, s in zip(found, scored, strict=True)]
    below = sum(len(f.rows) for f in found) - sum(len(k) for k in kept)
    left = _under_floor(found, scored, kept) if explain else []
    entries = _in_order(found, scored, kept)
    rows: list[Ranked] = []
    repeats: list[Ranked] = []
    subjects = _best_of_subjects(found, kept)
    families: set[int] = set()
    dropped = 0
    for order, depth, i, row in entries:
        f, s = found[depth], scored[depth]
        c = f.bank.columns
        subject = int(c["subject"][row])
        if subject and subjects.get((depth, subject), row) != row and not bool(c["superseded"][row]):
            dropped += 1
            if explain:
                beaten = bytes(c["id"][row]).decode()
                left.append(Left(id=beaten, bank=f.bank.name, score=_rounded(s.relevance[i]), reason="subject"))
            continue
        family = int(c["family"][row])
        # From the floor up to the relevance of the best row, in proportion to the rank's score.
        reach = max(0.0, best_relevance - settings.floor)
        score = settings.floor + reach * min(1.0, order / best) if best else settings.floor
        entry = Ranked(
            bank=f.bank.name,
            row=row,
            id=bytes(c["id"][row]).decode(),
            score=round(min(1.0, score), 4),
            arms={"lexical": round(float(s.lexical[i]), 4), "semantic": round(float(s.semantic[i]), 4)},
            parts={
                "bm25": float(f.lexical[i]),
                "coverage": float(f.coverage[i]),
                "cosine": float(f.cosine[i]),
                "beside": float(s.beside[i]),
                "dated": float(f.dated[i]),
                "about": float(f.about[i]),
                "relevance": float(s.relevance[i]),
            },
        )
        if family in families:
            repeats.append(entry)
        else:
            families.add(family)
            rows.append(entry)
        if len(rows) >= limit:
            break
    rows = rows[:limit]
    rows += repeats[: limit - len(rows)]
    left.sort(key=lambda item: (-item.score, item.id))
    return Ranking(rows, below, dropped, left[:LEFT_MAX])


def _under_floor(found: Sequence[Found], scored: Sequence[_Scored], kept: Sequence[Positions]) -> list[Left]:
    """The most relevant rows of each bank that are not relevant enough."""
    left: list[Left] = []
    for f, s, k in zip(found, scored, kept, strict=True):
        under = minus(np.arange(len(f.rows)), k)
        for i in under[np.argsort(-s.relevance[under], kind="stable")][:LEFT_MAX].tolist():
            memory_id = bytes(f.bank.columns["id"][int(f.rows[i])]).decode()
            left.append(Left(id=memory_id, bank=f.bank.name, score=_rounded(s.relevance[i]), reason="floor"))
    return left


def _rounded(value: np.float32) -> float:
    return round(float(value), 4)


def _scores(f: Found, top_lexical: float, top_cosine: float, settings: RecallSettings) -> _Scored:
    lexical = f.lexical / np.float32(top_lexical)
    semantic = np.clip((f.cosine - COSINE_ZERO) / (top_cosine - COSINE_ZERO), 0, 1)
    weight = np.float32(settings.lexical_weight if "lexical" in settings.arms else 0.0)
    # A row or query without a vector (not embedded yet, or not English) is judged by its words alone.
    alone = lexical if weight else np.zeros_like(lexical)
    base = np.where(f.meant, weight * lexical + (1 - weight) * semantic, alone)
    relevance = _relevance(f.coverage if weight else np.zeros_like(f.coverage), f.cosine, f.meant, f.asked)
    relevance *= f.doubt
    beside, known = np.zeros_like(base), np.zeros_like(relevance)
    for here, there in (f.pairs.T, f.pairs.T[::-1]):
        np.maximum.at(beside, here, base[there])
        np.maximum.at(known, here, relevance[there])
    order = base + np.float32(BESIDE) * beside + np.float32(DATED) * f.dated + np.float32(ABOUT) * f.about
    relevance = np.maximum(relevance, np.float32(BESIDE_RELEVANCE) * known)
    return _Scored(lexical, semantic, beside, order, relevance)


def _relevance(coverage: Floats, cosine: Floats, meant: Mask, asked: int) -> Floats:
    """How sure it is, whatever the bank holds, that a row answers: from its share of the query and its cosine."""
    # A quarter of a long request is as much of a match as half of a short question.
    coverage = coverage * np.float32(max(1.0, asked / SHORT_QUERY) ** LONG_QUERY)
    words = np.where(meant, _placed(coverage, COVERAGE_RANGE), _placed(coverage, COVERAGE_RANGE_ALONE))
    relevance: Floats = np.maximum(words, _placed(cosine, (COSINE_ZERO, COSINE_SURE))).astype(np.float32)
    return relevance


def _placed(values: Floats, between: tuple[float, float]) -> Floats:
    """Where values lie between two marks, in [0, 1]."""
    placed: Floats = np.clip((values - between[0]) / (between[1] - between[0]), 0, 1)
    return placed


def _kept(f: Found, s: _Scored, best: float, clear: bool, settings: RecallSettings) -> Positions:
    """Positions of the candidates that are relevant."""
    kept = (s.relevance >= settings.floor) & (s.order >= settings.keep_share * best)
    if clear:
        kept &= (f.coverage >= CLEAR_SHARE) | (s.order >= CLEAR_ORDER * best)
    return np.flatnonzero(kept)


def _in_order(
    found: Sequence[Found], scored: Sequence[_Scored], kept: Sequence[Positions]
) -> list[tuple[float, int, int, int]]:
    """(ranking score, bank, position, row) of the kept candidates, best first, with nothing left to chance."""
    rows = [f.rows[k] for f, k in zip(found, kept, strict=True)]
    if not any(len(r) for r in rows):
        return []
    columns = [f.bank.columns for f in found]
    updated = np.concatenate([c["updated"][r] for c, r in zip(columns, rows, strict=True)])
    ids = np.concatenate([c["id"][r] for c, r in zip(columns, rows, strict=True)])
    depth = np.concatenate([np.full(len(r), d) for d, r in enumerate(rows)])
    span = float(updated.max() - updated.min())
    order = np.concatenate([s.order[k] for s, k in zip(scored, kept, strict=True)]).astype(np.float64)
    order += np.concatenate(
        [
            TIER_STEP * c["tier"][r]
            + CONFIDENCE_STEP * c["confidence"][r]
            + CORROBORATION_STEP * np.minimum(c["corroboration"][r], CORROBORATION_MAX)
            for c, r in zip(columns, rows, strict=True)
        ]
    )
    order = np.round(order + RECENCY * (updated - updated.min()) / (span or 1.0), 5)
    best_first = np.lexsort((ids, depth, -order))
    position, row = np.concatenate(kept), np.concatenate(rows)
    return list(
        zip(
            order[best_first].tolist(),
            depth[best_first].tolist(),
            position[best_first].tolist(),
            row[best_first].tolist(),
            strict=True,
        )
    )


def _best_of_subjects(found: Sequence[Found], kept: Sequence[Positions]) -> dict[tuple[int, int], int]:
    """The row that speaks for each subject of a bank: stated first, then the newest."""
    best: dict[tuple[int, int], int] = {}
    for depth, (f, k) in enumerate(zip(found, kept, strict=True)):
        c = f.bank.columns
        for subject in distinct(c["subject"][f.rows[k]]).tolist():
            rows = f.bank.rows_of_subject(subject) if subject else ()
            if len(rows):
                keys = [(int(c["tier"][r]), float(c["updated"][r]), bytes(c["id"][r]), int(r)) for r in rows]
                best[(depth, subject)] = max(keys)[3]
    return best
