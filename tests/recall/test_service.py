"""RecallService: an acknowledged write is seen, restarts keep what was known, forgetting leaves nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_worker.recall import RecallOutcome, RecallQuery, RecallService, RecallSettings, StaticEmbedder
from tests.recall.store_double import FixedClock, StoreDouble, memory


def texts(outcome: RecallOutcome) -> list[str]:
    """The recalled texts in order."""
    return [m.memory.text for m in outcome.memories]


@pytest.fixture
def store() -> StoreDouble:
    """An empty store."""
    return StoreDouble()


def service(store: StoreDouble, folder: Path) -> RecallService:
    """A service over the store."""
    return RecallService(store, RecallSettings(), FixedClock(), folder, StaticEmbedder())


@pytest.fixture
async def recall(store: StoreDouble, tmp_path: Path) -> AsyncIterator[RecallService]:
    """A started service."""
    started = service(store, tmp_path)
    await started.start()
    yield started
    await started.stop()


async def test_a_write_is_seen_by_the_next_recall(store: StoreDouble, recall: RecallService) -> None:
    """A save, an edit and a delete are each seen by the recall that follows them."""
    store.put(memory(1, "Ana lives in Porto"))
    assert texts(await recall.recall(["main"], RecallQuery(text="Where does Ana live?"))) == ["Ana lives in Porto"]
    store.change(memory(1, "").id, text="Ana lives in Lisbon")
    assert texts(await recall.recall(["main"], RecallQuery(text="Where does Ana live?"))) == ["Ana lives in Lisbon"]
    assert "Ana lives in Porto" not in texts(await recall.recall(["main"], RecallQuery(text="Ana Porto")))
    store.remove(memory(1, "").id)
    assert texts(await recall.recall(["main"], RecallQuery(text="Where does Ana live?"))) == []


async def test_a_restart_reads_the_snapshot_and_the_rows_after_it(store: StoreDouble, tmp_path: Path) -> None:
    """A restarted service knows what it knew, and what was written while it was down."""
    store.put(memory(1, "Ana lives in Porto"))
    first = service(store, tmp_path)
    await first.start()
    await first.stop()
    store.put(memory(2, "Ben lives in Turin"))
    second = service(store, tmp_path)
    await second.start()
    assert texts(await second.recall(["main"], RecallQuery(text="Ana Porto"))) == ["Ana lives in Porto"]
    assert texts(await second.recall(["main"], RecallQuery(text="Ben Turin"))) == ["Ben lives in Turin"]
    await second.stop()
