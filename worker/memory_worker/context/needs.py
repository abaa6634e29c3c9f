"""What the context room needs of the others, as protocols."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from memory_contracts.functions.recalling import ArmReport, LeftOut
from memory_contracts.records import Bank
from memory_worker.context.select import Scored


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What recall found over the relevance floor, best first, and how; `cut` names what was shortened and why.

    `near` = the best of what stayed under the floor, where that was asked for.
    """

    found: Sequence[Scored] = ()
    mode: str = ""
    arms: Sequence[ArmReport] = ()
    cut: str | None = None
    near: Sequence[LeftOut] = ()


class Recaller(Protocol):
    """Recall over several banks."""

    async def recall(
        self, scope: Sequence[str], text: str, *, about: Sequence[str], limit: int, deadline_ms: float, explain: bool
    ) -> RecallAnswer:
        """Give at most `limit` live memories of the banks in `scope` that are relevant to `text`.

        Memories that carry one of the handles in `about`, exactly or under it, are relevant for that alone. `explain`
        asks for `near`.
        """
        ...


class BankMaker(Protocol):
    """The gate's way to make a bank that a turn names for the first time."""

    async def make_bank(self, name: str, owner: str | None, session_id: str | None) -> Bank:
        """Make a bank, private when it has an `owner`; one that has come to be meanwhile is given as it is."""
        ...
