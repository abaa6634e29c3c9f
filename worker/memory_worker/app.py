"""Wires the worker: data directory, bus, tenants, dispatch, intake, health; starts and stops them in order."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from importlib import metadata
from pathlib import Path

import msgspec
import structlog

from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.functions.operations import DoctorReply
from memory_contracts.subjects import Subjects
from memory_worker.bus import (
    Bus,
    BusFiles,
    CallInfo,
    Dispatcher,
    Finished,
    Intake,
    Layout,
    Limits,
    Service,
    check_permissions,
    forbidden_to_worker,
    prove_all,
    refuse_second_store,
    verify_streams,
    worker_permissions,
)
from memory_worker.clock import Clock, SystemClock
from memory_worker.config import Settings
from memory_worker.embedded import EmbeddedBus
from memory_worker.handlers import extraction_status, handlers
from memory_worker.health import Health, HealthServer, Metrics, Systemd, roundtrip
from memory_worker.recall import Embedder, MiniLmEmbedder, StaticEmbedder
from memory_worker.roundtrip import roundtrip_of
from memory_worker.sink import InboxSink
from memory_worker.store import Caller, DataDirectory, OpenTenants, new_id
from memory_worker.tenant import Shared, Tenant
from memory_worker.vitals import Vitals

log = structlog.get_logger(__name__)

EXIT_BUS_CLOSED = 70
"""Exit code when the bus closed the connection for good: a supervisor should start the worker again."""
EXIT_STOP_LATE = 71
"""Exit code when an orderly stop took longer than the setting `shutdown_s`."""
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
        app.systemd.ready("serving")
        await app.until(stop)
    finally:
        await app.stop_in_time()
    return app.exit_code


class App:
    """The parts of one worker process."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.exit_code = 0
        self.metrics = Metrics(version())
        self.health = Health()
        self.systemd = Systemd()
        self._directory = DataDirectory(Path(settings.data_dir))
        self._subjects = Subjects(settings.prefix, settings.turn_prefix, settings.turn_stream)
        self._stack = contextlib.AsyncExitStack()
        self._server: EmbeddedBus | None = None
        self._bus: Bus | None = None
        self._tenants: OpenTenants[Tenant] | None = None
        self._dispatcher: Dispatcher | None = None
        self._sink: InboxSink | None = None
        self._http_port = 0
        self._failpoint = failpoint_from(os.environ)

    async def start(self, *, embedded: bool) -> None:
        """Start everything; what was started is stopped again when a later part fails."""
        self._directory.acquire()
        self._stack.callback(self._directory.release)
        # Before anything that may take long, so that a migration is seen to be under way.
        server = HealthServer(self.health, self.metrics.exposition)
        self._http_port = await server.start(self.settings.http_host, self.settings.http_port)
        self._stack.push_async_callback(server.stop)
        credentials = await self._bus_credentials(embedded)
        self._bus = await Bus.connect(credentials, name="memory-worker")
        self._stack.push_async_callback(self._bus.close)
        await self._self_test(self._bus)
        await verify_streams(self._bus, self._subjects, self._served())
        store_id = read_store_id(self._directory.path)
        service = Service(self._bus, version=version(), store_id=store_id, tenants=self._served())
        await refuse_second_store(service, store_id, self._served())
        tenants = self._tenants = self._make_tenants(self._bus)
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
        self._server = await EmbeddedBus.start(
            self._directory.path,
            settings.port,
            self._layout(),
            self._subjects,
            self._served,
            store_max_mb=settings.bus_store_max_mb,
        )
        self._stack.push_async_callback(self._server.stop)
        return self._server.credentials

    def _layout(self) -> Layout:
        """How the bus is laid out, as far as the settings tell."""
        settings = self.settings
        return Layout(
            kind="single" if settings.require_own_inbox else "accounts",
            tenants=self._served(),
            prefix=settings.prefix,
            turn_prefix=settings.turn_prefix,
            turn_stream=settings.turn_stream,
            session_subjects=(settings.session_get_subject, settings.session_messages_subject),
            router_subjects=(
                settings.router_complete_subject,
                settings.router_embed_subject,
                settings.router_models_subject,
            ),
        )

    async def _self_test(self, bus: Bus) -> None:
        """Refuse to start where the bus does not let the worker do its work; tell of what it should not let it do."""
        layout = self._layout()
        needed = worker_permissions(layout, bus.credentials.inbox_prefix)
        report = await prove_all(bus, needed, forbidden_to_worker(layout))
        if report.excess or report.unproven:
            log.warning("bus.more_than_needed", granted=report.excess[:20], not_refused=report.unproven)

    async def _permissions(self, bus: Bus) -> list[str]:
        """What the bus lets the worker do beyond what it needs, or does not let it do."""
        layout = self._layout()
        needed = worker_permissions(layout, bus.credentials.inbox_prefix)
        report = await check_permissions(bus, needed, forbidden_to_worker(layout))
        return [
            *(f"missing: {subject}" for subject in report.missing),
            *(f"more than needed: {subject}" for subject in report.excess),
            *(f"not refused: {subject}" for subject in report.unproven),
        ]

    def _served(self) -> tuple[str, ...]:
        named = [tenant for tenant in self.settings.tenants if tenant != "*"]
        known = self._directory.known() if "*" in self.settings.tenants else []
        return tuple(dict.fromkeys((*named, *known)))

    def _serves(self, tenant: str) -> bool:
        return "*" in self.settings.tenants or tenant in self.settings.tenants

    def _make_tenants(self, bus: Bus) -> OpenTenants[Tenant]:
        shared = Shared(
            settings=self.settings,
            clock=self.clock,
            bus=bus,
            subjects=self._subjects,
            embedder=make_embedder(self.settings),
            version=version(),
            observer=self.metrics,
            failpoint=self._failpoint,
        )

        async def open_one(name: str) -> Tenant:
            settings = msgspec.structs.replace(shared, settings=self.settings)
            tenant = Tenant(name, self._directory.path / name, settings)
            await tenant.open()
            return tenant

        return OpenTenants(
            open_one, lambda tenant: tenant.close(), lambda tenant: tenant.busy(), self.settings.tenants_open_max
        )

    async def _serve(self, bus: Bus, service: Service, tenants: OpenTenants[Tenant]) -> None:
        settings = self.settings
        sink = self._sink = InboxSink(
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
        vitals = Vitals(
            settings=lambda: self.settings,
            bus=bus,
            subjects=self._subjects,
            directory=self._directory.path,
            intake=intake,
            malformed=lambda: sink.malformed,
            opened=tenants.opened,
            served=self._served,
            clock=self.clock,
            # The embedded server's configuration is ours; another one does not tell.
            sync_always=True if self._server is not None else None,
            permission_drift=lambda: self._permissions(bus),
        )

        table = handlers(tenants.get)

        async def doctor(caller: Caller, request: object, info: CallInfo) -> DoctorReply:
            tenant = await tenants.get(caller.tenant)
            steps = roundtrip_of(tenant, table, bus, self._subjects, files=self.settings.files)
            people = caller.route == "human"
            return await vitals.examine(
                tenant, version(), lambda: extraction_status(tenant), roundtrip(steps), named=people
            )

        dispatcher = self._dispatcher = Dispatcher(
            bus,
            self._subjects,
            vitals.watch_answers({**table, "doctor": doctor}, self.metrics),
            service,
            limits=limits_of(settings),
            require_own_inbox=settings.require_own_inbox,
            serves=self._serves,
            observer=self._observe,
        )
        await dispatcher.start()
        self._stack.push_async_callback(dispatcher.stop)
        await intake.start()
        self._stack.push_async_callback(intake.stop)
        vitals.watch_health(self.health)
        vitals.watch_metrics(self.metrics, self.health)
        self._background(self.health.beat(), vitals.keep_sampling(self.metrics), self.systemd.keep_alive(self.health))
        if self._server is not None:
            self._background(self._server.keep(bus, lambda: any(t.relay.refused for t in tenants.opened().values())))

    def _background(self, *works: Coroutine[object, object, None]) -> None:
        """Run `works` until the end."""
        tasks = [asyncio.create_task(work) for work in works]

        async def cancel() -> None:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._stack.push_async_callback(cancel)

    def _observe(self, finished: Finished) -> None:
        self.metrics.request(finished.function, finished.route, finished.outcome, finished.seconds)

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
        """Take over settings that may change while running; a tenant opened later reads them at its opening."""
        self.settings = settings
        if self._dispatcher is not None:
            self._dispatcher.limits = limits_of(settings)
        if self._sink is not None:
            self._sink.apply(max_rows=settings.inbox_max_rows, max_bytes=settings.inbox_max_bytes)
        if self._tenants is not None:
            self._tenants.most = settings.tenants_open_max
            for tenant in self._tenants.opened().values():
                tenant.apply(settings)

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

    async def stop_in_time(self) -> None:
        """Stop everything, and leave anyway when that takes too long: correctness does not depend on an orderly end."""
        try:
            async with asyncio.timeout(self.settings.shutdown_s):
                await self.stop()
        except TimeoutError:
            log.error("stop.late", seconds=self.settings.shutdown_s)
            os._exit(EXIT_STOP_LATE)

    async def stop(self) -> None:
        """Stop everything that was started, the last first."""
        self.health.mark_stopping()
        self.systemd.stopping()
        await self._stack.aclose()


def limits_of(settings: Settings) -> Limits:
    """The dispatch layer's part of the settings."""
    return Limits(concurrency=settings.function_concurrency, deadline_s=settings.request_deadline_ms / 1_000)


def make_embedder(settings: Settings) -> Embedder | None:
    """Make the process's own model, if the settings ask for one; the router is asked per tenant.

    Raises ModelUnavailable when the sentence model is not installed.
    """
    match settings.embedding_model:
        case "static":
            return StaticEmbedder()
        case "minilm":
            return MiniLmEmbedder()
        case _:
            return None


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
