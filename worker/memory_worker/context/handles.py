"""Finds the memories of a bank by what is being looked at: context handles such as `repo:api`, exactly or by prefix."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from memory_contracts.names import Tier
from memory_worker.context import safe
from memory_worker.store.handles import HandledRow

EXACT_SCORE = 0.5
"""Least score of a memory that carries an asked handle: it is relevant for that alone, above most chance finds."""
PREFIX_SCORE = 0.4
"""Least score of a memory that carries a handle under an asked one."""
BOOST = 0.1
"""Added to the score of a memory that is relevant by its words as well."""
PER_HANDLE_MAX = 8
"""Most memories one asked handle selects: else a handle on thousands would fill every turn, a few at a time."""
PREFIX_MIN_CHARS = 2
"""Shortest handle that is taken as a prefix."""

_RANK: dict[Tier, int] = {"stated": 0, "observed": 1, "inferred": 2}


class Handled(msgspec.Struct, frozen=True):
    """A memory selected by a handle, and the score that gives it."""

    id: str
    score: float


class Handles:
    """The handles of one bank's live memories."""

    def __init__(self, rows: Iterable[HandledRow]) -> None:
        self._rows: dict[str, HandledRow] = {}
        self._carriers: dict[str, set[str]] = {}
        self._sorted: list[str] | None = None
        for row in rows:
            self.put(row)

    def put(self, row: HandledRow) -> None:
        """Add a memory, or replace what it carried."""
        self.remove(row.id)
        if not row.about:
            return
        self._rows[row.id] = row
        for handle in row.about:
            self._carriers.setdefault(_folded(handle), set()).add(row.id)
        self._sorted = None

    def remove(self, memory: str) -> None:
        """Forget a memory."""
        row = self._rows.pop(memory, None)
        for handle in row.about if row else ():
            carriers = self._carriers.get(_folded(handle))
            if carriers is not None:
                carriers.discard(memory)
                if not carriers:
                    del self._carriers[_folded(handle)]
        self._sorted = None

    def select(self, asked: Sequence[str]) -> list[Handled]:
        """Give the memories that carry an asked handle or one under it: the exact ones first, then stated before
        guessed, then the newest."""
        scores: dict[str, float] = {}
        for handle in dict.fromkeys(_folded(handle) for handle in asked):
            exact = self._carriers.get(handle, set())
            under = self._under(handle) - exact
            best = sorted(exact, key=self._order)[:PER_HANDLE_MAX]
            best += sorted(under, key=self._order)[: PER_HANDLE_MAX - len(best)]
            for memory in best:
                score = EXACT_SCORE if memory in exact else PREFIX_SCORE
                scores[memory] = max(score, scores.get(memory, 0.0))
        return [
            Handled(memory, scores[memory]) for memory in sorted(scores, key=lambda m: (-scores[m], self._order(m)))
        ]

    def _under(self, prefix: str) -> set[str]:
        if len(prefix) < PREFIX_MIN_CHARS:
            return set()
        if self._sorted is None:
            self._sorted = sorted(self._carriers)
        found: set[str] = set()
        for handle in self._sorted[bisect_left(self._sorted, prefix) :]:
            if not handle.startswith(prefix):
                break
            found |= self._carriers[handle]
        return found

    def _order(self, memory: str) -> tuple[int, float, str]:
        row = self._rows[memory]
        return _RANK[row.tier], -row.created_at, memory


def _folded(handle: str) -> str:
    return safe.line(handle).casefold()
