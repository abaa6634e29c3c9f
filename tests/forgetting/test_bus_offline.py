"""A forgetting while the bus is away destroys what it reaches at once, says what waits, and finishes by itself."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from memory_contracts import Subjects
from memory_contracts.connection import Bus
from memory_contracts.functions.memories import SaveRequest
from memory_contracts.functions.operations import EraseRequest, PersonForgetRequest
from memory_contracts.records import Memory, Receipt
from memory_worker.bridges import ContextRecaller, GateBankMaker
from memory_worker.bus import OwnTurns, Relay
from memory_worker.bus.server import running_pid
from memory_worker.clock import SystemClock
from memory_worker.context import ContextService, ContextSettings
from memory_worker.feeds import StoreIndexFeed
from memory_worker.forgetting import Forgetting
from memory_worker.gate import Gate, GateSettings, KeyedVault
from memory_worker.recall import RecallService, RecallSettings
from memory_worker.store import TenantStore
from memory_worker.stroke import STILL_AT_WORK, Stroke
from tests.forgetting.planting import found
from tests.gate.conftest import ANA
from tests.system.harness import BusUnderTest, running_server

DEADLINE_S = 60.0
"""Longest wait for the bus to be back and the forgetting to be tried again; far above what either takes."""


class Tenant:
    """The parts of a tenant that a forgetting reaches, but for its files."""

    def __init__(self, directory: Path, bus: Bus) -> None:
        clock = SystemClock()
        self.store = TenantStore("local", directory, clock)
        self.vault = KeyedVault(b"k" * 32)
        self.gate = Gate(self.store, GateSettings(), self.vault, lambda bank, page, total: "")
        self.recall = RecallService(
            StoreIndexFeed(self.store), RecallSettings(), clock, directory / "index" / "snapshots", None
        )
        self.contexts = ContextService(
            self.store, ContextRecaller(self.recall), GateBankMaker(self.gate), None, ContextSettings()
        )
        self.relay = Relay(bus, Subjects(), "local", self.store, clock)
        self.turn_stream = OwnTurns(bus, Subjects(), "local")
        self.stroke = self.new_stroke()
        self.forgetting = Forgetting(self.gate, self.vault, self.stroke)

    def new_stroke(self, **settings: float) -> Stroke:
        """What carries forgettings out, as after a start."""
        return Stroke(self.gate, self.vault, self.recall, self.contexts, None, self.relay, self.turn_stream, **settings)

    async def __aenter__(self) -> "Tenant":
        await self.store.open()
        await self.gate.open()
        await self.recall.start()
        await self.relay.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.contexts.close()
        await self.relay.stop()
        await self.recall.stop()
        await self.store.close()

    async def save(self, text: str, **fields: list[str]) -> Memory:
        reply = await self.gate.save(ANA, SaveRequest(text=text, **fields))
        assert reply.memory is not None
        return reply.memory

    async def receipts(self) -> list[tuple[str, Receipt]]:
        """Every receipt as it is kept now, with its state."""
        rows = await self.store.readers.all("SELECT state, receipt FROM forgettings ORDER BY at")
        return [(state, msgspec.json.decode(receipt, type=Receipt)) for state, receipt in rows]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BusUnderTest]:
    """A bus of the test's own, which it may kill."""
    with running_server(tmp_path / "bus") as running:
        yield running


@pytest.fixture
async def tenant(server: BusUnderTest, tmp_path: Path) -> AsyncIterator[Tenant]:
    """A tenant on that bus."""
    async with server.bus("worker") as bus, Tenant(tmp_path / "local", bus) as opened:
        yield opened


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.05)


def kill(server: BusUnderTest) -> None:
    """End the bus at once."""
    pid = running_pid(server.server.files)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def test_what_the_bus_holds_goes_when_it_is_back(server: BusUnderTest, tenant: Tenant, tmp_path: Path) -> None:
    """Pending and named while the bus is away, the store clean by then; on reconnect erased, done, and told."""
    await tenant.save("Zenobia Quill is a colleague", entities=["Zenobia Quill"])
    await tenant.save("Zenobia Quill likes qxsentinelzv")
    await tenant.save("The kettle is red")
    await tenant.relay.caught_up()
    async with server.bus("system-harness") as harness:
        turn = b'{"turn_id": "t1", "note": "Zenobia Quill likes qxsentinelzv"}'
        await harness.request(Subjects().turn_completed("local", "s1"), turn, within=5.0)
    words = ["qxsentinelzv", "Quill"]
    assert {Path(place).parts[0] for place in found(tmp_path, words).values()} >= {"local"}
    asked = await tenant.forgetting.person_forget(
        ANA, PersonForgetRequest(entity="Zenobia Quill", confirm_name="Zenobia Quill")
    )
    await tenant.relay.caught_up()
    kill(server)
    receipt = await tenant.forgetting.carry_out(ANA, asked.suggestion)
    assert receipt.state == "pending"
    assert [one.split(":")[0] for one in receipt.unreachable] == ["turn stream", "event streams"]
    assert receipt.counts["memories"] == 2
    assert "qxsentinelzv" not in found(tmp_path / "local", words), "the store is clean already"
    assert [one.id for one in await tenant.stroke.pending()] == [receipt.id]
    running = asyncio.create_task(tenant.stroke.run())
    await server.server.revive()

    async def done() -> bool:
        return [state for state, _ in await tenant.receipts()] == ["done"]

    await until(done, "the forgetting")
    [(_, final)] = await tenant.receipts()
    assert (final.id, final.state, final.unreachable) == (receipt.id, "done", ())
    assert final.counts["turns in the stream"] == 1
    assert final.counts["events"] >= 2
    assert final.counts["memories"] == 2

    async def told() -> bool:
        rows = await tenant.store.readers.all("SELECT record FROM notices")
        return any(receipt.id.encode() in record for (record,) in rows)

    await until(told, "the notice")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert found(tmp_path, words) == {}


async def test_one_memory_waits_as_well(server: BusUnderTest, tenant: Tenant, tmp_path: Path) -> None:
    """Erasing one memory behaves alike, also after a restart of the worker in between."""
    memory = await tenant.save("The cellar is full of qxsentinelzv")
    await tenant.relay.caught_up()
    kill(server)
    receipt = (await tenant.forgetting.erase(ANA, EraseRequest(id=memory.id))).receipt
    assert receipt.state == "pending"
    await server.server.revive()
    running = asyncio.create_task(tenant.new_stroke().run())

    async def done() -> bool:
        return [state for state, _ in await tenant.receipts()] == ["done"]

    await until(done, "the forgetting")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert found(tmp_path, ["qxsentinelzv"]) == {}


async def test_an_asker_is_not_kept_waiting(tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgetting that takes long answers with what it has; it goes on, and a notice tells when it is finished."""
    memory = await tenant.save("The cellar is full of qxsentinelzw")
    await tenant.relay.caught_up()
    free = asyncio.Event()
    erase_memory = tenant.relay.erase_memory

    async def slow(memory_id: str) -> int:
        await free.wait()
        return await erase_memory(memory_id)

    monkeypatch.setattr(tenant.relay, "erase_memory", slow)
    asked = Forgetting(tenant.gate, tenant.vault, tenant.new_stroke(answer_s=0.05))
    receipt = (await asked.erase(ANA, EraseRequest(id=memory.id))).receipt
    assert (receipt.state, receipt.unreachable) == ("pending", (STILL_AT_WORK,))
    free.set()

    async def told() -> bool:
        rows = await tenant.store.readers.all("SELECT record FROM notices")
        return any(receipt.id.encode() in record and b"is finished" in record for (record,) in rows)

    await until(told, "the notice")
    assert [state for state, _ in await tenant.receipts()] == ["done"]
    assert found(tmp_path, ["qxsentinelzw"]) == {}


async def test_an_asker_that_goes_away_stops_nothing(tenant: Tenant, tmp_path: Path) -> None:
    """Whoever asked may be gone: the forgetting is carried out to its end."""
    memory = await tenant.save("The cellar is full of qxsentinelzx")
    await tenant.relay.caught_up()
    asking = asyncio.create_task(tenant.forgetting.erase(ANA, EraseRequest(id=memory.id)))

    async def begun() -> bool:
        return bool(await tenant.receipts())

    await until(begun, "the forgetting to begin")
    asking.cancel()

    async def done() -> bool:
        return [state for state, _ in await tenant.receipts()] == ["done"]

    await until(done, "the forgetting")
    assert found(tmp_path, ["qxsentinelzx"]) == {}
