"""Rows of forgettings under way, and the statements that destroy values in place."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from memory_contracts.records import ProposedChange, Receipt, Suggestion
from memory_worker.store import inbox, statements
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("forgetting")
_decode_suggestion = msgspec.json.Decoder(Suggestion).decode
_decode_receipt = msgspec.json.Decoder(Receipt).decode

STEP_ROWS = 500
"""Rows looked at per step of a scan."""


class ForgettingRow(msgspec.Struct, frozen=True):
    """A forgetting: the steps that are done, its plan while there are values to destroy, its receipt."""

    id: str
    at: float
    state: str
    steps: tuple[str, ...]
    plan: bytes | None
    receipt: Receipt


def put(tx: Transaction, row: ForgettingRow) -> None:
    """Write how far a forgetting has come."""
    tx.run(_SQL["put"], row.id, row.at, row.state, "|".join(row.steps), row.plan, encode(row.receipt))


async def pending(readers: Readers) -> list[ForgettingRow]:
    """Give the forgettings that are not finished, the oldest first."""
    return [_row(values) for values in await readers.all(_SQL["pending"])]


async def read(readers: Readers, id: str) -> ForgettingRow:
    """Give a forgetting as it is now."""
    values = await readers.one(_SQL["by_id"], (id,))
    assert values is not None
    return _row(values)


def _row(values: tuple[Any, ...]) -> ForgettingRow:
    id, at, state, steps, plan, receipt = values
    return ForgettingRow(id, at, state, tuple(filter(None, steps.split("|"))), plan, _decode_receipt(receipt))


def memories(tx: Transaction, bank: int | None = None) -> Iterator[tuple[Any, ...]]:
    """Every memory that holds something, of one bank or of all, trash included: id, bank, record."""
    after = ""
    while True:
        if bank is None:
            rows = tx.all(_SQL["memories"], after, STEP_ROWS)
        else:
            rows = tx.all(_SQL["memories_of_bank"], bank, after, STEP_ROWS)
        if not rows:
            return
        yield from rows
        after = rows[-1][0]


def memory(tx: Transaction, memory_id: str) -> tuple[int, bytes] | None:
    """One memory's bank and record, in any state."""
    values = tx.one(_SQL["memory"], memory_id)
    return None if values is None else (values[1], values[2])


def records_of(tx: Transaction, memory_id: str) -> list[bytes]:
    """Every state that the journal has of a memory."""
    return [bytes(record) for row in tx.all(_SQL["journal_of"], memory_id) for record in row if record is not None]


def empty_bank(tx: Transaction, n: int) -> int:
    """Destroy what a bank holds beside its memories and rules; gives how much. Its settings stay."""
    return sum(tx.run(_SQL[f"remove_{kind}_of_bank"], n) for kind in ("lines", "targets", "suggestions", "notices"))


def empty_history_of_bank(tx: Transaction, name: str) -> None:
    """Empty the journal rows of a bank that are about no memory."""
    tx.run(_SQL["empty_journal_of_bank"], name)


def wordings(tx: Transaction, memory_id: str) -> list[bytes]:
    """Fingerprints of every wording a memory ever had."""
    return [row[0] for row in tx.all(_SQL["wordings"], memory_id)]


def empty_memory(tx: Transaction, memory_id: str, record: bytes, mark: bytes) -> None:
    """Put a marker where a memory was, and remove every label, wording, claim and sealed value of it."""
    tx.run(_SQL["empty_memory"], mark, record, memory_id)
    for table, column in (
        ("wordings", "memory"),
        ("reinforcements", "memory"),
        ("memory_tags", "memory"),
        ("memory_entities", "memory"),
        ("claims", "memory"),
    ):
        tx.run(f"DELETE FROM {table} WHERE {column} = ?", memory_id)  # noqa: S608 - names from the line above
    if tx.one(_SQL["has_sealed"], memory_id) is not None:  # a deletion that cascades costs, found or not
        unseal(tx, memory_id)
    tx.run(_SQL["empty_journal_of"], memory_id)


def empty_history(tx: Transaction, target: str) -> None:
    """Empty every journal row of one record."""
    tx.run(_SQL["empty_journal_of"], target)


def rewrite_memory(tx: Transaction, memory_id: str, record: bytes) -> None:
    """Write a memory's record without touching what is derived from its text."""
    tx.run(_SQL["rewrite_memory"], record, memory_id)


def empty_journal(tx: Transaction, holds: Callable[[bytes], bool], kept: frozenset[str]) -> int:
    """Empty every journal row whose values `holds` something, except those of `kept` targets; gives how many."""
    emptied, after = 0, 0
    while True:
        rows = tx.all(_SQL["journal_holding"], after, STEP_ROWS)
        if not rows:
            return emptied
        for seq, target, before, old in rows:
            if target not in kept and (holds(before or b"") or holds(old or b"")):
                tx.run(_SQL["empty_journal_row"], seq)
                emptied += 1
        after = rows[-1][0]


def remove_learned_lines(tx: Transaction, holds: Callable[[bytes], bool]) -> int:
    """Remove learned lines, live and removed ones."""
    found = [(bank, mark) for bank, mark, record in tx.all(_SQL["lines"]) if holds(record)]
    return sum(tx.run(_SQL["remove_line"], bank, mark) for bank, mark in found)


def remove_suggestions(tx: Transaction, holds: Callable[[bytes], bool], spared: str | None) -> int:
    """Remove suggestions, decided ones too; `spared` is the one that is being carried out."""
    found = [id for id, record in tx.all(_SQL["suggestions"]) if id != spared and holds(record)]
    for suggestion_id in found:
        tx.run(_SQL["remove_suggestion_targets"], suggestion_id)
        tx.run(_SQL["remove_suggestion"], suggestion_id)
    return len(found)


def empty_suggestion(tx: Transaction, suggestion_id: str) -> None:
    """Leave of a suggestion that was carried out only that it was, when and by whom."""
    values = tx.one(_SQL["suggestion"], suggestion_id)
    if values is None:
        return
    old = _decode_suggestion(values[0])
    emptied = msgspec.structs.replace(
        old,
        change=ProposedChange(function=old.change.function, args={}),
        reason="",
        source=None,
        targets=(),
        now=None,
        proposed=None,
        diff=None,
    )
    tx.run(_SQL["remove_suggestion_targets"], suggestion_id)
    tx.run(_SQL["rewrite_suggestion"], encode(emptied), suggestion_id)
    tx.run(_SQL["empty_journal_of"], suggestion_id)


def remove_notices(tx: Transaction, holds: Callable[[bytes], bool]) -> int:
    """Remove notices."""
    return sum(tx.run(_SQL["remove_notice"], id) for id, record in tx.all(_SQL["notices"]) if holds(record))


def remove_replies(tx: Transaction, holds: Callable[[bytes], bool]) -> int:
    """Remove replies kept for repeated requests."""
    found = [(principal, key) for principal, key, reply in tx.all(_SQL["replies"]) if holds(reply)]
    return sum(tx.run(_SQL["remove_reply"], principal, key) for principal, key in found)


def empty_turns(tx: Transaction, holds: Callable[[bytes], bool]) -> int:
    """Empty turns that wait or are parked, and raw replies of models."""
    found = [turn for turn, _, payload, raw in tx.all(_SQL["turns"]) if holds(payload or b"") or holds(raw or b"")]
    emptied = sum(tx.run(_SQL["empty_turn"], turn) for turn in found)
    inbox.reorder(tx)
    return emptied


def rules(tx: Transaction) -> list[tuple[int, str, bytes]]:
    """Every rule: bank number, name, record."""
    return [(bank, name, record) for bank, name, record in tx.all(_SQL["rules"])]


def banks(tx: Transaction) -> list[tuple[int, bytes]]:
    """Every bank: number, record."""
    return [(n, record) for n, record in tx.all(_SQL["banks"])]


# The vault


def put_key(tx: Transaction, owner: str, wrapped: bytes) -> bytes:
    """Keep an entity's wrapped key unless it has one; gives the one it has."""
    tx.run(_SQL["put_key"], owner, wrapped)
    values = tx.one(_SQL["key"], owner)
    assert values is not None
    return bytes(values[0])


def seal(tx: Transaction, ref: str, owner: str, memory_id: str, bank: int, exact: bytes, sealed: bytes) -> None:
    """Keep a sealed value."""
    tx.run(_SQL["seal"], ref, owner, memory_id, bank, exact, sealed)


def mark_value(tx: Transaction, exact: bytes, ref: str) -> None:
    """Let a sealed value be found by its keyed hash."""
    tx.run(_SQL["mark_value"], exact, ref)


def unseal(tx: Transaction, memory_id: str) -> None:
    """Destroy the sealed value of a memory."""
    tx.run(_SQL["unseal"], memory_id)


def all_sealed(tx: Transaction) -> Iterator[tuple[str, str, bytes, str, bytes]]:
    """Every sealed value: reference, the key's owner, the wrapped key, the memory, the sealed value."""
    after = ""
    while rows := tx.all(_SQL["all_sealed"], after, STEP_ROWS):
        yield from rows
        after = rows[-1][0]


def any_key(tx: Transaction) -> tuple[str, bytes] | None:
    """One owner with its wrapped key, if the vault has any."""
    values = tx.one(_SQL["any_key"])
    return None if values is None else (str(values[0]), bytes(values[1]))


def sealed(tx: Transaction, ref: str) -> tuple[str, bytes, str, bytes] | None:
    """Give the key's owner, the wrapped key, the memory and the sealed value of a reference."""
    values: Any = tx.one(_SQL["sealed"], ref)
    if values is None:
        return None
    key = tx.one(_SQL["key"], values[0])
    assert key is not None
    return values[0], key[0], values[1], values[3]


def by_exact(tx: Transaction, bank: int, exact: bytes) -> list[str]:
    """Give the memories of a bank that hold exactly that protected value."""
    return [str(row[0]) for row in tx.all(_SQL["by_exact"], bank, exact)]


def drop_unused_keys(tx: Transaction) -> int:
    """Destroy every key under which nothing lies any more; gives how many."""
    return tx.run(_SQL["drop_unused_keys"])
