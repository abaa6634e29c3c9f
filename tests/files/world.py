"""A tenant with a real store, the real gate and its file room, driven by a clock the test moves."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from memory_contracts.functions.banks import BankCreateRequest, BankDeleteRequest, BankRestoreRequest, RuleSetRequest
from memory_contracts.functions.memories import DeleteRequest, SaveRequest, UpdateRequest
from memory_contracts.functions.operations import ValueRevealReply, ValueRevealRequest
from memory_contracts.functions.review import SuggestionDecideRequest
from memory_contracts.names import Route
from memory_contracts.records import Memory, Notice, Receipt, Rule, Suggestion
from memory_worker.clock import Clock
from memory_worker.files import (
    FileRoom,
    FilesSettings,
    GateCommands,
    StoreFeed,
    StoreLedger,
    StoreSnapshot,
)
from memory_worker.gate import Gate, GateSettings, KeyedVault, Lessons, Review
from memory_worker.store import Caller, Origin, TenantStore, banks, notices, suggestions

KEY = bytes(32)
START = 1_796_011_200.0
"""2026-11-30T04:00:00Z in unix seconds."""


class TestClock:
    """A clock that only the test moves."""

    __test__ = False

    def __init__(self) -> None:
        self.seconds = START

    def now(self) -> float:
        return self.seconds

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


class World:
    """One tenant and its folder."""

    def __init__(
        self,
        root: Path,
        *,
        route: Route = "human",
        settings: FilesSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.root = root
        self.moved = TestClock()
        self.clock: Clock = clock or self.moved
        self.route: Route = route
        self.settings = settings or FilesSettings()
        self.person = Caller("local", "human", "me")
        self.agent = Caller("local", "agent", "coder")

    async def open(self) -> None:
        """Open store, gate and room, as at a start of the worker."""
        self.store = TenantStore("local", self.root, self.clock)
        await self.store.open()
        self.vault = KeyedVault(KEY)
        self.gate = Gate(self.store, GateSettings(), self.vault, _render)
        await self.gate.open()
        self.review = Review(self.gate, _NothingLearned(), _NothingForgotten())
        self.room = FileRoom(
            self.root,
            feed=StoreFeed(self.store),
            snapshot=StoreSnapshot(self.store),
            ledger=StoreLedger(self.store),
            commands=GateCommands(self.gate, self.route),
            clock=self.clock,
            settings=self.settings,
        )
        await self.room.open()

    async def close(self) -> None:
        """Close everything in order."""
        await self.room.close()
        await self.store.close()

    async def restart(self) -> None:
        """Stop and start the worker."""
        await self.close()
        await self.open()

    # What happens in the store

    async def save(self, text: str, *, by: Caller | None = None, **fields: Any) -> Memory:
        """Save a memory through the gate, as a person unless said otherwise."""
        reply = await self.gate.save(by or self.person, SaveRequest(text=text, **fields))
        assert reply.memory is not None
        return reply.memory

    async def update(self, memory: Memory, **fields: Any) -> Memory:
        """Change a memory through the gate, as a person."""
        reply = await self.gate.update(self.person, UpdateRequest(id=memory.id, **fields))
        assert reply.memory is not None
        return reply.memory

    async def delete(self, memory: Memory) -> None:
        """Delete a memory through the gate, as a person."""
        await self.gate.delete(self.person, DeleteRequest(id=memory.id))

    async def set_rule(self, name: str, content: str, bank: str = "main") -> Rule | None:
        """Write a rule through the gate, as a person."""
        reply = await self.gate.rule_set(self.person, RuleSetRequest(name=name, content=content, bank=bank))
        return reply.rule

    async def make_bank(self, name: str, **fields: Any) -> None:
        """Make a bank, as a person."""
        await self.gate.bank_create(self.person, BankCreateRequest(name=name, **fields))

    async def trash(self, name: str) -> None:
        """Delete a bank, as a person."""
        await self.gate.bank_delete(self.person, BankDeleteRequest(name=name))

    async def untrash(self, name: str) -> None:
        """Bring a bank back, as a person."""
        await self.gate.bank_restore(self.person, BankRestoreRequest(name=name))

    async def decide(self, suggestion: Suggestion, decision: Literal["approve", "reject"]) -> None:
        """Decide a suggestion, as a person."""
        request = SuggestionDecideRequest(ids=[suggestion.id], decision=decision)
        reply = await self.review.suggestion_decide(self.person, request)
        assert [one.error for one in reply.decided] == [None]

    async def reveal(self, caller: Caller, request: ValueRevealRequest) -> ValueRevealReply:
        """Uncover a protected value, as the function `value.reveal` does."""
        origin = Origin.of(caller, "reveal")
        return await self.store.write(lambda tx: self.vault.reveal(self.gate.act(tx, caller, origin), request))

    # What the store has

    async def memory(self, memory_id: str) -> Memory:
        """Give a memory in any state."""
        return (await StoreSnapshot(self.store).of_ids([memory_id]))[memory_id]

    async def texts(self, bank: str = "main") -> list[str]:
        """Give the texts of a bank's live memories, sorted."""
        return sorted(memory.text for memory in await self.live(bank))

    async def live(self, bank: str = "main") -> Sequence[Memory]:
        """Give a bank's live memories, by id."""
        page, more = await StoreSnapshot(self.store).memories(bank, "", 10_000)
        assert more is None
        return page

    async def rule(self, name: str, bank: str = "main") -> Rule | None:
        """Give a rule."""
        return {rule.name: rule for rule in await StoreSnapshot(self.store).rules(bank)}.get(name)

    async def suggestions(self, bank: str = "main") -> list[Suggestion]:
        """Give the open suggestions of a bank."""
        row = await banks.read(self.store.readers, bank)
        assert row is not None
        found = await suggestions.page(self.store.readers, [row.n], "open", None, None, 100)
        return [one.suggestion for one in found]

    async def notices(self, bank: str = "main") -> list[Notice]:
        """Give the notices of a bank that nobody acknowledged."""
        row = await banks.read(self.store.readers, bank)
        assert row is not None
        return await notices.page(self.store.readers, [row.n], False, None, 100)

    # What lies in the folder

    def folder(self, bank: str = "main") -> Path:
        """Give the folder of a bank's memories."""
        return self.root / "banks" / bank / "memories"

    def files(self, bank: str = "main") -> dict[str, str]:
        """Give name and text of every file among a bank's memories."""
        found = self.folder(bank)
        return {path.name: path.read_text() for path in sorted(found.iterdir())} if found.is_dir() else {}

    def path_of(self, memory: Memory) -> Path:
        """Give the one file that names a memory."""
        [path] = [
            path
            for path in (self.root / "banks").rglob("*.md")
            if path.is_file() and not path.is_symlink() and f"id: {memory.id}\n".encode() in path.read_bytes()
        ]
        return path

    def edit(self, memory: Memory, old: str, new: str) -> Path:
        """Replace words in a memory's file, as an editor would."""
        path = self.path_of(memory)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        return path

    async def sync(self) -> None:
        """Bring both sides together; removed files count as removed at once."""
        await self.room.sync()

    async def problems(self) -> dict[str, str]:
        """Give the reason of every unreadable file, by path."""
        return {problem.path: problem.reason for problem in (await self.room.status()).problems}

    def listed(self) -> list[str]:
        """Give the texts that lie in the folder of problems."""
        return [path.read_text() for path in sorted((self.root / "problems").glob("*.txt"))]


class _NothingLearned:
    async def read(self, bank: str, text: str) -> Lessons:
        return Lessons()


class _NothingForgotten:
    async def carry_out(self, caller: Caller, suggestion: Suggestion) -> Receipt:
        raise AssertionError("nothing here forgets")


def _render(bank: str, page: Sequence[Memory], total: int) -> str:
    return ""


@asynccontextmanager
async def opened(root: Path, **options: Any) -> AsyncIterator[World]:
    """Give an open world, closed at the end."""
    world = World(root, **options)
    await world.open()
    try:
        yield world
    finally:
        await world.close()
