"""Destroys every copy of memories in a tenant's files: banks, trash and archives."""

import asyncio
import os
from collections.abc import Collection, Iterator

import msgspec

from memory_worker.files import layout
from memory_worker.files.disk import Disk, Remove
from memory_worker.files.ports import Ledger
from memory_worker.gate import Names

ARCHIVE_SUFFIX = ".tar.gz"
"""Ending of the archives that the worker makes."""


class Erased(msgspec.Struct, frozen=True):
    """What was destroyed. `left` names files that still hold one of the words and are a person's own to correct."""

    files: int
    archives: int
    paths: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


async def erase(
    disk: Disk, ledger: Ledger, memory_ids: Collection[str], words: Collection[str], bank: str | None = None
) -> Erased:
    """Remove the files of memories whether a person changed them or not, copies in the trash, and whole archives.

    An archive cannot be cut, so each one the worker made is removed: a fresh export leaves the destroyed memories out.
    Of `bank`, which is wiped, every file goes but the one of its settings.
    """
    ids = sorted(memory_ids)
    paths = {entry.path for entry in await ledger.anywhere(ids)}
    removed, archives, holding = await asyncio.to_thread(_destroy, disk, paths, ids, Names(sorted(words)), bank)
    # A file that is no record's holds the words for nobody; one of a record that stays is that record's.
    recorded = await ledger.of_paths(holding)
    strays = sorted(set(holding) - recorded.keys())
    await asyncio.to_thread(disk.apply, [Remove(path) for path in strays])
    removed.update(strays)
    await ledger.forget(ids)
    left = tuple(layout.printable(path) for path in holding if path in recorded)
    return Erased(len(removed), archives, tuple(sorted(removed)), left)


def _destroy(
    disk: Disk, paths: set[str], ids: list[str], names: Names, bank: str | None
) -> tuple[set[str], int, list[str]]:
    """On a thread: remove by recorded path, and whatever else names one of the ids."""
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
    disk.apply([Remove(path) for path in sorted(removed)])
    archives = 0
    if ids or bank is not None:
        for name, is_folder in disk.entries(layout.EXPORTS):
            if not is_folder and name.endswith(ARCHIVE_SUFFIX):
                os.unlink(disk.root / layout.EXPORTS / name)
                archives += 1
    return removed, archives, left


def _every_file(disk: Disk) -> Iterator[str]:
    for folder in (layout.BANKS, layout.TRASH):
        for path in disk.files(folder):
            try:
                path.encode()
            except UnicodeEncodeError:
                continue
            yield path
