"""The README's harness loop against a running worker: it remembers across sessions and survives a compaction."""

import importlib.util
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from memory_contracts.client import MemoryClient
from tests.benchmarks.running import Running, running_worker
from tests.system.harness import eventually

LOOP = Path(__file__).parents[2] / "examples" / "harness.py"
CAT = "What is the name of Ana's cat?"


@pytest.fixture(scope="module")
def loop() -> ModuleType:
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("harness_example", LOOP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A worker with everything it starts."""
    folder = tmp_path_factory.mktemp("harness")
    with (folder / "log").open("wb") as log, running_worker(folder / "data", log) as running:
        yield running
        assert running.process.stdout is not None
        running.process.stdout.close()


def recent(window: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """A compaction that never comes."""
    return window


async def test_the_loop_remembers_across_two_sessions(loop: ModuleType, worker: Running) -> None:
    """What the user says in one session is there in the next."""
    async with await MemoryClient.connect(worker.credentials("system-harness")) as client:
        said = ["I prefer green tea over coffee.", "Thanks!"]
        answers = [answer async for answer in loop.converse(client, "monday", said, loop.stub, recent)]
        assert answers == ["Noted.", "Noted."]

        async def read() -> bool:
            status = await client.extraction_status()
            return status.backlog == 0 and status.kept >= 1

        await eventually(read, "the turn was read")
        asked = ["Do I prefer green tea or coffee?"]
        [answer] = [answer async for answer in loop.converse(client, "tuesday", asked, loop.stub, recent)]
        assert "green tea over coffee" in answer
        assert answer.startswith("I wrote this down myself, nothing has checked it (")


async def test_ten_turns_with_a_compaction_in_the_middle(loop: ModuleType, worker: Running) -> None:
    """A memory is given once and again after the compaction dropped it; rules stay the same to the byte, a change of
    them is told once and again after the compaction; a notice is told until acknowledged."""
    seen: list[tuple[str, list[str]]] = []

    def model(rules: str, window: list[str]) -> str:
        seen.append((rules, list(window)))
        return "All right."

    def compact(window: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
        return [("(earlier talk, summed up)", [])] if len(seen) == 6 else window

    messages = ["Hello", CAT, "Fine", CAT, "Go on", "And then?", "Where were we?", CAT, CAT]
    messages.append("What do you remember about me?")
    async with (
        await MemoryClient.connect(worker.credentials("human-me")) as person,
        await MemoryClient.connect(worker.credentials("system-harness")) as client,
    ):
        await person.save(text="Ana's cat is called Mio")
        await person.rule_set(name="style", content="Answer briefly.")
        answers: list[str] = []
        async for answer in loop.converse(client, "long", messages, model, compact):
            answers.append(answer)
            if len(answers) == 3:
                await person.rule_set(name="style", content="Answer at length.")
                soon = datetime.now(UTC) + timedelta(milliseconds=200)
                await person.save(text="The parking permit holds until noon", expires_at=soon)

                async def lapsed() -> int:
                    return len((await person.notice_list()).notices)

                await eventually(lapsed, "the notice of what lapsed")
        left = (await person.notice_list()).notices
    prompts = [window[-1] for _, window in seen]
    assert len(prompts) == 9  # the tenth turn is answered without a model
    assert len({rules for rules, _ in seen}) == 1
    assert "Answer briefly." in seen[0][0]
    assert [n for n, prompt in enumerate(prompts) if "Ana's cat is called Mio" in prompt] == [1, 7]
    assert [n for n, prompt in enumerate(prompts) if "Answer at length." in prompt] == [3, 6]
    assert [n for n, prompt in enumerate(prompts) if "The parking permit" in prompt] == [3]
    assert left == []
    assert "Ana's cat is called Mio" in answers[9]
    assert "## What you told me" in answers[9]
