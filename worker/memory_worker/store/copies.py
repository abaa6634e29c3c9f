"""Copies a store while it is written, and checks a copy before it is trusted."""

import contextlib
import sqlite3
from pathlib import Path

from memory_worker.store import migrations

PROBLEMS_MAX = 10
"""Most problems of a damaged store that are named."""


def copy_store(path: Path, target: Path) -> int:
    """Write a consistent copy of the store at `path`, which may be in use, and give its version.

    The copy is one file without a write-ahead log. Raises sqlite3.Error when the source cannot be read and OSError
    when there is no room.
    """
    target.unlink(missing_ok=True)
    with (
        contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        target.chmod(0o600)
        # In one step: a copy in several steps would begin again at every commit of the running worker.
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        return migrations.version(copy)


def check_store(path: Path) -> tuple[int, list[str]]:
    """Give a store's version and what SQLite finds wrong with it; the store may be in use meanwhile.

    Raises sqlite3.Error when it cannot be read at all.
    """
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as store:
        found = [str(row[0]) for row in store.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})")]
        return migrations.version(store), [] if found == ["ok"] else found


def check_copy(path: Path) -> list[str]:
    """Give what is wrong with a store that is to be used again, also whether this release can open it."""
    try:
        have, problems = check_store(path)
    except sqlite3.Error as error:
        return [f"cannot be read: {error}"]
    newest = migrations.available()[-1][0]
    if have > newest:
        problems.append(f"has version {have}, this release knows up to {newest}")
    return problems
