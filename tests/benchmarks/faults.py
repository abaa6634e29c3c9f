"""Breaks a running worker in every way we know, under load, and prints what each fault cost.

`python -m tests.benchmarks.faults [FAULT…]`. Every save carries a key and is repeated with it until it is acknowledged,
so each text must be stored exactly once. Columns: acknowledged saves lost, duplicate effects, requests that got no
answer at all while the worker could answer, seconds until readiness said so (null: healed before it was asked),
seconds until all was well again, and the longest time in which no save was acknowledged.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from memory_contracts.client import MemoryClient
from tests.benchmarks import fault_kinds, fault_surroundings
from tests.benchmarks.fault_load import Cost, Fault, Load, Setting
from tests.cli.conftest import Running

FAULTS = {**fault_kinds.FAULTS, **fault_surroundings.FAULTS}


async def cost_of(name: str, setting: Setting, fault: Fault, folder: Path) -> Cost:
    """Break one worker in one way."""
    surroundings = setting(folder)
    running = await asyncio.to_thread(surroundings.__enter__)
    load = Load(running)
    try:
        async with load.running_load():
            noticed, recovered, running = await fault(running, load)
        lost, duplicates = await _compare(running, load)
    finally:
        await asyncio.to_thread(running.stop)
        await asyncio.to_thread(surroundings.__exit__, None, None, None)
    return Cost(
        name,
        len(load.acknowledged),
        lost,
        duplicates,
        load.unanswered,
        noticed,
        recovered,
        round(load.longest_pause, 2),
    )


async def _compare(running: Running, load: Load) -> tuple[int, int]:
    """Acknowledged texts that are not stored, and texts whose effect happened more than once."""
    stored: dict[str, int] = {}
    async with await MemoryClient.connect(running.data_dir / "credentials" / "human-me.json") as client:
        cursor = None
        while True:
            page = await client.list(limit=200, cursor=cursor)
            for memory in page.memories:
                stored[memory.text] = stored.get(memory.text, 0) + 1 + (memory.corroboration > 0)
            cursor = page.cursor
            if cursor is None:
                break
    return len(set(load.acknowledged) - set(stored)), sum(count > 1 for count in stored.values())


def main() -> int:
    """Run every fault and print the table."""
    chosen = sys.argv[1:] or list(FAULTS)
    costs = []
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="memory-faults-") as folder:
            costs.append(asyncio.run(cost_of(name, *FAULTS[name], Path(folder))))
        print(json.dumps(costs[-1]._asdict()), flush=True)
    return int(any(cost.lost or cost.duplicates or cost.recovered_s is None for cost in costs))


if __name__ == "__main__":
    sys.exit(main())
