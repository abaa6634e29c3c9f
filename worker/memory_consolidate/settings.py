"""Bounds and times of the consolidate worker."""

import msgspec


class ConsolidateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may be set; the defaults suit one person's memory on one machine."""

    quiet_s: float = 300.0
    """Seconds without a change after which a changed bank is run."""
    interval_s: float = 86_400.0
    """Seconds after which a bank is run even if nothing changed, or if it never falls quiet."""
    tick_s: float = 15.0
    """Seconds between looks at the schedule."""
    lease_s: float = 30.0
    """Seconds a bank stays reserved for an instance that has stopped renewing; the wait after a crash."""
    supersedes_max: int = 5_000
    """Most records retired in one run; the rest is carried over to the next."""
    suggestions_max: int = 100
    """Most suggestions made in one run; the rest is carried over."""
    open_max: int = 200
    """Open suggestions of this worker in a bank above which no more are made: a queue nobody can read helps nobody."""
    unused_days: float = 180.0
    """Days an unpinned `inferred` memory must not have been seen, nor ever recalled, to be offered for deletion."""
    unused_max: int = 50
    """Most memories per run that are asked about their use."""
    repeats_min: int = 3
    """Distinct turns that must have said an instruction again before it is offered as a rule."""
    judge: bool = False
    """Whether the router may rank or drop suggestions; their texts are then sent to it."""
