"""Faults of the machine around a worker: disk, clock, bus and credentials; each is named, heals, and loses nothing."""

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_contracts import jetstream
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus, BusError
from memory_contracts.credentials import load_credentials
from memory_contracts.errors import FunctionError
from memory_contracts.subjects import TURN_CONSUMER
from memory_worker.app import EXIT_BUS_CLOSED
from tests.cli.breaking import Breakable, OwnBus, fill, small_disk
from tests.cli.conftest import START_S, Running, Start, until
from tests.cli.test_degradation import health, texts

TURN = "My sister Ana lives in Porto."


def events(running: Running) -> int:
    """Triggers that stand in the shared event stream."""

    async def count() -> int:
        async with await Bus.connect(
            load_credentials(running.data_dir / "credentials" / "admin.json"), name="test"
        ) as admin:
            info = await jetstream.call(admin, "STREAM.INFO.MEMORY-EVENTS-local")
            return int(info["state"]["messages"])

    with contextlib.suppress(BusError):
        return asyncio.run(count())
    return 0


def test_a_really_full_disk_heals_with_bus_and_triggers(tmp_path: Path) -> None:
    """With no byte left writes are refused by name and reads go on; with room again turns and triggers go on too."""
    with small_disk(tmp_path / "disk", 96) as disk:
        if disk is None:
            return  # this process may not mount; the bound on file sizes stands for the disk elsewhere
        running = Running(disk / "data", "--no-consolidate")
        try:
            running.json("save", "A walnut before", "--pin")
            until(lambda: events(running))
            ballast = fill(disk)
            assert running.error("save", "Too much", code=4)["code"] == "storage_full"
            assert len(running.json("recall", "walnut")["memories"]) == 1
            _, reasons = until(lambda: (found := health(running))[0] == 503 and found)
            assert reasons["commit"] == "cannot commit: storage_full"
            assert health(running, "livez")[0] == 200
            # The bus meets the full disk as well; it says nothing, and takes nothing more until it is restarted.
            running.error("turn", TURN, "--timeout", "1", code=4)
            ballast.unlink()
            until(lambda: "embedded.server_restarted" in running.log.read_text(), 30)
            until(lambda: _succeeds(running, "save", "A walnut after", "--key", "after"), 30)
            until(lambda: _succeeds(running, "turn", TURN), 30)
            until(lambda: events(running) >= 3, 30)
            assert texts(running) >= {"A walnut before", "A walnut after", "My sister Ana lives in Porto"}
            until(lambda: health(running)[0] == 200, 30)
        finally:
            running.stop()


def _succeeds(running: Running, *args: str) -> bool:
    return running.invoke(*args, "--json", "--timeout", "5", code=range(100)).exit_code == 0


@pytest.fixture
def breakable(tmp_path: Path) -> Iterator[Breakable]:
    """A worker whose clock and stores can be broken."""
    running = Breakable(tmp_path / "data", "--no-consolidate")
    yield running
    assert running.stop() == 0


def test_a_file_system_that_turns_read_only(breakable: Breakable) -> None:
    """Writes are refused by name, reads and recall go on, and nothing needs a restart when it is mended."""
    breakable.json("save", "A walnut before")
    breakable.tell("readonly")
    refused = until(
        lambda: (found := breakable.invoke("save", "Too late", "--json", code=range(100))).exit_code and found
    )
    error = json.loads(refused.stderr)
    assert (error["code"], error["message"]) == (
        "unavailable",
        "the store cannot be written; nothing was changed",
    )
    assert len(breakable.json("recall", "walnut")["memories"]) == 1
    _, reasons = until(lambda: (found := health(breakable))[0] == 503 and found)
    assert reasons["commit"] == "cannot commit: unavailable"
    assert health(breakable, "livez")[0] == 200
    breakable.json("turn", TURN, "--no-wait")
    breakable.tell("writable")
    until(lambda: "My sister Ana lives in Porto" in texts(breakable), 30)
    breakable.json("save", "A walnut after")
    assert {"A walnut before", "A walnut after"} <= texts(breakable)
    until(lambda: health(breakable)[0] == 200)


def test_a_clock_that_jumps_years(breakable: Breakable) -> None:
    """A year ahead and a year back: requests, turns, triggers and recall go on, and what is pinned stays."""
    expected = set()
    for number, jump in enumerate((0, 366 * 86_400, -366 * 86_400, 0)):
        breakable.tell(f"clock {jump}")
        breakable.json("save", f"Walnut number {number}", "--pin", "--key", f"key-{number}", speaks_as="human-me")
        again = breakable.as_person("save", f"Walnut number {number}", "--pin", "--key", f"key-{number}")
        assert again["outcome"] == "created"
        breakable.json("turn", f"Remember that box {number} holds hazelnuts.")
        expected.add(f"Walnut number {number}")
        assert expected <= texts(breakable)
        assert f"Walnut number {number}" in {
            one["memory"]["text"] for one in breakable.json("recall", f"walnut number {number}")["memories"]
        }
        before = number + 1
        until(lambda before=before: events(breakable) >= 2 * before)
        assert health(breakable, "livez")[0] == 200


def test_a_deleted_consumer_is_made_again(start: Start, tmp_path: Path) -> None:
    """Without its consumer intake stands still, visibly; then it is there again and no turn is lost."""
    running = start(tmp_path / "data", "--no-consolidate")

    async def delete() -> None:
        async with await Bus.connect(
            load_credentials(running.data_dir / "credentials" / "admin.json"), name="test"
        ) as admin:
            await jetstream.call(admin, f"CONSUMER.DELETE.TURNS.{TURN_CONSUMER}")

    asyncio.run(delete())
    running.json("turn", TURN, "--no-wait")
    until(lambda: "My sister Ana lives in Porto" in texts(running), 40)
    until(lambda: health(running)[0] == 200, 20)


def test_sigterm_under_load_leaves_nothing_unanswered(start: Start, tmp_path: Path) -> None:
    """Every request that reached the worker before it stopped is answered, and what it acknowledged is kept."""
    running = start(tmp_path / "data", "--no-consolidate")
    credentials = running.data_dir / "credentials" / "human-me.json"
    acknowledged: set[str] = set()
    answers: list[str] = []

    async def saver(client: MemoryClient, number: int) -> None:
        count = 0
        while True:
            count += 1
            text = f"Saver {number} text {count}"
            try:
                await client.save(text=text)
            except FunctionError as error:
                answers.append(error.message)
                return
            acknowledged.add(text)
            if len(acknowledged) == 100:
                running.process.send_signal(signal.SIGTERM)

    async def load() -> None:
        clients = [await MemoryClient.connect(credentials) for _ in range(8)]
        savers = [asyncio.create_task(saver(client, number)) for number, client in enumerate(clients)]
        await asyncio.wait_for(asyncio.gather(*savers), START_S)
        for client in clients:
            await client.close()

    asyncio.run(load())
    assert running.process.wait(START_S) == 0
    assert not [message for message in answers if "in time" in message], answers
    again = start(tmp_path / "data", "--no-consolidate")
    assert acknowledged <= texts(again)


# A bus of the operator's own


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnBus]:
    """A running server with its streams."""
    bus = OwnBus(tmp_path / "bus")
    bus.start()
    bus.make_streams()
    yield bus
    bus.stop()


def served(process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    """Wait until a worker is ready."""
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ready"] is True
    return process


def ended(process: "subprocess.Popen[bytes]", number: int = signal.SIGTERM) -> int:
    """Stop a worker and give its exit code."""
    if process.poll() is None:
        process.send_signal(number)
    code = process.wait(START_S)
    assert process.stdout is not None
    process.stdout.close()
    return code


def test_a_bus_that_was_gone_loses_no_turn_and_no_trigger(own: OwnBus, tmp_path: Path) -> None:
    """Turns on the bus, saves and hand edits made while it was gone: all is read and published when it is back."""
    worker = served(own.worker(tmp_path / "worker", tmp_path / "log"))
    try:
        own.run("save", "Said before")
        folder = tmp_path / "worker" / "local" / "banks" / "main" / "memories"
        until(lambda: folder.is_dir() and list(folder.glob("*.md")))
        worker.send_signal(signal.SIGSTOP)  # so that the turn is on the bus and not yet taken when that goes
        own.run("turn", TURN, "--no-wait")
        own.stop(kill=True)
        worker.send_signal(signal.SIGCONT)
        (folder / "by-hand.md").write_text("Written by hand while the bus was gone.\n")
        until(lambda: "revision: 1" in (folder / "by-hand.md").read_text())
        own.start()

        def listed() -> set[str]:
            found = own.run("list", "--json", code=(0, 4))  # while the worker comes back, nobody answers
            return {memory["text"] for memory in json.loads(found)["memories"]} if found.startswith('{"mem') else set()

        expected = {"Said before", "Written by hand while the bus was gone.", "My sister Ana lives in Porto"}
        until(lambda: listed() == expected, 40)

        async def triggers() -> int:
            credentials = load_credentials(own.home / "credentials" / "admin.json")
            async with await Bus.connect(credentials, name="test") as admin:
                info = await jetstream.call(
                    admin,
                    "STREAM.INFO.MEMORY-EVENTS-local",
                    {"subjects_filter": "memory.v1.event.local.item-changed.>"},
                )
                return len(info["state"].get("subjects", {}))

        until(lambda: asyncio.run(triggers()) == len(expected), 40)
    finally:
        assert ended(worker) == 0


def test_a_worker_whose_password_was_changed_ends_with_a_clear_word(own: OwnBus, tmp_path: Path) -> None:
    """The bus closes it for good: it says so, leaves for its supervisor, and serves again with the new file."""
    data, log = tmp_path / "worker", tmp_path / "log"
    worker = served(own.worker(data, log))
    own.run("save", "Said before")
    own.rotate("worker")
    assert worker.wait(START_S) == EXIT_BUS_CLOSED
    ended(worker)
    assert "bus.closed" in log.read_text()
    worker = served(own.worker(data, log))
    try:
        own.run("save", "Said after")
        found = json.loads(own.run("list", "--json"))
        assert {memory["text"] for memory in found["memories"]} == {"Said before", "Said after"}
    finally:
        assert ended(worker) == 0
