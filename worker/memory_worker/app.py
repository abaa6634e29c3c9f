"""Wires the worker: data directory, bus, tenants, dispatch, intake, health; starts and stops them in order."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import msgspec
import structlog

from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.subjects import Subjects
from memory_worker.bus import (
    Bus,
    BusFiles,
    Dispatcher,
    EmbeddedServer,
    Finished,
    Intake,
    Layout,
    Limits,
    Service,
    create_streams,
    refuse_second_store,
    verify_streams,
)
from memory_worker.clock import Clock, SystemClock
from memory_worker.config import Settings
from memory_worker.handlers import handlers
from memory_worker.health import Health, HealthServer, Metrics
from memory_worker.recall import Embedder, StaticEmbedder
from memory_worker.sink import InboxSink
from memory_worker.store import DataDirectory, OpenTenants, new_id
from memory_worker.tenant import Shared, Tenant

log = structlog.get_logger(__name__)

EXIT_BUS_CLOSED = 70
"""Exit code when the bus closed the connection for good: a supervisor should start the worker again."""
STORE_ID_FILE = "store.id"
"""File that names this data directory, so that a second store for the same tenants is noticed."""
FAILPOINT_ENV = "MEMORY_FAILPOINT"
"""Name of a point at which the process kills itself, optionally `name:count`: crash tests use it."""


class ReadyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a started worker tells: where the bus, the data and health are."""

    url: str
    data_dir: str
    http_port: int
    credentials_dir: str
    apply: Callable[[Settings], None]


async def run(
    settings: Settings,
    *,
    embedded: bool,
    on_ready: Callable[[ReadyInfo], None] = lambda info: None,
    clock: Clock | None = None,
) -> int:
    """Run until a signal asks for an end, or the bus is gone for good; gives the exit code.

    Raises `DataDirectoryUnusable`, `DataDirectoryInUse`, `StoreTooNew`, `ServerError` and `BusError` when it cannot
    start.
    """
    app = App(settings, clock or SystemClock())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked_to_stop() -> None:
        if stop.is_set():
            os._exit(130)  # the second request: correctness does not depend on an orderly end
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop)
    try:
        await app.start(embedded=embedded)
        on_ready(app.info())
        await app.until(stop)
    finally:
        await app.stop()
    return app.exit_code


class App:
    """The parts of one worker process."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.exit_code = 0
        self.metrics = Metrics(version())
        self.health = Health()
        self._directory = DataDirectory(Path(settings.data_dir))
        self._subjects = Subjects(settings.prefix, settings.turn_prefix)
        self._stack = contextlib.AsyncExitStack()
        self._server: EmbeddedServer | None = None
        self._bus: Bus | None = None
        self._http_port = 0
        self._failpoint = failpoint_from(os.environ)

    async def start(self, *, embedded: bool) -> None:
        """Start everything; what was started is stopped again when a later part fails."""
        self._directory.acquire()
        self._stack.callback(self._directory.release)
        credentials = await self._bus_credentials(embedded)
        self._bus = await Bus.connect(credentials, name="memory-worker")
        self._stack.push_async_callback(self._bus.close)
        await verify_streams(self._bus, self._subjects, self._served())
        store_id = read_store_id(self._directory.path)
        service = Service(self._bus, version=version(), store_id=store_id, tenants=self._served())
        await refuse_second_store(service, store_id, self._served())
        tenants = self._tenants(self._bus)
        self._stack.push_async_callback(tenants.close)
        for tenant in self._served():
            await tenants.get(tenant)
        await self._serve(self._bus, service, tenants)
        self.health.mark_started()

    async def _bus_credentials(self, embedded: bool) -> Credentials:
        settings = self.settings
        if not embedded:
            if settings.credentials is None:
                files = BusFiles(settings.data_dir)
                found = load_credentials(files.credentials_of("worker"))
                return msgspec.structs.replace(found, url=settings.nats_url or found.url)
            found = load_credentials(settings.credentials)
            return msgspec.structs.replace(found, url=settings.nats_url or found.url)
        layout = Layout(tenants=settings.tenants, prefix=settings.prefix, turn_prefix=settings.turn_prefix)
        self._server = await EmbeddedServer.start(settings.data_dir, port=settings.port, layout=layout)
        self._stack.push_async_callback(self._server.stop)
        files = self._server.files
        admin = await Bus.connect(load_credentials(files.credentials_of("admin")), name="memory-admin")
        try:
            await create_streams(admin, self._subjects, self._served())
        finally:
            await admin.close()
        return load_credentials(files.credentials_of("worker"))

    def _served(self) -> tuple[str, ...]:
        named = [tenant for tenant in self.settings.tenants if tenant != "*"]
        known = self._directory.known() if "*" in self.settings.tenants else []
        return tuple(dict.fromkeys((*named, *known)))

    def _serves(self, tenant: str) -> bool:
        return "*" in self.settings.tenants or tenant in self.settings.tenants

    def _tenants(self, bus: Bus) -> OpenTenants[Tenant]:
        shared = Shared(
            settings=self.settings,
            clock=self.clock,
            bus=bus,
            subjects=self._subjects,
            embedder=make_embedder(self.settings),
            failpoint=self._failpoint,
        )

        async def open_one(name: str) -> Tenant:
            tenant = Tenant(name, self._directory.path / name, shared)
            await tenant.open()
            return tenant

        return OpenTenants(
            open_one, lambda tenant: tenant.close(), lambda tenant: tenant.busy(), self.settings.tenants_open_max
        )

    async def _serve(self, bus: Bus, service: Service, tenants: OpenTenants[Tenant]) -> None:
        settings = self.settings
        dispatcher = Dispatcher(
            bus,
            self._subjects,
            handlers(tenants.get),
            service,
            limits=Limits(concurrency=settings.function_concurrency, deadline_s=settings.request_deadline_ms / 1_000),
            require_own_inbox=settings.require_own_inbox,
            serves=self._serves,
            observer=self._observe,
        )
        sink = InboxSink(
            tenants.get,
            max_rows=settings.inbox_max_rows,
            max_bytes=settings.inbox_max_bytes,
            max_body=bus.max_payload,
            failpoint=self._failpoint,
        )
        intake = Intake(
            bus,
            self._subjects,
            sink,
            self.clock,
            stream=settings.turn_stream,
            fetch=settings.turn_fetch,
            erase=settings.turn_stream_owned,
        )
        await dispatcher.start()
        self._stack.push_async_callback(dispatcher.stop)
        await intake.start()
        self._stack.push_async_callback(intake.stop)
        server = HealthServer(self.health, self.metrics.exposition)
        self._http_port = await server.start(settings.http_host, settings.http_port)
        self._stack.push_async_callback(server.stop)

    def _observe(self, finished: Finished) -> None:
        self.metrics.request(finished.function, "", finished.outcome, finished.seconds)

    def info(self) -> ReadyInfo:
        """What a started worker tells."""
        assert self._bus is not None
        files = BusFiles(self.settings.data_dir)
        return ReadyInfo(
            url=self._bus.credentials.url,
            data_dir=str(self._directory.path),
            http_port=self._http_port,
            credentials_dir=str(files.credentials),
            apply=self.apply,
        )

    def apply(self, settings: Settings) -> None:
        """Take over settings that may change while running."""
        self.settings = settings

    async def until(self, stop: asyncio.Event) -> None:
        """Wait for the end: asked for, or forced by a bus that closed the connection for good."""
        assert self._bus is not None
        waits: list[asyncio.Task[object]] = [
            asyncio.create_task(stop.wait()),
            asyncio.create_task(self._bus.closed.wait()),
        ]
        done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if waits[1] in done and not stop.is_set():
            log.error("bus.closed", errors=list(self._bus.errors)[-3:])
            self.health.mark_fatal("the bus closed the connection for good")
            self.exit_code = EXIT_BUS_CLOSED

    async def stop(self) -> None:
        """Stop everything that was started, the last first."""
        self.health.mark_stopping()
        await self._stack.aclose()


def make_embedder(settings: Settings) -> Embedder | None:
    """Make what turns texts into vectors, as the settings ask."""
    if settings.embedding_model == "none":
        return None
    return StaticEmbedder()


def version() -> str:
    """This release's version."""
    return metadata.version("memory-worker")


def read_store_id(directory: Path) -> str:
    """Give the name of a data directory, making it at first."""
    path = directory / STORE_ID_FILE
    with contextlib.suppress(FileNotFoundError):
        return path.read_text("ascii").strip()
    store_id = new_id("store")
    path.write_text(f"{store_id}\n", "ascii")
    return store_id


def failpoint_from(environ: Mapping[str, str]) -> Callable[[str], None]:
    """Make the failpoint that the environment names: at its n-th passing the process kills itself."""
    chosen, _, count = environ.get(FAILPOINT_ENV, "").partition(":")
    if not chosen:
        return lambda name: None
    left = int(count or "1")

    def fail(name: str) -> None:
        nonlocal left
        if name == chosen:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return fail
