"""A circuit breaker: after several calls without an answer a sibling is left alone for a while."""

from typing import Literal

FAILURES_TO_OPEN = 3
"""Calls in a row without an answer after which the circuit opens."""

State = Literal["closed", "open", "trying"]


class Breaker:
    """Counts calls without an answer. Open, it lets nothing through for `pause_s` seconds; then one call at a time."""

    def __init__(self, pause_s: float, failures: int = FAILURES_TO_OPEN) -> None:
        self.pause_s = pause_s
        self._limit = failures
        self._failures = 0
        self._until = 0.0
        self._trying = False

    def state(self, now: float) -> State:
        """Give the state at `now` (unix seconds)."""
        if self._failures < self._limit:
            return "closed"
        return "open" if now < self._until or self._trying else "trying"

    def allow(self, now: float) -> bool:
        """Tell whether a call may be made; a call that may is followed by `answered` or `failed`."""
        state = self.state(now)
        if state == "trying":
            self._trying = True
        return state != "open"

    def answered(self) -> None:
        """Note that the sibling answered, with whatever: the circuit closes."""
        self._failures = 0
        self._trying = False

    def failed(self, now: float) -> None:
        """Note that no answer came."""
        self._failures += 1
        self._trying = False
        self._until = now + self.pause_s

    def opens_at(self) -> float:
        """When the next call may be tried, in unix seconds."""
        return self._until
