"""Finds the live memories that a statement contradicts: same subject, or another value of a single-valued property."""

from memory_contracts.records import Claim
from memory_worker.gate.act import Act
from memory_worker.gate.lapsing import is_over
from memory_worker.store import entities, memories
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint
from memory_worker.store.memories import MemoryRow


def contradicted(act: Act, bank: BankRow, subject: str | None, claim: Claim | None) -> list[MemoryRow]:
    """Give the live memories of the bank that say something else about the subject or the claimed property."""
    found: dict[str, MemoryRow] = {}
    if subject is not None:
        for row in memories.live_by_subject(act.tx, bank.n, subject):
            found[row.memory.id] = row
    if claim is not None:
        known = entities.find_property(act.tx, claim.property)
        entity = entities.named(act.tx, claim.entity)
        if known is not None and known.cardinality == "one" and entity is not None:
            for row in memories.live_by_claim(act.tx, bank.n, entity.id, claim.property):
                other = row.memory.claim
                if other is None or fingerprint(other.value) != fingerprint(claim.value):
                    found[row.memory.id] = row
    return [row for row in found.values() if not is_over(row.memory, act.tx.now)]


def is_firm(row: MemoryRow) -> bool:
    """Whether a memory gives way to a person only."""
    return row.memory.tier == "stated" or row.memory.pinned


def firmly_against(act: Act, bank: BankRow, subject: str | None, claim: Claim | None) -> MemoryRow | None:
    """Give a stated or pinned memory that a statement would contradict, if there is one."""
    return next((row for row in contradicted(act, bank, subject, claim) if is_firm(row)), None)
