"""Filters: all of them apply before the best are chosen, so a filtered row never takes a place."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_contracts.records import Memory
from memory_worker.recall import RecallQuery, RecallSettings, StaticEmbedder, TenantIndex
from tests.recall.store_double import NOW, START, memory

EMBEDDER = StaticEmbedder()
OPEN = RecallSettings(floor=0.0, keep_share=0.0)


def found(index: TenantIndex, scope: list[str] | None = None, now: float = NOW, **query: object) -> list[str]:
    """Texts of the hits."""
    asked = RecallQuery(**{"text": "tea", **query})  # type: ignore[arg-type]
    return [hit.id for hit in index.search(scope or ["main"], asked, now).hits]


def index_of(*memories: Memory) -> TenantIndex:
    """An index of these memories."""
    index = TenantIndex(OPEN, EMBEDDER)
    index.put_all(memories)
    return index


def test_expired_rows_do_not_eat_the_limit() -> None:
    """A hundred expired memories beside five live ones, five wanted: the five live ones come."""
    expired = datetime.fromtimestamp(NOW, UTC)
    rows = [memory(n, f"Tea number {n} is green", expires_at=expired) for n in range(100)]
    live = [memory(100 + n, f"Tea number {n} is black and rather long in the telling of it") for n in range(5)]
    assert set(found(index_of(*rows, *live), limit=5)) == {m.id for m in live}


def test_a_row_expires_at_its_second() -> None:
    """One microsecond before its time a memory is found, at its time it is not."""
    row = memory(1, "Tea is in the tin", expires_at=datetime.fromtimestamp(NOW, UTC))
    assert found(index_of(row), now=NOW - 1e-6) == [row.id]
    assert found(index_of(row), now=NOW) == []


def test_a_tag_with_one_match_among_ten_thousand_is_found() -> None:
    """The one tagged row comes though ten thousand others match the words better."""
    rows = [memory(n, "Tea tea tea") for n in range(10_000)]
    rare = memory(20_000, "The kettle for tea is in the upper cupboard on the left", tags=("Kitchen  Ware",))
    assert found(index_of(*rows, rare), tag="kitchen ware") == [rare.id]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"kind": "preference"}, [1]),
        ({"tier": "inferred"}, [2]),
        ({"entity": "ANA"}, [3]),
        ({"entity": "ent_ana"}, [3]),
        ({"entity": "Anita"}, [3]),
        ({"about": ("repo:api",)}, [4]),
        ({"session_id": "s-1"}, [5]),
        ({"since": datetime(2026, 3, 1, tzinfo=UTC).timestamp()}, [6]),
        ({"until": datetime(2020, 1, 1, tzinfo=UTC).timestamp()}, [7]),
        ({"exclude_ids": frozenset(memory(n, "").id for n in (1, 2, 3, 4, 5, 6, 7))}, [0]),
    ],
)
def test_each_filter_keeps_what_it_says(query: dict[str, object], wanted: list[int]) -> None:
    """Kind, tier, entity by any name, handle, session, time and exclusion each keep exactly their rows."""
    index = index_of(
        memory(0, "Tea at zero"),
        memory(1, "Tea at one", kind="preference"),
        memory(2, "Tea at two", tier="inferred"),
        memory(3, "Tea at three", entities=("Ana",)),
        memory(4, "Tea at four", about=("repo:api",)),
        memory(5, "Tea at five", session="s-1"),
        memory(6, "Tea at six", occurred_at=datetime(2026, 3, 1, tzinfo=UTC)),
        memory(7, "Tea at seven", occurred_at=datetime(2019, 3, 1, tzinfo=UTC)),
        memory(8, "Tea at eight", state="superseded"),
    )
    index.entities.put("ent_ana", "Ana", ["Anita"])
    assert found(index, **query) == [memory(n, "").id for n in wanted]


def test_superseded_rows_come_only_when_asked_for() -> None:
    """An update wins over what it replaced, which is still there to be seen."""
    old, new = memory(1, "Tea comes from Assam", state="superseded"), memory(2, "Tea comes from Darjeeling")
    assert found(index_of(old, new)) == [new.id]
    assert set(found(index_of(old, new), include_superseded=True)) == {old.id, new.id}


def test_other_banks_are_never_seen() -> None:
    """Only the banks of the scope are searched, a bank nobody wrote to is empty."""
    index = index_of(memory(1, "Tea here"), memory(2, "Tea there", "other"))
    assert found(index) == [memory(1, "").id]
    assert found(index, ["other"]) == [memory(2, "").id]
    assert found(index, ["empty"]) == []
    assert set(found(index, ["other", "main"])) == {memory(1, "").id, memory(2, "").id}


WORDS = ("tea", "green", "black", "kettle", "cup", "tin", "morning")
TAGS = ("a", "b")
KINDS = ("fact", "preference")

rows_strategy = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=5),
        st.sampled_from(KINDS),
        st.sampled_from(("stated", "inferred")),
        st.sets(st.sampled_from(TAGS)),
        st.sampled_from(("live", "superseded")),
        st.sampled_from((None, -1, 0, 1)),
        st.integers(0, 5),
    ),
    max_size=30,
)


@settings(max_examples=120, deadline=None)
@given(
    rows=rows_strategy,
    tag=st.sampled_from((None, *TAGS)),
    kind=st.sampled_from((None, *KINDS)),
    tier=st.sampled_from((None, "stated", "inferred")),
    since=st.sampled_from((None, 0, 2, 4)),
    until=st.sampled_from((None, 1, 3, 6)),
    superseded=st.booleans(),
)
def test_filters_equal_a_brute_force_scan(
    rows: list[tuple[list[str], str, str, set[str], str, int | None, int]],
    tag: str | None,
    kind: str | None,
    tier: str | None,
    since: int | None,
    until: int | None,
    superseded: bool,
) -> None:
    """Whatever is asked, the rows found are those that a scan of all rows would keep."""

    def day(number: int) -> datetime:
        return START + timedelta(days=number)

    memories = [
        memory(
            n,
            " ".join(words),
            kind=row_kind,
            tier=row_tier,
            tags=tuple(tags),
            state=state,
            occurred_at=day(happened),
            expires_at=None if expires is None else datetime.fromtimestamp(NOW + expires, UTC),
        )
        for n, (words, row_kind, row_tier, tags, state, expires, happened) in enumerate(rows)
    ]
    wanted = {
        m.id
        for m in memories
        if "tea" in m.text.split()
        and (tag is None or tag in m.tags)
        and (kind is None or m.kind == kind)
        and (tier is None or m.tier == tier)
        and (since is None or m.occurred_at >= day(since))
        and (until is None or m.occurred_at < day(until))
        and (superseded or m.state == "live")
        and (m.expires_at is None or m.expires_at.timestamp() > NOW)
    }
    index = TenantIndex(RecallSettings(floor=0.0, keep_share=0.0, arms=("lexical",)), None)
    index.put_all(memories)
    got = found(
        index,
        limit=100,
        tag=tag,
        kind=kind,
        tier=tier,
        since=None if since is None else day(since).timestamp(),
        until=None if until is None else day(until).timestamp(),
        include_superseded=superseded,
    )
    scored = {h for h in got if "tea" in next(m for m in memories if m.id == h).text.split()}
    assert scored == wanted
