"""Kills the worker and the bus while saves and turns flow, and checks at the end that nothing was lost or doubled."""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from memory_contracts import FunctionError, ItemChanged, TurnCompleted, TurnMessage, jetstream
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus, BusError
from memory_contracts.credentials import load_credentials
from memory_contracts.functions.memories import SaveRequest
from memory_contracts.subjects import TURN_CONSUMER, Subjects
from memory_worker.bus import EmbeddedServer, create_streams
from memory_worker.bus.server import running_pid

FAILPOINTS = (
    "before-commit",
    "after-commit",
    "before-turn-done",
    "inbox.committed",
    "relay.published",
)
"""Points at which a running worker may be told to kill itself."""
MIGRATION_FAILPOINTS = (
    "in-migration-1:7",
    "in-migration-2:1",
    "in-migration-3:1",
    "in-migration-5:2",
    "in-migration-7:1",
)
"""Points inside migrations, at the first start of a store."""
START_S = 30.0
SETTLE_S = 90.0
"""How long nothing may move at the end, in seconds, before what is missing counts as lost."""
TURN_PAUSE_S = 0.05
"""Pause between two turns of the harness: a worker that is killed all the time must still come to read some."""
SAVERS = 6


class Report(msgspec.Struct, kw_only=True):
    """What a run came to; every count below `acked_turns` must be 0."""

    worker_kills: int = 0
    bus_kills: int = 0
    failpoints_hit: int = 0
    acked_saves: int = 0
    acked_turns: int = 0
    lost_saves: int = 0
    lost_turns: int = 0
    doubled: int = 0
    counted_twice: int = 0
    events_missing: int = 0
    sequence_gaps: int = 0
    parked: int = 0
    integrity: str = "ok"
    slowest_start_s: float = 0.0

    def faults(self) -> dict[str, object]:
        """Everything that should not be."""
        zero = ("lost_saves", "lost_turns", "doubled", "counted_twice", "events_missing", "sequence_gaps", "parked")
        found: dict[str, object] = {name: getattr(self, name) for name in zero if getattr(self, name)}
        if self.integrity != "ok":
            found["integrity"] = self.integrity
        return found


class CrashRun:
    """One bus, one worker process, and those who use them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.report = Report()
        self.server: EmbeddedServer | None = None
        self.worker: subprocess.Popen[bytes] | None = None
        self.saved: set[str] = set()
        self.turned: set[str] = set()
        self.events: dict[str, ItemChanged] = {}
        self._stopping = False
        self._log = (directory / "worker.log").open("ab")

    # Processes

    async def start_bus(self, port: int = 0) -> None:
        """Start the bus on the same port as before, and make its streams."""
        self.server = await EmbeddedServer.start(self.directory / "bus", port=port)
        admin = load_credentials(self.server.files.credentials_of("admin"))
        async with await Bus.connect(admin, name="admin") as bus:
            await create_streams(bus, Subjects(), ("local",))

    async def kill_bus(self) -> None:
        """kill -9 the bus and start it again."""
        assert self.server is not None
        port = self.server.port
        pid = running_pid(self.server.files)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await self.server.stop()
        self.report.bus_kills += 1
        await self.start_bus(port)

    async def start_worker(self, failpoint: str = "") -> bool:
        """Start the worker and wait until it serves; False when it died before."""
        assert self.server is not None
        began = time.monotonic()
        self.worker = subprocess.Popen(  # noqa: ASYNC220 - kept as a plain process, to be killed without ceremony
            [sys.executable, "-m", "memory_worker.cli", "--json", "worker", "--http-port", "0"],
            env={
                **os.environ,
                "MEMORY_DATA_DIR": str(self.directory / "data"),
                "MEMORY_HTTP_PORT": "0",
                "NATS_URL": self.server.url,
                "MEMORY_CREDENTIALS": str(self.server.files.credentials_of("worker")),
                "MEMORY_FAILPOINT": failpoint,
                "MEMORY_FILES": "false",
            },
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self.worker.stdout is not None
        line = await asyncio.to_thread(self.worker.stdout.readline)
        if b"ready" not in line:
            self.worker.wait()
            self.worker.stdout.close()
            return False
        self.report.slowest_start_s = max(self.report.slowest_start_s, time.monotonic() - began)
        return True

    def kill_worker(self) -> None:
        """kill -9 the worker, unless its failpoint did."""
        assert self.worker is not None
        if self.worker.poll() is None:
            self.worker.kill()
        else:
            self.report.failpoints_hit += 1
        self.worker.wait()
        assert self.worker.stdout is not None
        self.worker.stdout.close()
        self.report.worker_kills += 1

    def close(self) -> None:
        """Let go of files."""
        self._log.close()

    # Users

    def credentials(self, name: str) -> Path:
        """A credentials file of the bus."""
        assert self.server is not None
        return self.server.files.credentials_of(name)

    async def _connected(self, name: str) -> MemoryClient:
        while True:
            try:
                return await MemoryClient.connect(self.credentials(name))
            except FunctionError:
                await asyncio.sleep(0.05)

    async def saver(self, number: int) -> None:
        """Save one fact after the other; each is repeated under its key until it is acknowledged."""
        client = await self._connected("human-me")
        count = 0
        while not self._stopping:
            count += 1
            text = f"Locker {number}-{count} holds box {self.random.randrange(10**9)}"
            key = f"saver-{number}-{count}"
            while True:
                try:
                    await client.call("save", SaveRequest(text=text), idempotency_key=key, within=2.0)
                    self.saved.add(text)
                    break
                except FunctionError as error:
                    if error.code not in ("unavailable", "internal"):
                        raise
                    if self._stopping:
                        break
                    await asyncio.sleep(0.02)
        await client.close()

    async def harness(self) -> None:
        """Publish finished turns, each until the bus has it, and now and then one twice."""
        client = await self._connected("system-harness")
        count = 0
        while not self._stopping:
            count += 1
            fact = f"my badge {count} opens door {self.random.randrange(10**9)}"
            turn = TurnCompleted(
                turn_id=f"turn-{count}",
                session_id=f"session-{count % 7}",
                status="completed",
                completed_at=datetime.now(UTC),
                messages=[TurnMessage(id=f"m{count}", role="user", text=f"Remember that {fact}.")],
            )
            while True:
                try:
                    await client.publish_turn(turn)
                    self.turned.add(fact)
                    if self.random.random() < 0.2:
                        await client.publish_turn(turn)
                    break
                except (BusError, FunctionError):
                    if self._stopping:
                        break
                    await asyncio.sleep(0.02)
            await asyncio.sleep(TURN_PAUSE_S)
        await client.close()

    async def subscriber(self) -> None:
        """Read every trigger through a durable consumer; comes back when the bus goes away."""
        while True:
            client = await self._connected("human-me")
            try:
                async with client.on_item_changed(durable="human-me") as events:
                    async for event in events:
                        self.events[event.id] = event
            except (BusError, FunctionError):
                await asyncio.sleep(0.05)
            finally:
                with contextlib.suppress(Exception):
                    await client.close()

    # The run

    async def run(self, kills: int, bus_kills: int) -> Report:
        """Kill the worker `kills` times and the bus `bus_kills` times, settle, and check."""
        await self.start_bus()
        for point in MIGRATION_FAILPOINTS:
            if not await self.start_worker(point):
                self.report.failpoints_hit += 1
                self.report.worker_kills += 1
            else:
                self.kill_worker()
        await self.start_worker(self._failpoint())
        users = [asyncio.create_task(self.saver(number)) for number in range(SAVERS)]
        users.append(asyncio.create_task(self.harness()))
        reading = asyncio.create_task(self.subscriber())
        every = kills / (bus_kills + 1)
        try:
            while self.report.worker_kills < kills:
                await self._let_run()
                self.kill_worker()
                due = every * (self.report.bus_kills + 1)
                if self.report.bus_kills < bus_kills and self.report.worker_kills >= due:
                    await self.kill_bus()
                while not await self.start_worker(self._failpoint()):
                    self.report.failpoints_hit += 1
                    self.report.worker_kills += 1
                for user in users:
                    if user.done():
                        await user
            while self.report.bus_kills < bus_kills:  # workers that died at their start may have used the kills up
                await self.kill_bus()
            self._stopping = True
            await asyncio.wait_for(asyncio.gather(*users), SETTLE_S)
            await self._settle()
        finally:
            reading.cancel()
            for user in users:
                user.cancel()
            await asyncio.gather(reading, *users, return_exceptions=True)
            if self.worker is not None and self.worker.poll() is None:
                self.worker.terminate()
                self.worker.wait()
            if self.worker is not None and self.worker.stdout is not None:
                self.worker.stdout.close()
            if self.server is not None:
                await self.server.stop()
        self._check()
        return self.report

    def _failpoint(self) -> str:
        if self.random.random() < 0.4:
            return ""
        return f"{self.random.choice(FAILPOINTS)}:{self.random.randrange(1, 40)}"

    async def _let_run(self) -> None:
        """Give the worker a random while, or until its failpoint ends it."""
        assert self.worker is not None
        until = time.monotonic() + self.random.uniform(0.05, 0.8)
        while time.monotonic() < until and self.worker.poll() is None:  # noqa: ASYNC110 - a process, not an event
            await asyncio.sleep(0.01)

    async def _settle(self) -> None:
        """A last worker without a failpoint drains inbox and relay."""
        self.kill_worker()
        await self.start_worker()
        client = await self._connected("human-me")
        moved, left = time.monotonic(), (0, 0, 0)
        while time.monotonic() - moved < SETTLE_S:
            unread = await self._not_taken()  # asked first: what is taken meanwhile is in the backlog
            status = await client.extraction_status()
            still = (unread, status.backlog, self._missing())
            if still == (0, 0, 0):
                self.report.parked = status.parked_total
                break
            if still != left:
                moved, left = time.monotonic(), still
            await asyncio.sleep(0.5)
        await client.close()

    async def _not_taken(self) -> int:
        """Turns on the stream that the worker has yet to acknowledge; -1 while the bus is too busy to tell."""
        subjects = Subjects()
        try:
            async with await Bus.connect(load_credentials(self.credentials("admin")), name="admin") as bus:
                info = await jetstream.call(bus, f"CONSUMER.INFO.{subjects.turn_stream}.{TURN_CONSUMER}", within=30.0)
        except BusError:
            return -1
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    def _rows(self, sql: str) -> Sequence[tuple[object, ...]]:
        database = sqlite3.connect(self.directory / "data" / "local" / "memory.db")
        try:
            return database.execute(sql).fetchall()
        finally:
            database.close()

    def _missing(self) -> int:
        published = {str(row[0]) for row in self._rows("SELECT id FROM journal WHERE type LIKE 'memory.%'")}
        return len(published - self.events.keys())

    def _check(self) -> None:
        report = self.report
        texts = [msgspec.json.decode(bytes(row[0]))["text"] for row in self._rows("SELECT record FROM memories")]  # type: ignore[arg-type]
        counted = [
            msgspec.json.decode(bytes(row[0]))["corroboration"] for row in self._rows("SELECT record FROM memories")
        ]  # type: ignore[arg-type]
        folded = {text.casefold().rstrip(".") for text in texts}
        report.acked_saves, report.acked_turns = len(self.saved), len(self.turned)
        report.lost_saves = sum(text.casefold() not in folded for text in self.saved)
        # Nearly every fact is a text of its own; only what is not is looked for inside others.
        missing = [fact for fact in map(str.casefold, self.turned) if fact not in folded]
        report.lost_turns = sum(not any(fact in text for text in folded) for fact in missing)
        report.doubled = len(texts) - len(folded)
        report.counted_twice = sum(count > 0 for count in counted)
        report.events_missing = self._missing()
        seqs = sorted(event.bank_seq for event in self.events.values())
        other = {
            row[0] for row in self._rows("SELECT bank_seq FROM journal WHERE bank_seq > 0 AND type NOT LIKE 'memory.%'")
        }
        all_seqs = sorted({*seqs, *other})  # type: ignore[type-var]
        report.sequence_gaps = sum(b != a + 1 for a, b in itertools.pairwise(all_seqs))  # type: ignore[operator]
        report.integrity = str(self._rows("PRAGMA integrity_check")[0][0])
