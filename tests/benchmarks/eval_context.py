"""Prints what a turn's context costs on real chats: characters given, with and without the rules that save them.

Every turn of a chat asks for its context, is published, and is read before the next one asks, as in a live session.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from memory_contracts import TurnCompleted
from memory_contracts.client import MemoryClient
from tests.benchmarks.running import running_worker

READ_S = 30.0
"""Longest wait for a turn to be read."""


class Cost(msgspec.Struct):
    """Sums over the turns of a chat; all but the counts are characters."""

    turns: int = 0
    nothing: int = 0
    given: int = 0
    repeated: int = 0
    rules: int = 0
    rules_without_etag: int = 0
    longest: int = 0

    def add(self, other: "Cost") -> None:
        """Add another chat's sums."""
        for name in ("turns", "nothing", "given", "repeated", "rules", "rules_without_etag"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.longest = max(self.longest, other.longest)


async def chat_cost(client: MemoryClient, turns: Sequence[TurnCompleted]) -> Cost:
    """Hold a chat again, turn by turn, and sum up what its turns were given."""
    cost = Cost()
    etags: dict[str, str] = {}
    for turn in turns:
        asked = next((message.text or "" for message in turn.messages or [] if message.role == "user"), "")
        session, metadata = turn.session_id, turn.metadata or {}
        whole = await client.preview(session_id=session, message=asked, metadata=metadata, known=[])
        given = await client.context(
            session_id=session, message=asked, metadata=metadata, turn_id=turn.turn_id, etag=etags.get(session)
        )
        etags[session] = given.etag
        cost.turns += 1
        cost.nothing += not given.memories
        cost.given += len(given.memories)
        cost.repeated += len(whole.memories)
        cost.rules += len(given.system) + len(given.update)
        cost.rules_without_etag += len(whole.system) + len(given.update)
        cost.longest = max(cost.longest, len(given.memories))
        done = (await client.extraction_status()).done
        await client.publish_turn(turn)
        async with asyncio.timeout(READ_S):
            while (await client.extraction_status()).done == done:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
    return cost


def row(name: str, cost: Cost) -> str:
    """One line of the table."""
    per_turn = (cost.given, cost.repeated, cost.rules, cost.rules_without_etag)
    cells = "".join(f"{value / cost.turns:>12.0f}" for value in per_turn)
    return f"{name:<8}{cost.turns:>7}{cells}{cost.nothing / cost.turns:>10.0%}{cost.longest:>9}"


async def run(chats: dict[str, list[TurnCompleted]]) -> None:
    """Print the table over every chat."""
    head = ("memories", "repeated", "rules", "no etag")
    print("characters given per turn, on average; nothing = share of turns given no memory")
    print(f"{'chat':<8}{'turns':>7}{''.join(f'{name:>12}' for name in head)}{'nothing':>10}{'longest':>9}", flush=True)
    total = Cost()
    with (
        tempfile.TemporaryDirectory(prefix="memory-eval-context-") as folder,
        tempfile.TemporaryFile() as log,
        running_worker(Path(folder), log) as worker,
    ):
        async with await MemoryClient.connect(worker.credentials("system-harness")) as client:
            for name, turns in chats.items():
                cost = await chat_cost(client, turns)
                total.add(cost)
                print(row(name, cost), flush=True)
    print(row("all", total), flush=True)


def main(arguments: Sequence[str] = ()) -> int:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    asked = parser.parse_args(arguments)
    if not (asked.data / "chats").is_dir():
        print(f"no chats under {asked.data}", file=sys.stderr)
        return 2
    decode = msgspec.json.Decoder(TurnCompleted).decode
    files = sorted((asked.data / "chats").glob("*.turns.jsonl"))
    asyncio.run(run({file.name.split(".")[0]: [decode(line) for line in file.open("rb")] for file in files}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
