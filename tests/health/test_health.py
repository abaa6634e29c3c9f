"""Health: what counts as started, alive and ready, and the HTTP that says so."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from memory_worker.health import (
    Health,
    HealthServer,
    Metrics,
    as_configured,
    bus_answers,
    commits,
    disk_has_room,
    probes,
    readers_follow,
)


async def fine() -> None:
    """A probe with nothing to say."""


class Ticks:
    """A monotonic clock moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


async def ask(port: int, request: bytes) -> tuple[int, bytes, bytes]:
    """Send raw bytes and give status, head and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), head, body


async def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
    """GET one path."""
    status, _, body = await ask(port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return status, body


Serve = Callable[[Health], "asyncio.Future[int]"]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., object]]:
    """Start a health server on a free port."""
    servers: list[HealthServer] = []

    async def start(health: Health, *, port: int = 0) -> int:
        server = HealthServer(health, Metrics("1").exposition)
        servers.append(server)
        return await server.start("127.0.0.1", port)

    yield start
    for server in servers:
        await server.stop()


async def test_startup_ready_stopping_fatal(serve: Callable[..., object]) -> None:
    """Not ready before the start and while stopping, yet alive; fatal is neither."""
    health = Health(ready={"bus": fine})
    port = await serve(health)  # type: ignore[misc]
    seen = []
    steps: list[Callable[[], None]] = [list, health.mark_started, health.mark_stopping]
    for step in (*steps, lambda: health.mark_fatal("bus closed")):
        step()
        seen.append([(await get(port, path))[0] for path in ("/startupz", "/readyz", "/livez")])
    assert seen == [[503, 503, 200], [200, 200, 200], [200, 503, 200], [200, 503, 503]]


async def test_a_bus_that_is_away_makes_not_ready_but_stays_alive(serve: Callable[..., object]) -> None:
    """Restarting does not bring a bus back, so liveness does not ask it."""
    ages: list[float | None] = [None]
    health = Health(ready={"bus": bus_answers(lambda: ages[0], 15)}, monotonic=(ticks := Ticks()))
    health.mark_started()
    port = await serve(health)  # type: ignore[misc]
    status, body = await get(port, "/readyz")
    assert (status, json.loads(body)) == (503, {"ok": False, "reasons": {"bus": "the bus has not answered yet"}})
    ages[0], ticks.at = 60, 2
    assert json.loads((await get(port, "/readyz"))[1])["reasons"] == {"bus": "the bus last answered 60 s ago"}
    assert (await get(port, "/livez"))[0] == 200
    ages[0], ticks.at = 1, 4
    assert (await get(port, "/readyz"))[0] == 200


async def test_every_failing_probe_is_named_and_a_hanging_one_is_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broken part hides no other, and no probe can hang the answer."""
    monkeypatch.setattr(probes, "PROBE_DEADLINE_S", 0.05)

    async def breaks() -> None:
        raise RuntimeError("my sister lives in Porto")

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def full() -> None:
        raise OSError(28, "No space left on device")

    async def drift() -> list[str]:
        return ["TURNS: deny_purge is false"]

    health = Health(
        ready={
            "fine": fine,
            "breaks": breaks,
            "hangs": hangs,
            "commit": commits(full),
            "streams": as_configured(drift),
            "readers": readers_follow(lambda: {"index": 3, "relay": 11, "files": 10}, lambda: 10),
        }
    )
    health.mark_started()
    assert (await health.ready()).reasons == {
        "breaks": "failed: RuntimeError",
        "hangs": "no answer within 0.05 s",
        "commit": "cannot commit: No space left on device",
        "streams": "TURNS: deny_purge is false",
        "readers": "relay lags 11 rows",
    }


async def test_a_loop_that_stood_still_is_not_alive() -> None:
    """The watchdog must not be fed by a process that does nothing."""
    ticks = Ticks()
    health = Health(monotonic=ticks)
    assert (await health.alive()).ok
    ticks.at = 11
    assert (await health.alive()).reasons == {"loop": "stood still for 11 s"}


async def test_probes_run_at_most_once_a_second() -> None:
    """Asking health often must not commit often."""
    runs = 0

    async def count() -> None:
        nonlocal runs
        runs += 1

    health = Health(ready={"count": count}, monotonic=(ticks := Ticks()))
    health.mark_started()
    await asyncio.gather(*(health.ready() for _ in range(20)))
    assert runs == 1
    ticks.at = 1.5
    await health.ready()
    assert runs == 2


async def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    """Free space is measured where the data lies."""
    assert await disk_has_room(tmp_path, lambda: 0)() is None
    assert "needed" in str(await disk_has_room(tmp_path, lambda: 10**12)())


async def test_the_server_only_reads(serve: Callable[..., object]) -> None:
    """Nothing can be changed or steered over HTTP, and broken requests get a plain refusal."""
    port = await serve(Health())  # type: ignore[misc]
    assert (await ask(port, b"POST /livez HTTP/1.1\r\n\r\n"))[0] == 405
    assert (await get(port, "/etc/passwd"))[0] == 404
    assert (await ask(port, b"\x16\x03\x01\r\n\r\n"))[0] == 400
    status, head, body = await ask(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert (status, body) == (200, b"")
    assert b"no-store" in head


async def test_a_rebound_host_name_is_refused(serve: Callable[..., object]) -> None:
    """A web page cannot read the local port through a name of its own."""
    port = await serve(Health())  # type: ignore[misc]
    hosts = ("localhost", f"127.0.0.1:{port}", "[::1]:9464", "evil.example", "evil.example:9464")
    assert [(await get(port, "/livez", host))[0] for host in hosts] == [200, 200, 200, 403, 403]


async def test_a_taken_port_falls_back_to_a_free_one(serve: Callable[..., object]) -> None:
    """Two workers on one machine both get a port."""
    first = await serve(Health())  # type: ignore[misc]
    second = await serve(Health(), port=first)  # type: ignore[misc]
    assert first != second
    assert (await get(second, "/livez"))[0] == 200


async def test_a_client_that_says_nothing_does_not_block_others(serve: Callable[..., object]) -> None:
    """An idle connection costs nobody else an answer."""
    port = await serve(Health())  # type: ignore[misc]
    _, idle = await asyncio.open_connection("127.0.0.1", port)
    idle.write(b"GET /livez")
    assert (await get(port, "/livez"))[0] == 200
    idle.close()
