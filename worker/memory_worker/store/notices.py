"""Notice rows: what a person should be told, until acknowledged."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts.records import Notice
from memory_worker.clock import to_seconds
from memory_worker.store import statements
from memory_worker.store.memories import encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("notices")
_decode = msgspec.json.Decoder(Notice).decode


class NoticeRow(msgspec.Struct, frozen=True):
    """A notice and the number of its bank."""

    bank: int
    notice: Notice


def insert(tx: Transaction, bank: int, notice: Notice) -> bytes:
    """Add a notice; gives its stored JSON."""
    record = encode(notice)
    tx.run(_SQL["insert"], notice.id, bank, to_seconds(notice.at), None, record)
    return record


def find(tx: Transaction, notice_id: str) -> NoticeRow | None:
    """Give a notice by id."""
    values = tx.one(_SQL["by_id"], notice_id)
    return None if values is None else NoticeRow(values[0], _decode(values[1]))


def update(tx: Transaction, notice: Notice) -> bytes:
    """Write a notice's new state."""
    record = encode(notice)
    acked = None if notice.acked_at is None else to_seconds(notice.acked_at)
    tx.run(_SQL["update"], acked, record, notice.id)
    return record


async def page(
    readers: Readers, banks: Sequence[int], include_acked: bool, after: tuple[float, str] | None, limit: int
) -> list[Notice]:
    """Give up to `limit` notices of those banks, oldest first, after the position `after`."""
    values: dict[str, Any] = {"banks": encode(list(banks)).decode(), "acked": int(include_acked), "limit": limit}
    values.update(at=after[0] if after else None, id=after[1] if after else None)
    return [_decode(record) for _, record in await readers.all(_SQL["page"], values)]


async def total(readers: Readers, banks: Sequence[int], include_acked: bool) -> int:
    """Count what `page` would give in all."""
    row = await readers.one(_SQL["total"], {"banks": encode(list(banks)).decode(), "acked": int(include_acked)})
    assert row is not None
    return int(row[0])
