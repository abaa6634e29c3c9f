"""Serves `/livez`, `/readyz`, `/startupz` and `/metrics` over HTTP on a private address."""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable

import msgspec

from memory_worker.health.probes import Health, Verdict

REQUEST_MAX_BYTES = 8_192
"""Longest request head; anything longer is dropped."""
REQUEST_DEADLINE_S = 5.0
"""Time a client has to send its request and take the answer."""
CONNECTIONS_MAX = 32
"""Connections served at once; more are closed."""

_PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
_PHRASES[503] = "Service Unavailable"


class HealthServer:
    """A read-only HTTP server; it offers nothing that changes anything."""

    def __init__(self, health: Health, exposition: Callable[[], bytes]) -> None:
        self._health = health
        self._exposition = exposition
        self._server: asyncio.Server | None = None
        self._host = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen on `host`; when `port` is taken, on a free one. Give the port."""
        self._host = host
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=REQUEST_MAX_BYTES)
        except OSError:
            if port == 0:
                raise
            self._server = await asyncio.start_server(self._accept, host, 0, limit=REQUEST_MAX_BYTES)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening and drop open connections."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_DEADLINE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head)
                writer.write(_response(status, kind, body, head.startswith(b"HEAD ")))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is slow, gone or talks too much gets no answer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, head: bytes) -> tuple[int, str, bytes]:
        lines = head.decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _text(400, "not an HTTP/1 request")
        if parts[0] not in ("GET", "HEAD"):
            return _text(405, "only GET and HEAD")
        if not self._host_is_ours(lines[1:]):
            return _text(403, "asked under a foreign host name")
        match parts[1].split("?", 1)[0]:
            case "/livez":
                return _verdict(await self._health.alive())
            case "/readyz":
                return _verdict(await self._health.ready())
            case "/startupz":
                return _verdict(self._health.started())
            case "/metrics":
                return 200, "text/plain; version=0.0.4; charset=utf-8", self._exposition()
        return _text(404, "there are /livez, /readyz, /startupz and /metrics")

    def _host_is_ours(self, headers: list[str]) -> bool:
        """A web page that rebinds its own name to this address must not read it: only addresses and `localhost`."""
        for line in headers:
            name, _, value = line.partition(":")
            if name.strip().lower() != "host":
                continue
            host = value.strip().rsplit(":", 1)[0] if not value.strip().endswith("]") else value.strip()
            if host in ("localhost", self._host):
                return True
            try:
                ipaddress.ip_address(host.strip("[]"))
            except ValueError:
                # Inside a container network the scraper uses the service's name; loopback never needs one.
                return not _loopback(self._host)
            return True
        return True


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _verdict(verdict: Verdict) -> tuple[int, str, bytes]:
    return (200 if verdict.ok else 503), "application/json", msgspec.json.encode(verdict)


def _text(status: int, text: str) -> tuple[int, str, bytes]:
    return status, "text/plain; charset=utf-8", text.encode()


def _response(status: int, kind: str, body: bytes, head_only: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head_only else body)
