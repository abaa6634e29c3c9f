"""What happens when something breaks: nothing acknowledged is lost, the fault is named, and it heals by itself."""

import asyncio
import base64
import contextlib
import json
import os
import resource
import shutil
import signal
import stat
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from memory_contracts import jetstream
from memory_contracts.connection import Bus
from memory_contracts.credentials import load_credentials
from tests.cli.conftest import Running, Start, until


def health(running: Running, what: str = "readyz") -> tuple[int, dict[str, str]]:
    """Status and reasons of a health question."""
    url = f"http://127.0.0.1:{running.ready['http_port']}/{what}"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)["reasons"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["reasons"]


def texts(running: Running) -> set[str]:
    """Every live text of the main bank."""
    lines = running.invoke("list", "--all", "--json").stdout.splitlines()
    return {memory["text"] for line in lines for memory in json.loads(line)["memories"]}


def server(running: Running) -> psutil.Process:
    """The embedded nats-server."""
    for child in psutil.Process(running.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if Path(child.cmdline()[0]).name == "nats-server":
                return child
    raise AssertionError("no server")


@pytest.fixture
def worker(start: Start, tmp_path: Path) -> Running:
    """A worker of this test alone."""
    return start(tmp_path / "data", "--no-consolidate")


def test_a_disk_that_refuses_more_refuses_writes_and_heals_without_a_restart(worker: Running) -> None:
    """Writes are refused with a typed error, reads and recall go on, and room on the disk is all it takes."""
    for number in range(3):
        worker.json("save", f"Walnut number {number}")
    size = (worker.data_dir / "local" / "memory.db-wal").stat().st_size
    # The process may make no file longer than its write-ahead log is now: the next write meets a full disk.
    resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    refused = worker.error("save", "Too much", code=4)
    assert refused["code"] in ("storage_full", "unavailable")
    assert worker.json("list")["total"] == 3
    assert worker.json("recall", "walnut")["memories"] != []
    _, reasons = until(lambda: (found := health(worker))[0] == 503 and found)
    assert "commit" in reasons
    assert health(worker, "livez")[0] == 200
    resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    worker.json("save", "After")
    assert texts(worker) == {"Walnut number 0", "Walnut number 1", "Walnut number 2", "After"}
    until(lambda: health(worker)[0] == 200)


def test_a_server_that_is_killed_is_started_again(worker: Running) -> None:
    """The bus comes back on its own port with its streams, and everything goes on without a restart."""
    worker.json("save", "Before")
    first = server(worker)
    first.kill()
    until(lambda: _works(worker, "During or after"), 30)
    assert texts(worker) == {"Before", "During or after"}
    assert "Porto" in worker.text("turn", "My sister Ana lives in Porto.", "--timeout", "20")
    until(lambda: health(worker)[0] == 200, 30)
    assert server(worker).pid != first.pid


def _works(running: Running, text: str) -> bool:
    """Whether a save is acknowledged; repeated with one key, it has one effect."""
    with contextlib.suppress(AssertionError):
        running.json("save", text, "--key", "the-same", "--timeout", "3")
        return True
    return False


def test_a_frozen_server_is_noticed_and_nothing_is_lost(worker: Running) -> None:
    """A server that holds the connection and answers nothing makes the worker not ready, though still alive."""
    worker.json("save", "Before")
    frozen = server(worker)
    frozen.send_signal(signal.SIGSTOP)
    try:
        until(lambda: "bus" in health(worker)[1], 40)
        assert health(worker, "livez")[0] == 200
    finally:
        frozen.send_signal(signal.SIGCONT)
    until(lambda: health(worker)[0] == 200, 40)
    worker.json("save", "After")
    assert texts(worker) == {"Before", "After"}


def test_streams_and_consumer_that_were_deleted_are_made_again(worker: Running) -> None:
    """An event stream that vanished is filled again from the journal; turns are taken in again."""
    worker.json("save", "Published before")

    async def delete_all() -> None:
        admin = await Bus.connect(load_credentials(worker.data_dir / "credentials" / "admin.json"), name="test")
        for name in ("TURNS", "MEMORY-EVENTS-local", "MEMORY-PRIVATE-local"):
            await jetstream.call(admin, f"STREAM.DELETE.{name}")
        await admin.close()

    async def events() -> int:
        admin = await Bus.connect(load_credentials(worker.data_dir / "credentials" / "admin.json"), name="test")
        try:
            info = await jetstream.call(admin, "STREAM.INFO.MEMORY-EVENTS-local")
            return int(info["state"]["messages"])
        except jetstream.JetStreamError:
            return 0
        finally:
            await admin.close()

    before = until(lambda: asyncio.run(events()))
    asyncio.run(delete_all())
    until(lambda: asyncio.run(events()) >= before, 40)
    until(lambda: health(worker)[0] == 200, 20)
    assert "Porto" in worker.text("turn", "My sister Ana lives in Porto.", "--timeout", "20")


def test_the_servers_store_can_be_lost(start: Start, tmp_path: Path) -> None:
    """The journal is the truth: with the bus's whole store gone, triggers are published again."""
    running = start(tmp_path / "data", "--no-consolidate")
    running.json("save", "Kept")
    running.stop()
    shutil.rmtree(running.data_dir / "nats" / "store")
    running = start(tmp_path / "data", "--no-consolidate")
    assert texts(running) == {"Kept"}
    event = until(lambda: _first_event(running), 20)
    assert "Kept" in event


def _first_event(running: Running) -> str:
    async def read() -> str:
        admin = await Bus.connect(load_credentials(running.data_dir / "credentials" / "admin.json"), name="test")
        try:
            found = await jetstream.call(
                admin,
                "STREAM.MSG.GET.MEMORY-EVENTS-local",
                {"next_by_subj": "memory.v1.event.local.item-changed.>", "seq": 1},
            )
            return base64.b64decode(found["message"]["data"]).decode()
        except jetstream.JetStreamError:
            return ""
        finally:
            await admin.close()

    return asyncio.run(read())


def test_a_second_request_to_stop_ends_it_at_once(worker: Running) -> None:
    """Who asks twice does not wait, and what was acknowledged is there all the same."""
    worker.json("save", "Kept")
    frozen = server(worker)
    frozen.send_signal(signal.SIGSTOP)
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: health_or_gone(worker) != 200)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(10) == 130
    frozen.send_signal(signal.SIGCONT)


def health_or_gone(running: Running) -> int:
    """The status of readiness, 0 when nobody answers."""
    try:
        return health(running)[0]
    except OSError:
        return 0


def test_nothing_leaves_the_machine(worker: Running) -> None:
    """With the embedded bus and no router, every connection of every process is on loopback."""
    worker.json("replay", str(Path(__file__).parents[2] / "examples" / "turns.jsonl"))
    worker.json("recall", "walnuts", "--bank", "example")
    tree = [psutil.Process(worker.process.pid), *psutil.Process(worker.process.pid).children(recursive=True)]
    seen = [connection for process in tree for connection in process.net_connections(kind="inet")]
    assert seen
    for connection in seen:
        for end in (connection.laddr, connection.raddr):
            assert not end or end.ip in ("127.0.0.1", "::1"), connection


def test_everything_on_disk_is_the_owners_alone(worker: Running) -> None:
    """Other users of the machine cannot even look into the data directory, nor read a secret if it were opened."""
    worker.json("save", "Private")
    assert stat.S_IMODE(os.stat(worker.data_dir).st_mode) == 0o700
    for path in worker.data_dir.rglob("*"):
        if path.suffix in (".json", ".key", ".db") or path.name.endswith("-wal"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
