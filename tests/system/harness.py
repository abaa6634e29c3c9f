"""A real nats-server with generated users for tests, and ways to wait for what must become true."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memory_contracts.connection import Bus
from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.records import Memory, Source
from memory_contracts.subjects import Subjects
from memory_worker.bus import (
    Dispatcher,
    EmbeddedServer,
    Handler,
    Layout,
    Limits,
    Service,
    add_credentials,
    create_streams,
    ensure_defaults,
)

TENANTS = ("local", "acme")
DEADLINE_S = 10.0
"""Longest wait for a condition; far above what any takes."""


class BusUnderTest:
    """A running server with the default identities of two tenants and a few more."""

    def __init__(self, server: EmbeddedServer, layout: Layout) -> None:
        self.server = server
        self.layout = layout
        self.subjects = layout.subjects

    def credentials(self, name: str) -> Credentials:
        """Credentials by file name, e.g. `human-me`, `acme.agent-default`, `worker`."""
        return load_credentials(self.server.files.credentials_of(name))

    @asynccontextmanager
    async def bus(self, name: str) -> AsyncIterator[Bus]:
        """A connection as one identity."""
        bus = await Bus.connect(self.credentials(name), name=f"test-{name}")
        try:
            yield bus
        finally:
            await bus.close()

    @asynccontextmanager
    async def serving(
        self, handlers: dict[str, Handler], *, limits: Limits | None = None, **options: Any
    ) -> AsyncIterator[Dispatcher]:
        """The worker's dispatch layer with these handlers."""
        async with self.bus("worker") as bus:
            service = Service(bus, version="0.0.1", store_id="store-of-test", tenants=TENANTS)
            dispatcher = Dispatcher(
                bus,
                self.subjects,
                handlers,
                service,
                limits=limits,
                require_own_inbox=self.layout.kind == "single",
                **options,
            )
            await dispatcher.start()
            try:
                yield dispatcher
            finally:
                await dispatcher.stop()


@contextmanager
def running_server(data_dir: Path, kind: str = "accounts") -> Iterator[BusUnderTest]:
    """Start a server on a free port, make streams and a few more identities, and stop it at the end."""
    layout = Layout(kind=cast(Any, kind), tenants=TENANTS)

    async def start() -> EmbeddedServer:
        ensure_defaults(data_dir, "nats://127.0.0.1:4222", layout)
        for route, principal in (("agent", "coder"), ("human", "bob"), ("ui", "dashboard")):
            add_credentials(data_dir, route=cast(Any, route), principal=principal, url="nats://127.0.0.1:4222")
        server = await EmbeddedServer.start(data_dir, port=0, layout=layout)
        async with await Bus.connect(load_credentials(server.files.credentials_of("admin")), name="admin") as admin:
            await create_streams(admin, Subjects(), TENANTS)
        return server

    server = asyncio.run(start())
    try:
        yield BusUnderTest(server, layout)
    finally:
        asyncio.run(server.stop())


async def eventually(condition: Callable[[], Any | Awaitable[Any]], what: str = "the condition") -> Any:
    """Wait until `condition` gives something true, and give that; fail after `DEADLINE_S`."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {DEADLINE_S:.0f} s")
        await asyncio.sleep(0.01)


def a_memory(id: str = "mem_1", bank: str = "main", text: str = "The user has a dog called Rex.") -> Memory:
    """A memory as a reply carries it."""
    now = datetime(2026, 11, 30, 3, 51, 42, tzinfo=UTC)
    return Memory(
        id=id,
        bank=bank,
        text=text,
        kind="fact",
        tier="inferred",
        source=Source(route="agent", principal="coder"),
        created_at=now,
        updated_at=now,
        last_seen_at=now,
    )
