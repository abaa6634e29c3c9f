"""When a bank is run, who may run it, and what a finished run changes: pure functions over bank states."""

import msgspec

from memory_consolidate.settings import ConsolidateSettings
from memory_consolidate.state import TOLD_MAX, BankState, Lease, Trigger

GRAIN_S = 10.0
"""Seconds by which the remembered time of a bank's newest change may be behind; spares a write per event."""


def due_at(state: BankState, settings: ConsolidateSettings) -> float:
    """When the next scheduled run is due, in Unix seconds; 0 = at once, for a bank that never ran."""
    if state.ran_at is None:
        return 0.0
    by_interval = state.ran_at + settings.interval_s
    if state.changed_at is None:
        return by_interval
    return min(by_interval, state.changed_at + settings.quiet_s)


def changed(state: BankState, at: float) -> BankState | None:
    """The bank changed at `at`; None when that is remembered closely enough."""
    if state.changed_at is not None and at < state.changed_at + GRAIN_S:
        return None
    return msgspec.structs.replace(state, changed_at=at)


def taken(state: BankState, lease: Lease, now: float) -> BankState | None:
    """Reserve a bank; None while somebody else holds it.

    The run of an instance that stopped in the middle is taken over with its id and start, if it was a scheduled one: so
    that undoing the run undoes both halves.
    """
    held = state.lease
    if held is not None and held.until > now and held.holder != lease.holder:
        return None
    if held is not None and held.trigger == lease.trigger == "schedule":
        lease = msgspec.structs.replace(lease, run_id=held.run_id, started_at=held.started_at)
    return msgspec.structs.replace(state, lease=lease)


def renewed(state: BankState, holder: str, until: float) -> BankState | None:
    """Put off the end of a reservation; None when it is another's by now."""
    if state.lease is None or state.lease.holder != holder:
        return None
    return msgspec.structs.replace(state, lease=msgspec.structs.replace(state.lease, until=until))


def released(state: BankState, holder: str) -> BankState | None:
    """Give a bank back without having finished; its schedule stands."""
    if state.lease is None or state.lease.holder != holder:
        return None
    return msgspec.structs.replace(state, lease=None)


def finished(
    state: BankState, holder: str, trigger: Trigger, *, dry_run: bool, left: int, told: tuple[str, ...]
) -> BankState | None:
    """A run is done. Only a scheduled one moves the schedule; what changed since it began stays to be read.

    `left` retirements make the bank due again after the quiet time.
    """
    lease = state.lease
    if lease is None or lease.holder != holder:
        return None
    if not dry_run:
        state = msgspec.structs.replace(state, told=(*state.told, *told)[-TOLD_MAX:])
    if trigger == "manual":
        return msgspec.structs.replace(state, lease=None)
    seen = state.changed_at is not None and state.changed_at <= lease.started_at
    changed_at = None if seen else state.changed_at
    if left and changed_at is None:
        changed_at = lease.started_at
    return msgspec.structs.replace(state, lease=None, ran_at=lease.started_at, changed_at=changed_at, carried=left)
