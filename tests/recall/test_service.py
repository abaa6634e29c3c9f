"""RecallService: an acknowledged write is seen, restarts keep what was known, forgetting leaves nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from memory_worker.recall import (
    Embedder,
    IndexChange,
    RecallOutcome,
    RecallQuery,
    RecallService,
    RecallSettings,
    RemoteEmbedder,
    StaticEmbedder,
)
from tests.recall.store_double import FixedClock, StoreDouble, memory

STATIC = StaticEmbedder()
DEADLINE_S = 20.0


def texts(outcome: RecallOutcome) -> list[str]:
    """The recalled texts in order."""
    return [m.memory.text for m in outcome.memories]


def service(
    store: StoreDouble, folder: Path, embedder: Embedder | None = STATIC, settings: RecallSettings | None = None
) -> RecallService:
    """A service over the store."""
    return RecallService(store, settings or RecallSettings(), FixedClock(), folder, embedder)


async def embedded(recall: RecallService) -> None:
    """Waits until every row has its vector."""
    async with asyncio.timeout(DEADLINE_S):
        while recall.status().embedded < 1:  # noqa: ASYNC110 - the service has no event for this
            await asyncio.sleep(0.005)


def files(folder: Path, pattern: str) -> list[Path]:
    """What lies in a folder."""
    return list(folder.glob(pattern))


def holds(folder: Path, word: bytes) -> bool:
    """Tell whether any file below a folder holds these bytes."""
    return any(word in path.read_bytes() for path in files(folder, "**/*") if path.is_file())


@pytest.fixture
def store() -> StoreDouble:
    """An empty store."""
    return StoreDouble()


@pytest.fixture
async def recall(store: StoreDouble, tmp_path: Path) -> AsyncIterator[RecallService]:
    """A started service."""
    started = service(store, tmp_path)
    await started.start()
    yield started
    await started.stop()


async def test_a_write_is_seen_by_the_next_recall(store: StoreDouble, recall: RecallService) -> None:
    """A save, an edit, a delete and a restore are each seen by the recall that follows them."""
    asked = RecallQuery(text="Where does Ana live?")
    first = memory(1, "Ana lives in Porto")
    store.put(first)
    assert texts(await recall.recall(["main"], asked)) == ["Ana lives in Porto"]
    store.change(first.id, text="Ana lives in Lisbon")
    assert texts(await recall.recall(["main"], asked)) == ["Ana lives in Lisbon"]
    store.remove(first.id)
    assert texts(await recall.recall(["main"], asked)) == []
    store.put(first)
    assert texts(await recall.recall(["main"], asked)) == ["Ana lives in Porto"]
    store.drop_bank("main")
    store.skip()
    assert texts(await recall.recall(["main"], asked)) == []
    assert recall.lag() == 0


async def test_an_alias_given_later_finds_what_was_saved_before(store: StoreDouble, recall: RecallService) -> None:
    """A new name of an entity finds its old memories, a name taken away finds them no more."""
    store.put(memory(1, "Robert Smith leads the platform team", entities=("Robert Smith",)))
    assert texts(await recall.recall(["main"], RecallQuery(text="Zenkova"))) == []
    store.name("ent_1", "Robert Smith", "Zenkova")
    assert texts(await recall.recall(["main"], RecallQuery(text="Zenkova"))) == ["Robert Smith leads the platform team"]
    store.name("ent_1", "Robert Smith")
    assert texts(await recall.recall(["main"], RecallQuery(text="Zenkova"))) == []


async def test_a_restart_reads_the_snapshot_and_the_rows_after_it(store: StoreDouble, tmp_path: Path) -> None:
    """A restarted service knows what it knew, and what was written while it was down, without reading all again."""
    store.put(memory(1, "Ana lives in Porto"))
    first = service(store, tmp_path)
    await first.start()
    await first.stop()
    store.put(memory(2, "Ben lives in Turin"))

    async def no_scan(after_id: str, limit: int) -> list[object]:
        raise AssertionError("the store was read again")

    store.scan = no_scan  # type: ignore[method-assign,assignment]
    second = service(store, tmp_path)
    await second.start()
    assert texts(await second.recall(["main"], RecallQuery(text="Ana Porto"))) == ["Ana lives in Porto"]
    assert texts(await second.recall(["main"], RecallQuery(text="Ben Turin"))) == ["Ben lives in Turin"]
    await second.stop()


@pytest.mark.parametrize("damage", ["torn", "flipped", "manifest", "half-made"])
async def test_a_damaged_snapshot_is_thrown_away(store: StoreDouble, tmp_path: Path, damage: str) -> None:
    """A torn file, a flipped bit or a half-made folder costs a rebuild, never a wrong answer."""
    store.put(memory(1, "Ana lives in Porto"))
    first = service(store, tmp_path)
    await first.start()
    await first.stop()
    (folder,) = files(tmp_path, "*")
    victim = folder / ("manifest.json" if damage == "manifest" else "0/id.npy")
    content = bytearray(victim.read_bytes())
    if damage == "half-made":
        folder.rename(tmp_path / "making")
    elif damage == "flipped":
        content[-3] ^= 1
        victim.write_bytes(content)
    else:
        victim.write_bytes(content[: len(content) // 2])
    second = service(store, tmp_path)
    await second.start()
    assert texts(await second.recall(["main"], RecallQuery(text="Ana Porto"))) == ["Ana lives in Porto"]
    await second.stop()


async def test_forgetting_leaves_no_byte(store: StoreDouble, tmp_path: Path) -> None:
    """After the index is dropped no file is there, and after the rebuild none holds the forgotten word."""
    store.put(memory(1, "Ana keeps xylotomous samples"), memory(2, "Ben lives in Turin"))
    recall = service(store, tmp_path)
    await recall.start()
    await recall.rebuild()
    assert holds(tmp_path, b"xylotom")
    store.remove(memory(1, "").id)
    await recall.drop_all()
    assert files(tmp_path, "*") == []
    dropped = await recall.recall(["main"], RecallQuery(text="Ben Turin"))
    assert (texts(dropped), dropped.cut) == ([], "the index is being built")
    await recall.rebuild()
    assert texts(await recall.recall(["main"], RecallQuery(text="Ben Turin"))) == ["Ben lives in Turin"]
    await recall.stop()
    assert not holds(tmp_path, b"xylotom")


async def test_recalls_at_once_each_get_their_answer(store: StoreDouble, recall: RecallService) -> None:
    """Fifty recalls at once while rows are written: each sees every row acknowledged before it."""

    async def write_and_ask(number: int) -> list[str]:
        store.put(memory(number, f"Locker {number + 1000} holds the blue box"))
        return texts(await recall.recall(["main"], RecallQuery(text=f"locker {number + 1000}", limit=100)))

    found = await asyncio.gather(*(write_and_ask(n) for n in range(50)))
    assert [rows[0] for rows in found] == [f"Locker {n + 1000} holds the blue box" for n in range(50)]


class Model:
    """A model elsewhere that can be away and can change."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.away = False

    async def ask(self, asked: Sequence[str]) -> tuple[str, npt.NDArray[np.float32]]:
        """One vector per text: the static table's first numbers, as many as the name is long."""
        if self.away:
            raise ConnectionError
        return self.name, STATIC.embed(asked)[:, : 100 + len(self.name)]


async def test_without_its_model_recall_serves_words_and_says_so(store: StoreDouble, tmp_path: Path) -> None:
    """The model is away: words still find, the semantic arm reports `down`, the mode does not name it."""
    model = Model("one")
    store.put(memory(1, "Ana lives in Porto"))
    recall = service(store, tmp_path, RemoteEmbedder(model.ask))
    await recall.start()
    await embedded(recall)
    model.away = True
    outcome = await recall.recall(["main"], RecallQuery(text="Where does Ana live?"))
    assert texts(outcome) == ["Ana lives in Porto"]
    assert [(a.name, a.state) for a in outcome.arms][1] == ("semantic", "down")
    assert outcome.mode == "lexical+context"
    assert outcome.cut == "no query vector: ConnectionError"
    await recall.stop()


async def test_another_model_embeds_anew_while_words_serve(store: StoreDouble, tmp_path: Path) -> None:
    """After the model changed no old vector is used: rows are embedded again, across a restart as well."""
    store.put(*(memory(n, f"Ana's recipe {n} needs butter") for n in range(5)))
    model = Model("one")
    recall = service(store, tmp_path, RemoteEmbedder(model.ask))
    await recall.start()
    await embedded(recall)
    assert recall.status().model == "remote:one"
    model.name = "another"
    assert len(texts(await recall.recall(["main"], RecallQuery(text="recipe with butter")))) == 5
    await embedded(recall)
    assert recall.status().model == "remote:another"
    await recall.stop()
    again = service(store, tmp_path, STATIC)
    await again.start()
    assert again.status().model == STATIC.model_id
    assert len((await again.recall(["main"], RecallQuery(text="recipe with butter"))).memories) == 5
    await again.stop()


async def test_a_slow_model_does_not_hold_a_recall_up(store: StoreDouble, tmp_path: Path) -> None:
    """The wait for a query vector is bounded by the request's deadline, and the reply names what was left out."""

    async def never(asked: Sequence[str]) -> tuple[str, list[list[float]]]:
        await asyncio.Event().wait()
        raise AssertionError

    store.put(memory(1, "Ana lives in Porto"))
    recall = service(store, tmp_path, RemoteEmbedder(never))
    await recall.start()
    async with asyncio.timeout(DEADLINE_S):
        outcome = await recall.recall(["main"], RecallQuery(text="Ana Porto", deadline_ms=10))
    assert texts(outcome) == ["Ana lives in Porto"]
    assert outcome.cut == "no query vector in time"
    await recall.stop()


async def test_a_journal_that_answers_too_late_is_named(store: StoreDouble, tmp_path: Path) -> None:
    """When changes cannot be read in time the recall answers from what it has and says up to where."""
    store.put(memory(1, "Ana lives in Porto"))
    recall = service(store, tmp_path, settings=RecallSettings(catch_up_ms=10))
    await recall.start()

    async def never(seq: int, limit: int) -> list[IndexChange]:
        await asyncio.Event().wait()
        raise AssertionError

    store.changes_after = never  # type: ignore[method-assign]
    store.put(memory(2, "Ben lives in Turin"))
    outcome = await recall.recall(["main"], RecallQuery(text="Ana Porto"))
    assert texts(outcome) == ["Ana lives in Porto"]
    assert outcome.cut == "changes after 1"
    assert recall.lag() == 1
    await recall.stop()


async def test_similar_gives_the_nearest_without_a_floor(store: StoreDouble, recall: RecallService) -> None:
    """An extraction prompt sees the nearest existing memories even when none is relevant."""
    store.put(memory(1, "Ana lives in Porto"), memory(2, "The kettle is broken"))
    found = await recall.similar("main", "Ana moved to Lisbon", 2)
    assert [f.memory.text for f in found] == ["Ana lives in Porto", "The kettle is broken"]


async def test_status_tells_rows_banks_and_arms(store: StoreDouble, recall: RecallService) -> None:
    """Doctor and metrics see how much is indexed, how far behind it is and which arms run."""
    store.put(memory(1, "Ana lives in Porto"), memory(2, "Ben lives in Turin", "other"))
    assert recall.status().lag == 2
    await recall.catch_up()
    status = recall.status()
    assert (status.rows, status.banks, status.lag, status.ready, status.embedded) == (2, 2, 0, True, 1.0)
    assert status.arms == {"lexical": "ok", "semantic": "ok", "context": "ok"}
    assert status.problem is None


async def snapshot_written(tmp_path: Path, seq: int) -> None:
    """Wait until the snapshot as of a journal row is on disk."""
    async with asyncio.timeout(DEADLINE_S):
        while not files(tmp_path, f"index-{seq}/manifest.json"):  # noqa: ASYNC110 - files have no event
            await asyncio.sleep(0.005)


async def test_a_snapshot_is_written_while_running(store: StoreDouble, tmp_path: Path) -> None:
    """After enough changes the index is on disk without a stop, so a killed worker starts from it."""
    recall = service(store, tmp_path, settings=RecallSettings(snapshot_changes=3))
    await recall.start()
    store.put(*(memory(n, f"Ana's recipe {n} needs butter") for n in range(5)))
    await recall.catch_up()
    await snapshot_written(tmp_path, 5)
    await recall.stop()


async def test_a_start_that_read_the_store_leaves_a_snapshot(store: StoreDouble, tmp_path: Path) -> None:
    """A worker that is killed before its first snapshot does not read everything again at the start after next."""
    store.put(*(memory(n, f"Ana's recipe {n} needs butter") for n in range(5)))
    recall = service(store, tmp_path, settings=RecallSettings(snapshot_changes=3))
    await recall.start()
    await snapshot_written(tmp_path, 5)
    await recall.stop()


async def test_many_writes_are_read_before_anybody_asks(store: StoreDouble, tmp_path: Path) -> None:
    """After a large import the index is near the journal without a recall, so the next one has little to read."""
    recall = service(store, tmp_path, settings=RecallSettings(near_rows=20, near_s=0.01))
    await recall.start()
    try:
        store.put(*(memory(number, f"Fact number {number}") for number in range(1, 200)))
        async with asyncio.timeout(DEADLINE_S):
            while recall.lag() > 20:  # noqa: ASYNC110 - the service has no event for this
                await asyncio.sleep(0.005)
    finally:
        await recall.stop()
