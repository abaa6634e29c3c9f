"""Fixtures of every room: a real nats-server in either layout, and connections to it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, settings

from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from tests.system.harness import BusUnderTest, running_server

# Machines are shared and slow at times; how long an example takes says nothing about the rule it tests.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

ConnectAs = Callable[[str], Awaitable[MemoryClient]]
BusAs = Callable[[str], Awaitable[Bus]]


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusUnderTest]:
    """A server in the layout of `memory up`: one account for the worker, one per tenant."""
    with running_server(tmp_path_factory.mktemp("accounts"), "accounts") as running:
        yield running


@pytest.fixture(scope="module", params=["accounts", "single"])
def either_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusUnderTest]:
    """Each layout in turn."""
    with running_server(tmp_path_factory.mktemp(request.param), request.param) as running:
        yield running


@pytest.fixture
async def connect_as(nats_server: BusUnderTest) -> AsyncIterator[ConnectAs]:
    """Connect a typed client as one identity, by the name of its credentials file; closed at the end."""
    async with AsyncExitStack() as stack:

        async def connect(name: str) -> MemoryClient:
            return await stack.enter_async_context(await MemoryClient.connect(nats_server.credentials(name)))

        yield connect


@pytest.fixture
async def bus_as(nats_server: BusUnderTest) -> AsyncIterator[BusAs]:
    """Connect without the typed client; closed at the end."""
    async with AsyncExitStack() as stack:

        async def connect(name: str) -> Bus:
            return await stack.enter_async_context(nats_server.bus(name))

        yield connect
