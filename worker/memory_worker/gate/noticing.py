"""Keeps what a person should be told until it is acknowledged."""

from datetime import datetime

import msgspec

from memory_contracts.functions.review import NoticeAckReply, NoticeAckRequest
from memory_contracts.records import Memory, Notice
from memory_worker.gate.access import may_read
from memory_worker.gate.act import Act
from memory_worker.store import banks, new_id, notices
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import encode

TEXT_MAX_CHARS = 500
"""Longest text of a notice, in characters."""
LAPSED = "lapsed"
"""Kind of the notice that a stated memory's time is over."""


def create(act: Act, bank: BankRow, kind: str, text: str, target: str | None = None) -> Notice:
    """Leave a notice in a bank."""
    short = text if len(text) <= TEXT_MAX_CHARS else text[: TEXT_MAX_CHARS - 1] + "…"
    notice = Notice(id=new_id("ntc"), bank=bank.bank.name, kind=kind, text=short, at=act.now, target=target)
    record = notices.insert(act.tx, bank.n, notice)
    act.tx.append("notice.created", notice.id, act.origin, bank=bank.bank.name, owner=bank.bank.owner, after=record)
    return notice


def tell_lapsed(act: Act, bank: BankRow, memory: Memory) -> Notice:
    """Leave the notice that something a person stated has lapsed."""
    said = f"{_ago(memory.last_seen_at, act.now)} ({memory.last_seen_at:%Y-%m-%d})"
    return create(act, bank, LAPSED, f"You said this {said}, and I no longer keep it: {memory.text}", memory.id)


def _ago(then: datetime, now: datetime) -> str:
    """How long ago something was, in the largest unit that it fills."""
    months = (now.year - then.year) * 12 + now.month - then.month - (now.day < then.day)
    if months < 1:
        count, unit = (now - then).days, "day"
    else:
        count, unit = (months // 12, "year") if months >= 12 else (months, "month")
    return "today" if count < 1 else f"{count} {unit}{'' if count == 1 else 's'} ago"


def acknowledge(act: Act, request: NoticeAckRequest) -> NoticeAckReply:
    """Say that a person has been told; what is acknowledged, or not the caller's to see, is not counted.

    The system route delivers the notices of every bank with the context, so it acknowledges those of every bank.
    """
    acked = 0
    for notice_id in dict.fromkeys(request.ids):
        row = notices.find(act.tx, notice_id)
        if row is None or row.notice.acked_at is not None:
            continue
        bank = banks.by_number(act.tx, row.bank).bank
        if act.caller.route != "system" and not may_read(act.caller, bank):
            continue
        settled = msgspec.structs.replace(row.notice, acked_at=act.now)
        record = notices.update(act.tx, settled)
        act.tx.append(
            "notice.acked",
            notice_id,
            act.origin,
            bank=bank.name,
            owner=bank.owner,
            before=encode(row.notice),
            after=record,
        )
        acked += 1
    return NoticeAckReply(acked=acked)
