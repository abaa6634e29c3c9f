"""What is forgotten is gone from every byte, and nothing else is touched."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from tests.benchmarks.running import running_worker
from tests.forgetting.planting import ALIAS, PERSON, Garden, finished, forget, found, others, plant

SEALED = ("protected",)
"""Places whose values are never in plain text, so that there is nothing to find before."""


def test_no_byte_is_left_of_a_forgotten_person(tmp_path: Path) -> None:
    """Two hundred sentinels in every place are found before and none after; what is not about the person stays."""
    garden = Garden()
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log, running_worker(data_dir, log) as worker:
        asyncio.run(plant(worker, garden))
        words = list(garden.planted)
        before = found(data_dir, words)
        missing = {place for word, place in garden.planted.items() if word not in before} - set(SEALED)
        assert missing == set(), "a search that does not find what is there proves nothing"
        assert not [word for word in before if garden.planted[word] in SEALED]
        kept = asyncio.run(others(worker))
        assert len(kept) == 3
        state, unreachable = asyncio.run(forget(worker))
        assert (state, unreachable) == ("done", "")
        assert found(data_dir, [*words, PERSON, ALIAS, PERSON.lower()]) == {}
        assert asyncio.run(others(worker)) == kept
    assert found(data_dir, [*words, PERSON, ALIAS]) == {}
    assert found(tmp_path, [*words, PERSON]) == {}, "nor in the log"


STEPS = ("records", "index", "files", "backups", "turn stream", "event streams", "plan", "database")
INSIDE = (
    "begun",
    "records.written",
    "files.removed",
    "event streams.caught up",
    "database.rewritten",
    "finishing",
)
POINTS = [f"forgetting.{name}" for name in (*INSIDE, *(f"{step}{end}" for step in STEPS for end in ("", ".done")))]
"""Every named place at which the stroke can be killed."""
OFTEN = ("forgetting.records.written", "forgetting.files", "forgetting.plan.done", "forgetting.database.rewritten")


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in OFTEN else pytest.mark.slow) for point in POINTS]
)
def test_a_forgetting_that_is_killed_finishes_at_the_next_start(tmp_path: Path, point: str) -> None:
    """Whatever the stroke was doing when the process was killed, the next start finishes it and leaves no byte."""
    garden = Garden(per_place=2)
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log:
        with running_worker(data_dir, log, MEMORY_FAILPOINT=point) as worker:
            asyncio.run(plant(worker, garden))
            state, _ = asyncio.run(forget(worker))
            assert state == "unknown", "the worker was to be killed"
            assert worker.process.wait(10) == -9
        with running_worker(data_dir, log) as worker:
            asyncio.run(finished(worker))
            assert found(data_dir, [*garden.planted, PERSON, ALIAS]) == {}
            assert len(asyncio.run(others(worker))) == 3


def test_a_reader_that_holds_the_log_makes_a_forgetting_wait(tmp_path: Path) -> None:
    """While another process reads the database the receipt stays pending and says why; afterwards it finishes."""
    garden = Garden(per_place=2)
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log, running_worker(data_dir, log) as worker:
        asyncio.run(plant(worker, garden))
        path = data_dir / "local" / "memory.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchone()
            state, unreachable = asyncio.run(forget(worker))
            assert state == "pending"
            assert "another process holds the database open" in unreachable
        asyncio.run(finished(worker))
        assert found(data_dir, [*garden.planted, PERSON, ALIAS]) == {}
