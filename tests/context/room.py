"""A context room over a real store, gate and recall index, for tests."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from memory_contracts.functions.banks import BankCreateRequest, BankDeleteRequest, RuleSetRequest
from memory_contracts.functions.memories import DeleteRequest, SaveRequest, UpdateRequest
from memory_contracts.functions.recalling import ContextReply, ContextRequest, PreviewReply, PreviewRequest
from memory_contracts.names import Route
from memory_contracts.records import Bank, Memory, Rule
from memory_worker.bridges import ContextRecaller, GateBankMaker
from memory_worker.context import ContextService, ContextSettings, Recaller, SessionManager
from memory_worker.feeds import StoreIndexFeed
from memory_worker.gate import Gate, GateSettings, KeyedVault
from memory_worker.gate.turns import TurnCommit, TurnItem
from memory_worker.recall import RecallService, RecallSettings, StaticEmbedder
from memory_worker.store import Caller, TenantStore

START = 1_780_000_000.0
"""Unix seconds at which every test begins: 2026-05-28."""
TODAY = "2026-05-28"

ME = Caller("local", "human", "me")
HARNESS = Caller("local", "system", "harness")
SENSOR = Caller("local", "observer", "default")


def agent(name: str) -> Caller:
    """An agent."""
    return Caller("local", "agent", name)


class MovableClock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        """Unix seconds."""
        return self.at


class SessionsDouble:
    """A session manager that says what it is told to say."""

    def __init__(self, **sessions: Mapping[str, Any]) -> None:
        self.sessions = dict(sessions)
        self.away = False
        self.asked = 0

    async def metadata(self, session_id: str) -> Mapping[str, Any] | None:
        """What is known of a session."""
        self.asked += 1
        if self.away:
            raise TimeoutError
        return self.sessions.get(session_id)


class Room:
    """A tenant with everything that context stands on."""

    def __init__(self, store: TenantStore, gate: Gate, recall: RecallService, clock: MovableClock) -> None:
        self.store = store
        self.gate = gate
        self.recall = recall
        self.clock = clock
        self.contexts = self.service()

    def service(
        self,
        sessions: SessionManager | None = None,
        recaller: Recaller | None = None,
        settings: ContextSettings | None = None,
    ) -> ContextService:
        """A service over this store, as after a restart."""
        return ContextService(
            self.store,
            recaller or ContextRecaller(self.recall),
            GateBankMaker(self.gate),
            sessions,
            settings or ContextSettings(deadline_s=10.0, session_deadline_s=5.0),
        )

    async def restart(self) -> None:
        """Give the room a fresh service, as after a restart of the worker."""
        await self.contexts.close()
        self.contexts = self.service()

    async def save(self, text: str, caller: Caller = ME, **fields: Any) -> Memory:
        """Save a memory."""
        reply = await self.gate.save(caller, SaveRequest(text=text, **fields))
        assert reply.memory is not None
        return reply.memory

    async def learn(self, text: str, turn_id: str = "learned", **fields: Any) -> None:
        """Commit what reading a turn found, as extraction does."""
        item = TurnItem(text=text, quote=text, message_id="m1", role="user", **fields)
        await self.gate.commit_turn(TurnCommit(turn_id=turn_id, session_id="earlier", bank="main", items=(item,)))

    async def rewrite(self, memory: Memory, **fields: Any) -> Memory:
        """Correct a memory as a person."""
        reply = await self.gate.update(ME, UpdateRequest(id=memory.id, **fields))
        assert reply.memory is not None
        return reply.memory

    async def delete(self, memory: Memory) -> None:
        """Delete a memory as a person."""
        await self.gate.delete(ME, DeleteRequest(id=memory.id))

    async def rule(self, name: str, content: str, **fields: Any) -> Rule | None:
        """Write a rule as a person."""
        return (await self.gate.rule_set(ME, RuleSetRequest(name=name, content=content, **fields))).rule

    async def bank(self, name: str, owner: str | None = None, layers: Sequence[str] = (), by: Caller = ME) -> Bank:
        """Make a bank as a person."""
        request = BankCreateRequest(name=name, owner=owner, layers=list(layers))
        return (await self.gate.bank_create(by, request)).bank

    async def drop_bank(self, name: str, by: Caller = ME) -> None:
        """Move a bank to the trash."""
        await self.gate.bank_delete(by, BankDeleteRequest(name=name))

    async def context(self, message: str = "", session_id: str = "s1", **fields: Any) -> ContextReply:
        """Ask for a turn's context."""
        return await self.contexts.context(ContextRequest(session_id=session_id, message=message, **fields))

    async def preview(self, message: str, caller: Caller = ME, **fields: Any) -> PreviewReply:
        """Preview a turn's context."""
        return await self.contexts.preview(PreviewRequest(message=message, **fields), caller)


@asynccontextmanager
async def room(directory: Path) -> AsyncIterator[Room]:
    """Open a room in a directory."""
    clock = MovableClock()
    store = TenantStore("local", directory, clock)
    await store.open()
    gate = Gate(store, GateSettings(), KeyedVault(b"k" * 32), lambda bank, page, total: "")
    await gate.open()
    recall = RecallService(StoreIndexFeed(store), RecallSettings(), clock, directory / "index", StaticEmbedder())
    await recall.start()
    opened = Room(store, gate, recall, clock)
    try:
        yield opened
    finally:
        await opened.contexts.close()
        await recall.stop()
        await store.close()


def texts(reply: ContextReply) -> list[str]:
    """The texts a turn was given."""
    return [item.text for item in reply.items]


def caller(route: Route, principal: str) -> Caller:
    """Anybody."""
    return Caller("local", route, principal)
