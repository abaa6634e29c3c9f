"""The embedded server: on loopback, one per directory, gone with its parent, never in the way of a stranger."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import psutil
import pytest

from memory_contracts import jetstream as js
from memory_contracts.connection import Bus, BusClosed
from memory_contracts.credentials import load_credentials
from memory_contracts.jetstream import JetStreamError
from memory_worker.bus import BusFiles, EmbeddedServer, ServerError, server_binary
from memory_worker.bus.server import running_pid
from tests.system.harness import eventually

PARENT = """
import asyncio, sys
from memory_worker.bus import EmbeddedServer
async def main():
    server = await EmbeddedServer.start(sys.argv[1], port=0)
    print(server.url, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture
async def started(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    server = await EmbeddedServer.start(tmp_path, port=0)
    yield server
    await server.stop()


def start_parent(data_dir: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that runs a server; gives it and the server's process id."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(data_dir)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith("nats://127.0.0.1:")
    pid = running_pid(BusFiles(data_dir))
    assert pid is not None
    return parent, pid


def spawn(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command)


def end(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout is not None
    parent.stdout.close()
    parent.kill()
    parent.wait()


async def test_listens_on_loopback_only(started: EmbeddedServer) -> None:
    """The server listens on 127.0.0.1 and nowhere else, with JetStream synced before it acknowledges."""
    pid = running_pid(started.files)
    listening = [one for one in psutil.Process(pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert [(one.laddr.ip, one.laddr.port) for one in listening] == [("127.0.0.1", started.port)]
    assert "sync_interval: always" in started.files.server_conf.read_text()


async def test_disk_is_bounded(tmp_path: Path) -> None:
    """The streams may use no more disk than is set; a stream that would not fit is refused when it is made."""
    server = await EmbeddedServer.start(tmp_path, port=0, store_max_mb=64)
    try:
        async with await Bus.connect(load_credentials(server.files.credentials_of("admin")), name="admin") as admin:
            config = {"name": "X", "subjects": ["x"], "storage": "file", "max_bytes": 65 * 1024 * 1024}
            with pytest.raises(JetStreamError, match="insufficient storage"):
                await js.call(admin, "STREAM.CREATE.X", config)
            await js.call(admin, "STREAM.CREATE.X", {**config, "max_bytes": 63 * 1024 * 1024})
    finally:
        await server.stop()


async def test_needs_credentials(started: EmbeddedServer) -> None:
    """Without credentials nobody gets in."""
    nobody = msgspec.structs.replace(
        load_credentials(started.files.credentials_of("human-me")), user=None, password=None
    )
    with pytest.raises(BusClosed):
        await Bus.connect(nobody, name="nobody", wait=0)


async def test_taken_port_falls_back(tmp_path: Path) -> None:
    """A port that somebody listens on is left to him; the credentials name the port that was taken instead."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        server = await EmbeddedServer.start(tmp_path, port=taken)
    try:
        assert server.port != taken
        assert load_credentials(server.files.credentials_of("human-me")).url == server.url
    finally:
        await server.stop()


async def test_one_server_a_directory(started: EmbeddedServer) -> None:
    """A second server on the same directory is refused before anything is started, and the first goes on."""
    with pytest.raises(ServerError, match="another worker serves"):
        await EmbeddedServer.start(started.files.data_dir, port=0)
    assert started.running
    async with await Bus.connect(load_credentials(started.files.credentials_of("worker")), name="still") as bus:
        assert await bus.flushed()


async def test_stop_ends_the_server(tmp_path: Path) -> None:
    """After a stop the process is gone and the directory can be served again."""
    server = await EmbeddedServer.start(tmp_path, port=0)
    pid = running_pid(server.files)
    assert pid is not None
    await server.stop()
    assert not psutil.pid_exists(pid)
    again = await EmbeddedServer.start(tmp_path, port=0)
    await again.stop()


async def test_dies_with_its_parent(tmp_path: Path) -> None:
    """When the worker is killed, its server ends, and the next start finds the directory free."""
    parent, pid = await asyncio.to_thread(start_parent, tmp_path)
    try:
        parent.send_signal(signal.SIGKILL)
        await eventually(lambda: not psutil.pid_exists(pid), "the server's end")
    finally:
        end(parent)
    server = await EmbeddedServer.start(tmp_path, port=0)
    await server.stop()


async def test_dies_with_its_supervisor(tmp_path: Path) -> None:
    """When the process that watches over the server is killed, the server does not outlive it."""
    parent, pid = await asyncio.to_thread(start_parent, tmp_path)
    try:
        psutil.Process(pid).parent().kill()  # type: ignore[union-attr]
        await eventually(lambda: not psutil.pid_exists(pid), "the server's end")
    finally:
        end(parent)


async def test_orphan_of_ours_is_stopped_first(tmp_path: Path) -> None:
    """A server left behind on this directory is verified to be ours and stopped before a new one starts."""
    server = await EmbeddedServer.start(tmp_path, port=0)
    await server.stop()
    orphan = spawn(str(server_binary()), "-c", str(server.files.server_conf))
    try:
        await eventually(lambda: running_pid(server.files) == orphan.pid)
        again = await EmbeddedServer.start(tmp_path, port=0)
        assert orphan.wait() is not None
        assert running_pid(server.files) != orphan.pid
        await again.stop()
    finally:
        orphan.kill()
        orphan.wait()


async def test_stranger_is_not_touched(tmp_path: Path) -> None:
    """A process id that now belongs to another program is not signalled."""
    files = BusFiles(tmp_path)
    files.make()
    stranger = spawn(sys.executable, "-c", "import time; time.sleep(60)")
    try:
        files.pid.write_text(str(stranger.pid))
        server = await EmbeddedServer.start(tmp_path, port=0)
        assert stranger.poll() is None
        await server.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_broken_configuration_shows_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot start fails the start, and leaves no lock behind."""
    monkeypatch.setattr("memory_worker.bus.server._CONF", "port: {port}\nnonsense {{{{\npid_file: {pid}\n")
    with pytest.raises(ServerError, match="ended at once"):
        await EmbeddedServer.start(tmp_path, port=0)
    monkeypatch.undo()
    server = await EmbeddedServer.start(tmp_path, port=0)
    await server.stop()


async def test_revives_on_the_same_port(started: EmbeddedServer) -> None:
    """A server that was killed starts again where it was; connected clients come back by themselves."""
    async with await Bus.connect(load_credentials(started.files.credentials_of("worker")), name="waits") as bus:
        pid = running_pid(started.files)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not started.running)
        port = started.port
        await started.revive()
        assert started.port == port
        assert await bus.wait_connected(10.0)
