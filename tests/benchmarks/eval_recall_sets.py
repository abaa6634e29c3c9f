"""Runs the two hand-made sets: what must be found, class by class, and what must and must not come."""

from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from memory_contracts.records import Memory, Source
from memory_worker.recall import Embedder, EntityPut, RecallQuery, RecallSettings, TenantIndex

SETS = Path(__file__).parent.parent / "recall" / "sets"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
SHOWN = 8
"""Memories a recall returns by default."""
LOOKED_AT = 5
"""Places in which a wanted memory of the first set must be."""


class Outcome(NamedTuple):
    """One case: what was asked, wanted and returned (keys of the set)."""

    group: str
    query: str
    wanted: frozenset[str]
    got: list[str]
    good: bool

    @property
    def precision(self) -> float:
        """Wanted rows of those returned; 1 when nothing is wanted and nothing came."""
        if not self.got:
            return 0.0 if self.wanted else 1.0
        return len(self.wanted.intersection(self.got)) / len(self.got)

    @property
    def recall(self) -> float:
        """Returned rows of those wanted."""
        return len(self.wanted.intersection(self.got)) / len(self.wanted) if self.wanted else 1.0


def load(name: str) -> dict[str, Any]:
    """A set by name."""
    found: dict[str, Any] = yaml.safe_load((SETS / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


def index(
    data: dict[str, Any], embedder: Embedder | None, settings: RecallSettings
) -> tuple[TenantIndex, dict[str, str]]:
    """The memories of a set in an index, and the key of each id."""
    tenant = TenantIndex(settings, embedder)
    keys: dict[str, str] = {}
    for number, (key, fields) in enumerate(data["memories"].items()):
        happened = fields.get("occurred_at")
        memory = Memory(
            id=f"mem_{number:026d}",
            bank=fields.get("bank", "main"),
            text=fields["text"],
            kind="fact",
            tier="stated",
            source=Source(route="human", principal="me"),
            created_at=NOW,
            updated_at=NOW,
            last_seen_at=NOW,
            entities=tuple(fields.get("entities", ())),
            occurred_at=_noon(happened) if happened else None,
            state=fields.get("state", "live"),
        )
        keys[memory.id] = key
        tenant.put_all([memory])
    tenant.apply([EntityPut(1, e["id"], e["name"], tuple(e["aliases"])) for e in data["entities"]])
    return tenant, keys


def _noon(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def handmade(embedder: Embedder | None, settings: RecallSettings) -> list[Outcome]:
    """The first set: everything wanted among the first five; nothing at all where nothing is wanted."""
    data = load("handmade")
    tenant, keys = index(data, embedder, settings)
    outcomes: list[Outcome] = []
    for group, asked in data["cases"].items():
        for case in asked:
            got = _ask(tenant, keys, ["main"], case)
            wanted, never = frozenset(case["want"]), set(case.get("never", ()))
            good = wanted <= set(got[:LOOKED_AT]) and not never & set(got)
            if not wanted and not never:
                good = not got
            outcomes.append(Outcome(group, case["q"], wanted, got, good))
    return outcomes


def precision(embedder: Embedder | None, settings: RecallSettings) -> list[Outcome]:
    """The second set: exactly what is wanted."""
    data = load("precision")
    tenant, keys = index(data, embedder, settings)
    outcomes: list[Outcome] = []
    for case in data["cases"]:
        got = _ask(tenant, keys, case["scope"], case)
        wanted = frozenset(case["want"])
        outcomes.append(Outcome(case["class"], case["q"], wanted, got, wanted == set(got)))
    return outcomes


def _ask(tenant: TenantIndex, keys: dict[str, str], scope: list[str], case: dict[str, Any]) -> list[str]:
    query = RecallQuery(text=case["q"], limit=SHOWN, include_superseded=case.get("superseded", False))
    return [keys[h.id] for h in tenant.search(scope, query, NOW.timestamp()).hits]


def print_sets(name: str, embedder: Embedder | None, settings: RecallSettings, *, failures: bool = False) -> None:
    """Prints both sets, class by class."""
    found = handmade(embedder, settings)
    classes: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        classes[outcome.group].append(outcome)
    parts = [f"{g} {sum(o.good for o in rows)}/{len(rows)}" for g, rows in classes.items()]
    print(f"{name}: hand-made set, {len(found)} cases: " + ", ".join(parts))
    exact = precision(embedder, settings)
    print(
        f"{name}: precision set, {len(exact)} cases: "
        f"mean precision {sum(o.precision for o in exact) / len(exact):.3f}, "
        f"mean recall {sum(o.recall for o in exact) / len(exact):.3f}"
    )
    if failures:
        for outcome in (*found, *exact):
            if not outcome.good:
                print(f"  {outcome.group}: {outcome.query!r} wants {sorted(outcome.wanted)}, got {outcome.got}")
