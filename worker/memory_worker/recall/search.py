"""Searches one bank: finds candidates with each arm and works out the parts of their scores."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_worker.recall import background, talk
from memory_worker.recall.bank import ABOUT, BankIndex, Mask, Rows, folded_label
from memory_worker.recall.columns import signs
from memory_worker.recall.plan import Plan, QueryGroup, Span
from memory_worker.recall.postings import IMPACTS, PostingList, find
from memory_worker.recall.query import RecallQuery
from memory_worker.recall.rowsets import minus, union
from memory_worker.recall.settings import RecallSettings

Floats = npt.NDArray[np.float32]

TYPO_WORDS_MAX = 4
"""Most words one misspelled word is widened to."""
MISSING = 0.5
"""Factor on the relevance of a row that lacks what the query names exactly: an identifier or number that other rows
have, or the person it asks about; of every row when the bank has never heard of that person."""
UNHEARD = 0.7
"""Factor on the relevance of every row when the bank has never heard of some other name in the query."""
TYPO_FACTOR = 0.8
"""Factor of a term found by spelling rather than exactly."""


class Looked(NamedTuple):
    """A query group looked up in one bank: its rows with their saturation, and how telling the group is there."""

    group: QueryGroup
    rows: npt.NDArray[np.uint32]
    gains: Floats
    weight: float
    misspelled: bool


class Found(NamedTuple):
    """One bank's candidates with the parts of their scores; all arrays have one entry per candidate.

    `lexical` = BM25 points, `coverage` = share in [0, 1] of the query's weight at large that the row holds, `cosine` to
    the query, `meant` = both have a vector, `dated` / `about` = 1 where a date span or handle fits, `doubt` = factor
    for what the query names and the row does not have. `pairs` holds the positions of candidates that follow each
    other in one talk; `ideal` is the weight of the whole query in this bank, `asked` its number of
    groups.
    """

    bank: BankIndex
    rows: Rows
    lexical: Floats
    coverage: Floats
    cosine: Floats
    meant: Mask
    dated: Floats
    about: Floats
    doubt: Floats
    pairs: npt.NDArray[np.int64]
    ideal: float
    asked: int
    lexical_candidates: int
    semantic_candidates: int
    context_candidates: int
    lexical_ms: float
    semantic_ms: float
    context_ms: float
    cut: tuple[str, ...]


def look_up(bank: BankIndex, plan: Plan, settings: RecallSettings) -> list[Looked]:
    """Looks up every group of the query; words nobody used are tried with one edit."""
    looked: list[Looked] = []
    typos = settings.typo_terms
    for group in plan.groups:
        lists = [(p, factor) for term, factor in group.terms if len((p := bank.live(term)).rows)]
        misspelled = False
        if not lists and group.kind == "word" and typos:
            typos -= 1
            for term in bank.surfaces.near(group.surface):
                postings = bank.live(term)
                if len(postings.rows) and len(lists) < TYPO_WORDS_MAX:
                    lists.append((postings, TYPO_FACTOR))
                    misspelled = True
        rows, gains = _merged(lists)
        weight = background.weight_in_bank("" if group.kind == "date" else group.terms[0][0], len(rows), bank.present)
        weight = min(group.weight, weight) if group.kind == "date" else group.factor * weight
        looked.append(Looked(group, rows, gains, weight, misspelled))
    return looked


def _merged(lists: Sequence[tuple[PostingList, float]]) -> tuple[npt.NDArray[np.uint32], Floats]:
    """The union of posting lists; a row in several keeps its best saturation."""
    if not lists:
        return np.empty(0, np.uint32), np.empty(0, np.float32)
    if len(lists) == 1:
        postings, factor = lists[0]
        gains = IMPACTS[postings.impacts]
        return postings.rows, gains if factor == 1.0 else gains * np.float32(factor)
    rows = np.concatenate([p.rows for p, _ in lists])
    gains = np.concatenate([IMPACTS[p.impacts] * np.float32(f) for p, f in lists])
    order = np.argsort(rows, kind="stable")
    rows, gains = rows[order], gains[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    return rows[starts], np.maximum.reduceat(gains, starts)


def search(
    bank: BankIndex,
    plan: Plan,
    query: RecallQuery,
    names: frozenset[str],
    vector: Floats | None,
    now: float,
    settings: RecallSettings,
) -> Found:
    """The candidates of one bank that pass every filter. `names` are those of the entity filter."""
    started = time.perf_counter()
    cut: list[str] = []
    few, passes = bank.filtered(query, names, now)
    looked = look_up(bank, plan, settings)
    if few is not None and len(few) <= settings.candidates * 10:
        lexical_rows = few[passes(few)]
        matched = sum(bool(len(g.rows)) for g in looked)
        lexical_count = len(lexical_rows) if matched else 0
    elif "lexical" not in settings.arms:
        lexical_rows, lexical_count = np.empty(0, np.int64), 0
    else:
        lexical_rows = _lexical_candidates(bank, looked, few, passes, settings, cut)
        lexical_count = len(lexical_rows)
    lexical_done = time.perf_counter()
    semantic_rows = np.empty(0, np.int64)
    if vector is not None and bank.present > bank.unembedded:
        semantic_rows = _semantic_candidates(bank, vector, few, passes, settings, cut)
    rows = union(lexical_rows, semantic_rows)
    cosine = _cosines(bank, rows, vector)
    semantic_done = time.perf_counter()
    lexical, coverage = _lexical_parts(looked, rows)
    pairs = np.empty((0, 2), np.int64)
    if settings.talk_rows and "context" in settings.arms:
        rough = lexical / (lexical.max(initial=0) or 1) + cosine
        leading = rows[np.argsort(-rough, kind="stable")[: settings.talk_rows]]
        follow = talk.neighbours(bank, leading)
        added = minus(follow.ravel(), rows)
        added = added[passes(added)]
        if len(added):
            rows = union(rows, added)
            cosine = _cosines(bank, rows, vector)
            lexical, coverage = _lexical_parts(looked, rows)
        pairs = talk.positions(rows, follow)
    dated = _dated(bank, rows, plan.spans) if "context" in settings.arms else np.zeros(len(rows), np.float32)
    about = np.zeros(len(rows), np.float32)
    for handle in {folded_label(h) for h in query.boost_about}:
        about[find(bank.postings.get(ABOUT + handle).rows, rows.astype(np.uint32)) >= 0] = 1
    context_done = time.perf_counter()
    return Found(
        bank=bank,
        rows=rows,
        lexical=lexical,
        coverage=coverage,
        cosine=cosine,
        meant=_meant(bank, rows, vector),
        dated=dated,
        about=about,
        doubt=_doubt(looked, rows),
        pairs=pairs,
        ideal=float(sum(g.weight for g in looked)),
        asked=len(looked),
        lexical_candidates=lexical_count,
        semantic_candidates=len(semantic_rows),
        context_candidates=int(np.count_nonzero(dated + about)) + len(pairs),
        lexical_ms=(lexical_done - started) * 1e3,
        semantic_ms=(semantic_done - lexical_done) * 1e3,
        context_ms=(context_done - semantic_done) * 1e3,
        cut=tuple(cut),
    )


def _meant(bank: BankIndex, rows: Rows, vector: Floats | None) -> Mask:
    return np.zeros(len(rows), np.bool_) if vector is None else bank.columns.has_meaning(rows)


def _cosines(bank: BankIndex, rows: Rows, vector: Floats | None) -> Floats:
    if vector is None or not len(rows):
        return np.zeros(len(rows), np.float32)
    cosines: Floats = bank.columns["vector"][rows].astype(np.float32) @ vector / np.float32(127)
    return cosines


def _lexical_candidates(
    bank: BankIndex,
    looked: list[Looked],
    few: Rows | None,
    passes: Callable[[Rows], Mask],
    settings: RecallSettings,
    cut: list[str],
) -> Rows:
    """The best rows by BM25 over the telling words; reads at most `settings.postings` postings."""
    points: Floats = np.zeros(bank.columns.size, np.float32)
    budget = settings.postings
    for group in sorted((g for g in looked if len(g.rows)), key=lambda g: -g.weight):
        if len(group.rows) > budget:
            # The rows of a too common word are not visited; the word still counts for rows found by others.
            cut.append("postings")
            rest = slice(len(group.rows) - budget, None)  # the newest ones
            points[group.rows[rest]] += group.gains[rest] * np.float32(group.weight)
            break
        budget -= len(group.rows)
        points[group.rows] += group.gains * np.float32(group.weight)
    rows = np.flatnonzero(points > 0)
    if few is not None:
        rows = np.intersect1d(rows, few, assume_unique=True)
    for room in (settings.candidates * 2, len(rows)):
        best = rows
        if len(rows) > room:
            found = points[rows]
            # Everything that ties with the last one comes along, so that the choice does not depend on row numbers.
            best = rows[found >= np.partition(found, len(found) - room)[len(found) - room]]
        best = best[passes(best)]
        if len(best) >= settings.candidates or len(rows) <= room:
            break
    if len(best) > settings.candidates:
        found = points[best]
        order = np.lexsort((bank.columns["id"][best], -found))[: settings.candidates]
        best = np.sort(best[order])
    return best


def _semantic_candidates(
    bank: BankIndex,
    vector: Floats,
    few: Rows | None,
    passes: Callable[[Rows], Mask],
    settings: RecallSettings,
    cut: list[str],
) -> Rows:
    """The rows whose 1-bit vectors are nearest, among the newest `settings.scan_rows`."""
    size = bank.columns.size
    first = 0
    if few is not None:
        distance = bank.columns.distances(signs(vector), few)
    else:
        first = max(0, size - settings.scan_rows)
        if first:
            cut.append("scan")
        distance = bank.columns.distances(signs(vector), slice(first, None))
    want = settings.scan_candidates
    reached = np.cumsum(np.bincount(distance, minlength=1))
    for room in (want * 3, len(distance)):
        bound = np.searchsorted(reached, room) if len(distance) > room else len(reached)
        near = np.flatnonzero(distance <= bound)
        near = few[near] if few is not None else near + first
        near = near[passes(near) & bank.columns.has_meaning(near)]
        if len(near) >= want or len(distance) <= room:
            break
    if len(near) > want:
        close = bank.columns["vector"][near].astype(np.float32) @ vector
        near = near[np.lexsort((bank.columns["id"][near], -close))[:want]]
    return np.sort(near)


def _lexical_parts(looked: list[Looked], rows: Rows) -> tuple[Floats, Floats]:
    """BM25 points and coverage of each candidate, from every group including the common ones."""
    points = np.zeros(len(rows), np.float32)
    covered = np.zeros(len(rows), np.float32)
    wanted = rows.astype(np.uint32)
    total = sum(g.group.weight for g in looked)
    for group in looked:
        at = find(group.rows, wanted)
        has = at >= 0
        if has.any():
            gains = group.gains[at[has]]
            points[has] += gains * np.float32(group.weight)
            covered[has] += np.float32(group.group.weight * (TYPO_FACTOR if group.misspelled else 1.0))
    return points, covered / np.float32(total or 1.0)


def _doubt(looked: list[Looked], rows: Rows) -> Floats:
    """The factor on each row's relevance for what the query names and the row does not have."""
    doubt = np.ones(len(rows), np.float32)
    wanted = rows.astype(np.uint32)
    for kind in ("identifier", "name"):
        exact = [g for g in looked if g.group.kind == kind and len(g.rows)]
        if exact:
            has = np.zeros(len(rows), np.bool_)
            for group in exact:
                has |= find(group.rows, wanted) >= 0
            doubt[~has] = MISSING
    unheard = {g.group.kind for g in looked if not len(g.rows)}
    if "name" in unheard:
        doubt[:] = MISSING
    elif "title" in unheard:
        doubt = np.minimum(doubt, np.float32(UNHEARD))
    return doubt


def _dated(bank: BankIndex, rows: Rows, spans: Sequence[Span]) -> Floats:
    """1 where the row happened inside one of the query's date spans."""
    fits = np.zeros(len(rows), np.bool_)
    happened = bank.columns["happened"][rows]
    for span in spans:
        first = datetime(span.first.year, span.first.month, span.first.day, tzinfo=UTC)
        last = datetime(span.last.year, span.last.month, span.last.day, tzinfo=UTC) + timedelta(days=1)
        fits |= (happened >= first.timestamp()) & (happened < last.timestamp())
    return fits.astype(np.float32)
