"""Measures one pass over a large bank: time, memory, requests, and what recall pays for it meanwhile.

`python -m tests.benchmarks.bench_consolidate --memories 100000` starts a worker, fills a bank, measures recall alone,
then again while a consolidate process (as `memory consolidate` starts it) makes its first scheduled run of the bank,
and runs it by hand until nothing is left.
A fifth of the memories repeat others in other marks.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from memory_contracts.functions.consolidating import ConsolidateReport, ConsolidateRunReply, ConsolidateRunRequest
from tests.consolidate.conftest import Worker, eventually, start_worker, stop_worker

BANK = "large"
CALLERS = 64
"""Saves in flight while the bank is filled."""
PLANTED = 5
"""Every how many-eth memory repeats an earlier one."""
RECALL_EVERY_S = 0.05
"""One recall is begun this often."""
SERVE = """
import asyncio, os, sys
from memory_consolidate import serve
if sys.argv[2] == "same":
    os.nice = lambda step: 0
sys.exit(asyncio.run(serve(sys.argv[1])))
"""


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


FIRST = _words(
    "Ada, Bea, Cid, Dov, Eli, Fay, Gus, Hal, Ida, Jon, Kim, Lea, Max, Ned, Ola, Pia, Ray, Sue, Tom, Uma, Vic"
)
LAST = _words("Abel, Bond, Cruz, Dahl, Egan, Ford, Gray, Holt, Ives, Jung, Kerr, Lund, Moss, Nash, Orr, Penn, Quin")
VERBS = _words("keeps, repairs, collects, paints, borrows, sells, studies, restores, photographs, avoids")
THINGS = _words(
    "lanterns, maps, violins, kayaks, clocks, ferns, radios, quilts, compasses, stamps, kettles, telescopes, saddles,"
    "bonsai, mosaics, puppets, anvils, barometers, harps, looms"
)
PLACES = _words(
    "the attic, the boathouse, the old mill, the night market, the harbour office, the third floor, the greenhouse,"
    "the chapel, the workshop, the archive"
)
TIMES = _words(
    "every spring, since the move, on free weekends, before breakfast, with great care, for the museum, when it rains,"
    "at a loss, as a favour, out of habit"
)


def texts(count: int, chance: random.Random) -> list[str]:
    """Distinct statements, of which a fifth say again what an earlier one said."""
    made: list[str] = []
    seen: set[str] = set()
    while len(made) < count:
        if len(made) % PLANTED == PLANTED - 1:
            text = _again(chance.choice(made[-2_000:]))
        else:
            one, other = chance.sample(THINGS, 2)
            who = f"{chance.choice(FIRST)} {chance.choice(LAST)}"
            text = (
                f"{who} {chance.choice(VERBS)} {one} and {other} in {chance.choice(PLACES)} {chance.choice(TIMES)}"
                f", shelf {chance.randint(1, 9_999)}"
            )
        if text not in seen:
            seen.add(text)
            made.append(text)
    return made


def _again(text: str) -> str:
    words = text.replace("“", "").replace("”", "").replace("**", "").split()
    words[2] = f"**{words[2]}**" if f"“{words[2]}”" in text else f"“{words[2]}”"
    return " ".join(words)


async def fill(client: MemoryClient, wanted: list[str]) -> float:
    """Save everything; gives the seconds it took."""
    started = time.perf_counter()
    gate = asyncio.Semaphore(CALLERS)

    async def save(text: str) -> None:
        async with gate:
            for attempt in range(5):
                try:
                    await client.save(text=text, bank=BANK)
                except FunctionError as error:
                    if error.code != "unavailable" or attempt == 4:
                        raise
                    await asyncio.sleep(0.2 * 2**attempt)
                else:
                    return

    for start in range(0, len(wanted), 2_000):
        await asyncio.gather(*map(save, wanted[start : start + 2_000]))
    return time.perf_counter() - started


async def recalls(client: MemoryClient, chance: random.Random, until: Awaitable[Any]) -> list[float]:
    """Recall at a steady rate until `until` is done; gives milliseconds."""
    done = asyncio.ensure_future(until)
    taken: list[float] = []
    while not done.done():
        query = f"what does {chance.choice(FIRST)} do with {chance.choice(THINGS)} in {chance.choice(PLACES)}"
        started = time.perf_counter()
        await client.recall(query=query, bank=BANK)
        taken.append((time.perf_counter() - started) * 1_000)
        await asyncio.sleep(max(0.0, RECALL_EVERY_S - taken[-1] / 1_000))
    await done
    return taken


async def run_bank(client: MemoryClient) -> ConsolidateReport:
    """One manual run of the bank."""
    reply = await client.call("consolidate.run", ConsolidateRunRequest(bank=BANK), within=3_600)
    assert isinstance(reply, ConsolidateRunReply)
    return reply.reports[0]


async def peak(process: psutil.Process, until: Awaitable[Any]) -> float:
    """The most resident memory of a process until `until` is done, in MB."""
    done = asyncio.ensure_future(until)
    most = 0
    while not done.done():
        most = max(most, process.memory_info().rss)
        await asyncio.sleep(0.2)
    return most / 1e6


def percentiles(taken: list[float]) -> dict[str, float]:
    """p50 and p95, and how many."""
    p50, p95 = np.percentile(taken, [50, 95])
    return {"count": len(taken), "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


def told(report: ConsolidateReport) -> dict[str, Any]:
    """A report's figures."""
    return {
        "seconds": round((report.finished_at - report.started_at).total_seconds(), 1),
        "state": report.state,
        "memories": report.memories,
        "compared": report.compared,
        "found": report.found,
        "superseded": report.superseded,
        "suggested": report.suggested,
        "carried": report.carried,
        "skipped": report.skipped,
        "cut": report.cut,
        "requests": report.requests,
        "error": report.error,
    }


async def measure(data_dir: Path, memories: int, alone_s: float, runs: int, priority: str) -> dict[str, Any]:
    """Fill a bank, let it be run once by schedule, and at most `runs` times by hand until nothing is left."""
    worker = start_worker(data_dir)
    instance = None
    try:
        async with (
            await MemoryClient.connect(worker.credentials("human-me")) as human,
            await MemoryClient.connect(worker.credentials("agent-default")) as agent,
        ):
            await human.bank_create(name=BANK, expiry="never", mirror=False)
            chance = random.Random(20_261_130)
            fill_s = await fill(agent, texts(memories, chance))
            sys.stderr.write(f"filled in {fill_s:.0f} s\n")
            await recalls(agent, chance, asyncio.sleep(5.0))  # the index catches up, caches warm
            alone = await recalls(agent, chance, asyncio.sleep(alone_s))
            instance = start_instance(worker, priority)
            process = psutil.Process(instance.pid)
            first = asyncio.ensure_future(eventually(lambda: _reports(human), within=3_600.0))
            during, most = await asyncio.gather(recalls(agent, chance, first), peak(process, first))
            cpu_s = sum(process.cpu_times()[:2])
            scheduled = (await _reports(human))[-1]
            further: list[ConsolidateReport] = []
            while len(further) < runs and (not further or (further[-1].carried and further[-1].superseded)):
                further.append(await run_bank(human))
            return {
                "memories": memories,
                "fill_s": round(fill_s, 1),
                "recall_alone": percentiles(alone),
                "recall_during": percentiles(during),
                "peak_mb": round(most),
                "cpu_s": round(cpu_s, 1),
                "scheduled": told(scheduled),
                "further": [told(report) for report in further],
            }
    finally:
        if instance is not None:
            instance.terminate()
            instance.wait(20)
        stop_worker(worker)


def start_instance(worker: Worker, priority: str) -> subprocess.Popen[bytes]:
    """Start a consolidate process; it runs the bank at once, since it never ran."""
    command = [sys.executable, "-c", SERVE, str(worker.credentials("system-consolidate")), priority]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _reports(client: MemoryClient) -> list[ConsolidateReport]:
    try:
        return (await client.consolidate_report(bank=BANK)).reports
    except FunctionError:  # not up yet
        return []


def main() -> None:
    """Print the figures as JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--memories", type=int, default=100_000)
    arguments.add_argument("--alone-s", type=float, default=20.0)
    arguments.add_argument("--runs", type=int, default=10, help="most runs by hand")
    arguments.add_argument(
        "--priority",
        choices=["own", "same"],
        default="own",
        help="own = steps back as in production; same = not, for a machine that others keep busy",
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder) / "data", given.memories, given.alone_s, given.runs, given.priority))
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
