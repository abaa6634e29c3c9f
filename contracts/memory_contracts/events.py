"""The triggers: what is published when a memory or a bank changes."""

from datetime import datetime

from memory_contracts.records import Actor, BankEventType, Cause, Memory, MemoryEventType, Record


class ItemChanged(Record):
    """A memory changed. Delivered at least once: drop repeats by `id`, see a gap by `bank_seq`.

    `memory` is absent for `forgotten`, and everywhere when the worker is set to send ids alone.
    """

    seq: int
    bank_seq: int
    id: str
    at: datetime
    event_type: MemoryEventType
    bank: str
    memory_id: str
    actor: Actor
    cause: Cause
    memory: Memory | None = None


class BankChanged(Record):
    """A bank, its rules, its suggestions or its notices changed."""

    seq: int
    bank_seq: int
    id: str
    at: datetime
    event_type: BankEventType
    bank: str
    actor: Actor
    cause: Cause | None = None
    rule: str | None = None
