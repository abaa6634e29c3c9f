"""Plants sentinels about a person in every place where text can come to lie, and searches every byte for them."""

import asyncio
import contextlib
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from memory_contracts import FunctionError, TurnCompleted, TurnMessage
from memory_contracts.client import MemoryClient
from tests.benchmarks.running import Running

PERSON = "Zenobia Quill"
ALIAS = "Zenny"
PER_PLACE = 12
FORMS = (
    "{name} knows {word}",
    '"{name}" knows {word}',
    "knows {word}, says {name}’s mother",
    "({name}) knows {word}",
    "the {name}-like way of {word}",
    "C:\\{name}\\{word}",
)
"""How a text may mention somebody: at its start, after quotes and backslashes, as a possessive, in brackets."""
DEADLINE_S = 20.0


class Garden:
    """What was planted: sentinel to place."""

    def __init__(self, per_place: int = PER_PLACE) -> None:
        self.planted: dict[str, str] = {}
        self.per_place = per_place

    def seed(self, place: str) -> Iterator[str]:
        """Make the sentinels of one place."""
        for number in range(self.per_place):
            word = f"qx{place.replace(' ', '')}{number}zv"
            self.planted[word] = place
            yield word

    def seed_one(self, place: str) -> list[str]:
        """Make one sentinel of a place."""
        return [next(self.seed(place))]


async def eventually(check: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something becomes true."""
    deadline = time.monotonic() + DEADLINE_S
    while not await check():
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.05)


async def plant(worker: Running, garden: Garden) -> None:
    """Put texts about the person everywhere, and a few that are about nobody."""
    async with (
        await MemoryClient.connect(worker.credentials("human-me")) as person,
        await MemoryClient.connect(worker.credentials("agent-default")) as agent,
        await MemoryClient.connect(worker.credentials("system-harness")) as harness,
    ):
        await person.bank_create(name="work", description=f"About {PERSON}")
        await person.bank_create(name="old")
        for text in ("The kettle is red", "Mondays are for planning", "May is a month"):
            await person.save(text=text)
        await person.save(text=f"{PERSON} is a colleague", entities=[PERSON])
        await person.entity_alias(entity=PERSON, alias={"channel": "name", "value": ALIAS})  # type: ignore[arg-type]
        for word in garden.seed("alias"):
            await person.entity_alias(entity=PERSON, alias={"channel": "email", "value": f"{word}@example.org"})  # type: ignore[arg-type]
        for number, word in enumerate(garden.seed("save")):
            name = PERSON if number % 2 else ALIAS.upper()
            bank = "work" if number % 3 else "main"
            text = FORMS[number % len(FORMS)].format(name=name, word=word)
            await person.with_key(f"key-{word}").save(text=text, bank=bank, tags=["team"])
        for word in garden.seed("old wording"):
            saved = await person.save(text=f"{PERSON} liked {word}")
            assert saved.memory is not None
            await person.update(id=saved.memory.id, text=f"{PERSON} has moved on from {word[:4]}{word[-4:]}x")
        for word in garden.seed("private bank"):
            await agent.save(text=f"{PERSON} told me {word}", bank="agent-default")
        for word in garden.seed("trash"):
            await person.save(text=f"{PERSON} owns {word}", bank="old")
        await person.bank_delete(name="old")
        for word in garden.seed("protected"):
            named = [PERSON] if len(word) % 2 else []
            await person.save(text=f"{PERSON} has the code {word}", entities=named, protected=True)
        rules = [f"Ask {PERSON} about {word}" for word in garden.seed("rule")]
        rules += [f"{ALIAS} said {word}" for word in garden.seed("line start")]
        rules += [f'> "{PERSON}": {word}' for word in garden.seed("quote")]
        await person.rule_set(name="style", content="\n".join(["Be kind.", *rules]))
        await person.save(text="a shop is open", entities=[f"{ALIAS}’s shop"])
        await person.save(text=f"{PERSON} lives in Oslo", subject="home of a colleague")
        for word in garden.seed("suggestion"):
            await agent.save(text=f"{PERSON} lives in {word}", subject="home of a colleague")
        lines = [f"Always greet {PERSON} with {word}." for word in garden.seed("learned line")]
        facts = [f"Remember that {PERSON} uses {word}." for word in garden.seed("turn")]
        for number, text in enumerate([*lines, *facts]):
            await harness.publish_turn(turn(f"turn-{number}", text))
        for word in garden.seed("parked turn"):
            note = json.dumps({"text": f'he said:\n"{PERSON}" {word}'})
            body = json.dumps({"turn_id": f"bad-{word}", "session_id": "s", "note": note}).encode()
            await malformed(harness, body)

        async def read() -> bool:
            status = await person.extraction_status()
            return (
                status.backlog == 0 and status.parked_total >= garden.per_place and status.done >= 2 * garden.per_place
            )

        await eventually(read, "reading the turns")
        for number in range(5):
            await harness.context(session_id="s1", turn_id=f"ctx-{number}", message=f"what does {PERSON} use?")
        exported = await person.export()
        assert exported.bytes > 0
        tenant = worker.data_dir / "local"

        async def mirrored() -> bool:
            return len(list((tenant / "banks" / "main" / "memories").glob("*.md"))) > garden.per_place

        await eventually(mirrored, "the mirror")
        for word in garden.seed("unreadable file"):
            path = tenant / "banks" / "main" / "memories" / f"{word}.md"
            path.write_text(f"---\nid: [broken\n---\n{PERSON} {word}\n")
        await asyncio.to_thread(
            (tenant / "memory.db.before-0004").write_text, f"{PERSON} {' '.join(garden.seed('backup'))}"
        )
        await person.reload()


def turn(turn_id: str, text: str) -> TurnCompleted:
    """A finished turn of one user message."""
    return TurnCompleted(
        turn_id=turn_id,
        session_id="s1",
        status="completed",
        completed_at=datetime.now(UTC),
        messages=[TurnMessage(id=f"{turn_id}-m", role="user", text=text)],
    )


async def malformed(harness: MemoryClient, body: bytes) -> None:
    """Publish bytes that are no turn."""
    subject = harness.subjects.turn_completed("local", "s")
    await harness.bus.request(subject, body, within=5.0)


async def forget(worker: Running) -> tuple[str, str]:
    """Ask and approve; gives the receipt's state and what could not be reached, `unknown` when the worker dies."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as person:
        asked = await person.person_forget(entity=PERSON, confirm_name=PERSON)
        try:
            decided = await person.suggestion_decide(ids=[asked.suggestion.id], decision="approve")
        except FunctionError:
            return "unknown", ""
        receipt = decided.decided[0].receipt
        assert receipt is not None
        return receipt.state, "; ".join(receipt.unreachable)


def found(data_dir: Path, words: list[str]) -> dict[str, str]:
    """Search every byte and every file name below a folder, as UTF-8 and as UTF-16; gives word to place."""
    hits: dict[str, str] = {}
    needles = [(word, form) for word in words for form in (word.encode(), word.encode("utf-16-le"))]
    for path in sorted(data_dir.rglob("*")):
        if path.name.startswith("server.log"):
            continue
        for word in words:
            if word in path.name:
                hits[word] = str(path.relative_to(data_dir))
        if not path.is_file():
            continue
        data = path.read_bytes()
        for word, needle in needles:
            if needle in data:
                hits[word] = str(path.relative_to(data_dir))
    return hits


async def others(worker: Running) -> list[tuple[str, str, int]]:
    """The memories that are about nobody: id, text, revision."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as person:
        listed = await person.list(limit=200)
        return sorted(
            (one.id, one.text, one.revision)
            for one in listed.memories
            if one.text in ("The kettle is red", "Mondays are for planning", "May is a month")
        )


async def finished(worker: Running) -> None:
    """Wait until no forgetting is pending."""
    path = worker.data_dir / "local" / "memory.db"

    async def done() -> bool:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            return store.execute("SELECT count(*) FROM forgettings WHERE state <> 'done'").fetchone()[0] == 0

    await eventually(done, "the forgetting")
