"""A gate over a real store, with a clock that tests move and callers of every route."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import ListRequest, SaveRequest
from memory_contracts.functions.review import ChangesListRequest, SuggestionListRequest
from memory_contracts.records import Change, Memory, Receipt, Suggestion
from memory_worker.gate import (
    Gate,
    GateSettings,
    KeyedVault,
    Lessons,
    Review,
    Sweeper,
    TurnCommit,
    TurnItem,
    TurnResult,
)
from memory_worker.store import Caller, TenantStore, inbox
from memory_worker.store.inbox import NewTurn

START = 1_764_500_000.0
"""30 November 2025, 10:53:20 UTC."""

ANA = Caller("local", "human", "ana")
BEN = Caller("local", "human", "ben")
CODER = Caller("local", "agent", "coder")
WRITER = Caller("local", "agent", "writer")
SENSOR = Caller("local", "observer", "phone")
CONSOLIDATE = Caller("local", "system", "consolidate")


class MovableClock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def forward(self, *, days: float = 0.0, seconds: float = 0.0) -> None:
        self.at += days * 86_400 + seconds


class NoteReader:
    """Gives, for each note, the lessons that a test laid down."""

    def __init__(self) -> None:
        self.lessons = Lessons()

    async def read(self, bank: str, text: str) -> Lessons:
        return self.lessons


class NoForgetting:
    """Remembers what was handed to forgetting."""

    def __init__(self) -> None:
        self.carried_out: list[str] = []

    async def carry_out(self, caller: Caller, suggestion: Suggestion) -> Receipt:
        self.carried_out.append(suggestion.id)
        return Receipt(id="rcp_1", at=suggestion.created_at, state="pending")


class World:
    """One tenant: store, gate and review, with short ways to call them."""

    def __init__(self, directory: Path, settings: GateSettings | None = None, tenant: str = "local") -> None:
        self.clock = MovableClock()
        self.tenant = tenant
        self.directory = directory / tenant
        self.settings = settings or GateSettings()
        self.notes = NoteReader()
        self.forgetting = NoForgetting()
        self._build()

    def _build(self) -> None:
        self.store = TenantStore(self.tenant, self.directory, self.clock)
        self.gate = Gate(self.store, self.settings, KeyedVault(b"k" * 32), _render)
        self.review = Review(self.gate, self.notes, self.forgetting)
        self.sweeper = Sweeper(self.store, self.settings)

    async def open(self) -> "World":
        await self.store.open()
        await self.gate.open()
        return self

    async def close(self) -> None:
        await self.store.close()

    async def restart(self) -> None:
        await self.store.close()
        self._build()
        await self.open()

    async def save(self, caller: Caller, text: str, key: str | None = None, **fields: Any) -> Memory:
        reply = await self.gate.save(caller, SaveRequest(text=text, **fields), key)
        assert reply.memory is not None, reply
        return reply.memory

    async def live(self, caller: Caller = ANA, bank: str | None = None) -> dict[str, Memory]:
        """The live memories of a bank by text."""
        reply = await self.gate.reading.list(caller, ListRequest(bank=bank, limit=200))
        return {memory.text: memory for memory in reply.memories}

    async def waiting(self, caller: Caller = ANA, bank: str | None = None, state: Any = "open") -> list[Suggestion]:
        request = SuggestionListRequest(bank=bank, state=state, limit=200)
        return (await self.review.suggestion_list(caller, request)).suggestions

    async def changes(self, caller: Caller = ANA, **keep: Any) -> list[Change]:
        """Changes, newest first."""
        return (await self.gate.reading.changes_list(caller, ChangesListRequest(limit=200, **keep))).changes

    async def turn(self, turn_id: str, *items: TurnItem, session: str = "s1", **fields: Any) -> TurnResult:
        """Take a turn in, as a bus would deliver it, and commit what reading it came to."""
        await self.store.write(lambda tx: inbox.accept(tx, [NewTurn(turn_id, session, b"{}")]))
        fields.setdefault("bank", "main")
        return await self.gate.commit_turn(TurnCommit(turn_id=turn_id, session_id=session, items=items, **fields))


def said(text: str, role: str = "user", **fields: Any) -> TurnItem:
    """An item that a turn's reading found."""
    return TurnItem(text=text, quote=text, message_id="m1", role=role, **fields)


async def code_of(awaitable: Any) -> str:
    """The code of the error that a call must raise."""
    with pytest.raises(FunctionError) as caught:
        await awaitable
    return caught.value.code


def plain(value: msgspec.Struct) -> Any:
    return msgspec.to_builtins(value)


def _render(bank: str, memories: Sequence[Memory], total: int) -> str:
    return "\n".join(memory.text for memory in memories)


MakeWorld = Callable[..., Awaitable[World]]


@pytest.fixture
async def make_world(tmp_path: Path) -> AsyncIterator[MakeWorld]:
    """Make tenants with settings of their own; every one is closed at the end."""
    made: list[World] = []

    async def make(settings: GateSettings | None = None, tenant: str = "local", under: str = "tenants") -> World:
        made.append(await World(tmp_path / under, settings, tenant).open())
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fresh tenant."""
    made = await World(tmp_path).open()
    yield made
    await made.close()
