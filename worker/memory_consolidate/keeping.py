"""Holds a bank's reservation while a run works on it, and says when it is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from memory_consolidate import schedule
from memory_consolidate.bucket import Changed
from memory_consolidate.state import Lease, States
from memory_contracts.connection import BusError

MARGIN = 0.5
"""Share of a reservation that must be left for an act to begin: an act takes far less time than the other half."""


class Held:
    """A reservation that is renewed. `valid` is asked before each act."""

    def __init__(self, lease: Lease, lease_s: float, clock: Callable[[], float]) -> None:
        self.lease = lease
        self.stopped = False
        self._until = lease.until
        self._lease_s = lease_s
        self._clock = clock

    def valid(self) -> bool:
        """Whether the bank is surely still ours."""
        return not self.stopped and self._clock() < self._until - self._lease_s * MARGIN

    async def renew(self, states: States, bank: str) -> None:
        """Renew until cancelled, or until the bank is another's."""
        while True:
            await asyncio.sleep(self._lease_s / 6)
            until = self._clock() + self._lease_s
            with contextlib.suppress(BusError, Changed):  # tried again; `valid` ends the run when it goes on for long
                changed = await states.change(bank, lambda state: schedule.renewed(state, self.lease.holder, until))  # noqa: B023
                if changed is None:
                    self.stopped = True
                    return
                self._until = until


@contextlib.asynccontextmanager
async def holding(
    states: States, bank: str, lease: Lease, lease_s: float, clock: Callable[[], float]
) -> AsyncIterator[Held | None]:
    """Reserve a bank; None when somebody else works on it. What is not finished is given back at the end.

    Raises BusError when the bucket is away.
    """
    state = await states.change(bank, lambda state: schedule.taken(state, lease, clock()))
    if state is None or state.lease is None:
        yield None
        return
    held = Held(state.lease, lease_s, clock)
    renewing = asyncio.create_task(held.renew(states, bank), name="renew reservation")
    try:
        yield held
    finally:
        held.stopped = True
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        with contextlib.suppress(BusError, Changed):  # it lapses by itself
            await states.change(bank, lambda state: schedule.released(state, lease.holder))
