"""Keyed hashes of what was forgotten: enough to refuse it, not enough to read it."""

from memory_worker.store import statements
from memory_worker.store.transaction import Transaction

_SQL = statements.load("forgotten")


def any_known(tx: Transaction) -> bool:
    """Tell whether anything was ever forgotten here."""
    return tx.one(_SQL["any"]) is not None


def known(tx: Transaction, value: bytes) -> bool:
    """Tell whether a keyed hash is that of something forgotten."""
    return tx.one(_SQL["known"], value) is not None


def of_kind(tx: Transaction, kind: str) -> frozenset[bytes]:
    """Give every keyed hash of a kind."""
    return frozenset(row[0] for row in tx.all(_SQL["of_kind"], kind))


def add(tx: Transaction, value: bytes, kind: str) -> None:
    """Remember a keyed hash."""
    tx.run(_SQL["add"], value, kind, tx.now)
