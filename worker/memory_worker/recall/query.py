"""The plain values that recall takes and returns."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from memory_contracts.names import RECALL_LIMIT_DEFAULT, Kind, Tier
from memory_contracts.records import Memory

ArmState = Literal["ok", "empty", "off", "cut", "down"]


class RecallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. All filters apply before the best are chosen; times are unix seconds.

    `tag`, `entity` and `about` are compared after folding (NFKC, case, accents, white space). `entity` is an id, a
    name or
    an alias. `about` keeps memories that carry at least one of the handles. `since` ≤ t < `until` is asked of when
    the thing
    happened, or of when it was written down if that was not said. `deadline_ms` bounds the wait for a query vector.
    """

    text: str
    limit: int = RECALL_LIMIT_DEFAULT
    tag: str | None = None
    kind: Kind | None = None
    tier: Tier | None = None
    entity: str | None = None
    about: tuple[str, ...] = ()
    session_id: str | None = None
    since: float | None = None
    until: float | None = None
    include_superseded: bool = False
    explain: bool = False
    exclude_ids: frozenset[str] = frozenset()
    boost_about: tuple[str, ...] = ()
    """Handles of what is being looked at now: a boost, where `about` is a filter."""
    deadline_ms: float | None = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One found row of the index: `score` in [0, 1], per arm its normalised score, `parts` when asked to explain."""

    id: str
    bank: str
    score: float
    arms: dict[str, float]
    parts: dict[str, float] | None = None


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One retrieval arm's own account: candidates it gave, milliseconds it took, the share of rows it covers."""

    name: str
    state: ArmState
    candidates: int = 0
    ms: float = 0.0
    model: str | None = None
    embedded: float | None = None


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was not returned: it is not relevant enough (`floor`), or another speaks for its `subject`."""

    id: str
    bank: str
    score: float
    reason: Literal["floor", "subject"]


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the index found, best first. `cut` names what a bound left out; `below_floor` counts what was not
    relevant."""

    hits: list[Hit]
    arms: list[Arm]
    mode: str
    cut: str | None = None
    below_floor: int = 0
    left: Sequence[Left] = ()


class RecalledMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A found memory, read from the store."""

    memory: Memory
    score: float
    arms: dict[str, float]
    parts: dict[str, float] | None = None


class RecallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Ranked memories and how they were found. `mode` joins the arms that ran, as in `lexical+semantic+context`."""

    memories: list[RecalledMemory]
    mode: str
    arms: list[Arm]
    cut: str | None = None
    seq: int = 0
    """Journal sequence the answer includes."""
    left: Sequence[Left] = ()
    """The best that were left out, when asked to explain."""


class RecallStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the index for `doctor` and metrics: rows present, journal rows not applied yet, arms, embedding."""

    rows: int
    banks: int
    lag: int
    ready: bool
    model: str | None
    embedded: float
    arms: dict[str, ArmState]
    bytes: int
    problem: str | None = None
