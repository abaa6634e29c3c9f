"""Decides what an import may read: the path comes over the bus, the rights are the worker's own."""

import os
import stat
from pathlib import Path
from typing import NoReturn

from memory_contracts.errors import forbidden, invalid
from memory_worker.files import archive, layout
from memory_worker.files.foreign import MARKDOWN

_TAKEN = (
    f"give an archive that an export wrote ({archive.SUFFIX}), a folder of {MARKDOWN} files, or one {MARKDOWN} file"
)


def admitted(path: Path, root: Path, data_dir: Path) -> Path:
    """Give the real path of what may come in: an archive, a folder, or one markdown file; every link is resolved first.

    `root` is the tenant's own folder, `data_dir` the worker's. Nothing of the worker's own is read but the archives in
    the tenant's `exports`, and no folder that the worker's own lies in. What is refused gets the same answer whether it
    exists or not. Raises `forbidden` for what is the worker's own, and `invalid_input` for everything else.
    """
    try:
        real = Path(os.path.realpath(path.expanduser()))
        owned = Path(os.path.realpath(data_dir))
        exports = Path(os.path.realpath(root)) / layout.EXPORTS
    except (ValueError, RuntimeError, OSError):  # a NUL in it, or a home of nobody
        _nothing()
    if _lies_in(real, owned):
        if real.parent != exports or not real.name.endswith(archive.SUFFIX):
            raise forbidden(
                "the path is the worker's own; of that only the archives in the tenant's exports are imported",
                "path",
                _TAKEN,
            )
    elif _same(real, owned) or _lies_in(owned, real):
        raise forbidden(
            "the worker's own directory lies in this folder", "path", "give the folder with the files themselves"
        )
    try:
        mode = os.lstat(real).st_mode
    except OSError:
        _nothing()
    taken = real.name.endswith(archive.SUFFIX) or real.name.lower().endswith(MARKDOWN)
    if not (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and taken)):
        _nothing()
    return real


def _nothing() -> NoReturn:
    raise invalid("there is nothing at this path that an import takes", "path", _TAKEN)


def _lies_in(path: Path, folder: Path) -> bool:
    """Whether a path is a folder or below it, by name or, where it is reached another way, by what it is on disk."""
    return path.is_relative_to(folder) or any(_same(part, folder) for part in (path, *path.parents))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False
