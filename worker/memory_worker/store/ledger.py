"""What the file mirror wrote: one row per file with its content hash, and the files that cannot be read."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from memory_worker.store import statements
from memory_worker.store.journal import JournalRow, row_of
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("ledger")

FileKind = Literal["memory", "rule", "bank"]

HISTORY_MAX = 1_000
"""Most journal rows of one record that are looked through for an older revision."""


class FileEntry(msgspec.Struct, frozen=True, array_like=True):
    """A file that the mirror wrote or read. `path` and `folder` (of the bank) are relative to the tenant's folder.

    `target` is the memory's id, the rule's name or the bank's name; `digest` the hash of the file's content at
    `revision`. `held` names the suggestion that waits because the file vanished together with many others.
    """

    path: str
    folder: str
    kind: FileKind
    target: str
    revision: int
    digest: bytes
    held: str | None = None


class FileProblem(msgspec.Struct, frozen=True, array_like=True):
    """A file that could not be read, with the hash of what was found there and the notice a person was given."""

    path: str
    folder: str
    digest: bytes
    reason: str
    at: float
    notice: str | None = None


class FolderMove(msgspec.Struct, frozen=True):
    """A bank's folder that was moved, to the trash or back."""

    folder: str
    to: str


class LedgerChange(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that are recorded together: entries to write, paths to drop, problems to write and to drop, a move."""

    moved: FolderMove | None = None
    dropped: Sequence[str] = ()
    entries: Sequence[FileEntry] = ()
    solved: Sequence[str] = ()
    problems: Sequence[FileProblem] = ()


def record(tx: Transaction, change: LedgerChange) -> None:
    """Write a change; the move comes first, drops before entries, so that a path may pass from one record to another.

    A record has one file in a folder: an entry at a new path takes the place of the record's old one.
    """
    if change.moved is not None:
        folder, to = change.moved.folder, change.moved.to
        tx.run(_SQL["drop_folder_problems"], folder)
        tx.run(_SQL["move_folder"], to, to, len(folder) + 1, folder)
    for path in change.dropped:
        tx.run(_SQL["drop"], path)
    for entry in change.entries:
        tx.run(_SQL["put"], *msgspec.structs.astuple(entry))
    for path in change.solved:
        tx.run(_SQL["drop_problem"], path)
    for problem in change.problems:
        tx.run(_SQL["put_problem"], *msgspec.structs.astuple(problem))


def forget(tx: Transaction, targets: Sequence[str]) -> int:
    """Drop every row about those records, since a file's name repeats words of its text; gives how many there were."""
    return tx.run(_SQL["forget"], _json(targets))


async def of_targets(readers: Readers, folder: str, kind: FileKind, targets: Sequence[str]) -> dict[str, FileEntry]:
    """Give the entries of those records of a folder, by target."""
    rows = await readers.all(_SQL["of_targets"], (_json(targets), folder, kind))
    return {entry.target: entry for entry in map(_entry, rows)}


async def anywhere(readers: Readers, targets: Sequence[str]) -> list[FileEntry]:
    """Give the entries of those memories in every folder, the trash included."""
    return [_entry(values) for values in await readers.all(_SQL["anywhere"], (_json(targets),))]


async def of_paths(readers: Readers, paths: Sequence[str]) -> dict[str, FileEntry]:
    """Give the entries of those paths."""
    rows = await readers.all(_SQL["of_paths"], (_json(paths),))
    return {entry.path: entry for entry in map(_entry, rows)}


async def of_folder(readers: Readers, folder: str) -> list[FileEntry]:
    """Give every entry of a bank's folder, by path."""
    return [_entry(values) for values in await readers.all(_SQL["of_folder"], (folder,))]


async def of_held(readers: Readers, suggestion: str) -> list[FileEntry]:
    """Give the entries that wait for a suggestion's decision."""
    return [_entry(values) for values in await readers.all(_SQL["of_held"], (suggestion,))]


async def behind(readers: Readers) -> list[FileEntry]:
    """Give the entries of memories that have another revision now, or live no more; not of held ones or the trash."""
    return [_entry(values) for values in await readers.all(_SQL["behind"])]


async def folders(readers: Readers) -> list[tuple[str, int]]:
    """Give every folder with an entry, and how many it has."""
    return [(folder, count) for folder, count in await readers.all(_SQL["folders"])]


def held_by(tx: Transaction, suggestion: str) -> list[FileEntry]:
    """Give the entries that wait for a suggestion's decision, as the transaction sees them."""
    return [_entry(values) for values in tx.all(_SQL["of_held"], suggestion)]


async def any_held(readers: Readers) -> bool:
    """Whether files that vanished together wait for a person."""
    return await readers.one(_SQL["any_held"]) is not None


async def problems(readers: Readers) -> list[FileProblem]:
    """Give every file that cannot be read, by path."""
    return [FileProblem(*values) for values in await readers.all(_SQL["problems"])]


async def history(readers: Readers, target: str) -> list[JournalRow]:
    """Give the changes of one record, oldest first, at most `HISTORY_MAX`."""
    rows = await readers.all(statements.load("journal")["of_target"], (target, 0, HISTORY_MAX))
    return [row_of(values) for values in rows]


def _entry(values: tuple[Any, ...]) -> FileEntry:
    return FileEntry(*values)


def _json(values: Sequence[str]) -> str:
    return encode(list(values)).decode()
