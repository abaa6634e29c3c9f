"""A harness: asks for a turn's context, calls a model, publishes the finished turn. The next session remembers."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from memory_contracts import TurnCompleted, TurnMessage
from memory_contracts.client import MemoryClient

Window = list[tuple[str, list[str]]]
"""What the model sees: texts, each with the ids of the memories that came with it."""
Model = Callable[[str, list[str]], str]
"""Answers from the system prompt and the texts of the window."""


async def converse(
    client: MemoryClient, session: str, messages: Iterable[str], model: Model, compact: Callable[[Window], Window]
) -> AsyncIterator[str]:
    """Hold one session: an answer for each message."""
    rules, etag, window = "", None, Window()
    for n, message in enumerate(messages):
        turn, window = f"{session}-{n}", compact(window)
        known = [memory for _, memories in window for memory in memories]  # what a compaction dropped comes again
        given = await client.context(session_id=session, turn_id=turn, message=message, known=known, etag=etag)
        if not given.unchanged:
            rules, etag = given.system, given.etag
        parts = [given.update, given.notices_text, given.memories, message]
        window.append(("\n\n".join(part for part in parts if part), [used.id for used in given.used]))
        if given.readback and given.bank:  # “what do you remember about me?”: the list itself, no model
            answer = (await client.list(bank=given.bank, render=True)).text or ""
        else:
            answer = model(rules, [text for text, _ in window])
        window.append((answer, []))
        if given.notices:
            await client.notice_ack(ids=[notice.id for notice in given.notices])
        said = [TurnMessage(id=f"{turn}-user", role="user", text=message)]
        said.append(TurnMessage(id=f"{turn}-assistant", role="assistant", text=answer))
        at = datetime.now(UTC)
        await client.publish_turn(
            TurnCompleted(turn_id=turn, session_id=session, status="completed", completed_at=at, messages=said)
        )
        yield answer


def stub(rules: str, window: list[str]) -> str:
    """Stands in for a model: says again what memory it was shown."""
    shown = [line[2:] for line in window[-1].splitlines() if line.startswith("- ")]
    return "\n".join(shown) or "Noted."


async def main(credentials: Path, messages: list[str]) -> None:
    """Hold one session over the messages on the command line."""
    async with await MemoryClient.connect(credentials) as client:
        async for answer in converse(client, f"demo-{uuid.uuid4().hex}", messages, stub, lambda window: window[-40:]):
            print(answer)


if __name__ == "__main__":
    data = Path(os.environ.get("MEMORY_DATA_DIR") or Path.home() / ".local/share/memory-worker")
    asyncio.run(main(data / "credentials/system-harness.json", sys.argv[1:]))
