"""Lets a memory lapse whose time is over, and says so where a person had stated it."""

import msgspec

from memory_contracts.records import Memory
from memory_worker.clock import to_seconds
from memory_worker.gate import noticing, revising
from memory_worker.gate.act import Act, GateSettings
from memory_worker.store import Caller, Origin, Transaction, banks, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.caller import EXPIRY
from memory_worker.store.memories import MemoryRow

REASON = "its time was over"


def is_over(memory: Memory, now: float) -> bool:
    """Tell whether a memory that is live in the store has lapsed: it does so at its second, swept or not."""
    return memory.state == "live" and memory.expires_at is not None and to_seconds(memory.expires_at) <= now


def as_it_is(memory: Memory, now: float) -> Memory:
    """A memory as a reader is to see it: lapsed from its second on, also where no sweep has written it yet."""
    return msgspec.structs.replace(memory, state="expired", reason=REASON) if is_over(memory, now) else memory


def expiring(tx: Transaction, tenant: str, settings: GateSettings, cause: str) -> Act:
    """What the expiry of memories acts as."""
    caller = Caller(tenant, "system", EXPIRY)
    return Act(tx=tx, caller=caller, origin=Origin.of(caller, cause, "expiry"), settings=settings, automatic=True)


def lapse(act: Act, row: MemoryRow) -> Memory:
    """Write that a memory has lapsed; what a person had stated makes a notice."""
    bank = BankRow(row.bank, banks.by_number(act.tx, row.bank).bank)
    memory = revising.revise(act, row, bank.bank, "memory.expired", state="expired", reason=REASON)
    if memory.tier == "stated":
        noticing.tell_lapsed(act, bank, memory)
    return memory


def unless_over(act: Act, row: MemoryRow | None) -> MemoryRow | None:
    """Give a row that still holds; one whose time is over lapses now, before anything is decided on it."""
    if row is None or not is_over(row.memory, act.tx.now):
        return row
    lapse(expiring(act.tx, act.caller.tenant, act.settings, new_id("sweep")), row)
    return None
