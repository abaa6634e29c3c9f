"""Makes the trigger of a journal row: its subject, its stream and its payload."""

import msgspec

from memory_contracts.events import BankChanged
from memory_contracts.jetstream import Outgoing
from memory_contracts.records import Actor, BankEventType, Cause
from memory_contracts.subjects import Subjects, event_stream, private_stream
from memory_worker.clock import to_datetime
from memory_worker.store import JournalRow

_BANK_EVENTS: dict[str, BankEventType] = {
    "bank.created": "created",
    "bank.updated": "updated",
    "bank.trashed": "trashed",
    "bank.restored": "restored",
    "bank.wiped": "wiped",
    "rule.set": "rules-changed",
    "suggestion.created": "suggestions-changed",
    "suggestion.decided": "suggestions-changed",
    "notice.created": "notices-changed",
    "notice.acked": "notices-changed",
}
_MEMORY = "memory."


class Trigger(msgspec.Struct, frozen=True):
    """A message for one of the tenant's two event streams."""

    stream: str
    message: Outgoing


class _ItemChanged(msgspec.Struct, kw_only=True):
    # As `ItemChanged`, with the memory as the journal already holds it: no decoding and encoding again.
    seq: int
    bank_seq: int
    id: str
    at: object
    event_type: str
    bank: str
    memory_id: str
    actor: Actor
    cause: Cause
    memory: msgspec.Raw | None = None


class _Named(msgspec.Struct):
    name: str


def trigger_of(row: JournalRow, tenant: str, subjects: Subjects, *, include_memory: bool = True) -> Trigger | None:
    """Give the trigger of a row, or None when its kind is not published.

    A private bank's goes to the private stream under its owner. What was forgotten is named, never shown.
    """
    if row.bank_seq is None:
        return None
    actor = Actor(route=row.actor_route, principal=row.actor_principal)  # type: ignore[arg-type]
    cause = Cause(kind=row.cause_kind, id=row.cause_id)  # type: ignore[arg-type]
    stream = private_stream(tenant) if row.owner else event_stream(tenant)
    if row.type.startswith(_MEMORY):
        event_type = row.type.removeprefix(_MEMORY)
        shown = include_memory and event_type != "forgotten" and row.after is not None
        item = _ItemChanged(
            seq=row.seq,
            bank_seq=row.bank_seq,
            id=row.id,
            at=to_datetime(row.at),
            event_type=event_type,
            bank=row.bank,
            memory_id=row.target,
            actor=actor,
            cause=cause,
            memory=msgspec.Raw(row.after) if shown and row.after is not None else None,
        )
        subject = subjects.item_changed(tenant, row.bank, row.target, row.owner)
        return Trigger(stream, Outgoing(subject, msgspec.json.encode(item), row.id))
    bank_event = _BANK_EVENTS.get(row.type)
    if bank_event is None:
        return None
    changed = BankChanged(
        seq=row.seq,
        bank_seq=row.bank_seq,
        id=row.id,
        at=to_datetime(row.at),
        event_type=bank_event,
        bank=row.bank,
        actor=actor,
        cause=cause,
        rule=_rule_name(row) if row.type == "rule.set" else None,
    )
    subject = subjects.bank_changed(tenant, row.bank, row.owner)
    return Trigger(stream, Outgoing(subject, msgspec.json.encode(changed), row.id))


def _rule_name(row: JournalRow) -> str:
    record = row.after or row.before
    return msgspec.json.decode(record, type=_Named).name if record else row.target
