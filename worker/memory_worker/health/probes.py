"""Decides whether the worker is started, alive and ready, from probes that really touch what they ask about."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

Probe = Callable[[], Awaitable[str | None]]
"""Answers None when all is well, else a short reason without stored text."""

PROBE_DEADLINE_S = 2.0
"""Longest wait for one probe; a probe that hangs is a failing probe."""
PROBE_CACHE_S = 1.0
"""Probes run at most this often, however often health is asked."""
HEARTBEAT_S = 0.5
"""Pause between turns of the loop's own heartbeat."""
LOOP_STALL_S = 10.0
"""Heartbeat age beyond which the loop counts as stuck."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether all is well, and the reason of each probe that says otherwise."""

    ok: bool
    reasons: dict[str, str]


class Health:
    """Holds the worker's state of health; fed by the application, asked by HTTP and the watchdog."""

    def __init__(
        self,
        *,
        ready: Mapping[str, Probe] | None = None,
        alive: Mapping[str, Probe] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ready = dict(ready or {})
        self._alive = dict(alive or {})
        self._monotonic = monotonic
        self._beat = monotonic()
        self._lag = 0.0
        self._started = False
        self._stopping = False
        self._fatal: str | None = None
        self._cached: dict[str, tuple[float, Verdict]] = {}
        self._lock = asyncio.Lock()

    def add_ready(self, name: str, probe: Probe) -> None:
        """Ask `probe` for readiness."""
        self._ready[name] = probe

    def add_alive(self, name: str, probe: Probe) -> None:
        """Ask `probe` for liveness: only what a restart would cure belongs here."""
        self._alive[name] = probe

    def mark_started(self) -> None:
        """Migrations are done and everything serves."""
        self._started = True

    def mark_stopping(self) -> None:
        """An orderly stop has begun: not ready from here on, still alive."""
        self._stopping = True
        self._cached.clear()

    def mark_fatal(self, reason: str) -> None:
        """The process cannot go on; it is about to leave."""
        self._fatal = reason
        self._cached.clear()

    @property
    def loop_lag(self) -> float:
        """How late the last heartbeat ran, in seconds."""
        return self._lag

    async def beat(self) -> None:
        """Turn for ever; run as a task on the loop that serves."""
        while True:
            before = self._monotonic()
            await asyncio.sleep(HEARTBEAT_S)
            self._beat = self._monotonic()
            self._lag = max(0.0, self._beat - before - HEARTBEAT_S)

    def started(self) -> Verdict:
        """Tell whether start-up is over."""
        return Verdict(ok=self._started, reasons={} if self._started else {"startup": "not finished"})

    async def alive(self) -> Verdict:
        """Tell whether the process does its work; a bus that is away does not count against it."""
        if self._fatal is not None:
            return Verdict(ok=False, reasons={"fatal": self._fatal})
        age = self._monotonic() - self._beat
        if age > LOOP_STALL_S:
            return Verdict(ok=False, reasons={"loop": f"stood still for {age:.0f} s"})
        return await self._ask("alive", self._alive)

    async def ready(self) -> Verdict:
        """Tell whether requests and turns are served right now."""
        if not self._started:
            return self.started()
        if self._stopping:
            return Verdict(ok=False, reasons={"stopping": "an orderly stop has begun"})
        if self._fatal is not None:
            return Verdict(ok=False, reasons={"fatal": self._fatal})
        return await self._ask("ready", self._ready)

    async def _ask(self, name: str, probes: Mapping[str, Probe]) -> Verdict:
        async with self._lock:
            cached = self._cached.get(name)
            if cached is not None and self._monotonic() - cached[0] < PROBE_CACHE_S:
                return cached[1]
            found = await asyncio.gather(*(_run(probe) for probe in probes.values()))
            reasons = {probe: reason for probe, reason in zip(probes, found, strict=True) if reason is not None}
            verdict = Verdict(ok=not reasons, reasons=reasons)
            self._cached[name] = (self._monotonic(), verdict)
            return verdict


async def _run(probe: Probe) -> str | None:
    try:
        return await asyncio.wait_for(probe(), PROBE_DEADLINE_S)
    except TimeoutError:
        return f"no answer within {PROBE_DEADLINE_S:g} s"
    except Exception as error:  # a probe that breaks is a failing probe, whatever it raised
        return f"failed: {type(error).__name__}"


# The probes


def bus_answers(last_answer_age: Callable[[], float | None], limit_s: float) -> Probe:
    """The bus answered a ping within `limit_s`; a connected socket proves nothing."""

    async def probe() -> str | None:
        age = last_answer_age()
        if age is None:
            return "the bus has not answered yet"
        return f"the bus last answered {age:.0f} s ago" if age > limit_s else None

    return probe


def commits(commit: Callable[[], Awaitable[object]]) -> Probe:
    """The writer thread committed a probe."""

    async def probe() -> str | None:
        try:
            await commit()
        except OSError as error:
            return f"cannot commit: {error.strerror or type(error).__name__}"
        return None

    return probe


def as_configured(drift: Callable[[], Awaitable[list[str]]]) -> Probe:
    """The streams and the consumer are as they should be; `drift` names what differs."""

    async def probe() -> str | None:
        found = await drift()
        return "; ".join(found[:5]) if found else None

    return probe


def readers_follow(lags: Callable[[], Mapping[str, float]], limit_rows: Callable[[], int]) -> Probe:
    """No journal reader lags more than `limit_rows` rows."""

    async def probe() -> str | None:
        late = {reader: rows for reader, rows in lags().items() if rows > limit_rows()}
        return "; ".join(f"{reader} lags {rows:.0f} rows" for reader, rows in sorted(late.items())) or None

    return probe


def disk_has_room(path: Path, minimum_mb: Callable[[], int]) -> Probe:
    """At least `minimum_mb` MiB are free where `path` lies."""

    async def probe() -> str | None:
        free = shutil.disk_usage(path).free // 1_048_576
        return f"{free} MiB free, {minimum_mb()} needed" if free < minimum_mb() else None

    return probe
