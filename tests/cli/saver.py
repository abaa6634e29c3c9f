"""Saves without end from many callers and prints each text that was acknowledged: a load for tests of stopping.

`python -m tests.cli.saver CREDENTIALS CALLERS`. Ends when the bus is gone. A call that neither succeeds nor fails
within its deadline is printed as `unanswered …`.
"""

import asyncio
import itertools
import sys

from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError


async def main(credentials: str, callers: int) -> None:
    """Save until the worker is gone."""
    client = await MemoryClient.connect(credentials)
    numbers = itertools.count()
    gone = asyncio.Event()

    async def caller() -> None:
        while not gone.is_set():
            text = f"Load number {next(numbers)}"
            try:
                await client.save(text=text)
            except FunctionError as error:
                if "in time" in error.message:
                    print(f"unanswered {text}", flush=True)
                gone.set()
                return
            print(text, flush=True)

    await asyncio.gather(*(caller() for _ in range(callers)))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
