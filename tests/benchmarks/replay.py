"""Replays conversations through a running worker and compares journal, memories and what a durable subscriber saw."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from memory_contracts import ItemChanged, TurnCompleted
from memory_contracts.client import MemoryClient
from tests.benchmarks.running import Running, running_worker

BATCH = 200


async def replay(worker: Running, files: list[Path]) -> bool:
    """Replay each file, print a row for it, and tell whether everything agreed."""
    sound = True
    async with (
        await MemoryClient.connect(worker.credentials("system-harness")) as harness,
        await MemoryClient.connect(worker.credentials("human-me")) as person,
    ):
        seen: list[ItemChanged] = []

        async def subscribe() -> None:
            async with person.on_item_changed(durable="human-me") as events:
                async for event in events:
                    seen.append(event)

        reading = asyncio.create_task(subscribe())
        sys.stdout.write(
            f"{'file':<22}{'turns':>6}{'kept':>6}{'rows':>6}{'seen':>6}{'gaps':>6}{'parked':>8}{'seconds':>9}\n"
        )
        for path in files:
            turns = [msgspec.json.decode(line, type=TurnCompleted) for line in path.read_bytes().splitlines()]
            bank = str((turns[0].metadata or {}).get("memory_bank", "main"))
            done = (await harness.extraction_status()).done
            began = time.perf_counter()
            for start in range(0, len(turns), BATCH):
                await harness.publish_turns(turns[start : start + BATCH])
            while (await harness.extraction_status()).done < done + len(turns):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)
            took = time.perf_counter() - began
            rows, after = [], 0
            while page := (await person.changes_list(bank=bank, after_seq=after, limit=200)).changes:
                rows.extend(page)
                after = page[-1].seq
            items = [row for row in rows if row.type.startswith("memory.")]
            for _ in range(500):
                if sum(event.bank == bank for event in seen) >= len(items):
                    break
                await asyncio.sleep(0.02)
            numbers = [row.bank_seq for row in rows if row.bank_seq is not None]
            gaps = sum(number != place for place, number in enumerate(numbers, 1))
            got = {event.id for event in seen if event.bank == bank}
            kept = (await person.list(bank=bank, limit=1)).total
            parked = (await harness.extraction_status()).parked_total
            sys.stdout.write(
                f"{path.name:<22}{len(turns):>6}{kept:>6}{len(items):>6}{len(got):>6}{gaps:>6}{parked:>8}{took:>9.2f}\n"
            )
            sound = sound and got == {row.id for row in items} and not gaps and not parked
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return sound


def main() -> int:
    """Replay every conversation of a folder; exit 1 when anything is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with `chats`")
    asked = parser.parse_args()
    files = sorted((asked.data / "chats").glob("*.turns.jsonl")) or sorted(Path("examples").glob("turns.jsonl"))
    with (
        tempfile.TemporaryDirectory(prefix="memory-replay-") as folder,
        (Path(folder) / "log").open("wb") as log,
        running_worker(Path(folder) / "data", log) as worker,
    ):
        sound = asyncio.run(replay(worker, files))
    sys.stdout.write("rows and triggers agree\n" if sound else "NOT EVERYTHING AGREES\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
