"""A real worker on a real bus, one per test process; each test takes a bank of its own."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from memory_contracts.client import MemoryClient

READY_S = 60.0
"""Seconds a worker may take to say that it serves, on a busy machine."""


class Worker(NamedTuple):
    """A running worker: where its credentials lie, and its process."""

    data_dir: Path
    process: subprocess.Popen[str]

    def credentials(self, name: str) -> Path:
        """The credentials file of one identity."""
        return self.data_dir / "credentials" / f"{name}.json"


def start_worker(data_dir: Path) -> Worker:
    """Start `memory up` without its consolidate worker and wait until it serves."""
    log = data_dir.with_name(f"{data_dir.name}.log").open("wb")
    command = [sys.executable, "-m", "memory_worker.cli", "up", "--no-consolidate", "--json"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(data_dir), "--port", "0", "--http-port", "0"],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.startswith(("MEMORY_", "NATS_"))},
    )
    log.close()
    assert process.stdout is not None
    line = process.stdout.readline()
    worker = Worker(data_dir, process)
    if not line:
        stop_worker(worker)
        raise AssertionError(data_dir.with_name(f"{data_dir.name}.log").read_text("utf-8")[-2_000:])
    assert json.loads(line)["ready"] is True
    return worker


def stop_worker(worker: Worker) -> None:
    """Stop it in order, or kill it when it does not."""
    worker.process.send_signal(signal.SIGTERM)
    try:
        worker.process.wait(20)
    except subprocess.TimeoutExpired:
        worker.process.kill()
        worker.process.wait()
    if worker.process.stdout:
        worker.process.stdout.close()


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """The worker of this test process."""
    started = start_worker(tmp_path_factory.mktemp("worker"))
    yield started
    stop_worker(started)


@pytest.fixture
async def human(worker: Worker) -> AsyncIterator[MemoryClient]:
    """A person."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as client:
        yield client


@pytest.fixture
async def agent(worker: Worker) -> AsyncIterator[MemoryClient]:
    """An agent; what it saves is `inferred`."""
    async with await MemoryClient.connect(worker.credentials("agent-default")) as client:
        yield client


@pytest.fixture
async def system(worker: Worker) -> AsyncIterator[MemoryClient]:
    """The consolidate worker's own identity."""
    async with await MemoryClient.connect(worker.credentials("system-consolidate")) as client:
        yield client


@pytest.fixture
async def bank(human: MemoryClient) -> str:
    """A bank nobody else uses."""
    name = f"bank-{secrets.token_hex(4)}"
    await human.bank_create(name=name, expiry="never")
    return name


async def eventually(condition: object, within: float = 20.0) -> None:
    """Wait until `condition()` (plain or async) is true; fail when it is not in time."""
    assert callable(condition)
    deadline = asyncio.get_running_loop().time() + within
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return
        assert asyncio.get_running_loop().time() < deadline, "did not come true in time"
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def running(task_of: object) -> AsyncIterator[None]:
    """Run a coroutine in the background for the length of a block."""
    task = asyncio.ensure_future(task_of)  # type: ignore[arg-type]
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
