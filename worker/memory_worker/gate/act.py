"""What every decision of the gate works with: the transaction, who acts, and the settings."""

from datetime import datetime

import msgspec

from memory_contracts.records import Actor
from memory_worker.store import Caller, Origin, Transaction


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate can be set to."""

    suggestion_days: float = 90.0
    """Days after which an undecided suggestion lapses."""
    idempotency_hours: float = 24.0
    """Hours for which a repeated idempotency key gives the same reply."""
    deciders: tuple[str, ...] = ()
    """Human principals that may decide suggestions; empty means every one."""
    agent_bank_managers: tuple[str, ...] = ()
    """`<route>.<principal>` of those who may read every agent's private bank."""
    revert_max: int = 1_000
    """Most changes that one revert undoes."""
    grace_days: float = 30.0
    """Days within which a lapsed memory can be brought back."""
    protect_automatically: bool = False
    """Whether values that look like contact data are put into the vault when extraction finds them."""


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One change that is being decided, inside its transaction."""

    tx: Transaction
    caller: Caller
    origin: Origin
    settings: GateSettings
    approved: bool = False
    """A person approved exactly this change: the gate does not hold it back again."""
    author: Caller | None = None
    """Who wrote what is approved; None when the caller writes it. Tier and source follow the author."""
    shown: frozenset[str] = frozenset()
    """The memories that the person who approved was shown: no other one that a person stated or pinned gives way."""
    automatic: bool = False
    """Extraction acts, not a caller: what it finds is added or left, never put over something."""

    @property
    def now(self) -> datetime:
        """The time of the change."""
        return self.tx.moment

    @property
    def writer(self) -> Caller:
        """Who wrote the text: the author of an approved change, else the caller."""
        return self.author or self.caller

    @property
    def actor(self) -> Actor:
        """The wire form of who acts."""
        return Actor(route=self.origin.route, principal=self.origin.principal)

    @property
    def reinforcement(self) -> str:
        """The cause under which saying something again counts once."""
        if self.origin.cause_kind == "turn":
            return f"turn:{self.origin.cause_id}"
        return f"{self.caller.name}:{self.origin.cause_id}"
