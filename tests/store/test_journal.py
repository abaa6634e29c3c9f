"""The store: grouped commits, dense numbers, readers that miss nothing, and a disk that is always right."""

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.records import Bank
from memory_worker.clock import SystemClock
from memory_worker.store import Origin, StoreTooNew, TenantStore, Transaction, banks

ORIGIN = Origin("human", "ana", "request", "req_1")


def note(text: str, bank: str = "main") -> "Note":
    return Note(text, bank)


class Note:
    """Appends one row."""

    def __init__(self, text: str, bank: str) -> None:
        self.text, self.bank = text, bank

    def __call__(self, tx: Transaction) -> int:
        return tx.append("rule.set", self.text, ORIGIN, bank=self.bank, after=b"{}").seq


async def test_concurrent_writes_share_commits(store: TenantStore) -> None:
    """Writes that wait together are committed together: fewer commits than functions, and every one is there."""
    before = store.writer.commits
    await asyncio.gather(*(store.write(note(f"rule-{n}")) for n in range(200)))
    assert store.writer.commits - before < 100
    assert store.head == 200
    assert [row.seq for row in await store.journal_after(0, 1_000)] == list(range(1, 201))


async def test_one_failure_costs_no_other(store: TenantStore) -> None:
    """A function that raises is undone alone: the others of its group are committed, numbers stay dense."""

    def fail(tx: Transaction) -> None:
        tx.append("rule.set", "never", ORIGIN, bank="main")
        raise FunctionError("conflict", "no")

    results = await asyncio.gather(
        *(store.write(fail if n % 3 == 0 else note(f"rule-{n}")) for n in range(30)), return_exceptions=True
    )
    assert sum(isinstance(result, FunctionError) for result in results) == 10
    rows = await store.journal_after(0, 100)
    assert [row.bank_seq for row in rows] == list(range(1, 21))
    assert all(row.target != "never" for row in rows)


async def test_part_of_a_function_fails(store: TenantStore) -> None:
    """A part that raises is undone, and what the function did before and after it stands."""

    def work(tx: Transaction) -> None:
        note("before")(tx)

        def part() -> None:
            note("part")(tx)
            raise FunctionError("conflict", "no")

        with pytest.raises(FunctionError):
            tx.attempt(part)
        tx.attempt(lambda: note("after")(tx))

    await store.write(work)
    assert [(row.target, row.bank_seq) for row in await store.journal_after(0, 9)] == [("before", 1), ("after", 2)]


async def test_numbers_are_dense_per_bank(store: TenantStore) -> None:
    """Every bank counts its published rows by itself; rows that are not published take no number."""

    def entity(tx: Transaction) -> None:
        tx.append("entity.created", "ent_1", ORIGIN, bank="main")

    for work in (note("a", "one"), note("b", "two"), entity, note("c", "one")):
        await store.write(work)
    rows = await store.journal_after(0, 9)
    assert [(row.bank, row.bank_seq) for row in rows] == [("one", 1), ("two", 1), ("main", None), ("one", 2)]


async def test_survives_without_closing(store: TenantStore, tmp_path: Path) -> None:
    """What was acknowledged is there in a copy of the files that a killed process would leave."""
    await store.write(note("kept"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("memory.db", "memory.db-wal"):
        (copy / name).write_bytes((store.directory / name).read_bytes())
    other = TenantStore("local", copy, SystemClock())
    await other.open()
    assert [row.target for row in await other.journal_after(0, 9)] == ["kept"]
    await other.close()


async def test_readers_go_on_where_they_were(tmp_path: Path) -> None:
    """A reader's cursor survives a restart; it reads on after it, from memory or from disk."""
    store = TenantStore("local", tmp_path / "local", SystemClock())
    await store.open()
    for n in range(5):
        await store.write(note(f"rule-{n}"))
    store.move_cursor("relay", 3)
    await store.close()
    store = TenantStore("local", tmp_path / "local", SystemClock())
    await store.open()
    assert (store.cursor("relay"), store.cursor("index"), store.head) == (3, 0, 5)
    assert [row.target for row in await store.journal_after(3, 9)] == ["rule-3", "rule-4"]
    await store.close()


async def test_subscribers_hear_each_commit(store: TenantStore) -> None:
    """A subscriber is told the new head before the writer's caller goes on, and not any more once it stops."""
    heads: list[int] = []
    stop = store.subscribe(heads.append)
    await store.write(note("a"))
    assert heads == [1]
    stop()
    await store.write(note("b"))
    assert heads == [1]


async def test_bank_names_are_unique_by_the_database(store: TenantStore) -> None:
    """The database itself refuses a second bank of one name."""
    now = datetime.now(UTC)
    await store.write(lambda tx: banks.insert(tx, Bank(name="main", created_at=now, updated_at=now)))
    with pytest.raises(sqlite3.IntegrityError):
        await store.write(lambda tx: banks.insert(tx, Bank(name="main", created_at=now, updated_at=now)))


async def test_durable_settings(store: TenantStore) -> None:
    """The writer waits for the disk, and what is deleted is overwritten."""

    def settings(connection: sqlite3.Connection) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

    found = await store.maintain(settings)
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
    assert (store.path.stat().st_mode & 0o777) == 0o600


async def test_newer_store_is_left_alone(tmp_path: Path) -> None:
    """A store of a newer release is refused, not changed."""
    store = TenantStore("local", tmp_path / "local", SystemClock())
    await store.open()
    await store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    with pytest.raises(StoreTooNew):
        await TenantStore("local", tmp_path / "local", SystemClock()).open()


async def test_cancelled_caller_takes_nothing_back(store: TenantStore) -> None:
    """A caller that goes away while its write is committed leaves the write in place."""
    task = asyncio.ensure_future(store.write(note("kept")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.write(note("next"))
    assert [row.target for row in await store.journal_after(0, 9)] == ["kept", "next"]
