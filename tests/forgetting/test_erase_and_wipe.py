"""Erasing one memory and wiping one bank leave no byte of it either, and touch nothing else."""

import asyncio
from pathlib import Path

from memory_contracts import TurnCompleted, TurnMessage
from memory_contracts.client import MemoryClient
from memory_contracts.records import ProposedChange, Receipt
from tests.benchmarks.running import Running, running_worker
from tests.forgetting.planting import Garden, eventually, found, turn

SEALED = ("protected",)
"""Places whose values are never in plain text."""


async def rows_of(worker: Running, bank: str) -> list[tuple[object, ...]]:
    """The memories and rules of a bank, field by field."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as person:
        memories = (await person.list(bank=bank, limit=200, order="oldest")).memories
        rules = (await person.rule_list(bank=bank)).rules
        entities = (await person.entity_list(bank=bank)).entities
        return [*memories, *rules, *entities]  # type: ignore[list-item]


async def plant_memory(worker: Running, garden: Garden) -> str:
    """One memory with everything that can come to hold its words; gives its id."""
    async with (
        await MemoryClient.connect(worker.credentials("human-me")) as person,
        await MemoryClient.connect(worker.credentials("agent-default")) as agent,
        await MemoryClient.connect(worker.credentials("system-harness")) as harness,
    ):
        for text in ("The kettle is red", "Mondays are for planning"):
            await person.save(text=text, tags=["kept"], entities=["Kept"])
        [first, *wordings] = garden.seed("wording")
        [subject] = garden.seed_one("subject")
        saved = await person.with_key(f"key-{first}").save(
            text=f"The cellar is full of {first}", subject=subject, expires_at=None
        )
        assert saved.memory is not None
        memory = saved.memory.id
        for word in wordings:
            await person.update(id=memory, text=f"“The cellar” is now\tfull of {word}")
        [last] = garden.seed_one("last wording")
        text = f"The cellar is at last full of {last}"
        labels = {place: next(iter(garden.seed_one(place))) for place in ("tag", "handle", "entity", "claim")}
        claim = {"entity": labels["entity"], "property": "holds", "value": labels["claim"]}
        await person.update(
            id=memory,
            text=text,
            tags=[labels["tag"]],
            about=[f"room:{labels['handle']}"],
            entities=[labels["entity"]],
            claim=claim,  # type: ignore[arg-type]
        )
        for word in garden.seed("suggestion"):
            await agent.update(id=memory, text=f"The cellar holds no {word}")
        change = ProposedChange(function="delete", args={"id": memory})
        await agent.suggest(change=change, reason=f"it repeats: {text}")
        await person.rule_set(name="style", content=f'Be kind.\n- as was said, "{text}"\nBe brief.')
        await harness.publish_turn(turn("t-1", f"Remember that {text[0].lower()}{text[1:]}."))
        await harness.publish_turn(
            TurnCompleted(
                turn_id="t-parked",
                session_id="s2",
                status="completed",
                completed_at=turn("x", "x").completed_at,
                metadata={"memory_bank": "no such name!", "note": text},
                messages=[TurnMessage(id="m", role="user", text=text)],
            )
        )

        async def read() -> bool:
            status = await person.extraction_status()
            return status.backlog == 0 and status.parked_total == 1

        await eventually(read, "reading the turns")
        await harness.context(session_id="s1", turn_id="ctx-1", message="what is in the cellar?")
        await person.export()
        return memory


async def plant_bank(worker: Running, garden: Garden) -> None:
    """A bank with words in everything that a bank holds."""
    async with (
        await MemoryClient.connect(worker.credentials("human-me")) as person,
        await MemoryClient.connect(worker.credentials("agent-default")) as agent,
        await MemoryClient.connect(worker.credentials("system-harness")) as harness,
    ):
        await person.save(text="The kettle is red", tags=["kept"], entities=["Kept"])
        await person.rule_set(name="style", content="Be kind.")
        await person.bank_create(name="work", description="all about work")
        for word in garden.seed("save"):
            await person.with_key(f"key-{word}").save(text=f"w {word}", bank="work", tags=[f"t-{word}"])
        for word in garden.seed("entity"):
            await person.save(text=f"somebody {len(word)} {word[-4:-2]}", bank="work", entities=[f"E {word}"])
        for word in garden.seed("old wording"):
            saved = await person.save(text=f"The cellar was full of {word}", bank="work")
            assert saved.memory is not None
            await person.update(id=saved.memory.id, text=f"The cellar {saved.memory.id[-6:]} is empty")
        for word in garden.seed("protected"):
            await person.save(text=f"the code {word}", bank="work", protected=True)
        lines = [f'> "{word}" is a word' for word in garden.seed("rule")]
        await person.rule_set(name="style", bank="work", content="\n".join(lines))
        await person.rule_set(name="gone", bank="work", content="\n".join(garden.seed("removed rule")))
        await person.rule_set(name="gone", bank="work", content="")
        await person.save(text="The shop is open", bank="work", subject="shop")
        for word in garden.seed("suggestion"):
            await agent.save(text=f"The shop has {word}", bank="work", subject="shop")
        for number, word in enumerate(garden.seed("learned line")):
            event = turn(f"turn-{number}", f"Always say {word} first.")
            event.metadata = {"memory_bank": "work"}
            await harness.publish_turn(event)

        async def read() -> bool:
            status = await person.extraction_status()
            return status.backlog == 0 and status.done >= garden.per_place

        await eventually(read, "reading the turns")
        learned = await person.rule_get(name="learned", bank="work")
        assert learned.rule is not None
        content = learned.rule.content.split("\n")
        await person.rule_set(name="learned", bank="work", content="\n".join(content[: len(content) // 2]))
        await harness.context(session_id="s1", turn_id="c1", message="shop", metadata={"memory_bank": "work"})
        await person.export()
        folder = worker.data_dir / "local" / "banks" / "work" / "memories"

        async def mirrored() -> bool:
            return len(list(folder.glob("*.md"))) > garden.per_place

        await eventually(mirrored, "the mirror")
        for word in garden.seed("unreadable file"):
            (folder / f"{word}.md").write_text(f"---\nid: [broken\n---\n{word}\n")
        await person.reload()


async def erase(worker: Running, memory: str) -> Receipt:
    """Erase as a person."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as person:
        return (await person.erase(id=memory)).receipt


async def wipe(worker: Running, bank: str) -> Receipt:
    """Wipe as a person."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as person:
        return (await person.bank_wipe(name=bank, confirm_name=bank)).receipt


def test_no_byte_is_left_of_an_erased_memory(tmp_path: Path) -> None:
    """Every wording, label, proposal, reply, event, file and quotation of one memory is found before and not after."""
    garden = Garden(per_place=4)
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log, running_worker(data_dir, log) as worker:
        memory = asyncio.run(plant_memory(worker, garden))
        words = list(garden.planted)
        before = found(data_dir, words)
        assert {garden.planted[word] for word in words if word not in before} == set()
        kept = [row for row in asyncio.run(rows_of(worker, "main")) if memory not in str(row)]
        receipt = asyncio.run(erase(worker, memory))
        assert (receipt.state, receipt.unreachable) == ("done", ())
        assert found(data_dir, words) == {}
        after = asyncio.run(rows_of(worker, "main"))
        assert [row for row in after if getattr(row, "name", "") != "style"] == [
            row for row in kept if getattr(row, "name", "") not in ("style", *words)
        ]
        [style] = [row for row in after if getattr(row, "name", "") == "style"]
        assert style.content == "Be kind.\nBe brief."  # type: ignore[attr-defined]
    assert found(tmp_path, words) == {}


def test_no_byte_is_left_of_a_wiped_bank(tmp_path: Path) -> None:
    """Everything a bank holds is found before and not after; the bank stays, empty, and others are as before."""
    garden = Garden(per_place=4)
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log, running_worker(data_dir, log) as worker:
        asyncio.run(plant_bank(worker, garden))
        words = list(garden.planted)
        before = found(data_dir, words)
        assert {garden.planted[word] for word in words if word not in before} == set(SEALED)
        kept = asyncio.run(rows_of(worker, "main"))
        receipt = asyncio.run(wipe(worker, "work"))
        assert (receipt.state, receipt.unreachable) == ("done", ())
        assert found(data_dir, words) == {}
        assert asyncio.run(rows_of(worker, "work")) == []
        assert asyncio.run(rows_of(worker, "main")) == kept
    assert found(tmp_path, words) == {}
