"""Use rows: what each turn was given, by id and revision, and the rules each session was told. Never a text."""

from collections.abc import Sequence

import msgspec

from memory_contracts.records import Memory, Rule
from memory_worker.store import statements
from memory_worker.store.memories import decode, encode
from memory_worker.store.readers import Readers
from memory_worker.store.transaction import Transaction

_SQL = statements.load("uses")
_decode_rule = msgspec.json.Decoder(Rule).decode

END = 2**62
"""A number above every use, to page from the newest."""


class GivenRow(msgspec.Struct, frozen=True):
    """One memory of a use: `chars` of its text were given, `changed` when an older wording had been given before."""

    memory: str
    bank: str
    revision: int
    score: float
    chars: int
    changed: bool = False


class UseRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn was given; `detail` is the context room's own JSON. `n` counts up and is 0 before it is stored."""

    turn: str
    session: str
    at: float
    bank: str
    detail: bytes
    memories: tuple[GivenRow, ...] = ()
    n: int = 0


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The rules one session was told in one bank by one agent; `state` is the context room's own JSON."""

    session: str
    bank: str
    agent: str
    state: bytes


def record(tx: Transaction, rows: Sequence[UseRow], sessions: Sequence[SessionRow]) -> None:
    """Add uses and write the sessions' states. A turn that is there already stays as it is, and a memory that was
    forgotten since it was given is not named again."""
    for row in rows:
        cursor = tx.connection.execute(_SQL["insert"], (row.turn, row.session, row.at, row.bank, row.detail))
        if cursor.rowcount == 0:
            continue
        for position, given in enumerate(row.memories):
            tx.run(
                _SQL["insert_memory"],
                cursor.lastrowid,
                position,
                given.memory,
                given.bank,
                given.revision,
                given.score,
                given.chars,
                int(given.changed),
            )
    for session in sessions:
        tx.run(_SQL["put_session"], session.session, session.bank, session.agent, tx.now, session.state)


async def session_states(readers: Readers, session: str) -> list[SessionRow]:
    """Give what a session was told, by bank and agent."""
    rows = await readers.all(_SQL["session_states"], (session,))
    return [SessionRow(session=session, bank=bank, agent=agent, state=state) for _, bank, agent, state in rows]


async def of_turn(
    readers: Readers, turn: str, session: str | None = None, before: int = END, limit: int = 1
) -> list[UseRow]:
    """Give the uses of a turn id, in one session or in all, newest first, of those numbered under `before`."""
    return await _with_memories(readers, await readers.all(_SQL["of_turn"], (turn, session, session, before, limit)))


async def of_session(readers: Readers, session: str, limit: int) -> list[UseRow]:
    """Give a session's newest uses, newest first."""
    return await _with_memories(readers, await readers.all(_SQL["of_session"], (session, limit)))


async def of_memory(readers: Readers, memory: str, before: int, limit: int) -> list[UseRow]:
    """Give the uses of a memory, newest first, of those numbered under `before`."""
    return await _with_memories(readers, await readers.all(_SQL["of_memory"], (memory, before, limit)))


async def _with_memories(readers: Readers, rows: Sequence[tuple[int, str, str, float, str, bytes]]) -> list[UseRow]:
    given: dict[int, list[GivenRow]] = {row[0]: [] for row in rows}
    if rows:
        for use, memory, bank, revision, score, chars, changed in await readers.all(
            _SQL["memories"], (encode(list(given)).decode(),)
        ):
            given[use].append(GivenRow(memory, bank, revision, score, chars, bool(changed)))
    return [
        UseRow(n=n, turn=turn, session=session, at=at, bank=bank, detail=detail, memories=tuple(given[n]))
        for n, turn, session, at, bank, detail in rows
    ]


async def memories_at(readers: Readers, revisions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Memory]:
    """Give memories as they were at a revision, by id and revision; what forgetting destroyed is left out."""
    found: dict[tuple[str, int], Memory] = {}
    for memory, revision in revisions:
        row = await readers.one(_SQL["memory_at"], (memory, revision))
        if row is not None:
            found[memory, revision] = decode(row[0])
    return found


async def rules_at(readers: Readers, keys: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str, int], Rule]:
    """Give rules as they were, by bank, name and revision; what was destroyed is left out."""
    found: dict[tuple[str, str, int], Rule] = {}
    for bank, name, revision in keys:
        row = await readers.one(_SQL["rule_at"], (name, bank, revision))
        if row is not None:
            found[bank, name, revision] = _decode_rule(row[0])
    return found


async def live_total(readers: Readers, bank: int) -> tuple[int, int]:
    """Count a bank's live memories, with the journal sequence at which the count holds: (sequence, count)."""
    row = await readers.one(_SQL["live_total"], (bank,))
    assert row is not None
    return int(row[0]), int(row[1])


def drop_old(tx: Transaction, before: float, limit: int) -> int:
    """Remove up to `limit` uses and as many session states from before a time (unix seconds); gives how many uses."""
    tx.run(_SQL["drop_old_sessions"], before, limit)
    return tx.run(_SQL["drop_old"], before, limit)


def forget_memories(tx: Transaction, ids: Sequence[str]) -> int:
    """Remove every trace that these memories were given; gives how many."""
    return sum(tx.run(_SQL["forget_memory"], memory) for memory in ids)


def forget_bank(tx: Transaction, bank: str) -> int:
    """Remove every use of a bank and of its memories, and what its sessions were told; gives how many memories."""
    given = tx.run(_SQL["forget_bank_memories"], bank)
    tx.run(_SQL["forget_bank_uses"], bank)
    tx.run(_SQL["forget_bank_sessions"], bank)
    return given
