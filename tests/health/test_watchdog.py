"""The service manager is told the truth."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_worker.health import Health, Systemd


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """A notify socket as the service manager opens it."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(str(tmp_path / "notify"))
    channel.settimeout(5)
    yield channel
    channel.close()


def environ(manager: socket.socket, **more: str) -> dict[str, str]:
    """What the service manager gives its service."""
    return {"NOTIFY_SOCKET": manager.getsockname(), **more}


def test_ready_and_stopping_are_told(manager: socket.socket) -> None:
    """The unit becomes active when the worker serves, and is known to be stopping."""
    systemd = Systemd(environ(manager))
    systemd.ready("serves 1 tenant")
    assert manager.recv(1000) == b"READY=1\nSTATUS=serves 1 tenant"
    systemd.reloading()
    assert manager.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    systemd.stopping()
    assert manager.recv(1000) == b"STOPPING=1"


def _drain(manager: socket.socket) -> None:
    """Read off what was sent, until nothing more comes."""
    while True:
        manager.recv(1000)


async def test_the_watchdog_is_fed_only_while_the_worker_is_alive(manager: socket.socket) -> None:
    """A worker that cannot commit any more is restarted, although its loop still turns."""
    broken: list[str | None] = [None]

    async def commit() -> str | None:
        return broken[0]

    ticks = [0.0]
    health = Health(alive={"commit": commit}, monotonic=lambda: ticks[0])
    systemd = Systemd(environ(manager, WATCHDOG_USEC="30000", WATCHDOG_PID=str(os.getpid())))
    feeding = asyncio.create_task(systemd.keep_alive(health))
    assert await asyncio.to_thread(manager.recv, 1000) == b"WATCHDOG=1"
    broken[0], ticks[0] = "cannot commit", 2.0
    assert not (await health.alive()).ok
    manager.settimeout(0.2)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(_drain, manager)
    feeding.cancel()


def test_without_a_service_manager_nothing_happens() -> None:
    """The same program runs at a terminal."""
    systemd = Systemd({})
    systemd.ready("x")
    assert systemd.watchdog_s is None


def test_a_watchdog_meant_for_another_process_is_not_ours() -> None:
    """A child that inherits the environment must not feed its parent's watchdog."""
    assert Systemd({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_s is None
    assert Systemd({"WATCHDOG_USEC": "1000000"}).watchdog_s == 1.0
