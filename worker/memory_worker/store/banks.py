"""Bank rows: names, owners, trash, counts."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts.records import Bank, BankCounts
from memory_worker.store import statements
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("banks")
_decode = msgspec.json.Decoder(Bank).decode
_encode = msgspec.json.Encoder().encode


class BankRow(msgspec.Struct, frozen=True):
    """A bank and its internal number, which a name made again does not share."""

    n: int
    bank: Bank


def _row(values: tuple[Any, ...]) -> BankRow:
    return BankRow(values[0], _decode(values[1]))


def find(tx: Transaction, name: str) -> BankRow | None:
    """Give the bank of that name that is not in the trash."""
    values = tx.one(_SQL["by_name"], name)
    return None if values is None else _row(values)


def find_trashed(tx: Transaction, name: str, trash_id: str | None) -> BankRow | None:
    """Give the newest trashed bank of that name, or the one with that trash id."""
    values = tx.one(_SQL["trashed"], name, trash_id)
    return None if values is None else _row(values)


def by_number(tx: Transaction, n: int) -> BankRow:
    """Give a bank that is known to exist."""
    values = tx.one(_SQL["by_number"], n)
    assert values is not None
    return _row(values)


def insert(tx: Transaction, bank: Bank) -> BankRow:
    """Add a bank."""
    cursor = tx.connection.execute(_SQL["insert"], (bank.name, bank.owner, _encode(bank)))
    assert cursor.lastrowid is not None
    return BankRow(cursor.lastrowid, bank)


def update(tx: Transaction, n: int, bank: Bank) -> None:
    """Write a bank's new state."""
    trashed_at = None if bank.trashed_at is None else bank.trashed_at.timestamp()
    tx.run(_SQL["update"], _encode(bank), bank.trash_id, trashed_at, n)


def holds(tx: Transaction, n: int) -> bool:
    """Tell whether a bank holds a live memory or a rule."""
    return tx.one(_SQL["holds"], n, n) is not None


def all_of(tx: Transaction) -> list[BankRow]:
    """Give every bank, trashed ones too."""
    return [_row(values) for values in tx.all(_SQL["all"])]


async def read_all(readers: Readers) -> list[BankRow]:
    """Give every bank, trashed ones too, by name."""
    return [_row(values) for values in await readers.all(_SQL["all"])]


async def read(readers: Readers, name: str) -> BankRow | None:
    """Give the bank of that name that is not in the trash."""
    values = await readers.one(_SQL["by_name"], (name,))
    return None if values is None else _row(values)


async def counts(readers: Readers, now: float) -> dict[int, BankCounts]:
    """Count what each bank holds, by bank number."""
    states: dict[int, dict[str, int]] = {}
    # Two indexes answer alone; one query over both would read every row.
    for n, state, count in await readers.all(_SQL["counts"]):
        states.setdefault(n, {})[state] = count
    for n, lapsed in await readers.all(_SQL["lapsed_counts"], (now,)):
        states[n]["live"] -= lapsed
        states[n]["expired"] = states[n].get("expired", 0) + lapsed
    rules = _by_bank(await readers.all(_SQL["rule_counts"]))
    suggestions = _by_bank(await readers.all(_SQL["suggestion_counts"]))
    return {
        n: BankCounts(
            live=states.get(n, {}).get("live", 0),
            superseded=states.get(n, {}).get("superseded", 0),
            deleted=states.get(n, {}).get("deleted", 0),
            expired=states.get(n, {}).get("expired", 0),
            rules=rules.get(n, 0),
            suggestions=suggestions.get(n, 0),
        )
        for n in {*states, *rules, *suggestions}
    }


def _by_bank(rows: Sequence[tuple[Any, ...]]) -> dict[int, int]:
    return dict(rows)
