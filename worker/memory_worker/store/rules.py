"""Rule rows and the lines of `learned`, removed ones included."""

from collections.abc import Sequence

import msgspec

from memory_contracts.records import LearnedLine, Rule
from memory_worker.store import statements
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("rules")
_decode = msgspec.json.Decoder(Rule).decode
_decode_line = msgspec.json.Decoder(LearnedLine).decode


class LineRow(msgspec.Struct, frozen=True):
    """A learned line and whether it is `live` or `removed`."""

    mark: bytes
    state: str
    line: LearnedLine


def find(tx: Transaction, bank: int, name: str) -> Rule | None:
    """Give a bank's rule of that name."""
    values = tx.one(_SQL["by_name"], bank, name)
    return None if values is None else _decode(values[0])


def put(tx: Transaction, bank: int, rule: Rule) -> bytes:
    """Write a rule's new state; gives its stored JSON."""
    record = encode(rule)
    tx.run(_SQL["put"], bank, rule.name, record)
    return record


def remove(tx: Transaction, bank: int, name: str) -> None:
    """Remove a rule; its history stays in the journal."""
    tx.run(_SQL["remove"], bank, name)


def last_revision(tx: Transaction, bank: str, name: str) -> int:
    """Give the revision that a rule of that name last had in a bank of that name; 0 where there was none."""
    values = tx.one(_SQL["last_record"], name, bank)
    return 0 if values is None else _decode(values[0]).revision


def find_line(tx: Transaction, bank: int, mark: bytes) -> LineRow | None:
    """Give the learned line with that fingerprint, live or removed."""
    values = tx.one(_SQL["line"], bank, mark)
    return None if values is None else LineRow(mark, values[0], _decode_line(values[1]))


def put_line(tx: Transaction, bank: int, mark: bytes, state: str, line: LearnedLine) -> None:
    """Write a learned line's state."""
    tx.run(_SQL["put_line"], bank, mark, state, encode(line))


def lines(tx: Transaction, bank: int) -> list[LineRow]:
    """Give every learned line of a bank, live and removed."""
    return [LineRow(mark, state, _decode_line(record)) for mark, state, record in tx.all(_SQL["lines"], bank)]


def ordered(rules: Sequence[Rule]) -> list[Rule]:
    """Order rules by priority, then name."""
    return sorted(rules, key=lambda rule: (rule.priority, rule.name))


async def read(readers: Readers, bank: int, name: str) -> Rule | None:
    """Give a bank's rule of that name."""
    values = await readers.one(_SQL["by_name"], (bank, name))
    return None if values is None else _decode(values[0])


async def read_all(readers: Readers, bank: int) -> list[Rule]:
    """Give a bank's rules by priority, then name."""
    return ordered([_decode(record) for (record,) in await readers.all(_SQL["of_bank"], (bank,))])


async def read_of_banks(readers: Readers, banks: Sequence[str]) -> dict[str, list[Rule]]:
    """Give the rules of several banks, by bank name."""
    found: dict[str, list[Rule]] = {}
    for bank, record in await readers.all(_SQL["of_banks"], (encode(list(banks)).decode(),)):
        found.setdefault(bank, []).append(_decode(record))
    return {bank: ordered(rules) for bank, rules in found.items()}
