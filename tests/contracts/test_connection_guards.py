"""One test per fault of nats-py 2.16 that the connection guards against: what a caller notices when it strikes."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from memory_contracts import FunctionError, connection
from memory_contracts.client import MemoryClient
from memory_contracts.connection import (
    BodyTooLarge,
    Bus,
    BusAway,
    BusClosed,
    BusTimeout,
    Message,
    NoResponders,
    NotPermitted,
)
from memory_contracts.credentials import Credentials
from memory_worker.bus import BusFiles, EmbeddedServer
from memory_worker.bus.credentials import Registry, read_registry, write_private
from memory_worker.bus.server import running_pid
from tests.system.harness import BusUnderTest, eventually, running_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[BusUnderTest]:
    """A server that a test may stop, freeze and reconfigure."""
    with running_server(tmp_path) as running:
        yield running


@pytest.fixture
async def caller(own_server: BusUnderTest) -> AsyncIterator[Bus]:
    async with own_server.bus("human-me") as bus:
        yield bus


def _kill(server: EmbeddedServer) -> None:
    pid = running_pid(server.files)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def test_refused_credentials_close_for_good(own_server: BusUnderTest, caller: Bus) -> None:
    """When a password is changed under a connection, `closed` is set at once: the process must not live on deaf."""
    files: BusFiles = own_server.server.files
    registry = read_registry(files)
    assert isinstance(registry, Registry)
    told: list[str] = []
    caller.on_close(lambda: told.append("closed"))
    conf = files.accounts_conf.read_text()
    hashed = next(user.password_hash for user in registry.users if user.name == "local.human-me")
    other = next(user.password_hash for user in registry.users if user.name == "local.human-bob")
    write_private(files.accounts_conf, conf.replace(hashed, other).encode())
    own_server.server.reload()
    await eventually(caller.closed.is_set, "the close")
    assert told == ["closed"]
    with pytest.raises(BusClosed):
        await caller.request("memory.v1.rpc.local.human.me.save", b"{}", within=1.0)


async def test_wrong_password_is_told_at_once(nats_server: BusUnderTest) -> None:
    """A first connect with a wrong password fails without being retried until the deadline."""
    wrong = msgspec.structs.replace(nats_server.credentials("human-me"), password="wrong")
    began = time.monotonic()
    with pytest.raises(BusClosed, match="refused the credentials"):
        await Bus.connect(wrong, name="wrong", wait=60.0)
    assert time.monotonic() - began < 30.0


async def test_no_server_is_told_after_the_wait() -> None:
    """A first connect to nowhere is retried for the time given and then fails with the address."""
    nowhere = Credentials(
        url="nats://127.0.0.1:1", tenant="local", route="human", principal="me", inbox_prefix="_INBOX.x"
    )
    with pytest.raises(BusAway, match=r"no bus at nats://127\.0\.0\.1:1"):
        await Bus.connect(nowhere, name="nowhere", wait=0.2)
    with pytest.raises(FunctionError) as caught:
        await MemoryClient.connect(nowhere, wait=0)
    assert caught.value.code == "unavailable"


async def test_dead_read_loop_is_revived(
    own_server: BusUnderTest, caller: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose reading ended unseen is made anew by the watchdog, and answers again."""
    monkeypatch.setattr(connection, "PROBE_INTERVAL_S", 0.05)
    monkeypatch.setattr(connection, "PROBE_TIMEOUT_S", 0.1)
    async with own_server.bus("human-bob") as bob:
        task = bob._nc._reading_task
        assert task is not None
        task.cancel()
        await eventually(lambda: bob.zombie_recoveries >= 1 and bob.connected, "the recovery")
        assert await eventually(lambda: bob.flushed(0.5), "an answer")


async def test_callback_that_raises_does_not_end_reading(nats_server: BusUnderTest) -> None:
    """An error inside a message handler is noted, and the next message still arrives."""
    heard: list[bytes] = []

    def handler(message: Message) -> None:
        heard.append(message.data)
        if message.data == b"1":
            raise RuntimeError("handler fault")

    async with nats_server.bus("worker") as worker:
        inbox = worker.new_inbox()
        await worker.subscribe(inbox, handler)
        await worker.publish(inbox, b"1")
        await worker.publish(inbox, b"2")
        await eventually(lambda: heard == [b"1", b"2"])
        assert await worker.flushed()
        assert any("handler fault" in error for error in worker.errors)


async def test_lost_connection_fails_what_is_in_flight(own_server: BusUnderTest, caller: Bus) -> None:
    """A request whose connection is lost fails at once, not after its timeout; the caller is told it is unknown."""
    async with own_server.bus("worker") as worker:
        taken = asyncio.Event()
        await worker.subscribe("memory.v1.rpc.*.*.*.>", lambda message: taken.set(), queue="memory")
        await worker.flushed()
        pending = asyncio.ensure_future(caller.request("memory.v1.rpc.local.human.me.save", b"{}", within=120.0))
        await taken.wait()
        _kill(own_server.server)
        with pytest.raises(BusAway, match="lost before the answer"):
            await asyncio.wait_for(pending, 20.0)


async def test_reconnects_and_serves_again(own_server: BusUnderTest, caller: Bus) -> None:
    """After the server came back, subscriptions and requests work on the same connection, and listeners are told."""
    told: list[int] = []
    caller.on_reconnect(lambda: told.append(1))
    _kill(own_server.server)
    await eventually(lambda: not own_server.server.running)
    assert not await caller.wait_connected(0.01)
    await own_server.server.revive()
    await eventually(lambda: caller.connected, "the reconnect")
    assert told == [1]
    with pytest.raises(NoResponders):
        await caller.request("memory.v1.rpc.local.human.me.save", b"{}", within=5.0)


async def test_forbidden_subject_fails_at_once(nats_server: BusUnderTest) -> None:
    """A publish the server refuses is told as such at once; the library would let it time out."""
    async with nats_server.bus("agent-coder") as agent:
        with pytest.raises(NotPermitted, match=r"local\.agent\.coder"):
            await agent.request("memory.v1.rpc.local.human.me.save", b"{}", within=120.0)


async def test_forbidden_subscription_is_told(nats_server: BusUnderTest) -> None:
    """Interest that the server refuses is told by name; the library would wait for ever for what never comes."""
    async with nats_server.bus("agent-coder") as agent:
        for subject in ("session.v1.local.get", "memory.v1.rpc.*.*.*.>"):
            refused = await agent.subscribe(subject, lambda _: None)
            with pytest.raises(NotPermitted, match=r"local\.agent\.coder"):
                await refused.confirmed()
        allowed = await agent.subscribe("memory.v1.event.local.>", lambda _: None)
        await allowed.confirmed()


async def test_too_large_is_refused_before_it_is_sent(nats_server: BusUnderTest) -> None:
    """A body over the bus limit is `too_large` with both sizes, and the connection stays up."""
    async with await MemoryClient.connect(nats_server.credentials("human-me")) as client:
        with pytest.raises(FunctionError) as caught:
            await client.save(text="x" * 2_000_000)
        assert (caught.value.code, caught.value.field) == ("too_large", "body")
        assert "1048576" in caught.value.message
        with pytest.raises(BodyTooLarge):
            await client.bus.publish("memory.v1.rpc.local.human.me.save", b"x" * 2_000_000)
        assert client.bus.connected


async def test_no_answer_is_told(nats_server: BusUnderTest) -> None:
    """Silence ends in a timeout and leaves nothing behind that a later answer could be confused with."""
    async with nats_server.bus("worker") as worker, nats_server.bus("human-me") as human:
        taken: list[Message] = []
        await worker.subscribe("memory.v1.rpc.*.*.*.>", taken.append, queue="memory")
        await worker.flushed()
        with pytest.raises(BusTimeout):
            await human.request("memory.v1.rpc.local.human.me.save", b'{"n": 1}', within=0.1)
        await worker.publish(taken[0].reply, b"late")
        later = asyncio.ensure_future(human.request("memory.v1.rpc.local.human.me.save", b'{"n": 2}', within=10.0))
        await eventually(lambda: len(taken) == 2)
        await worker.publish(taken[1].reply, b"answer to 2")
        assert (await later).data == b"answer to 2"


async def test_late_pong_does_not_kill_reading(own_server: BusUnderTest, caller: Bus) -> None:
    """A round trip that was given up while the server was frozen does no harm when its answer comes after all."""
    pid = running_pid(own_server.server.files)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the freeze")
        assert not await caller.flushed(0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert await eventually(lambda: caller.flushed(1.0), "the answer after the thaw")
    assert caller.reconnects == 0


async def test_close_is_quick_and_never_raises(own_server: BusUnderTest) -> None:
    """Closing with the server gone ends within its bound and raises nothing; closing twice is harmless."""
    bus = await Bus.connect(own_server.credentials("human-me"), name="closing")
    _kill(own_server.server)
    await eventually(lambda: not own_server.server.running)
    await asyncio.wait_for(bus.close(), 20.0)
    await asyncio.wait_for(bus.close(), 20.0)
    assert bus.closed.is_set()


async def test_replies_reach_only_their_request(nats_server: BusUnderTest) -> None:
    """A hundred requests at once each get their own answer."""
    async with nats_server.bus("worker") as worker, nats_server.bus("human-me") as human:
        tasks: set[asyncio.Task[Any]] = set()

        def echo(message: Message) -> None:
            tasks.add(asyncio.create_task(worker.publish(message.reply, message.data)))

        await worker.subscribe("memory.v1.rpc.*.*.*.>", echo, queue="memory")
        await worker.flushed()
        subject = "memory.v1.rpc.local.human.me.save"
        sent = [str(i).encode() for i in range(100)]
        got = await asyncio.gather(*(human.request(subject, body, within=10.0) for body in sent))
    assert [message.data for message in got] == sent
