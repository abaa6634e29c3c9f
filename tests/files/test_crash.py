"""The worker dies between any two steps: at the next start nothing is doubled, lost or taken for an edit."""

from pathlib import Path
from typing import Any

import pytest

from memory_worker.store.ledger import LedgerChange
from tests.files.world import World, opened


class Died(Exception):
    """The worker died here."""


def dies_before_recording(world: World) -> None:
    """Let the next record of what was written be the last thing the worker tries."""

    async def record(change: LedgerChange) -> None:
        raise Died

    world.room._ledger.record = record  # type: ignore[method-assign]


async def crashed(world: World, act: Any) -> None:
    """Let the worker die while it does something, and start it again."""
    dies_before_recording(world)
    with pytest.raises(Died):
        await act()
    await world.restart()
    await world.sync()


async def nothing_was_edited(world: World) -> None:
    """No revision, no suggestion, no notice came of the crash."""
    assert all(memory.revision == 1 for memory in await world.live())
    assert (await world.suggestions(), await world.notices(), await world.problems()) == ([], [], {})


async def test_a_new_file_that_was_not_recorded_is_ours(world: World) -> None:
    """Files that were placed before the crash are recognised: each memory has one file, and none is an edit."""
    for n in range(5):
        await world.save(f"Fact {n}.")
    await crashed(world, world.room.drain)
    assert len(world.files()) == 5
    await nothing_was_edited(world)


async def test_a_newer_file_that_was_not_recorded_is_ours(world: World) -> None:
    """A file written at revision 2 and not recorded is no edit of revision 1."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    await world.update(memory, text="The standup is at ten.")
    await crashed(world, world.room.drain)
    now = await world.memory(memory.id)
    assert (now.text, now.revision) == ("The standup is at ten.", 2)
    assert await world.suggestions() == []


async def test_an_unrecorded_file_that_the_store_has_passed_is_no_edit(world: World) -> None:
    """The store went on to revision 3 before the next start: the file of revision 2 is ours all the same."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    await world.update(memory, text="The standup is at ten.")
    dies_before_recording(world)
    with pytest.raises(Died):
        await world.room.drain()
    await world.update(memory, text="The standup is at eleven.")
    await world.restart()
    await world.sync()
    assert world.path_of(memory).read_text().endswith("at eleven.\n")
    assert await world.suggestions() == []


async def test_an_unrecorded_new_file_edited_before_the_start_is_an_edit(world: World) -> None:
    """A person may change a file that the mirror wrote and did not get to record."""
    memory = await world.save("The standup is at nine.")
    dies_before_recording(world)
    with pytest.raises(Died):
        await world.room.drain()
    world.edit(memory, "at nine", "at ten")
    await world.restart()
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at ten."
    assert len(await world.live()) == 1


async def test_an_edit_that_was_committed_and_not_recorded_is_one_edit(world: World) -> None:
    """The store took the edit, then the worker died: the next start does not take it again."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    world.edit(memory, "at nine", "at ten")
    await crashed(world, world.sync)
    now = await world.memory(memory.id)
    assert (now.text, now.revision) == ("The standup is at ten.", 2)
    assert await world.suggestions() == []


async def test_a_new_hand_made_file_that_was_committed_is_one_memory(world: World) -> None:
    """A new file whose memory was saved before the crash keeps that memory, under the name a person gave it."""
    await world.room.drain()
    world.folder().mkdir(parents=True)
    (world.folder() / "coffee.md").write_text("No sugar in my coffee.\n")
    await crashed(world, world.sync)
    [memory] = await world.live()
    assert list(world.files()) == ["coffee.md"]
    assert world.path_of(memory).name == "coffee.md"
    assert await world.problems() == {}


async def test_a_removal_that_was_committed_and_not_recorded_stays_one(world: World) -> None:
    """The memory of a removed file was deleted before the crash: its file does not come back."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    world.path_of(memory).unlink()
    await crashed(world, world.sync)
    assert (await world.memory(memory.id)).state == "deleted"
    assert world.files() == {}


async def test_half_written_files_are_swept_away(world: World) -> None:
    """What a crash left in the staging folder is removed at the next start, and was never seen as a file."""
    (world.root / ".staging" / "7").write_text("---\nid: mem_")
    await world.restart()
    assert list((world.root / ".staging").iterdir()) == []
    assert await world.texts() == []


async def test_a_file_emptied_by_a_power_cut_is_reported_not_taken(world: World) -> None:
    """An empty file where a memory's was is unreadable: the memory stays, and `removed` is what removes it."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    path = world.path_of(memory)
    path.write_bytes(b"")
    await world.restart()
    assert (await world.memory(memory.id)).state == "live"
    assert list((await world.problems()).values()) == ["the file is empty"]
    path.unlink()
    await world.sync()
    assert (await world.memory(memory.id)).state == "deleted"


async def test_a_lost_ledger_costs_a_reading_and_nothing_else(tmp_path: Path) -> None:
    """Without its record of what it wrote the mirror recognises its files by what is in them."""
    async with opened(tmp_path / "local") as world:
        memories = [await world.save(f"Fact {n}.") for n in range(8)]
        await world.room.drain()
        before = world.files()
        await world.store.write(lambda tx: tx.run("DELETE FROM file_entries"))
        await world.restart()
        await world.sync()
        assert world.files() == before
        assert [memory.id for memory in await world.live()] == [memory.id for memory in memories]
        await nothing_was_edited(world)
