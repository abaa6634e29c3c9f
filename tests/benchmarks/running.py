"""A worker with an embedded bus in processes of its own, for benchmarks and figures."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil

from memory_contracts.functions.memories import SaveRequest
from memory_worker.bus import BusFiles
from memory_worker.bus.server import running_pid
from memory_worker.clock import SystemClock
from memory_worker.gate import Gate, GateSettings, KeyedVault
from memory_worker.store import Caller, TenantStore

WORDS = (Path(__file__).parent / "words.txt").read_text("utf-8").split()
"""Words of the memories that fill a store."""


class Running:
    """A started worker: its process, its folder, and what it says of itself."""

    def __init__(self, process: "subprocess.Popen[bytes]", data_dir: Path, ready: dict[str, object], seconds: float):
        self.process = process
        self.data_dir = data_dir
        self.http_port = ready["http_port"]
        self.ready_seconds = seconds

    def credentials(self, name: str) -> str:
        """Path of a credentials file."""
        return str(self.data_dir / "credentials" / f"{name}.json")

    def rss_mib(self) -> float:
        """Resident memory of the worker process, in MiB."""
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def bus_pid(self) -> int | None:
        """Process id of the embedded server."""
        return running_pid(BusFiles(self.data_dir))

    def until_published(self, within: float = 600.0) -> None:
        """Wait, at most `within` seconds, until the triggers of what was filled in are out."""
        end = time.monotonic() + within
        while self.metric("memory_unpublished_rows") > 0 and time.monotonic() < end:
            time.sleep(0.5)

    def metric(self, name: str) -> float:
        """Sum of a metric over its labels."""
        url = f"http://127.0.0.1:{self.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as reply:
            text = reply.read().decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in found)


@contextmanager
def running_worker(data_dir: Path, log: IO[bytes], **environment: str) -> Iterator[Running]:
    """Start `memory up` on free ports and stop it at the end."""
    began = time.monotonic()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "memory_worker.cli",
            "--json",
            "up",
            "--port",
            "0",
            "--http-port",
            "0",
            "--no-consolidate",
        ],
        env={**os.environ, "MEMORY_DATA_DIR": str(data_dir), "MEMORY_LOG_LEVEL": "warning", **environment},
        stdout=subprocess.PIPE,
        stderr=log,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the worker did not start")
        yield Running(process, data_dir, json.loads(line), time.monotonic() - began)
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def fill(data_dir: Path, count: int, words: int = 20) -> None:
    """Write memories into a store that no worker has open, through the real gate."""

    async def run() -> None:
        store = TenantStore("local", data_dir / "local", SystemClock())
        await store.open()
        gate = Gate(store, GateSettings(), KeyedVault(b"0" * 32), lambda bank, page, total: "")
        await gate.open()
        person = Caller("local", "human", "me")
        numbers = iter(range(count))

        async def saver() -> None:
            for number in numbers:
                picked = [WORDS[(number * (7 + place) + place * place) % len(WORDS)] for place in range(words - 1)]
                await gate.save(person, SaveRequest(text=f"note{number} {' '.join(picked)}"))

        await asyncio.gather(*(saver() for _ in range(256)))
        await store.close()

    asyncio.run(run())
