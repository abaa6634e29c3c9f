"""Many files that vanish at once are a question to a person, and nothing is deleted unasked."""

import pytest

from tests.files.world import World


async def test_a_folder_that_vanishes_deletes_nothing(world: World) -> None:
    """A vanished folder is a question, however few files were in it."""
    for n in range(3):
        await world.save(f"Fact {n}.")
    await world.room.drain()
    world.folder().rename(world.root / "elsewhere")
    await world.sync()
    assert len(await world.live()) == 3
    [suggestion] = await world.suggestions()
    assert len(suggestion.change.args["ids"]) == 3
    assert [notice.kind for notice in await world.notices()] == ["files-vanished"]


@pytest.mark.parametrize(("files", "removed", "asks"), [(30, 6, False), (30, 7, True), (4, 3, False), (20, 6, True)])
async def test_more_than_a_fifth_at_once_is_a_question(world: World, files: int, removed: int, asks: bool) -> None:
    """Up to five files, or a fifth of the bank's, are deletions; more at once delete nothing before a person says so.

    The bank's settings count among its files: of 30 memories and one of settings, a fifth is six.
    """
    memories = [await world.save(f"Fact {n}.") for n in range(files)]
    await world.room.drain()
    for memory in memories[:removed]:
        world.path_of(memory).unlink()
    await world.sync()
    assert len(await world.live()) == (files if asks else files - removed)
    assert len(await world.suggestions()) == (1 if asks else 0)


async def test_files_that_vanish_one_after_the_other_are_one_question(world: World) -> None:
    """Removals within ten minutes count together, so that a slow removal of everything is noticed too."""
    memories = [await world.save(f"Fact {n}.") for n in range(10)]
    await world.room.drain()
    for memory in memories[:4]:
        world.path_of(memory).unlink()
        await world.sync()
    assert len(await world.live()) == 6
    for memory in memories[4:6]:
        world.path_of(memory).unlink()
    await world.sync()
    assert len(await world.live()) == 6
    assert len(await world.suggestions()) == 1


async def test_vanished_files_that_come_back_are_no_deletions(world: World) -> None:
    """A disk that was away for a while leaves everything as it was."""
    for n in range(10):
        await world.save(f"Fact {n}.")
    await world.room.drain()
    aside = world.root / "elsewhere"
    world.folder().rename(aside)
    await world.sync()
    world.folder().rmdir() if world.folder().exists() else None
    aside.rename(world.folder())
    await world.sync()
    await world.update((await world.live())[0], text="Changed afterwards.")
    await world.room.drain()
    assert any("Changed afterwards." in text for text in world.files().values())
    assert len(world.files()) == 10


async def test_a_question_about_files_that_are_back_is_taken_back(world: World) -> None:
    """When every vanished file has come back nobody is asked any more."""
    for n in range(10):
        await world.save(f"Fact {n}.")
    await world.room.drain()
    aside = world.root / "elsewhere"
    world.folder().rename(aside)
    await world.sync()
    assert len(await world.suggestions()) == 1
    assert (await world.room.status()).vanished
    aside.rename(world.folder())
    await world.sync()
    assert await world.suggestions() == []
    assert not (await world.room.status()).vanished


async def test_an_approval_spares_the_files_that_came_back(world: World) -> None:
    """Said yes while some files are back, only what is still gone is deleted."""
    memories = [await world.save(f"Fact {n}.") for n in range(10)]
    await world.room.drain()
    paths = [world.path_of(memory) for memory in memories[:8]]
    kept = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    await world.sync()
    [suggestion] = await world.suggestions()
    for path in paths[:3]:
        path.write_bytes(kept[path])
    await world.sync()
    assert [one.id for one in await world.suggestions()] == [suggestion.id]
    await world.decide(suggestion, "approve")
    await world.room.drain()
    assert await world.texts() == ["Fact 0.", "Fact 1.", "Fact 2.", "Fact 8.", "Fact 9."]
    assert len(world.files()) == 5


async def test_a_rejected_question_writes_the_files_again(world: World) -> None:
    """Said no, the vanished files are written as they were."""
    for n in range(10):
        await world.save(f"Fact {n}.")
    await world.room.drain()
    before = world.files()
    for path in world.folder().iterdir():
        path.unlink()
    await world.sync()
    assert world.files() == {}
    [suggestion] = await world.suggestions()
    await world.decide(suggestion, "reject")
    await world.room.drain()
    assert world.files() == before


async def test_an_approved_question_deletes_what_is_gone(world: World) -> None:
    """Said yes, exactly what vanished is deleted."""
    for n in range(10):
        await world.save(f"Fact {n}.")
    await world.set_rule("style", "Short.")
    await world.room.drain()
    for path in (*sorted(world.folder().iterdir())[:8], world.root / "banks/main/rules/style.md"):
        path.unlink()
    await world.sync()
    [suggestion] = await world.suggestions()
    await world.decide(suggestion, "approve")
    await world.room.drain()
    assert len(await world.live()) == len(world.files()) == 2
    assert await world.rule("style") is None
