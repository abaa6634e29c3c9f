"""Destroys every copy of memories in a tenant's files: banks, trash and archives."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

import msgspec

from memory_worker.files import layout
from memory_worker.files.disk import Disk, Remove
from memory_worker.files.ports import Ledger
from memory_worker.gate import Names

ARCHIVE_SUFFIX = ".tar.gz"
"""Ending of the archives that the worker makes."""


Announce = Callable[[Sequence[str]], Awaitable[None]]
"""Is told paths."""


async def _to_nobody(paths: Sequence[str]) -> None:
    pass


class Erased(msgspec.Struct, frozen=True):
    """What was destroyed. `left` names files that still hold one of the words and are a person's own to correct."""

    files: int
    archives: int
    paths: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


async def erase(
    disk: Disk,
    ledger: Ledger,
    memory_ids: Collection[str],
    words: Collection[str],
    bank: str | None = None,
    announce: Announce = _to_nobody,
) -> Erased:
    """Remove the files of memories whether a person changed them or not, copies in the trash, and whole archives.

    An archive cannot be cut, so each one the worker made is removed: a fresh export leaves the destroyed memories out.
    Of `bank`, which is wiped, every file goes but the one of its settings. `announce` is told the paths before any is
    removed: after a crash in between nothing on disk would tell them any more.
    """
    ids = sorted(memory_ids)
    paths = {entry.path for entry in await ledger.anywhere(ids)}
    removed, holding = await asyncio.to_thread(_find, disk, paths, ids, Names(sorted(words)), bank)
    # A file that is no record's holds the words for nobody; one of a record that stays is that record's.
    recorded = await ledger.of_paths(holding)
    removed.update(set(holding) - recorded.keys())
    await announce(sorted(removed))
    archives = await asyncio.to_thread(_remove, disk, removed, bool(ids) or bank is not None)
    await ledger.forget(ids)
    left = tuple(layout.printable(path) for path in holding if path in recorded)
    return Erased(len(removed), archives, tuple(sorted(removed)), left)


def _find(disk: Disk, paths: set[str], ids: list[str], names: Names, bank: str | None) -> tuple[set[str], list[str]]:
    """On a thread: what goes, by recorded path, id or bank; and what else holds one of the names."""
    marks = [memory_id.encode() for memory_id in ids]
    folder = None if bank is None else layout.bank_folder(bank)
    removed = set(paths)
    left: list[str] = []
    for path in _every_file(disk):
        look = disk.look(path)
        if path in removed or look.state != "found":
            continue
        wiped = folder is not None and path.startswith(f"{folder}/") and path != layout.bank_file(folder)
        if wiped or any(mark in look.data for mark in marks):
            removed.add(path)
        elif names.within(path) or names.within_json(look.data):
            left.append(path)
    return removed, left


def _remove(disk: Disk, paths: Collection[str], exports: bool) -> int:
    """On a thread: remove files, and every archive the worker made; gives how many archives."""
    disk.apply([Remove(path) for path in sorted(paths)])
    archives = 0
    if exports:
        for name, is_folder in disk.entries(layout.EXPORTS):
            if not is_folder and name.endswith(ARCHIVE_SUFFIX):
                os.unlink(disk.root / layout.EXPORTS / name)
                archives += 1
    return archives


def _every_file(disk: Disk) -> Iterator[str]:
    for folder in (layout.BANKS, layout.TRASH):
        for path in disk.files(folder):
            try:
                path.encode()
            except UnicodeEncodeError:
                continue
            yield path
