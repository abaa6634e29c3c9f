"""A second store is noticed, and pulls neither lose a message nor leave one behind."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from memory_contracts import jetstream as js
from memory_contracts.connection import Bus, BusAway
from memory_contracts.jetstream import Outgoing, Puller
from memory_worker.bus import Service, StoreConflict, refuse_second_store
from memory_worker.bus.server import running_pid
from tests.conftest import BusAs
from tests.system.harness import BusUnderTest, eventually, running_server

TURN = "turn.v1.local.completed.s-1"


def service(bus: Bus, store: str, *tenants: str) -> Service:
    return Service(bus, version="0.0.1", store_id=store, tenants=tenants)


async def test_second_store_for_a_tenant_is_refused(bus_as: BusAs) -> None:
    """A worker with another store for a tenant that is served already does not start."""
    first = service(await bus_as("worker"), "store-a", "local", "acme")
    await first.start()
    second = service(await bus_as("worker"), "store-b", "acme", "other")
    with pytest.raises(StoreConflict, match="serves acme from another store"):
        await refuse_second_store(second, "store-b", ["acme", "other"])
    await first.stop()


async def test_same_store_or_other_tenants_are_welcome(bus_as: BusAs) -> None:
    """A worker of the same store, or for other tenants, starts beside the first."""
    first = service(await bus_as("worker"), "store-a", "local")
    await first.start()
    bus = await bus_as("worker")
    await refuse_second_store(service(bus, "store-a", "local"), "store-a", ["local"])
    await refuse_second_store(service(bus, "store-b", "acme"), "store-b", ["acme"])
    await first.stop()


async def test_statistics_count_functions_and_hold_no_texts(bus_as: BusAs) -> None:
    """STATS gives counts and times per function; of an error only its code."""
    bus = await bus_as("worker")
    told = service(bus, "store-a", "local")
    point = told.add("rule.set", "memory.v1.rpc.*.*.*.rule.set")
    point.count("ok", 0.002)
    point.count("conflict", 0.004)
    await told.start()
    admin = await bus_as("admin")
    stats = msgspec.json.decode((await admin.request("$SRV.STATS.memory", b"", within=5.0)).data)
    assert stats["type"] == "io.nats.micro.v1.stats_response"
    (only,) = stats["endpoints"]
    assert (only["name"], only["num_requests"], only["num_errors"], only["last_error"]) == (
        "rule-set",
        2,
        1,
        "conflict",
    )
    assert (only["processing_time"], only["average_processing_time"]) == (6_000_000, 3_000_000)
    ping = msgspec.json.decode((await admin.request("$SRV.PING", b"", within=5.0)).data)
    assert (ping["type"], ping["name"]) == ("io.nats.micro.v1.ping_response", "memory")
    await told.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[BusUnderTest]:
    with running_server(tmp_path) as running:
        yield running


@pytest.fixture
async def worker(own_server: BusUnderTest) -> AsyncIterator[Bus]:
    async with own_server.bus("worker") as bus:
        yield bus


@pytest.fixture
async def harness(own_server: BusUnderTest) -> AsyncIterator[Bus]:
    async with own_server.bus("system-harness") as bus:
        yield bus


async def puller_of(bus: Bus) -> Puller:
    puller = Puller(bus, "TURNS", "memory-worker")
    await puller.start()
    return puller


async def some(puller: Puller) -> list[bytes]:
    """What the next group that is not empty holds; each is acknowledged."""
    while True:
        group = await puller.group()
        for one in group:
            await puller.ack(one)
        if group:
            return [one.data for one in group]


async def test_stopped_pull_takes_no_message_with_it(worker: Bus, harness: Bus) -> None:
    """After a stop in the middle of a pull, the next message goes to the next reader at once, not to nobody."""
    first = await puller_of(worker)
    waiting = asyncio.ensure_future(first.group())

    async def pulls() -> bool:
        return bool((await js.call(worker, "CONSUMER.INFO.TURNS.memory-worker"))["num_waiting"])

    await eventually(pulls, "the pull at the server")
    assert await first.stop() == []
    assert await waiting == []
    second = await puller_of(worker)
    await js.publish(harness, Outgoing(TURN, b"{}", "id-1"))
    assert await some(second) == [b"{}"]
    info = await js.call(worker, "CONSUMER.INFO.TURNS.memory-worker")
    assert info["num_redelivered"] == 0
    await second.stop()


async def test_pull_goes_on_after_the_server_came_back(own_server: BusUnderTest, worker: Bus, harness: Bus) -> None:
    """A pull that was at the server when it died is made again, and the next message arrives."""
    puller = await puller_of(worker)
    taking = asyncio.ensure_future(some(puller))
    pid = running_pid(own_server.server.files)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not own_server.server.running)
    with pytest.raises(BusAway):
        await harness.request(TURN, b"{}", within=0.1)
    await own_server.server.revive()
    await eventually(lambda: harness.connected and worker.connected)
    await js.publish(harness, Outgoing(TURN, b"after", "id-2"))
    assert await asyncio.wait_for(taking, 20.0) == [b"after"]
    await puller.stop()


async def test_publish_that_was_acknowledged_survives_a_kill(
    own_server: BusUnderTest, worker: Bus, harness: Bus
) -> None:
    """Every acknowledged turn is there after the server was killed, and repeating one does not store it twice."""
    for number in range(20):
        await js.publish(harness, Outgoing(TURN, str(number).encode(), f"id-{number}"))
    pid = running_pid(own_server.server.files)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not own_server.server.running)
    await own_server.server.revive()
    await eventually(lambda: harness.connected and worker.connected)
    assert (await js.publish(harness, Outgoing(TURN, b"19", "id-19"))).duplicate
    assert (await js.call(worker, "STREAM.INFO.TURNS"))["state"]["messages"] == 20


async def test_one_known_id_refuses_a_batch_whole(harness: Bus, worker: Bus) -> None:
    """A batch with an id that is stored already stores nothing; without it, all of it."""
    await js.publish(harness, Outgoing(TURN, b"{}", "known"))
    batch = [Outgoing(TURN, b"{}", name) for name in ("new-1", "known", "new-2")]
    with pytest.raises(js.JetStreamError) as caught:
        await js.publish_batch(harness, batch)
    assert caught.value.err_code == js.DUPLICATE_IN_BATCH
    assert (await js.call(worker, "STREAM.INFO.TURNS"))["state"]["messages"] == 1
    ack = await js.publish_batch(harness, [batch[0], batch[2]])
    assert (ack.seq, ack.count) == (3, 2)
