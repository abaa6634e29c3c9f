"""Connects health, metrics and the doctor to the parts of a running worker."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import structlog

from memory_contracts import jetstream
from memory_contracts.errors import FunctionError
from memory_contracts.functions.base import Reply
from memory_contracts.functions.operations import Check, DoctorReply, ExtractionStatusReply
from memory_contracts.functions.recalling import RecallReply
from memory_contracts.subjects import Subjects
from memory_worker.bus import Bus, CallInfo, Handler, Intake, StreamDrift, verify_streams
from memory_worker.clock import Clock
from memory_worker.config import Settings
from memory_worker.health import (
    DoctorService,
    Examine,
    Health,
    Metrics,
    as_configured,
    bus_answers,
    checks,
    disk_has_room,
    readers_follow,
)
from memory_worker.store import Caller, inbox
from memory_worker.store.copies import check_store
from memory_worker.tenant import Tenant

log = structlog.get_logger(__name__)

SAMPLE_S = 5.0
"""Pause between readings of what only the store can tell; a scrape sees values at most this old."""
_SUMMED = ("inbox_turns", "inbox_bytes", "inbox_in_work", "parked_turns", "file_problems")
"""Gauges that are summed over the open tenants at each reading."""
PROBE_KEY = "health.probe"
"""Where the commit probe writes."""


class Vitals:
    """Reads the worker's parts; changes none of them, but for the commit probe."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        bus: Bus,
        subjects: Subjects,
        directory: Path,
        intake: Intake,
        malformed: Callable[[], int],
        opened: Callable[[], Mapping[str, Tenant]],
        served: Callable[[], Sequence[str]],
        clock: Clock,
        sync_always: bool | None,
        permission_drift: Callable[[], Awaitable[list[str]]] | None = None,
    ) -> None:
        self._settings = settings
        self._bus = bus
        self._subjects = subjects
        self._directory = directory
        self._intake = intake
        self._malformed = malformed
        self._opened = opened
        self._served = served
        self._clock = clock
        self._sync_always = sync_always
        self._permission_drift = permission_drift
        self._examining = asyncio.Lock()
        self._sampled: dict[str, float] = {}
        self._counted: dict[str, float] = {}

    # Health

    def watch_health(self, health: Health) -> None:
        """Add the probes: what a restart would cure decides life, everything else readiness."""
        settings = self._settings
        health.add_alive("commit", self._commit_hangs)
        health.add_ready("commit", self._commit)
        health.add_ready("bus", bus_answers(self._answer_age, settings().ready_bus_age_s))
        health.add_ready("streams", as_configured(self._drift))
        health.add_ready("readers", readers_follow(self.lags, lambda: settings().ready_lag_rows))
        health.add_ready("disk", disk_has_room(self._directory, lambda: settings().disk_free_min_mb))

    def _answer_age(self) -> float | None:
        if not self._bus.connected:
            return max(time.monotonic() - self._bus.last_answer, self._settings().ready_bus_age_s + 1)
        return time.monotonic() - self._bus.last_answer

    async def _commit(self) -> str | None:
        """Every open store commits; the error of one that cannot is named by its kind."""
        now = f"{self._clock.now():.0f}"
        stores = [tenant.store for tenant in self._opened().values()]
        done = await asyncio.gather(*(store.set_meta(PROBE_KEY, now) for store in stores), return_exceptions=True)
        failed = next((result for result in done if isinstance(result, BaseException)), None)
        if failed is None:
            return None
        return f"cannot commit: {failed.code if isinstance(failed, FunctionError) else type(failed).__name__}"

    async def _commit_hangs(self) -> str | None:
        """A store that refuses (a full disk) is alive and says so; one that gives no answer at all is not."""
        await self._commit()
        return None

    async def _drift(self) -> list[str]:
        if not self._bus.connected:
            return ["unknown while the bus is away"]
        try:
            await verify_streams(self._bus, self._subjects, list(self._served()))
        except StreamDrift as error:
            return [str(error)]
        return []

    def lags(self) -> dict[str, float]:
        """How many journal rows each kind of reader has before it, the worst of all open tenants."""
        worst: dict[str, float] = {}
        for tenant in self._opened().values():
            for reader, rows in reader_lags(tenant).items():
                worst[reader] = max(worst.get(reader, 0), rows)
        return worst

    # Metrics

    def watch_metrics(self, metrics: Metrics, health: Health) -> None:
        """Connect every gauge."""
        for name in (*_SUMMED, "inbox_oldest_seconds", "unpublished_oldest_seconds"):
            metrics.sample(name, lambda name=name: self._sampled.get(name, 0.0))  # type: ignore[misc]
        tenants = self._opened
        metrics.sample("tenants_open", lambda: len(tenants()))
        metrics.sample("unpublished_rows", lambda: sum(tenant.relay.lag for tenant in tenants().values()))
        metrics.sample("index_bytes", lambda: sum(tenant.recall.status().bytes for tenant in tenants().values()))
        metrics.sample("wal_bytes", lambda: sum(_size(f"{tenant.store.path}-wal") for tenant in tenants().values()))
        metrics.sample("database_bytes", lambda: sum(_size(tenant.store.path) for tenant in tenants().values()))
        metrics.sample("bus_connected", lambda: float(self._bus.connected))
        metrics.sample("bus_rtt_seconds", lambda: self._bus.rtt_s or 0.0)
        metrics.sample("disk_free_bytes", lambda: float(shutil.disk_usage(self._directory).free))
        metrics.sample("tasks", lambda: len(asyncio.all_tasks()))
        metrics.sample("loop_lag_seconds", lambda: health.loop_lag)
        metrics.sample_readers(self.lags)

    async def keep_sampling(self, metrics: Metrics) -> None:
        """Read what only the store can tell, for ever; run as a task."""
        while True:
            try:
                await self._sample(metrics)
            except Exception as error:  # a store that is closing or full must not end the readings of the others
                log.warning("vitals.sample_failed", error=type(error).__name__)
            await asyncio.sleep(SAMPLE_S)

    async def _sample(self, metrics: Metrics) -> None:
        totals = dict.fromkeys(_SUMMED, 0.0)
        oldest = unpublished = 0.0
        for name, tenant in self._opened().items():
            status = await inbox.status(tenant.store.readers, 1)
            _, size = await inbox.depth(tenant.store.readers)
            totals["inbox_turns"] += status.backlog
            totals["inbox_bytes"] += size
            totals["inbox_in_work"] += tenant.turns.status().in_work
            totals["parked_turns"] += status.parked_total
            if tenant.files is not None:
                totals["file_problems"] += (await tenant.files.status()).problems_total
            if status.oldest_at is not None:
                oldest = max(oldest, self._clock.now() - status.oldest_at)
            unpublished_at = await tenant.relay.oldest_at()
            if unpublished_at is not None:
                unpublished = max(unpublished, self._clock.now() - unpublished_at)
            # These outlive the process: what was there before it is not its own doing.
            start = 0.0 if f"{name}/published" in self._counted else None
            for key, value in (await tenant.store.counters()).items():
                self._count_kept(metrics, key, self._rise(f"{name}/{key}", value, start=start))
            metrics.published(int(self._rise(f"{name}/published", tenant.relay.published, start=0)))
            for _ in range(int(self._rise(f"{name}/rewinds", tenant.relay.rewinds, start=0))):
                metrics.bus("rewound")
            for stream, count in tenant.relay.erased.items():
                metrics.erased(stream, int(self._rise(f"{name}/erased.{stream}", count, start=0)))
        self._sampled = {**totals, "inbox_oldest_seconds": oldest, "unpublished_oldest_seconds": unpublished}
        metrics.turn("received", int(self._rise("taken", self._intake.taken, start=0)))
        metrics.turn("duplicate", int(self._rise("redelivered", self._intake.redelivered, start=0)))
        if self._intake.erasing is not None:
            metrics.erased("turns", int(self._rise("erased", self._intake.erasing.erased, start=0)))
        metrics.turn("malformed", int(self._rise("malformed", self._malformed(), start=0)))
        for event, count in (
            ("disconnected", self._bus.disconnects),
            ("reconnected", self._bus.reconnects),
            ("zombie_recovered", self._bus.zombie_recoveries),
            ("error", self._bus.error_count),
        ):
            for _ in range(int(self._rise(event, count, start=0))):
                metrics.bus(event)

    def _rise(self, key: str, value: float, start: float | None = None) -> float:
        """How much a count rose since the last reading; one that outlives the process begins at its first reading."""
        before = self._counted.get(key, value if start is None else start)
        self._counted[key] = value
        return max(0.0, value - before)

    def _count_kept(self, metrics: Metrics, key: str, rise: float) -> None:
        if key.startswith("refused."):
            metrics.refused(key.removeprefix("refused."), int(rise))

    def watch_answers(self, handlers: dict[str, Handler], metrics: Metrics) -> dict[str, Handler]:
        """Count what answers tell about cuts, and those of recall about its arms; context tells of its own."""

        def watched(function: str, handler: Handler) -> Handler:
            async def handle(caller: Caller, request: Any, info: CallInfo) -> Reply:
                reply = await handler(caller, request, info)
                if isinstance(reply, RecallReply):
                    for arm in reply.arms:
                        metrics.arm(arm.name, arm.state, arm.ms / 1_000)
                if getattr(reply, "cut", None) or getattr(reply, "truncated", None):
                    metrics.cut(function)
                return reply

            return handle

        chosen = ("recall", "preview", "context", "tags", "entity.get")
        return {name: watched(name, handler) if name in chosen else handler for name, handler in handlers.items()}

    # The doctor

    async def examine(
        self,
        tenant: Tenant,
        version: str,
        status: Callable[[], Awaitable[ExtractionStatusReply]],
        roundtrip: Examine,
        *,
        named: bool,
    ) -> DoctorReply:
        """Run every check for one tenant; files are `named` only to people, since a file's name tells what it says."""
        settings = self._settings()
        doctor = DoctorService(version, [("roundtrip", roundtrip)])
        doctor.add("disk", checks.disk(self._directory, settings))
        doctor.add("store", checks.store(lambda: asyncio.to_thread(check_store, tenant.store.path)))
        doctor.add("readers", checks.readers(lambda: reader_lags(tenant), settings))
        doctor.add("index", lambda: _index(tenant))
        doctor.add("arms", checks.arms(lambda: _arms(tenant)))
        doctor.add("files", lambda: _files(tenant, named=named))
        doctor.add("vault", lambda: _vault(tenant))
        doctor.add("forgetting", lambda: _forgetting(tenant))
        doctor.add("backlog", checks.backlog(status))
        doctor.add("session manager", checks.sibling("session manager", settings.session_manager, _session(tenant)))
        doctor.add("router", checks.sibling("router", settings.router, _router(tenant)))
        doctor.add("bus", checks.server(self._server_version, self._synced))
        doctor.add("clock", checks.clock_skew(self._skew))
        doctor.add("streams", checks.streams(self._drift))
        if self._permission_drift is not None:
            doctor.add("permissions", checks.permissions(self._permission_drift))
        # One at a time: the roundtrips share a scratch bank, and a caller in a loop must not load the worker.
        async with self._examining:
            return await doctor.examine()

    async def _server_version(self) -> str:
        return self._bus.server_version

    async def _synced(self) -> bool | None:
        return self._sync_always

    async def _skew(self) -> float:
        asked = self._clock.now()
        info = await jetstream.call(self._bus, f"STREAM.INFO.{self._subjects.turn_stream}")
        answered = self._clock.now()
        return (asked + answered) / 2 - msgspec.convert(info["ts"], datetime).timestamp()


def reader_lags(tenant: Tenant) -> dict[str, float]:
    """How many journal rows each reader of one tenant has before it."""
    store = tenant.store
    lags: dict[str, float] = {name: max(0, store.head - seq) for name, seq in store.cursors().items()}
    return {**lags, "relay": tenant.relay.lag, "index": tenant.recall.lag()}


async def _index(tenant: Tenant) -> Sequence[Check]:
    status = tenant.recall.status()
    seen = f"{status.rows:,} memories in {status.banks} banks, {status.bytes / 1_048_576:.1f} MiB"
    if status.problem:
        return [checks.degraded("index", f"{seen}; {status.problem}", "it is rebuilt at the next start")]
    return [checks.ok("index", seen)]


async def _vault(tenant: Tenant) -> Sequence[Check]:
    vault = tenant.vault
    if vault.trouble:
        seen = f"{vault.trouble}: protected values are shut, and forgotten texts are not recognised"
        return [checks.degraded("vault", seen, vault.hint)]
    return [checks.ok("vault", "the key is the one the store was written with")]


async def _forgetting(tenant: Tenant) -> Sequence[Check]:
    waiting = await tenant.stroke.pending()
    if not waiting:
        return [checks.ok("forgetting", "none is waiting")]
    places = sorted({place for receipt in waiting for place in receipt.unreachable}) or ["see the worker's log"]
    seen = f"{len(waiting)} not finished, the oldest of {waiting[0].at:%Y-%m-%d %H:%M} UTC: {'; '.join(places)}"
    return [checks.degraded("forgetting", seen, "it goes on by itself when the place can be reached")]


async def _arms(tenant: Tenant) -> Mapping[str, str]:
    return tenant.recall.status().arms


async def _files(tenant: Tenant, *, named: bool) -> Sequence[Check]:
    if tenant.files is None:
        return [checks.ok("files", "not mirrored, as set")]
    status = await tenant.files.status()
    unread = [f"{one.path} ({one.reason})" for one in status.problems]
    failed = [f"{path} ({reason})" for path, reason in status.failures.items()]
    if not named:
        unread, failed = ["not named here"] * len(unread), ["not named here"] * len(failed)

    async def problems() -> Sequence[str]:
        return unread

    lines = list(await checks.files(problems)())
    behind = f"{status.lag_rows:,} changes not written yet" if status.lag_rows else "in step"
    seen = f"{status.files:,} files, {behind}, {'watching' if status.watching else 'not watching'}"
    if failed:
        seen += f"; {len(failed)} not written: {', '.join(failed[:3])}"
        return [*lines, checks.degraded("file mirror", seen, "it is tried again; see the disk's line")]
    if status.vanished:
        hint = "`memory suggestions` asks whether they are to be deleted; until then nothing is"
        return [*lines, checks.degraded("file mirror", f"{seen}; many files vanished at once", hint)]
    return [*lines, checks.ok("file mirror", seen)]


def _session(tenant: Tenant) -> Callable[[], Awaitable[object]]:
    async def ask() -> object:
        # Any answer will do, also “no such session”: it shows that somebody listens.
        return await tenant.sessions.get("memory-doctor") if tenant.sessions is not None else None

    return ask


def _router(tenant: Tenant) -> Callable[[], Awaitable[object]]:
    async def ask() -> object:
        return await tenant.router.models() if tenant.router is not None else None

    return ask


def _size(path: str | Path) -> float:
    try:
        return float(Path(path).stat().st_size)
    except OSError:
        return 0.0
