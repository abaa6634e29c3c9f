"""What a writing function works with: named statements, the journal, and the time of the group."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

import msgspec

from memory_contracts.names import Route
from memory_contracts.records import CauseKind
from memory_worker.clock import to_datetime
from memory_worker.store import statements
from memory_worker.store.caller import Caller
from memory_worker.store.ids import new_id
from memory_worker.store.journal import PUBLISHED_TYPES, JournalRow

_SQL = statements.load("journal")

T = TypeVar("T")


class Origin(msgspec.Struct, frozen=True):
    """Who makes a change, from what cause, and in which session."""

    route: Route
    principal: str
    cause_kind: CauseKind
    cause_id: str
    session: str | None = None

    @staticmethod
    def of(caller: Caller, cause_id: str, cause_kind: CauseKind = "request", session: str | None = None) -> "Origin":
        """The origin of a caller's change."""
        return Origin(caller.route, caller.principal, cause_kind, cause_id, session)


class Mark(NamedTuple):
    """How far a transaction has come."""

    rows: int
    counts: int


class Transaction:
    """One grouped transaction, shared by the functions of the group."""

    def __init__(
        self, connection: sqlite3.Connection, now: float, failpoint: Callable[[str], None] = lambda name: None
    ) -> None:
        self.connection = connection
        self.now = now
        """Unix seconds at which the group began; every change of the group carries it."""
        self.moment = to_datetime(now)
        """The same time, as records carry it."""
        self.failpoint = failpoint
        self.rows: list[JournalRow] = []
        """Journal rows appended so far."""
        self._counted: list[tuple[str, int]] = []

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement and give the number of rows it changed."""
        return self.connection.execute(sql, values).rowcount

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """Give the first row, or None."""
        row: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Give every row."""
        return self.connection.execute(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Give the rows one by one, as far as they are asked for. Nothing may be written to their table meanwhile."""
        with closing(self.connection.execute(sql, values)) as rows:
            yield from rows

    def append(
        self,
        type: str,
        target: str,
        origin: Origin,
        *,
        bank: str,
        owner: str | None = None,
        before: bytes | None = None,
        after: bytes | None = None,
    ) -> JournalRow:
        """Append a journal row and, where its type is published, give it the next number of its bank."""
        bank_seq: int | None = None
        if type in PUBLISHED_TYPES:
            if self.run(_SQL["raise_bank_seq"], bank) == 0:
                self.run(_SQL["first_bank_seq"], bank)
            counted = self.one(_SQL["bank_seq"], bank)
            assert counted is not None
            bank_seq = counted[0]
        values = (
            new_id("chg"),
            self.now,
            bank,
            owner,
            bank_seq,
            type,
            target,
            origin.route,
            origin.principal,
            origin.cause_kind,
            origin.cause_id,
            origin.session,
            before,
            after,
        )
        seq = self.connection.execute(_SQL["append"], values).lastrowid
        assert seq is not None
        row = JournalRow(seq, *values)
        self.rows.append(row)
        return row

    def mark(self) -> Mark:
        """Remember how far the transaction has come, for `rewind`."""
        return Mark(len(self.rows), len(self._counted))

    def rewind(self, mark: Mark) -> None:
        """Drop the rows and counts since `mark`, whose savepoint was rolled back."""
        del self.rows[mark.rows :]
        del self._counted[mark.counts :]

    def attempt(self, work: Callable[[], T]) -> T:
        """Do a part that may fail by itself: what it wrote before it raised is undone, the rest stands."""
        mark = self.mark()
        self.connection.execute("SAVEPOINT part")
        try:
            result = work()
        except Exception:
            if self.connection.in_transaction:  # a full disk has SQLite roll everything back itself
                self.connection.execute("ROLLBACK TO part")
                self.connection.execute("RELEASE part")
            self.rewind(mark)
            raise
        self.connection.execute("RELEASE part")
        return result

    def move_cursor(self, reader: str, seq: int) -> None:
        """Set how far a reader of the journal has come."""
        self.run(_SQL["move_cursor"], reader, seq)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter that outlives a restart."""
        self._counted.append((name, by))

    def write_counts(self) -> None:
        """Write what was counted: once for the whole group, just before it is committed."""
        totals: dict[str, int] = {}
        for name, by in self._counted:
            totals[name] = totals.get(name, 0) + by
        self.connection.executemany(_SQL["count"], totals.items())
