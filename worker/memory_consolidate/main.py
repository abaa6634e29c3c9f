"""The entry point of the consolidate process."""

import os

import structlog

from memory_consolidate.service import Consolidator
from memory_consolidate.settings import ConsolidateSettings
from memory_contracts.client import MemoryClient
from memory_contracts.credentials import Credentials

FIRST_CONNECT_S = 30.0
"""Seconds the bus may take to come up before the process gives up."""
NICENESS = 10
"""How far the process steps back behind the worker: hygiene has time, a recall has not."""
EXIT_BUS_CLOSED = 70
"""The connection was closed for good (refused credentials, a fatal error); a supervisor starts us again."""


async def serve(credentials: str | os.PathLike[str] | Credentials, settings: ConsolidateSettings | None = None) -> int:
    """Run the consolidate worker of the credentials' tenant until cancelled; gives the exit code.

    Raises CredentialsError, and FunctionError `unavailable` when the bus cannot be reached at the start.
    """
    os.nice(NICENESS)
    async with await MemoryClient.connect(credentials, name="memory-consolidate", wait=FIRST_CONNECT_S) as client:
        structlog.get_logger(room="consolidate").info("consolidate.started", tenant=client.bus.credentials.tenant)
        await Consolidator(client, settings or ConsolidateSettings()).serve()
        return EXIT_BUS_CLOSED
