"""The record of what the mirror wrote."""

from memory_worker.files import StoreLedger
from memory_worker.store.ledger import FileEntry, FileProblem, FolderMove, LedgerChange
from tests.files.world import World

ONE = FileEntry("banks/work/memories/a.md", "banks/work", "memory", "mem_1", 1, b"1" * 16)
TWO = FileEntry("banks/work/rules/style.md", "banks/work", "rule", "style", 3, b"2" * 16)


async def test_what_is_recorded_is_found_by_path_target_and_folder(world: World) -> None:
    """An entry is one row, whichever way it is asked for."""
    ledger = StoreLedger(world.store)
    await ledger.record(LedgerChange(entries=[ONE, TWO]))
    assert await ledger.of_paths([ONE.path, "banks/work/memories/none.md"]) == {ONE.path: ONE}
    assert await ledger.of_targets("banks/work", "rule", ["style", "tone"]) == {"style": TWO}
    assert await ledger.of_targets("banks/main", "rule", ["style"]) == {}
    assert await ledger.of_folder("banks/work") == [ONE, TWO]
    assert await ledger.anywhere(["mem_1"]) == [ONE]


async def test_a_record_has_one_file_in_a_folder(world: World) -> None:
    """An entry at a new path takes the place of the record's old one."""
    ledger = StoreLedger(world.store)
    moved = FileEntry("banks/work/memories/b.md", "banks/work", "memory", "mem_1", 2, b"3" * 16)
    await ledger.record(LedgerChange(entries=[ONE]))
    await ledger.record(LedgerChange(entries=[moved]))
    assert await ledger.of_folder("banks/work") == [moved]


async def test_a_folder_moves_with_everything_in_it(world: World) -> None:
    """A bank that goes to the trash takes its entries along and leaves its problems behind."""
    ledger = StoreLedger(world.store)
    problem = FileProblem("banks/work/memories/x.md", "banks/work", b"4" * 16, "the file is empty", 1.0)
    await ledger.record(LedgerChange(entries=[ONE, TWO], problems=[problem]))
    await ledger.record(LedgerChange(moved=FolderMove("banks/work", ".trash/work-1")))
    assert [entry.path for entry in await ledger.of_folder(".trash/work-1")] == [
        ".trash/work-1/memories/a.md",
        ".trash/work-1/rules/style.md",
    ]
    assert await ledger.of_folder("banks/work") == []
    assert await ledger.problems() == []


async def test_a_held_file_is_found_by_its_question(world: World) -> None:
    """Files that vanished together are found again by the suggestion that asks about them."""
    ledger = StoreLedger(world.store)
    held = FileEntry(ONE.path, ONE.folder, ONE.kind, ONE.target, ONE.revision, ONE.digest, held="sug_1")
    await ledger.record(LedgerChange(entries=[held, TWO]))
    assert await ledger.of_held("sug_1") == [held]


async def test_what_was_forgotten_is_not_recorded(world: World) -> None:
    """Forgetting drops every row about a memory: a file's name repeats words of its text."""
    ledger = StoreLedger(world.store)
    await ledger.record(LedgerChange(entries=[ONE, TWO]))
    assert await ledger.forget(["mem_1"]) == 1
    assert await ledger.of_folder("banks/work") == [TWO]
