"""A consolidate process that is killed at any point goes on where it was, and does nothing twice."""

import random
import subprocess
import sys
from collections import Counter

import pytest

from memory_consolidate.bucket import Bucket
from memory_consolidate.state import States
from memory_contracts.client import MemoryClient
from tests.consolidate.conftest import Worker, eventually

PAIRS = 40


def start(worker: Worker) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.consolidate.instance", str(worker.credentials("system-consolidate"))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


async def retired(client: MemoryClient, bank: str) -> int:
    return (await client.list(bank=bank, state="superseded", limit=1)).total


@pytest.mark.parametrize("seed", [1, 2])
async def test_killed_again_and_again_it_finishes_one_run(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, worker: Worker, bank: str, seed: int
) -> None:
    """Kill -9 in the middle of reading and acting: the run is finished under its first id, each act done once."""
    chance = random.Random(seed)
    for number in range(PAIRS):
        for text in (f"Locker {number} holds the blue kit", f"“Locker {number}” holds the blue kit"):
            await agent.save(text=text, bank=bank)
    states = States(Bucket(system.bus))
    done = 0
    while done < PAIRS:
        process = start(worker)
        goal = min(PAIRS, done + chance.randint(1, 12))
        try:
            await eventually(lambda goal=goal: _reached(agent, bank, goal), within=60.0)
        finally:
            process.kill()
            process.wait()
        done = await retired(agent, bank)
    process = start(worker)
    try:
        await eventually(lambda: _finished(states, bank), within=60.0)
    finally:
        process.kill()
        process.wait()
    assert await retired(agent, bank) == PAIRS
    acts = await _retirements(human, bank)
    assert max(Counter(target for target, _ in acts).values()) == 1
    (report,) = [report for report in await states.reports(bank) if report.superseded]
    assert {cause for _, cause in acts} == {report.run_id}
    assert report.superseded == PAIRS
    reply = await human.changes_revert(id=report.run_id)
    assert reply.refused == []
    assert await retired(agent, bank) == 0


async def _reached(client: MemoryClient, bank: str, goal: int) -> bool:
    return await retired(client, bank) >= goal


async def _finished(states: States, bank: str) -> bool:
    state = await states.get(bank)
    return state.lease is None and state.ran_at is not None and bool(await states.reports(bank))


async def _retirements(client: MemoryClient, bank: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    cursor: str | None = None
    while True:
        reply = await client.changes_list(bank=bank, limit=200, cursor=cursor)
        rows += [(change.target, change.cause.id) for change in reply.changes if change.type == "memory.superseded"]
        cursor = reply.cursor
        if cursor is None:
            return rows
