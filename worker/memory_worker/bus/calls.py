"""What the dispatch layer hands to a handler, and what it tells an observer."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from memory_contracts.functions.base import Reply
from memory_worker.store import Caller


class CallInfo(NamedTuple):
    """What a call carries beside its request. `request_id` names it in the journal and the logs."""

    idempotency_key: str | None
    request_id: str


Handler = Callable[[Caller, Any, CallInfo], Awaitable[Reply]]
"""Answers one function: caller and request in, reply out, or FunctionError. The request is of the function's type."""


class Finished(NamedTuple):
    """One request as it ended. `outcome` is `ok` or the error's code; `seconds` from arrival to reply."""

    function: str
    outcome: str
    seconds: float
    route: str = ""


Observer = Callable[[Finished], None]
"""Is told of every request that ended; must not raise or block."""
