"""History: whatever was saved, edited, deleted and restored, the index answers like one built anew."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_contracts.records import Memory
from memory_worker.recall import RecallQuery, RecallSettings, StaticEmbedder, TenantIndex
from memory_worker.recall.feed import BankGone, EntityPut, IndexChange, MemoryGone, MemoryPut
from memory_worker.recall.snapshot import Snapshots
from tests.recall.store_double import NOW, memory

EMBEDDER = StaticEmbedder()
TEXTS = (
    "Ana lives in Porto",
    "Ana lives in Lisbon now",
    "Ben repairs old clocks",
    "The kettle is broken",
    "Release v1.2.3 broke the export",
    "妹は京都にいます",
    "Tea with milk, never with sugar",
    "The kettel was repaired on 2026-03-01",
)
QUERIES = (
    "Where does Ana live?",
    "clock repair",
    "kettle",
    "v1.2.3",
    "京都",
    "tea without sugar",
    "March 2026",
    "Anita",
)

step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 7), st.sampled_from(TEXTS), st.just("")),
    st.tuples(st.just("supersede"), st.integers(0, 7), st.just(""), st.just("")),
    st.tuples(st.just("gone"), st.integers(0, 7), st.just(""), st.just("")),
    st.tuples(st.just("tag"), st.integers(0, 7), st.sampled_from(("x", "y")), st.just("")),
    st.tuples(st.just("name"), st.just(0), st.sampled_from(("Anita", "Annie")), st.just("")),
    st.tuples(st.just("drop"), st.just(0), st.just(""), st.sampled_from(("main", "other"))),
    st.tuples(st.just("compact"), st.just(0), st.just(""), st.just("")),
    st.tuples(st.just("again"), st.just(0), st.just(""), st.just("")),
    st.tuples(st.just("restart"), st.just(0), st.just(""), st.just("")),
)


def answers(index: TenantIndex) -> list[list[tuple[str, str, float]]]:
    """What the index says to every query."""
    return [
        [(h.id, h.bank, h.score) for h in index.search(["main", "other"], RecallQuery(text=q, limit=20), NOW).hits]
        for q in QUERIES
    ]


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(step, max_size=25))
def test_the_index_equals_a_rebuild_after_any_history(
    steps: Sequence[tuple[str, int, str, str]], tmp_path_factory: object
) -> None:
    """Saves, edits, deletes, aliases, dropped banks, compactions, repeats and restarts leave no trace."""
    folder = Path(tmp_path_factory.mktemp("index"))  # type: ignore[attr-defined]
    index = TenantIndex(RecallSettings(), EMBEDDER)
    kept: dict[str, Memory] = {}
    entity: EntityPut | None = None
    last: IndexChange | None = None
    for seq, (action, number, text, bank) in enumerate(steps, 1):
        key = memory(number, "").id
        change: IndexChange | None = None
        if action == "put":
            kept[key] = memory(number, text, ("main", "other")[number % 2])
            change = MemoryPut(seq, kept[key])
        elif action == "supersede" and key in kept:
            kept[key] = msgspec.structs.replace(kept[key], state="superseded")
            change = MemoryPut(seq, kept[key])
        elif action == "tag" and key in kept:
            kept[key] = msgspec.structs.replace(kept[key], tags=(text,))
            change = MemoryPut(seq, kept[key])
        elif action == "gone" and key in kept:
            change = MemoryGone(seq, key, kept.pop(key).bank)
        elif action == "name":
            entity = change = EntityPut(seq, "ent_1", "Ana", (text,))
        elif action == "drop":
            kept = {i: m for i, m in kept.items() if m.bank != bank}
            change = BankGone(seq, bank)
        elif action == "compact":
            for one in index.banks.values():
                one.compact()
        elif action == "again" and last is not None:
            change = last
        elif action == "restart":
            Snapshots(folder).save(index)
            index = TenantIndex(RecallSettings(), EMBEDDER)
            Snapshots(folder).load(index)
        if change is not None:
            index.apply([change])
            last = change
    rebuilt = TenantIndex(RecallSettings(), EMBEDDER)
    rebuilt.put_all(sorted(kept.values(), key=lambda m: m.id))
    if entity is not None:
        rebuilt.apply([entity])
    assert answers(index) == answers(rebuilt)
    assert sum(b.present for b in index.banks.values()) == len(kept)
