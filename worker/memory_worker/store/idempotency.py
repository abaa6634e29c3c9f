"""Replies kept by idempotency key, so that a repeated request has one effect."""

import hashlib
from collections.abc import Callable
from typing import TypeVar

import msgspec

from memory_contracts.errors import FunctionError
from memory_worker.store import statements
from memory_worker.store.caller import Caller
from memory_worker.store.memories import encode
from memory_worker.store.transaction import Transaction

_SQL = statements.load("idempotency")

R = TypeVar("R", bound=msgspec.Struct)

KEY_MAX_CHARS = 256
"""Longest idempotency key, in characters."""


def once(
    tx: Transaction,
    caller: Caller,
    key: str | None,
    hours: float,
    function: str,
    request: msgspec.Struct,
    reply_type: type[R],
    work: Callable[[], R],
) -> R:
    """Do `work` unless the same principal asked the same under the same key within `hours`; then give that reply.

    Raises `conflict` when the key was used for something else.
    """
    if key is None:
        return work()
    if not key or len(key) > KEY_MAX_CHARS:
        raise FunctionError(
            "invalid_input", f"an idempotency key has 1 to {KEY_MAX_CHARS} characters", field="Idempotency-Key"
        )
    asked = hashlib.blake2b(encode(request), digest_size=16).digest()
    known = tx.one(_SQL["find"], caller.name, key, tx.now - hours * 3600)
    if known is not None:
        if known[0] != function or known[1] != asked:
            raise FunctionError(
                "conflict",
                "this idempotency key was used for another request",
                field="Idempotency-Key",
                hint="use a fresh key for each request",
            )
        return msgspec.json.decode(known[2], type=reply_type)
    reply = work()
    tx.run(_SQL["put"], caller.name, key, tx.now, function, asked, encode(reply))
    return reply


def drop_old(tx: Transaction, before: float, limit: int) -> int:
    """Drop up to `limit` replies kept since before a time."""
    return tx.run(_SQL["drop_old"], before, limit)
