"""Ways to break a running worker: its clock, its disk, a bus of the operator's own."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path

from click.testing import CliRunner

from memory_worker.bus import server_binary
from memory_worker.bus.server import free_port
from memory_worker.cli import memory
from tests.benchmarks.breakable import CONTROL_ENV
from tests.cli.conftest import CLEAN, START_S, Running, environment, until

DEPLOY = Path(__file__).parents[2] / "deploy"


class Breakable(Running):
    """A `memory up` whose clock and stores can be broken."""

    MODULE = "tests.benchmarks.breakable"

    def __init__(self, data_dir: Path, *flags: str, **more: str) -> None:
        self.control = data_dir.parent / f"{data_dir.name}.control"
        os.mkfifo(self.control)
        super().__init__(data_dir, *flags, **{CONTROL_ENV: str(self.control)}, **more)

    def tell(self, line: str) -> None:
        """Have something broken or mended."""
        with self.control.open("w") as pipe:
            pipe.write(f"{line}\n")


@contextlib.contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path | None]:
    """A file system of that size, gone afterwards; None where this process may not mount one."""
    folder.mkdir(parents=True)
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    if mount is None or subprocess.run([mount, *options], capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=True)


def fill(folder: Path) -> Path:
    """Write a file until the disk takes no more byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 4_096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size):
                    pass
    return ballast


class OwnBus:
    """A server that an operator runs as the guide says, and a worker on it."""

    def __init__(self, home: Path, layout: str = "accounts") -> None:
        self.home = home
        self.layout = layout
        self.port = free_port(0)
        self.url = f"nats://127.0.0.1:{self.port}"
        self.run("credentials", "init", "--url", self.url, "--layout", layout)
        conf = (DEPLOY / "compose-nats.conf").read_text()
        conf = conf.replace("0.0.0.0:4222", f"127.0.0.1:{self.port}").replace("127.0.0.1:8222", "127.0.0.1:-1")
        (home / "nats" / "server.conf").write_text(conf.replace("/streams", str(home / "streams")))
        self.command = [str(server_binary()), "-c", str(home / "nats" / "server.conf")]
        self.server: subprocess.Popen[bytes] | None = None

    def run(self, *args: str, code: int | Container[int] = 0, **more: str) -> str:
        """Run one command of the guide; its exit code must be `code`, or one of them."""
        env: dict[str, str | None] = {name: None for name in os.environ if name.startswith(CLEAN)}
        result = CliRunner().invoke(memory, list(args), env={**env, **environment(self.home, **more)})
        allowed = (code,) if isinstance(code, int) else code
        assert result.exit_code in allowed, (args, result.output, result.exception)
        return result.stdout

    def start(self) -> None:
        """Start the server, and wait until it lets the admin in."""
        self.server = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(self._admin_gets_in, START_S)
        except BaseException:
            self.stop(kill=True)
            raise

    def stop(self, *, kill: bool = False) -> None:
        """End the server."""
        if self.server is not None:
            self.server.kill() if kill else self.server.terminate()
            self.server.wait(START_S)
            self.server = None

    def _admin_gets_in(self) -> bool:
        admin = str(self.home / "credentials" / "admin.json")
        env = environment(self.home, MEMORY_CREDENTIALS=admin)
        found = CliRunner().invoke(memory, ["admin", "streams", "--check"], env=env)
        return found.exit_code in (0, 11)  # it answers, with streams or without

    def make_streams(self) -> None:
        """What an admin does once."""
        self.run("admin", "streams", MEMORY_CREDENTIALS=str(self.home / "credentials" / "admin.json"))

    def rotate(self, name: str) -> None:
        """Give one identity a new password and have the server read it."""
        (self.home / "credentials" / f"{name}.json").unlink()
        self.run("credentials", "init", "--url", self.url, "--layout", self.layout)
        assert self.server is not None
        self.server.send_signal(1)

    def worker(self, data: Path, log: Path, **settings: str) -> "subprocess.Popen[bytes]":
        """Start a worker; its first line of output says that it is ready."""
        credentials = str(self.home / "credentials" / "worker.json")
        env = environment(data, NATS_URL=self.url, MEMORY_CREDENTIALS=credentials, **settings)
        with log.open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "memory_worker.cli", "worker", "--http-port", "0", "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=env,
            )
