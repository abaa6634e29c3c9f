"""One consolidate process, as the crash tests start and kill it: `python -m tests.consolidate.instance CREDENTIALS`."""

import asyncio
import sys

from memory_consolidate import ConsolidateSettings, Consolidator
from memory_contracts.client import MemoryClient

PACE_S = 0.02
"""Rest after each request, so that a kill meets a run in the middle."""


async def slowly(_: float) -> None:
    await asyncio.sleep(PACE_S)


async def main(credentials: str) -> None:
    settings = ConsolidateSettings(quiet_s=0.2, interval_s=9e9, tick_s=0.1, lease_s=1.0)
    async with await MemoryClient.connect(credentials) as client:
        await Consolidator(client, settings, pace=slowly).serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
