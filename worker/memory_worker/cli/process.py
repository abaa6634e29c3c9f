"""Commands that run processes: up, worker, consolidate, router."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
import uvloop

from memory_contracts.connection import BusError
from memory_contracts.credentials import CredentialsError
from memory_contracts.errors import FunctionError
from memory_worker import logs
from memory_worker.bus import ServerError, StoreConflict
from memory_worker.cli import render
from memory_worker.cli.command import Command, pass_session
from memory_worker.cli.session import CONSOLIDATE, CREDENTIALS_ENV, ROUTER, Session
from memory_worker.config import Settings
from memory_worker.settings_source import SettingsError, adopt
from memory_worker.store import DataDirectoryInUse, DataDirectoryUnusable, StoreTooNew
from memory_worker.store.library import StoreDamaged

RESTART_MIN_S = 1.0
"""Pause before the consolidate worker is started again after it stopped by itself; doubles each time."""
RESTART_MAX_S = 60.0
"""Longest such pause."""
STOP_S = 10.0
"""Time a helper has to stop before it is ended."""
EXIT_STOP_LATE = 71
"""Exit code of a helper that did not stop in time."""


@click.command(cls=Command)
@click.option("--port", type=click.IntRange(0, 65_535), help="Port of the embedded bus.  [default: 4222]")
@click.option("--http-port", type=click.IntRange(0, 65_535), help="Port of health and metrics.  [default: 9464]")
@click.option("--no-consolidate", is_flag=True, help="Do not start the consolidate worker.")
@pass_session
def up(session: Session, port: int | None, http_port: int | None, no_consolidate: bool) -> None:
    """Start everything on this machine: the bus, the worker and the consolidate worker.

    With NATS_URL set, that bus is used instead of an embedded one.
    """
    settings = _settings(session, port=port, http_port=http_port)
    _run(session, settings, embedded=not settings.nats_url, consolidate=not no_consolidate, greet=_greeting)


@click.command(cls=Command)
@click.option("--http-port", type=click.IntRange(0, 65_535), help="Port of health and metrics.  [default: 9464]")
@pass_session
def worker(session: Session, http_port: int | None) -> None:
    """Run the memory worker alone, on the bus that NATS_URL and MEMORY_CREDENTIALS name."""
    settings = _settings(session, http_port=http_port)
    if not settings.nats_url and settings.credentials is None:
        raise click.UsageError("set NATS_URL and MEMORY_CREDENTIALS, or use `memory up` for an embedded bus")
    _run(session, settings, embedded=False, consolidate=False, greet=None)


def _settings(session: Session, **flags: Any) -> Settings:
    loaded = session.loaded(**flags)
    logs.configure(loaded.settings.log_level)
    log = logs.get_logger(room="cli")
    for warning in loaded.warnings:
        log.warning("settings.odd", hint=warning)
    return loaded.settings


def _run(
    session: Session,
    settings: Settings,
    *,
    embedded: bool,
    consolidate: bool,
    greet: Callable[[Any], str] | None,
) -> None:
    # Only here: the other commands must not load numpy and the stemmers.
    from memory_worker import app
    from memory_worker.recall import ModelUnavailable

    async def main() -> int:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Any] = loop.create_future()

        def on_ready(info: Any) -> None:
            # Before anybody is told that it is ready: until then SIGHUP would end it.
            loop.add_signal_handler(signal.SIGHUP, _Reload(session, settings, info))
            if session.as_json:
                line = {"ready": True, "url": info.url, "data_dir": str(info.data_dir), "http_port": info.http_port}
                click.echo(msgspec.json.encode(line).decode())
            elif greet is not None:
                click.echo(greet(info))
            sys.stdout.flush()
            if not ready.done():
                ready.set_result(info)

        helper = asyncio.create_task(_consolidate_beside(ready)) if consolidate else None
        try:
            return await app.run(settings, embedded=embedded, on_ready=on_ready)
        finally:
            if helper is not None:
                helper.cancel()
                await asyncio.gather(helper, return_exceptions=True)

    try:
        code = uvloop.run(main())
    except (BusError, CredentialsError, ServerError, StoreConflict) as error:
        session.fail(FunctionError("unavailable", str(error)))
    except (DataDirectoryInUse, DataDirectoryUnusable, StoreTooNew, ModelUnavailable) as error:
        session.fail(FunctionError("conflict", str(error)))
    except StoreDamaged as error:
        hint = "`memory restore` the last backup into another --data-dir"
        session.fail(FunctionError("internal", f"the store cannot be read: {error}", hint=hint))
    sys.exit(code)


class _Reload:
    """SIGHUP: read the settings again; take over what may change, name what needs a restart."""

    def __init__(self, session: Session, settings: Settings, info: Any) -> None:
        self._session = session
        self._settings = settings
        self._info = info
        self._log = logs.get_logger(room="cli")

    def __call__(self) -> None:
        try:
            fresh = self._session.reloaded().settings
        except SettingsError as error:
            self._log.error("settings.refused", problems=[str(problem) for problem in error.problems])
            return
        # Ports are what they became at the start, wherever they came from.
        fresh = msgspec.structs.replace(fresh, port=self._settings.port, http_port=self._settings.http_port)
        adopted = adopt(self._settings, fresh)
        self._settings = adopted.settings
        logs.set_level(self._settings.log_level)
        self._info.apply(self._settings)
        self._log.info("settings.reloaded", taken=adopted.taken, needs_restart=adopted.needs_restart)


def _greeting(info: Any) -> str:
    person = Path(info.data_dir) / "credentials" / "human-me.json"
    lines = [
        click.style("memory-worker is ready", bold=True),
        "",
        f"  bus       {info.url}",
        f"  data      {info.data_dir}",
        f"  health    http://127.0.0.1:{info.http_port}/readyz   /livez   /metrics",
        f"  identity  {person}",
        "",
        "In another terminal:",
        '  memory turn "I prefer short answers, and my sister Ana lives in Porto."',
        '  memory recall "where does my sister live?"',
        "  memory list        memory watch        memory doctor",
        "",
        render.dim("Ctrl-C stops it; nothing acknowledged is lost."),
    ]
    return "\n".join(lines)


async def _consolidate_beside(ready: Awaitable[Any]) -> None:
    """Keep one consolidate process beside the worker; it stops with us, however we end."""
    info = await ready
    log = logs.get_logger(room="cli")
    credentials = Path(info.data_dir) / "credentials" / f"{CONSOLIDATE}.json"
    pause = RESTART_MIN_S
    while True:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "memory_worker.cli", "consolidate", "--stop-on-eof", "--data-dir", info.data_dir),
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, CREDENTIALS_ENV: str(credentials)},
            start_new_session=True,  # Ctrl-C reaches it through us, in order
        )
        started = asyncio.get_running_loop().time()
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        log.warning("consolidate.stopped", code=code, again_in_s=pause)
        if asyncio.get_running_loop().time() - started > RESTART_MAX_S:
            pause = RESTART_MIN_S
        await asyncio.sleep(pause)
        pause = min(pause * 2, RESTART_MAX_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def until_stopped(main: Awaitable[int], *, stop_on_eof: bool) -> int:
    """Run `main` until it ends, a signal asks for an end, or the parent that holds our input is gone."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main)

    def stop(*_: object) -> None:
        task.cancel()
        # Whatever holds on to its work after that, the process does not outlive its end.
        loop.call_later(STOP_S, os._exit, EXIT_STOP_LATE)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if stop_on_eof:
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        asyncio.ensure_future(reader.read()).add_done_callback(stop)
    try:
        return await task
    except asyncio.CancelledError:
        return 0


def run_helper(session: Session, main: Awaitable[int], *, stop_on_eof: bool = False) -> NoReturn:
    """Run one of the helpers as this process's work and leave with its exit code."""
    logs.configure(session.settings().log_level)
    try:
        code = uvloop.run(until_stopped(main, stop_on_eof=stop_on_eof))
    except FunctionError as error:
        session.fail(error)
    except (BusError, CredentialsError) as error:
        session.fail(FunctionError("unavailable", str(error)))
    sys.exit(code)


@click.command(cls=Command)
@pass_session
def router(session: Session) -> None:
    """Run the bridge that answers the router's subjects from an OpenAI-compatible endpoint."""
    try:
        from memory_router import serve
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error.name} is missing: pip install 'memory-worker[router]'") from None
    run_helper(session, serve(session.credentials(session.speaks_as or ROUTER)))


COMMANDS: list[click.Command] = [up, worker, router]
