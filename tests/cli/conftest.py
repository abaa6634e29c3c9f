"""A really running `memory up`, and the command line as a person, a program or a harness uses it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from memory_worker.cli import memory

START_S = 30.0
"""Longest wait for a worker to be ready."""
CLEAN = ("MEMORY_", "NATS_")
"""Variables with these prefixes must not leak in from whoever runs the tests."""


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    """An environment with nothing of ours but the data directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    return {**kept, "MEMORY_DATA_DIR": str(data_dir), "HOME": str(data_dir), **more}


class Running:
    """One `memory up` and the means to speak to it."""

    MODULE = "memory_worker.cli"

    def __init__(self, data_dir: Path, *flags: str, **more: str) -> None:
        self.data_dir = data_dir
        self.env = environment(data_dir, **more)
        self.log = data_dir.parent / f"{data_dir.name}.log"
        with self.log.open("ab") as log:
            command = ("up", "--port", "0", "--http-port", "0", "--json", *flags)
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.MODULE, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.env,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.kill()
            self.process.wait(START_S)
            self.process.stdout.close()
            raise AssertionError(self.log.read_text()[-3_000:])
        self.ready: dict[str, Any] = json.loads(line)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask for an end and give the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(START_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def invoke(
        self, *args: str, speaks_as: str | None = None, stdin: str | None = None, code: int | Container[int] = 0
    ) -> Result:
        """Run one command; its exit code must be `code`, or one of them."""
        who = ["--as", speaks_as] if speaks_as else []
        env: dict[str, str | None] = {name: None for name in os.environ if name.startswith(CLEAN)}
        result = CliRunner().invoke(memory, [*args, *who], input=stdin, env={**env, **self.env})
        allowed = (code,) if isinstance(code, int) else code
        assert result.exit_code in allowed, (args, result.exit_code, result.output, result.exception)
        return result

    def text(self, *args: str, **more: Any) -> str:
        """What a command prints for people."""
        return self.invoke(*args, **more).stdout

    def json(self, *args: str, **more: Any) -> Any:
        """What a command prints for programs."""
        return json.loads(self.invoke(*args, "--json", **more).stdout)

    def as_person(self, *args: str, **more: Any) -> Any:
        """The JSON a person's command gives."""
        return self.json(*args, speaks_as="human-me", **more)

    def error(self, *args: str, code: int, **more: Any) -> dict[str, Any]:
        """The JSON error of a command that must fail with `code`."""
        found: dict[str, Any] = json.loads(self.invoke(*args, "--json", code=code, **more).stderr)
        return found


def until(condition: Any, seconds: float = 15.0) -> Any:
    """Wait for a condition with a deadline and give its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
    return value


Start = Callable[..., Running]
"""Starts a worker that the test may stop itself; whatever still runs at its end is killed."""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start workers that do not outlive the test."""
    started: list[Running] = []

    def one(data_dir: Path, *flags: str, **more: str) -> Running:
        started.append(Running(data_dir, *flags, **more))
        return started[-1]

    yield one
    for worker in started:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait(START_S)
        assert worker.process.stdout is not None
        worker.process.stdout.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One worker for all tests of a module; each uses banks of its own."""
    worker = Running(tmp_path_factory.mktemp("up") / "data", "--no-consolidate")
    yield worker
    assert worker.stop() == 0
