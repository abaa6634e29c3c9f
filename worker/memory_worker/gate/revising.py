"""Writes memories and their journal rows: the only two ways a memory's record is made or changed."""

from datetime import datetime
from typing import Any

import msgspec

from memory_contracts.records import Bank, Memory
from memory_worker.gate import naming, proposals
from memory_worker.gate.act import Act
from memory_worker.gate.calendar import expires_at
from memory_worker.gate.drafts import Draft
from memory_worker.store import forgetting, memories, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import MemoryRow, encode


def create(
    act: Act,
    bank: BankRow,
    draft: Draft,
    *,
    text: str | None = None,
    ref: str | None = None,
    like: Memory | None = None,
) -> Memory:
    """Add a memory. `text` and `ref` stand in for the words of a protected value.

    `like` is the record it had elsewhere: its times, counts and, where this tenant has never seen it, its id are kept.
    """
    expires = None if draft.pinned else draft.expires_at or expires_at(bank.bank.expiry, act.now)
    memory = Memory(
        id=new_id("mem"),
        bank=bank.bank.name,
        text=draft.text if text is None else text,
        kind=draft.kind,
        tier=draft.tier,
        source=draft.source,
        created_at=act.now,
        updated_at=act.now,
        last_seen_at=act.now,
        subject=draft.subject,
        slot=draft.slot,
        entities=draft.entities,
        tags=draft.tags,
        about=draft.about,
        claim=draft.claim,
        confidence=draft.confidence,
        pinned=draft.pinned,
        occurred_at=draft.occurred_at,
        expires_at=expires,
        protected=ref,
    )
    if like is not None:
        memory = msgspec.structs.replace(
            memory,
            id=like.id if like.id and not memories.exists(act.tx, like.id) else memory.id,
            created_at=like.created_at,
            updated_at=like.updated_at,
            last_seen_at=like.last_seen_at,
            corroboration=like.corroboration,
            expires_at=None if draft.pinned else like.expires_at,
            revision=like.revision,
        )
    owner = bank.bank.owner
    ids = [entity.id for entity in naming.resolve(act, draft.entities, entity_kind(draft), owner)]
    record = memories.insert(
        act.tx, bank.n, memory, expires_set=draft.expires_at is not None and not draft.pinned, entity_ids=ids
    )
    naming.record_claim(act, memory.id, draft.claim, owner)
    memories.reinforce(act.tx, memory.id, act.reinforcement)
    _append(act, "memory.created", bank.bank, memory, None, record)
    proposals.drop_overtaken(act, bank, None, memory)
    return memory


def entity_kind(draft: Draft) -> str:
    """The kind that a new entity takes from the memory that names it."""
    return draft.kind if draft.kind in ("person", "project", "place") else "thing"


def revise(
    act: Act,
    row: MemoryRow,
    bank: Bank,
    type: str,
    *,
    counts: bool = True,
    expires_set: bool | None = None,
    **fields: Any,
) -> Memory:
    """Write a memory's next state and its journal row. `counts` says whether the revision rises."""
    old = row.memory
    new = msgspec.structs.replace(
        old, updated_at=act.now, revision=old.revision + 1 if counts else old.revision, **fields
    )
    relabelled = any(getattr(old, name) != getattr(new, name) for name in ("entities", "tags", "claim"))
    revived = old.state != "live" and new.state == "live"
    ids: list[str] | None = None
    if relabelled or revived:
        ids = [entity.id for entity in naming.resolve(act, new.entities, owner=bank.owner)]
    record = memories.update(
        act.tx,
        row.bank,
        new,
        expires_set=row.expires_set if expires_set is None else expires_set,
        entity_ids=ids,
    )
    if relabelled or revived:
        naming.record_claim(act, new.id, new.claim, bank.owner)
    _append(act, type, bank, new, encode(old), record)
    if counts:
        proposals.drop_overtaken(act, BankRow(row.bank, bank), old, new)
    return new


def rewrite(act: Act, bank: BankRow, row: MemoryRow, draft: Draft, *, protected: str | None = None) -> Memory:
    """Put a draft in a memory's place, under the same id: a sensor's reading takes the place of its last one."""
    if row.memory.protected is not None:
        forgetting.unseal(act.tx, row.memory.id)
    memory = revise(
        act,
        row,
        bank.bank,
        "memory.updated",
        text=draft.text,
        tier=draft.tier,
        source=draft.source,
        kind=draft.kind,
        subject=draft.subject,
        entities=draft.entities,
        tags=draft.tags,
        about=draft.about,
        claim=draft.claim,
        confidence=draft.confidence,
        occurred_at=draft.occurred_at,
        last_seen_at=act.now,
        expires_at=None if row.memory.pinned else draft.expires_at or extended(row, bank.bank, act.now),
        expires_set=row.expires_set or draft.expires_at is not None,
        protected=protected,
    )
    memories.forget_old_wordings(act.tx, bank.n, memory)
    return memory


def extended(row: MemoryRow, bank: Bank, said_at: datetime) -> datetime | None:
    """When a memory lapses that was said again at `said_at`: never earlier than before, and as asked where asked."""
    memory = row.memory
    if memory.pinned:
        return None
    if row.expires_set:
        return memory.expires_at
    renewed = expires_at(bank.expiry, said_at)
    if renewed is None or memory.expires_at is None:
        return renewed
    return max(renewed, memory.expires_at)


def reinforce(act: Act, row: MemoryRow, bank: Bank) -> Memory:
    """Say a memory again: counted once per cause, and its expiry is put off."""
    if not memories.reinforce(act.tx, row.memory.id, act.reinforcement):
        return row.memory
    return revise(
        act,
        row,
        bank,
        "memory.reinforced",
        counts=False,
        corroboration=row.memory.corroboration + 1,
        last_seen_at=act.now,
        expires_at=extended(row, bank, act.now),
    )


def supersede(act: Act, row: MemoryRow, bank: Bank, by: str, reason: str) -> Memory:
    """Retire a memory in favour of another."""
    return revise(act, row, bank, "memory.superseded", state="superseded", superseded_by=by, reason=reason)


def _append(act: Act, type: str, bank: Bank, memory: Memory, before: bytes | None, after: bytes) -> None:
    act.tx.append(type, memory.id, act.origin, bank=bank.name, owner=bank.owner, before=before, after=after)
