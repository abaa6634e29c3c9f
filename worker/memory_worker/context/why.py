"""Tells what was given: to a turn, of a memory, to a session."""

from collections.abc import Sequence

import msgspec

from memory_contracts.errors import invalid
from memory_contracts.functions.recalling import WhyReply, WhyRequest
from memory_contracts.records import Rule, Use, UsedMemory
from memory_worker.clock import to_datetime
from memory_worker.context.bank import BankResolver
from memory_worker.context.given import Detail, GivenStore, StoredRules
from memory_worker.store import Caller, TenantStore, memories, uses

_decode = msgspec.json.Decoder(Detail).decode


class Why:
    """Reads uses back."""

    def __init__(self, store: TenantStore, resolver: BankResolver, given: GivenStore) -> None:
        self._store = store
        self._resolver = resolver
        self._given = given

    async def answer(self, request: WhyRequest, caller: Caller) -> WhyReply:
        """Give uses, newest first, without what lies in banks the caller may not see."""
        if (request.turn_id is None) == (request.memory_id is None):
            raise invalid("give either turn_id or memory_id", "turn_id")
        before = _position(request.cursor)
        await self._given.flush()
        readers = self._store.readers
        if request.turn_id is not None:
            rows = await uses.of_turn(readers, request.turn_id, None, before, request.limit + 1)
        else:
            rows = await uses.of_memory(readers, request.memory_id or "", before, request.limit + 1)
        page = rows[: request.limit]
        banks = {row.bank for row in page} | {item.bank for row in page for item in row.memories}
        seen = await self._resolver.readable(caller.name, tuple(banks))
        found = [_use(row, seen) for row in page if row.bank in seen]
        if request.memory_id is not None:
            found = [use for use in found if any(item.id == request.memory_id for item in use.memories)]
        return WhyReply(uses=found, cursor=str(page[-1].n) if len(rows) > len(page) else None)

    async def handed_out(self, session_id: str, turns: int, most: int) -> tuple[str, ...]:
        """Give the wordings of a session's memories, as given and as they are, and the lines of its rules."""
        readers = self._store.readers
        given = {
            (item.memory, item.revision): None
            for row in await uses.of_session(readers, session_id, turns)
            for item in row.memories
        }
        pairs = list(given)[:most]
        now = await memories.read_many(readers, list(dict.fromkeys(memory for memory, _ in pairs)))
        current = {(memory.id, memory.revision): memory for memory in now}
        older = await uses.memories_at(readers, [pair for pair in pairs if pair not in current])
        texts: dict[str, None] = {memory.text: None for memory in [*now, *older.values()]}
        for state in await uses.session_states(readers, session_id):
            stored = msgspec.json.decode(state.state, type=StoredRules)
            keys = {(item.bank, item.name, item.revision) for item in [*stored.shown, *stored.told]}
            for rule in (await uses.rules_at(readers, list(keys))).values():
                texts.update((line, None) for line in _lines(rule))
        return tuple(texts)


def _lines(rule: Rule) -> Sequence[str]:
    lines = (line.strip().lstrip("-*").strip() for line in rule.content.split("\n"))
    return [line for line in lines if line]


def _use(row: uses.UseRow, seen: frozenset[str]) -> Use:
    detail = _decode(row.detail)
    return Use(
        turn_id=row.turn,
        session_id=row.session,
        at=to_datetime(row.at),
        bank=row.bank,
        memories=tuple(
            UsedMemory(id=item.memory, revision=item.revision, score=item.score)
            for item in row.memories
            if item.bank in seen
        ),
        rules=tuple(rule for rule in detail.rules if rule.bank in seen),
    )


def _position(cursor: str | None) -> int:
    if cursor is None:
        return uses.END
    if not cursor.isdecimal() or len(cursor) > 18:
        raise invalid("the cursor is not one that `why` gave", "cursor")
    return int(cursor)
