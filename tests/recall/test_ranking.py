"""Ranking: relevance alone orders, the newest of a subject speaks, repeats wait, nothing relevant gives nothing."""

from datetime import UTC, datetime

import pytest

from memory_contracts.records import Memory
from memory_worker.recall import RecallQuery, RecallSettings, StaticEmbedder, TenantIndex
from tests.recall.store_double import NOW, memory

EMBEDDER = StaticEmbedder()


def index_of(*memories: Memory) -> TenantIndex:
    """An index of these memories."""
    index = TenantIndex(RecallSettings(), EMBEDDER)
    index.put_all(memories)
    return index


def numbers(index: TenantIndex, text: str, **query: object) -> list[int]:
    """The numbers of the memories found."""
    asked = RecallQuery(text=text, **query)  # type: ignore[arg-type]
    return [int(h.id[4:]) for h in index.search(["main"], asked, NOW).hits]


def test_being_pinned_does_not_outrank_the_query() -> None:
    """A pinned memory about something else stays behind, or away."""
    index = index_of(memory(1, "The spare key is under the blue pot"), memory(2, "Buy bread", pinned=True))
    assert numbers(index, "Where is the spare key?") == [1]


def test_one_memory_speaks_for_a_subject() -> None:
    """Of one subject a stated memory comes before an inferred one, then the newest."""
    later = datetime(2026, 2, 1, tzinfo=UTC)
    index = index_of(
        memory(1, "Ida trains on Monday", subject="ida gym"),
        memory(2, "Ida trains on Tuesday", subject="Ida  gym", updated_at=later),
        memory(3, "Ida trains on Friday", subject="ida gym", tier="inferred", updated_at=later),
        memory(4, "Ida trains in Graz"),
    )
    assert sorted(numbers(index, "When does Ida train?")) == [2, 4]


def test_the_same_thing_said_again_does_not_fill_the_list() -> None:
    """Rows that differ in punctuation and order only come after everything else that is relevant."""
    same = [memory(n, "Rosa's dog is Fido" + "!" * n) for n in range(1, 6)]
    index = index_of(*same, memory(9, "The dog of Rosa barks at Fido's own tail every evening"))
    assert numbers(index, "Rosa dog Fido", limit=2) in ([1, 9], [9, 1])


def test_near_ties_go_to_the_better_sourced_memory() -> None:
    """Stated before inferred, then the newer, when the words are the same; the order never depends on chance."""
    index = index_of(
        memory(1, "The router stands at Qzxv", tier="inferred"),
        memory(2, "The router stands at Qzxw", tier="stated"),
    )
    assert numbers(index, "Where does the router stand?") == [2, 1]
    assert numbers(index, "Where does the router stand?") == [2, 1]


@pytest.mark.parametrize("query", ["What is the capital of Mongolia?", "thanks a lot", "?!", "the of and", "zxcv qwer"])
def test_nothing_relevant_gives_nothing(query: str) -> None:
    """An unrelated question, small talk, punctuation and stop words return no memory."""
    index = index_of(memory(1, "Ana lives in Porto"), memory(2, "The kettle is broken"), memory(3, "Ben likes jazz"))
    assert numbers(index, query) == []


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("What does Jon drive?", [2]),
        ("What did error 502 mean?", [3]),
        ("What is Ben allergic to?", []),
        ("On which level did I park the Tesla?", [5]),
    ],
)
def test_what_is_named_exactly_must_be_there(query: str, wanted: list[int]) -> None:
    """Another person's or number's row is no answer; a name that is only mentioned hides nothing."""
    index = index_of(
        memory(1, "John drives a red Mazda"),
        memory(2, "Jon drives a blue Skoda"),
        memory(3, "Error 502 at the gateway meant that the pool was exhausted"),
        memory(4, "I am allergic to penicillin"),
        memory(5, "I parked the car on level three"),
    )
    assert numbers(index, query) == wanted


def test_the_answer_of_a_talk_follows_its_question() -> None:
    """What was said next in the same talk counts for a row, what was said in another does not."""
    day = datetime(2026, 3, 1, 10, tzinfo=UTC)
    index = index_of(
        memory(1, "Ana: Which instrument do you play, Ben?", occurred_at=day),
        memory(2, "Ben: It is the oboe, since I was nine.", occurred_at=day),
        memory(3, "Ben: It is the blue one, since we painted it.", occurred_at=datetime(2026, 4, 1, tzinfo=UTC)),
    )
    result = index.search(["main"], RecallQuery(text="Is Ben good at any musical instrument?", explain=True), NOW)
    parts = {int(h.id[4:]): h.parts for h in result.hits}
    assert parts[2] is not None
    assert parts[2]["beside"] > 0
    assert 3 not in parts or parts[3] == {**(parts[3] or {}), "beside": 0.0}


def test_a_date_in_the_query_raises_what_happened_then() -> None:
    """“Last week” counts from now; the memory of that week comes first."""
    index = index_of(
        memory(1, "We had dinner with the neighbours", occurred_at=datetime(2026, 5, 27, tzinfo=UTC)),
        memory(2, "We had dinner with the neighbours again", occurred_at=datetime(2026, 2, 3, tzinfo=UTC)),
    )
    assert numbers(index, "Who did we have dinner with last week?")[0] == 1
    assert numbers(index, "dinner in February 2026")[0] == 2


def test_explain_gives_every_part_of_a_score() -> None:
    """With `explain` each hit has its parts, without it none."""
    index = index_of(memory(1, "The spare key is under the blue pot"))
    (hit,) = index.search(["main"], RecallQuery(text="spare key", explain=True), NOW).hits
    assert hit.parts is not None
    assert set(hit.parts) == {"bm25", "coverage", "cosine", "beside", "dated", "about", "relevance"}
    assert hit.parts["coverage"] == pytest.approx(1.0)
    (plain,) = index.search(["main"], RecallQuery(text="spare key"), NOW).hits
    assert plain.parts is None


def test_scores_fall_with_rank_and_stay_over_the_floor() -> None:
    """Every returned score lies between the floor and 1, and none is higher than the one before it."""
    index = index_of(
        *(memory(n, f"The {w} of the sailing boat is old") for n, w in enumerate(("mast", "hull", "sail")))
    )
    scores = [h.score for h in index.search(["main"], RecallQuery(text="old hull of the boat"), NOW).hits]
    assert len(scores) >= 2
    assert scores == sorted(scores, reverse=True)
    assert all(RecallSettings().floor <= score <= 1 for score in scores)


def test_the_reply_accounts_for_every_arm() -> None:
    """Each arm says its state, its candidates and, where it has one, its model; a cut is named."""
    index = index_of(memory(1, "The spare key is under the blue pot"))
    result = index.search(["main"], RecallQuery(text="spare key"), NOW)
    assert [(a.name, a.state) for a in result.arms] == [("lexical", "ok"), ("semantic", "ok"), ("context", "empty")]
    assert result.mode == "lexical+semantic+context"
    assert result.arms[1].model == EMBEDDER.model_id
    assert result.arms[1].embedded == 1.0
    assert result.cut is None
    long = index.search(["main"], RecallQuery(text="spare key " + "otherwise unrelated filler words " * 500), NOW)
    assert long.cut == "query"


def test_the_work_per_recall_is_bounded() -> None:
    """Beyond the bounds of candidates and scanned rows the reply says what was cut, and the best row still comes."""
    settings = RecallSettings(candidates=5, postings=50, scan_rows=20, scan_candidates=5)
    index = TenantIndex(settings, EMBEDDER)
    index.put_all([memory(n, f"Meeting about topic {n} in the large room") for n in range(200)])
    index.put_all([memory(500, "The meeting about lighthouse repairs is in the large room")])
    result = index.search(["main"], RecallQuery(text="lighthouse meeting in the large room"), NOW)
    assert result.hits[0].id == memory(500, "").id
    assert result.cut == "postings, scan"
    assert result.arms[0].candidates <= 5


@pytest.mark.parametrize("unrelated", [10, 10_000])
def test_unrelated_rows_move_neither_ranks_nor_floor(unrelated: int) -> None:
    """Ten relevant rows beside ten or ten thousand unrelated ones, here or in another bank: same answers."""
    relevant = [
        memory(n, f"The {part} of the sailing boat Marlin {rest}")
        for n, (part, rest) in enumerate(
            [
                ("mast", "was replaced in spring"),
                ("hull", "is painted dark blue"),
                ("anchor", "weighs eleven kilos"),
                ("rudder", "has a crack"),
                ("engine", "needs new oil"),
                ("cabin", "sleeps four people"),
                ("mooring", "costs ninety euros a month"),
                ("insurance", "ends in December"),
                ("sail", "was sewn in Brest"),
                ("radio", "listens on channel sixteen"),
            ]
        )
    ]
    noise = [
        "invoice",
        "spreadsheet",
        "quarter",
        "department",
        "payroll",
        "printer",
        "cable",
        "lobby",
        "carpet",
        "lamp",
    ]

    def filler(start: int, bank: str) -> list[Memory]:
        return [
            memory(start + n, f"{noise[n % 10]} {noise[n // 10 % 10]} number {n} of the {noise[n // 100 % 10]}", bank)
            for n in range(unrelated)
        ]

    alone = index_of(*relevant)
    beside = index_of(*relevant, *filler(1_000, "main"))
    apart = index_of(*relevant, *filler(1_000, "other"))
    for query in (
        "sailing boat Marlin",
        "What does the mooring of Marlin cost?",
        "Marlin engine oil",
        "quantum physics",
    ):
        expected = numbers(alone, query, limit=10)
        assert numbers(beside, query, limit=10) == expected
        assert numbers(apart, query, limit=10) == expected
