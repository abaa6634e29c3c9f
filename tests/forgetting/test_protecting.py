"""A recognised value goes from a turn or a call into the vault, end to end, and stands readable nowhere else."""

import asyncio
from pathlib import Path

from memory_contracts.client import MemoryClient
from memory_contracts.records import Memory
from tests.benchmarks.running import Running, running_worker
from tests.forgetting.planting import eventually, found, turn

HIDDEN = "•••"
PHONE, MAIL, CALLED = "+49 170 7654321", "qxmailzv@example.org", "+49 151 2223334"


async def work(worker: Running) -> list[Memory]:
    """A turn, an agent and a person say contact data; gives what was kept."""
    async with (
        await MemoryClient.connect(worker.credentials("human-me")) as person,
        await MemoryClient.connect(worker.credentials("agent-default")) as agent,
        await MemoryClient.connect(worker.credentials("system-harness")) as harness,
    ):
        await harness.publish_turn(turn("t1", f"Remember that my phone number is {PHONE}."))

        async def read() -> bool:
            return (await person.extraction_status()).done == 1

        await eventually(read, "reading the turn")
        await agent.with_key("k1").save(text=f"The user's address is {MAIL}", tags=["contact"])
        await person.save(text=f"The plumber answers at {CALLED}", entities=["Plumber"])
        listed = (await person.list(order="oldest")).memories
        for query in (PHONE, MAIL, "qxmailzv", "phone number", CALLED):
            assert [one for one in (await person.recall(query=query)).memories if one.memory.text != HIDDEN] == []
        given = await harness.context(session_id="s9", turn_id="t9", message=f"who has {PHONE}?")
        assert PHONE not in given.memories
        for value, memory in zip((PHONE, MAIL, CALLED), listed, strict=True):
            hits = (await person.list(protected_value=value)).memories
            assert [hit.id for hit in hits] == [memory.id]
            assert memory.protected is not None
            assert value in (await person.value_reveal(ref=memory.protected)).value
            changes = (await person.changes_list(target=memory.id)).changes
            assert value not in str(changes)
            assert changes[0].type == "value.revealed"
        exported = await person.export()
        assert exported.counts["protected_left_out"] == 3
        folder = worker.data_dir / "local" / "banks" / "main" / "memories"

        async def mirrored() -> bool:
            return len(list(folder.glob("*.md"))) == 3

        await eventually(mirrored, "the mirror")
        return listed


def test_recognised_values_are_nowhere_in_the_open(tmp_path: Path) -> None:
    """With `protect_automatic` what is said in a turn, by an agent and by a person is hidden."""
    data_dir = tmp_path / "data"
    with (tmp_path / "log").open("wb") as log, running_worker(data_dir, log, MEMORY_PROTECT_AUTOMATIC="true") as worker:
        kept = asyncio.run(work(worker))
        assert [memory.text for memory in kept] == [HIDDEN] * 3
    # What was called was never written; a turn was, before it was read, and its place is written over in time.
    assert found(tmp_path, [MAIL, CALLED]) == {}
    places = set(found(tmp_path, [PHONE]).values())
    assert all(Path(place).name.startswith("memory.db") or "TURNS" in place for place in places), places
