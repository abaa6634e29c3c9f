"""The doctor's ready-made checks: disk, clock, server, readers, backlog, siblings, files, store."""

import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from memory_contracts.functions.operations import Check, ExtractionStatusReply
from memory_worker.config import Need, Settings
from memory_worker.health.doctor import Examine

ON_DEMAND = "index"
"""The reader that reads when it is asked."""
CLOCK_SKEW_WARN_S = 2.0
"""Difference to the bus's clock beyond which expiry and order look odd to people."""
SERVER_FLOOR: tuple[tuple[int, int, int], ...] = ((2, 12, 12), (2, 14, 3))
"""Oldest safe server of the 2.12 line, and of 2.14 and later (the 2026 advisories on subject permissions)."""
BACKLOG_WARN_S = 300.0
"""Age of the oldest waiting turn beyond which the doctor warns."""


def ok(name: str, detail: str) -> Check:
    """Make a line that needs no one."""
    return Check(name=name, state="ok", detail=detail)


def degraded(name: str, detail: str, hint: str) -> Check:
    """Make a line about something that works less well; `hint` says what to do."""
    return Check(name=name, state="degraded", detail=detail, hint=hint)


def failing(name: str, detail: str, hint: str) -> Check:
    """Make a line about something that does not work; `hint` says what to do."""
    return Check(name=name, state="failing", detail=detail, hint=hint)


def disk(path: Path, settings: Settings) -> Examine:
    """Free space and write permission where the data lies."""

    async def examine() -> Sequence[Check]:
        free = shutil.disk_usage(path).free // 1_048_576
        seen = f"{free:,} MiB free"
        if not os.access(path, os.W_OK):
            return [failing("disk", "the data directory is not writable", "make it writable for this user")]
        if free < settings.disk_free_min_mb:
            hint = f"free at least {settings.disk_free_min_mb:,} MiB; writes are refused when it is full"
            return [failing("disk", seen, hint)]
        if free < settings.disk_free_warn_mb:
            hint = f"free some: below {settings.disk_free_min_mb:,} MiB the worker is not ready"
            return [degraded("disk", seen, hint)]
        return [ok("disk", seen)]

    return examine


def clock_skew(seconds: Callable[[], Awaitable[float]]) -> Examine:
    """How far this machine's clock is from the bus's; `seconds` is positive when ours is ahead."""

    async def examine() -> Sequence[Check]:
        skew = await seconds()
        seen = f"{skew:+.1f} s against the bus"
        if abs(skew) > CLOCK_SKEW_WARN_S:
            return [degraded("clock", seen, "set both clocks by NTP; times and expiry follow this machine's clock")]
        return [ok("clock", seen)]

    return examine


def server(version: Callable[[], Awaitable[str]], sync_always: Callable[[], Awaitable[bool | None]]) -> Examine:
    """The server's version against the security floor, and whether it syncs before it acknowledges."""

    async def version_line() -> Check:
        found = await version()
        if _new_enough(found):
            return ok("bus version", f"nats-server {found}")
        hint = "upgrade to 2.14.3 or newer: older ones have known holes in subject permissions"
        return degraded("bus version", f"nats-server {found}", hint)

    async def sync_line() -> Check:
        sync = await sync_always()
        if sync is None:
            return ok("bus sync", "the server does not tell; it should have sync_interval: always")
        if sync:
            return ok("bus sync", "turns are on disk before they are acknowledged")
        hint = "set jetstream { sync_interval: always } and restart the server"
        return degraded("bus sync", "turns acknowledged to a harness can be lost in a power cut", hint)

    async def examine() -> Sequence[Check]:
        return [await version_line(), await sync_line()]

    return examine


def _new_enough(version: str) -> bool:
    numbers = tuple(int(part) for part in version.split("-", 1)[0].split(".") if part.isdigit())
    if len(numbers) != 3:
        return False
    return numbers >= SERVER_FLOOR[1] or (numbers[:2] == (2, 12) and numbers >= SERVER_FLOOR[0])


def permissions(drift: Callable[[], Awaitable[list[str]]]) -> Examine:
    """What the bus lets us do against what we need and must not do; `drift` names each difference."""

    async def examine() -> Sequence[Check]:
        if found := await drift():
            return [degraded("permissions", "; ".join(found[:5]), "compare the server's users with deploy/nats")]
        return [ok("permissions", "all that is needed, nothing that must not be")]

    return examine


def streams(drift: Callable[[], Awaitable[list[str]]]) -> Examine:
    """Streams and the intake consumer as they should be; `drift` names each difference."""

    async def examine() -> Sequence[Check]:
        if found := await drift():
            return [failing("streams", "; ".join(found[:5]), "run `memory admin streams` with the admin credentials")]
        return [ok("streams", "as configured")]

    return examine


def readers(lags: Callable[[], Mapping[str, float]], settings: Settings) -> Examine:
    """Every journal reader's lag, in rows."""

    async def examine() -> Sequence[Check]:
        hint = "it catches up by itself; if it does not, restart the worker"
        return [
            ok(f"reader {name}", _behind(name, rows))
            if rows <= settings.ready_lag_rows
            else degraded(f"reader {name}", _behind(name, rows), hint)
            for name, rows in sorted(lags().items())
        ]

    return examine


def _behind(reader: str, rows: float) -> str:
    """Say how far a reader is; the recall index reads only when it is asked, and then before it answers."""
    if not rows:
        return "has read every change"
    if reader == ON_DEMAND:
        return f"{rows:,.0f} changes since the last question; it reads them before it answers the next one"
    return f"{rows:,.0f} changes not read yet"


def backlog(status: Callable[[], Awaitable[ExtractionStatusReply]]) -> Examine:
    """Waiting and parked turns."""

    async def examine() -> Sequence[Check]:
        found = await status()
        seen = f"{found.backlog} waiting, {found.in_work} in work, oldest {found.oldest_age_s:.0f} s"
        late = found.oldest_age_s > BACKLOG_WARN_S
        lines = [
            degraded("backlog", seen, "see the siblings' lines: turns wait for them") if late else ok("backlog", seen)
        ]
        seen = f"{found.parked_total} parked"
        if found.parked_total:
            hint = "`memory extraction status` says why; `memory extraction retry --all` tries again"
            return [*lines, degraded("parked turns", seen, hint)]
        return [*lines, ok("parked turns", seen)]

    return examine


def sibling(name: str, need: Need, ask: Callable[[], Awaitable[object]]) -> Examine:
    """One sibling answers, if it is asked at all; `ask` raises when it does not."""

    async def examine() -> Sequence[Check]:
        if need == "none":
            return [ok(name, "not configured, not asked")]
        try:
            await ask()
        except Exception as error:  # whatever went wrong, the sibling did not answer
            hint = "turns wait until it answers; nothing is lost"
            return [degraded(name, f"no answer: {type(error).__name__}", hint)]
        return [ok(name, "answers")]

    return examine


def arms(states: Callable[[], Awaitable[Mapping[str, str]]]) -> Examine:
    """Every recall arm; `states` gives `ok`, `off`, `empty`, or what is wrong."""

    async def examine() -> Sequence[Check]:
        return [
            ok(f"recall {arm}", state)
            if state in ("ok", "off", "empty")
            else degraded(f"recall {arm}", state, "the other arms serve; every recall says which ran")
            for arm, state in sorted((await states()).items())
        ]

    return examine


def files(problems: Callable[[], Awaitable[Sequence[str]]]) -> Examine:
    """Files that cannot be read; `problems` gives their paths."""

    async def examine() -> Sequence[Check]:
        if found := list(await problems()):
            seen = f"{len(found)} cannot be read: {', '.join(found[:3])}"
            return [degraded("files", seen, "they are left as they are; the folder `problems` says why")]
        return [ok("files", "all read")]

    return examine


def store(look: Callable[[], Awaitable[tuple[int, Sequence[str]]]]) -> Examine:
    """The schema's version, and what SQLite's own integrity check finds wrong (empty = sound)."""

    async def examine() -> Sequence[Check]:
        version, found = await look()
        line = ok("schema", f"version {version}")
        if found:
            hint = "stop the worker and `memory restore` the last backup"
            return [line, failing("integrity", "; ".join(found[:3]), hint)]
        return [line, ok("integrity", "the database is sound")]

    return examine
