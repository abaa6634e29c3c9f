"""Takes turn events off the bus into the inboxes of their tenants."""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from memory_contracts.names import ID_MAX_CHARS
from memory_contracts.turns import TurnCompleted
from memory_worker.bus import Outcome, RawTurn
from memory_worker.extraction import mask_payload
from memory_worker.store import TenantStore, inbox
from memory_worker.store.inbox import NewTurn

DEPTH_AGE_S = 1.0
"""How old, in seconds, a measured inbox depth may be before it is measured again."""

_decode = msgspec.json.Decoder(TurnCompleted).decode


class _Named(msgspec.Struct):
    """The one field that a malformed event may still have."""

    turn_id: str | None = None


class InboxOwner(Protocol):
    """An open tenant that can take turns."""

    @property
    def store(self) -> TenantStore:
        """Where its inbox is."""
        ...

    def turns_arrived(self) -> None:
        """New turns are committed: begin to read them."""
        ...


class InboxSink:
    """Commits turns to inboxes; an inbox that is full takes no more until some are read."""

    def __init__(
        self,
        tenant: Callable[[str], Awaitable[InboxOwner]],
        *,
        max_rows: int,
        max_bytes: int,
        max_body: int,
        failpoint: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.malformed = 0
        self._tenant = tenant
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_body = max_body
        self._failpoint = failpoint
        self._depths: dict[str, tuple[float, int, int]] = {}

    def apply(self, *, max_rows: int, max_bytes: int) -> None:
        """Change the bounds of an inbox."""
        self._max_rows, self._max_bytes = max_rows, max_bytes

    async def accept(self, turns: Sequence[RawTurn]) -> Sequence[Outcome]:
        """Take turns in, each after its commit; malformed ones are parked with their bytes and the reason."""
        outcomes: list[Outcome] = ["full"] * len(turns)
        by_tenant: dict[str, list[int]] = {}
        for i, turn in enumerate(turns):
            by_tenant.setdefault(turn.tenant, []).append(i)
        for tenant, places in by_tenant.items():
            owner = await self._tenant(tenant)
            if await self._is_full(tenant, owner.store):
                continue
            taken = [self._read(turns[i]) for i in places]
            await owner.store.write(lambda tx, taken=taken: inbox.accept(tx, taken))  # type: ignore[misc]
            self._failpoint("inbox.committed")
            owner.turns_arrived()
            for i in places:
                outcomes[i] = "accepted"
        return outcomes

    async def _is_full(self, tenant: str, store: TenantStore) -> bool:
        measured = self._depths.get(tenant)
        if measured is None or time.monotonic() - measured[0] > DEPTH_AGE_S:
            measured = (time.monotonic(), *await inbox.depth(store.readers))
            self._depths[tenant] = measured
        return measured[1] >= self._max_rows or measured[2] >= self._max_bytes

    def _read(self, raw: RawTurn) -> NewTurn:
        if len(raw.body) > self._max_body:
            return self._parked(raw, f"too_large: {len(raw.body)} bytes, at most {self._max_body}")
        try:
            turn = _decode(raw.body)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            return self._parked(raw, f"malformed: {error}"[:500])
        return NewTurn(turn.turn_id, turn.session_id, raw.body)

    def _parked(self, raw: RawTurn, reason: str) -> NewTurn:
        self.malformed += 1
        return NewTurn(_turn_id(raw.body), raw.session_id, mask_payload(raw.body), reason)


def _turn_id(body: bytes) -> str:
    """The id in a malformed event where it can still be read, else one made of its bytes, the same each time."""
    try:
        named = msgspec.json.decode(body, type=_Named).turn_id
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
        named = None
    if named and len(named) <= ID_MAX_CHARS:
        return named
    return f"malformed-{hashlib.blake2b(body, digest_size=16).hexdigest()}"
