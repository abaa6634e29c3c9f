"""Forgotten is forgotten in the folder too."""

from pathlib import Path

from memory_contracts.functions.operations import ExportRequest
from memory_worker.files import Archives
from tests.files.world import World


def holding(root: Path, word: bytes) -> list[str]:
    """Give the files, stores of SQLite apart, that hold a word in name or content."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file()
        and not path.name.startswith("memory.db")
        and (word in path.read_bytes() or word in path.name.encode())
    )


async def test_erased_memories_leave_no_byte_in_the_folder(world: World) -> None:
    """Files, their names, hand-made changes, copies in the trash, notes of problems and archives go."""
    await world.make_bank("work")
    plain = await world.save("Zaphod likes tea.", subject="zaphod")
    edited = await world.save("Zaphod plays chess.")
    broken = await world.save("Zaphod lives in Porto.")
    trashed = await world.save("Zaphod works here.", bank="work")
    await world.save("Ana likes tea.")
    await world.room.drain()
    await Archives(world.root, world.gate, world.clock, "1", world.reveal, data_dir=world.root).export(
        world.person, ExportRequest()
    )
    await world.trash("work")
    await world.room.drain()
    edited_path = world.path_of(edited)
    broken_path = world.path_of(broken)
    broken_path.write_text(f"---\nid: {broken.id}\nkind: [\n---\nZaphod lives in Porto.\n")
    await world.sync()
    edited_path.write_text(edited_path.read_text() + "\nZaphod again.\n")
    assert holding(world.root, b"zaphod") != []
    erased = await world.room.erase([plain.id, edited.id, broken.id, trashed.id], ["Zaphod"])
    assert (erased.files, erased.archives, erased.left) == (4, 1, ())
    assert holding(world.root, b"Zaphod") == []
    assert holding(world.root, b"zaphod") == []
    assert await world.problems() == {}
    rows = await world.store.readers.all("SELECT path FROM file_entries")
    assert not any("zaphod" in path for (path,) in rows)


async def test_a_stray_file_with_the_name_goes_and_a_memorys_that_stays_is_named(world: World) -> None:
    """A file that is no record's holds the name for nobody and is removed; one of a memory that stays is named."""
    memory = await world.save("Zaphod likes tea.")
    kept = await world.save("Zaphod is also a pizza.")
    await world.room.drain()
    (world.folder() / "own.md").write_text("---\nnot: [readable\n---\nZaphod and I.\n")
    await world.sync()
    erased = await world.room.erase([memory.id], ["zaphod"])
    assert erased.left == (str(world.path_of(kept).relative_to(world.root)),)
    assert not (world.folder() / "own.md").exists()
    assert await world.problems() == {}


async def test_an_erased_memory_is_not_written_again(world: World) -> None:
    """After erasing, a rebuild from the records brings nothing back that the store no longer has."""
    memory = await world.save("Zaphod likes tea.")
    await world.room.drain()
    await world.delete(memory)
    await world.room.erase([memory.id])
    await world.room.rebuild()
    assert world.files() == {}


async def test_a_wiped_bank_leaves_its_settings_alone(world: World) -> None:
    """Every file of the bank goes, also those that no record has and the notes about them; other banks keep theirs."""
    await world.make_bank("work")
    await world.set_rule("style", "Zaphod first.", bank="work")
    kept = await world.save("Ana likes tea.")
    await world.room.drain()
    folder = world.root / "banks" / "work" / "memories"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zaphod.md").write_text("---\nnot: [readable\n---\nI.\n")
    (folder / "zaphod.txt").write_text("not even markdown")
    await world.sync()
    assert await world.problems() != {}
    await world.room.erase([], [], "work")
    assert holding(world.root, b"aphod") == []
    assert (world.root / "banks" / "work" / "bank.yaml").exists()
    assert world.path_of(kept).exists()
    assert await world.problems() == {}
