"""Numbered migrations: each in one transaction, after a backup of a store that holds something."""

import re
import sqlite3
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")

BACKUP_GLOB = "memory.db.before-*"
"""Names of the backups that migrations leave beside the store."""


class StoreTooNew(Exception):
    """The store was written by a newer release; install that release, or restore an older backup."""


def available() -> list[tuple[int, str]]:
    """Give the migrations that this release has: number and SQL, in order."""
    found = []
    for entry in resources.files(__package__).joinpath("migrations").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match:
            found.append((int(match.group(1)), entry.read_text("utf-8")))
    return sorted(found)


def version(connection: sqlite3.Connection) -> int:
    """Give the number of the last migration the store has."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    connection: sqlite3.Connection, path: Path, failpoint: Callable[[str], None] = lambda name: None
) -> list[int]:
    """Bring the store to this release's version and give the numbers of the migrations that ran.

    A migration that is interrupted leaves the store at the version before and runs again at the next start.
    Raises `StoreTooNew` when the store's version is above this release's.
    """
    steps = available()
    have, newest = version(connection), steps[-1][0]
    if have > newest:
        raise StoreTooNew(
            f"the store {path.name} has version {have}, this release knows up to {newest}: "
            "run the release that wrote it, or restore a backup"
        )
    todo = [(number, sql) for number, sql in steps if number > have]
    if todo and have > 0:
        _back_up(connection, path, have)
    for number, sql in todo:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in _split(sql):
                connection.execute(statement)
                failpoint(f"in-migration-{number}")
            connection.execute(f"PRAGMA user_version={number:d}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        log.info("store.migrated", version=number)
    return [number for number, _ in todo]


def _split(sql: str) -> list[str]:
    """Split a script into statements, each whole by SQLite's own judgement."""
    statements: list[str] = []
    current = ""
    for line in sql.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def _back_up(connection: sqlite3.Connection, path: Path, have: int) -> None:
    target = path.with_name(f"{path.name}.before-{have + 1:04d}")
    target.unlink(missing_ok=True)
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    target.chmod(0o600)
