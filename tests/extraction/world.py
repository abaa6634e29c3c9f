"""A turn worker over a real store and gate; siblings, bank and what was handed out are scripted."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from memory_contracts.functions.banks import RuleListRequest
from memory_contracts.functions.memories import ListRequest
from memory_contracts.normal import fingerprint
from memory_contracts.records import Memory
from memory_contracts.siblings import CompleteReply, CompleteRequest, SessionMessage, SessionMessagesReply
from memory_contracts.turns import TurnCompleted
from memory_worker.config import Settings
from memory_worker.extraction import Handed, Off, ResolvedBank, SiblingAway, TurnWorker, Wait
from memory_worker.gate import Gate, GateSettings, KeyedVault
from memory_worker.store import Caller, TenantStore, inbox
from memory_worker.store.inbox import InboxStatus, NewTurn
from memory_worker.turn_work import GateCommit, StoreInbox
from tests.system.harness import eventually

START = 1_764_500_000.0
"""30 November 2025, 10:53:20 UTC, a Sunday."""
ANA = Caller("local", "human", "ana")


class MovableClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        return self.at


class Router:
    """Gives scripted answers in turn, the last one for ever; an exception is raised. `away` answers nothing."""

    def __init__(self) -> None:
        self.answers: list[str | Exception] = ['{"items": []}']
        self.asked: list[CompleteRequest] = []
        self.away = False
        self.hold: asyncio.Event | None = None

    async def complete(self, request: CompleteRequest) -> CompleteReply:
        self.asked.append(request)
        if self.hold is not None:
            await self.hold.wait()
        if self.away:
            raise SiblingAway("router")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return CompleteReply(text=answer, model="model-of-test")


class Sessions:
    """A session manager that holds messages by session."""

    def __init__(self) -> None:
        self.held: dict[str, list[SessionMessage]] = {}
        self.away = False

    async def messages(self, session_id: str, after: str | None, limit: int) -> SessionMessagesReply:
        if self.away:
            raise SiblingAway("session_manager")
        held = self.held.get(session_id, [])
        start = next((n + 1 for n, message in enumerate(held) if message.id == after), 0)
        page = held[start : start + limit]
        more = start + limit < len(held)
        return SessionMessagesReply(messages=page, cursor=page[-1].id if more else None)


class Banks:
    """The bank a turn's own metadata names; `waiting` makes every turn wait for the session manager."""

    def __init__(self) -> None:
        self.waiting = False
        self.asked = 0

    async def resolve(self, turn: TurnCompleted) -> ResolvedBank | Off | Wait:
        self.asked += 1
        metadata = turn.metadata or {}
        if self.waiting:
            return Wait("session_manager")
        if metadata.get("memory") == "off":
            return Off("memory_off")
        return ResolvedBank(metadata.get("memory_bank", "main"), "notes of a test")


class Surroundings:
    """What context handed out, and what the bank holds already."""

    def __init__(self) -> None:
        self.handed: tuple[str, ...] = ()
        self.known: list[str] = []
        self.rules: list[str] = []

    async def lines(self, session_id: str, bank: str) -> Handed:
        return Handed(frozenset(fingerprint(text) for text in self.handed), self.handed)

    async def memories(self, bank: str, text: str, limit: int) -> Sequence[str]:
        return self.known[:limit]

    async def learned(self, bank: str) -> Sequence[str]:
        return self.rules


class World:
    """One tenant whose turns are read."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.settings = Settings(**{"extraction_backoff_s": 10.0, **settings})
        self.clock = MovableClock()
        self.router = Router()
        self.sessions = Sessions()
        self.banks = Banks()
        self.around = Surroundings()
        self._build()

    def _build(self) -> None:
        self.store = TenantStore("local", self.directory / "local", self.clock)
        self.gate = Gate(self.store, GateSettings(), KeyedVault(b"k" * 32), lambda bank, memories, total: "")
        self.worker = TurnWorker(
            StoreInbox(self.store),
            GateCommit(self.gate, lambda result: None),
            self.sessions,
            self.router,
            self.around,
            self.around,
            self.settings,
            self.clock,
            banks=self.banks,
        )
        self.running: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.store.open()
        await self.gate.open()
        self.running = asyncio.create_task(self.worker.run())

    async def close(self) -> None:
        await self.worker.stop()
        if self.running is not None:
            await self.running
        await self.store.close()

    async def restart(self) -> None:
        """Stop, and start again on the same files."""
        await self.close()
        self._build()
        await self.open()

    async def publish(self, *turns: dict[str, Any]) -> None:
        """Put turns into the inbox, as intake does."""
        new = [NewTurn(turn["turn_id"], turn["session_id"], msgspec.json.encode(turn)) for turn in turns]
        await self.store.write(lambda tx: inbox.accept(tx, new))
        self.worker.wake()

    async def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.at += seconds
        self.worker.wake()

    async def status(self) -> InboxStatus:
        return await inbox.status(self.store.readers, 100)

    async def settled(self) -> InboxStatus:
        """Wait until nothing waits or is at work."""

        async def done() -> InboxStatus | None:
            status = await self.status()
            return status if status.backlog == 0 else None

        found: InboxStatus = await eventually(done, "an empty inbox")
        return found

    async def waiting_for(self, reason: str) -> None:
        """Wait until turns wait for `reason`."""

        async def there() -> bool:
            return reason in (await self.status()).waiting

        await eventually(there, f"a turn that waits for {reason}")

    async def live(self, bank: str = "main") -> dict[str, Memory]:
        """The live memories of a bank by text."""
        reply = await self.gate.reading.list(ANA, ListRequest(bank=bank, limit=200))
        return {memory.text: memory for memory in reply.memories}

    async def lines(self, bank: str = "main") -> list[str]:
        """The lines of `learned`."""
        rules = (await self.gate.reading.rule_list(ANA, RuleListRequest(bank=bank))).rules
        return [line.text for rule in rules if rule.name == "learned" for line in rule.lines]


@asynccontextmanager
async def world_at(directory: Path, **settings: Any) -> AsyncIterator[World]:
    """A world that is open, with these settings."""
    world = World(directory, **settings)
    await world.open()
    try:
        yield world
    finally:
        await world.close()


def turn(turn_id: str, *messages: tuple[str, str], session: str = "s1", **fields: Any) -> dict[str, Any]:
    """A turn event; message ids are made of the turn's id and their place."""
    return {
        "turn_id": turn_id,
        "session_id": session,
        "status": "completed",
        "completed_at": "2025-11-30T10:00:00Z",
        "messages": [
            {"id": f"{turn_id}-{n}", "role": role, "text": text, "at": "2025-11-30T10:00:00Z"}
            for n, (role, text) in enumerate(messages)
        ],
        **fields,
    }


def said(text: str) -> tuple[str, str]:
    """A user's message."""
    return ("user", text)


def reply(*items: dict[str, Any]) -> str:
    """A model's answer with these items."""
    return msgspec.json.encode({"items": items}).decode()
