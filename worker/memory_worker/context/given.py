"""Remembers what each session was given, in memory and behind it in the store, so that nothing is given twice."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

import msgspec
import structlog

from memory_contracts.functions.recalling import ContextReply
from memory_contracts.records import Rule, UsedRule
from memory_worker.context.rules import Budgets, RuleKey, Section, Step
from memory_worker.store import TenantStore, uses

log = structlog.get_logger(__name__)

SESSIONS_MAX = 2_000
"""Sessions held in memory; the least used is dropped beyond it and read back from the store when it returns."""
ANSWERS_MAX = 1_000
"""Answers held to be repeated to the byte; an older one is rebuilt from ids and revisions."""
HISTORY_TURNS = 500
"""Newest turns of a session that are remembered."""
FLUSH_S = 0.05
"""Pause before uses are written, in seconds: the turns of that time share a commit, and no turn waits for it."""
FLUSH_MAX = 512
"""Most uses per write."""
UNWRITTEN_MAX = 20_000
"""Uses that may wait for a store that refuses writes; beyond it the oldest are lost to `why`, and counted."""
RETRY_S = 1.0
"""Pause after a refused write, in seconds."""

SWEEP_EVERY_S = 3_600.0
"""Seconds between sweeps of what is too old, of a tenant that has turns."""
SWEEP_ROWS = 1_000
"""Uses removed per transaction when they are too old."""
DAY_S = 86_400


class Given(msgspec.Struct, frozen=True):
    """A memory as a session was last given it: its revision, and the session's turn number then."""

    revision: int
    turn: int


class ToldRules(msgspec.Struct, frozen=True):
    """The rules of a session in one bank, for one agent.

    `section` = as first given, the same to the byte ever after, rendered from `shown`; `told` = the rules it knows by
    now, updates included.
    `made` = when the bank came to be, in unix seconds: a bank of the same name made again starts a new section.
    `updated` = the session's turn number of the last update block, 0 before one.
    """

    section: Section
    etag: str
    shown: tuple[Rule, ...]
    told: dict[RuleKey, Rule]
    made: float
    updated: int = 0


class StoredRules(msgspec.Struct, kw_only=True):
    """The stored form of `ToldRules`: revisions and the budgets they were rendered within, no text."""

    shown: list[UsedRule]
    told: list[UsedRule]
    made: float
    updated: int
    budgets: Budgets


class Detail(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The stored form of an answer beside its memories: enough to give the same bytes again, and no text."""

    agent: str = ""
    scope: tuple[str, ...] = ()
    total: int = 0
    mode: str = ""
    truncated: tuple[str, ...] = ()
    readback: bool = False
    rules: tuple[UsedRule, ...] = ()
    steps: tuple[Step, ...] = ()
    notices: tuple[str, ...] = ()


class Session(msgspec.Struct):
    """What one session holds. `window` = what its harness said it holds at the last turn, `reports` = it was seen to
    name memories of ours there."""

    given: dict[str, Given] = {}
    turns: int = 0
    turn_ids: dict[str, None] = {}
    rules: dict[tuple[str, str], ToldRules] = {}
    stored: dict[tuple[str, str], StoredRules] = {}
    window: tuple[str, ...] = ()
    reports: bool = False
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class GivenStore:
    """The sessions and answers of one tenant."""

    def __init__(self, store: TenantStore, uses_days: float) -> None:
        """`uses_days` = days for which uses are kept."""
        self._store = store
        self.uses_days = uses_days
        self._sweep_at = 0.0
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Session]] = {}
        self._answers: OrderedDict[tuple[str, str], ContextReply] = OrderedDict()
        self._unwritten: list[uses.UseRow] = []
        self._in_writing: list[uses.UseRow] = []
        self._states: dict[tuple[str, str, str], uses.SessionRow] = {}
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self.lost = 0
        """Uses that could not be kept because the store refused writes for too long."""

    async def session(self, session_id: str) -> Session:
        """Give a session, read back from the store where it is not in memory."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
            return session
        task = self._loading.get(session_id)
        if task is None:
            task = self._loading[session_id] = asyncio.get_running_loop().create_task(self._load(session_id))
        return await asyncio.shield(task)

    async def _load(self, session_id: str) -> Session:
        try:
            if any(row.session == session_id for row in [*self._in_writing, *self._unwritten]):
                await self.flush()
            rows = await uses.of_session(self._store.readers, session_id, HISTORY_TURNS)
            session = Session(turns=len(rows))
            for turn, row in enumerate(reversed(rows), start=1):
                session.turn_ids[row.turn] = None
                session.given.update((item.memory, Given(item.revision, turn)) for item in row.memories)
            for state in await uses.session_states(self._store.readers, session_id) if rows else ():
                session.stored[state.bank, state.agent] = msgspec.json.decode(state.state, type=StoredRules)
            self._sessions[session_id] = session
            while len(self._sessions) > SESSIONS_MAX:
                self._sessions.popitem(last=False)
            return session
        finally:
            self._loading.pop(session_id, None)

    def answer(self, session_id: str, turn_id: str) -> ContextReply | None:
        """Give the answer a turn had, if it is held."""
        return self._answers.get((session_id, turn_id))

    def hold(self, session_id: str, turn_id: str, reply: ContextReply) -> None:
        """Hold an answer to be repeated."""
        self._answers[session_id, turn_id] = reply
        while len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    def drop(self) -> None:
        """Let go of every text and id held: a forgetting passed by."""
        self._answers.clear()
        self._sessions.clear()

    def record(self, row: uses.UseRow, state: uses.SessionRow | None) -> None:
        """Keep a use, and the rules its session knows now, without making the turn wait for the disk."""
        if len(self._unwritten) >= UNWRITTEN_MAX:
            del self._unwritten[0]
            self.lost += 1
        self._unwritten.append(row)
        if state is not None:
            self._states[state.session, state.bank, state.agent] = state
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_later())

    async def _write_later(self) -> None:
        await asyncio.sleep(FLUSH_S)
        while self._unwritten:
            if not await self._write():
                await asyncio.sleep(RETRY_S)
        if self._store.clock.now() >= self._sweep_at:
            self._sweep_at = self._store.clock.now() + SWEEP_EVERY_S
            try:
                await self.sweep()
            except Exception as error:  # what is too old can wait for the next sweep
                log.warning("context.uses_not_swept", error=type(error).__name__)

    async def sweep(self) -> int:
        """Remove uses older than the setting; gives how many were removed."""
        before = self._store.clock.now() - self.uses_days * DAY_S
        removed = 0
        while True:
            step = await self._store.write(lambda tx: uses.drop_old(tx, before, SWEEP_ROWS))
            removed += step
            if step < SWEEP_ROWS:
                return removed

    async def _write(self) -> bool:
        """Write one batch, after the one that is being written; False when the store refused it."""
        async with self._writing:
            rows, states = self._unwritten[:FLUSH_MAX], self._states
            del self._unwritten[: len(rows)]
            self._states, self._in_writing = {}, rows
            written = False
            try:
                if rows or states:
                    await self._store.write(lambda tx: uses.record(tx, rows, list(states.values())))
                written = True
            except Exception as error:  # a full disk or a closing store: the turn has its answer, the record waits
                log.warning("context.uses_not_written", uses=len(rows), error=type(error).__name__)
            finally:
                self._in_writing = []
                # Also when interrupted: a row that is written twice changes nothing.
                if not written:
                    self._unwritten[:0] = rows
                    self._states = {**states, **self._states}
            return written

    async def flush(self) -> None:
        """Write what is waiting; after a refused write the rest waits on."""
        while await self._write():
            if not self._unwritten:
                return

    async def close(self) -> None:
        """Write what is waiting and stop."""
        await self.flush()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)


def used(rules: Sequence[Rule]) -> list[UsedRule]:
    """Give rules by name, bank and revision."""
    return [UsedRule(name=rule.name, bank=rule.bank, revision=rule.revision) for rule in rules]
