"""The index lets go of what was destroyed without being built anew, down to the words it keeps for typing errors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_contracts.records import Memory
from memory_worker.gate import Destroyed, KeyedVault, Plan, destroy
from memory_worker.recall import RecallQuery
from memory_worker.recall.service import DROPPED_MAX
from memory_worker.store import Origin
from tests.context.room import ME, Room, room
from tests.forgetting.planting import found


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Room]:
    """A tenant with recall."""
    async with room(tmp_path / "local") as opened:
        yield opened


async def forget(here: Room, *gone: Memory, names: tuple[str, ...] = ()) -> Destroyed:
    """Destroy memories, or a person, in the store, and drop them from the index."""
    vault = here.gate.vault
    assert isinstance(vault, KeyedVault)
    plan = Plan(kind="person" if names else "memory", memory_ids=tuple(one.id for one in gone), names=names)
    origin = Origin.of(ME, "fgt_1", "forget")
    destroyed = await here.store.write(lambda tx: destroy(here.gate.act(tx, ME, origin), plan, vault))
    here.store.drop_tail()
    await here.recall.drop(destroyed.texts)
    return destroyed


async def recalled(here: Room, query: str) -> list[str]:
    """The texts that are found, with their scores."""
    outcome = await here.recall.recall(("main",), RecallQuery(text=query))
    return [f"{one.memory.text} {one.score:.6f}" for one in outcome.memories]


def in_files(here: Room, *words: str) -> dict[str, str]:
    """Which of the words stand in the index's files."""
    return found(here.store.directory / "index", list(words))


async def test_words_of_a_destroyed_memory_leave_the_files(here: Room) -> None:
    """Every wording it had is in the files before and not after; a word that another memory has too stays, misspelled
    queries for it included."""
    gone = await here.save("The zanzibarine lamp hangs in the quillonade", tags=["qxtag"])
    await here.rewrite(gone, text="The zanzibarines hang in the vestibulix beside the okapicage")
    await here.save("The zanzibarine is a boat")
    await here.save("The okapicage stands in the yard")
    await here.recall.rebuild()
    words = ("zanzibarine", "vestibulix", "okapicage", "qxtag")
    assert set(in_files(here, *words, gone.id)) == {*words, gone.id}
    await forget(here, gone)
    assert set(in_files(here, *words, "zanzibarines", "quillonade", gone.id)) == {"zanzibarine", "okapicage"}
    assert "okapicage stands" in (await recalled(here, "where is the okapicgae?"))[0]
    assert await recalled(here, "vestibulix") == []


async def test_it_is_as_if_built_anew(here: Room) -> None:
    """After dropping, recalls give what they give after a rebuild, scores included, and none was refused meanwhile."""
    kept = [await here.save(f"The kettle number {n} is {colour}") for n, colour in enumerate(("red", "blue", "green"))]
    gone = [await here.save(f"The kettle of Quill is number {n}") for n in range(5)]
    await forget(here, *gone)
    queries = ("kettle", "red kettle", "what did Quill have?", "green")
    dropped = [await recalled(here, query) for query in queries]
    assert dropped[0] != []
    await here.recall.rebuild()
    assert [await recalled(here, query) for query in queries] == dropped
    assert len(kept) == 3


async def test_a_memory_that_stays_is_not_lost_with_its_emptied_history(here: Room) -> None:
    """An index that has yet to read the emptied rows of a memory that stays reads the memory as it is."""
    kept = await here.save("The kettle is red")
    emptied = "UPDATE journal SET before = NULL, after = NULL WHERE target = ?"
    await here.store.write(lambda tx: tx.run(emptied, kept.id))
    here.store.drop_tail()
    assert len(await recalled(here, "kettle")) == 1


async def test_many_are_dropped_by_building_anew(here: Room) -> None:
    """Beyond the bound the index is read from the store again, with the same end."""
    gone = [await here.save(f"The qxmany{n} stands here") for n in range(DROPPED_MAX + 1)]
    await here.save("The kettle is red")
    await forget(here, *gone)
    assert in_files(here, "qxmany1", f"qxmany{DROPPED_MAX}") == {}
    assert len(await recalled(here, "kettle")) == 1
