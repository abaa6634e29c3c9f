"""The defects that memory systems are known for, each tried on a running worker over the bus."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory_contracts import FunctionError, ItemChanged, TurnCompleted, TurnMessage
from memory_contracts.client import MemoryClient
from tests.benchmarks.running import Running, running_worker
from tests.system.harness import eventually


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One worker with its embedded bus for the whole module; every test uses banks of its own."""
    folder = tmp_path_factory.mktemp("promises")
    patient = {"MEMORY_FILES": "false", "MEMORY_CONTEXT_DEADLINE_MS": "10000"}
    with (folder / "log").open("wb") as log, running_worker(folder / "data", log, **patient) as running:
        yield running


@pytest.fixture
async def person(worker: Running) -> AsyncIterator[MemoryClient]:
    """A person's client."""
    async with await MemoryClient.connect(worker.credentials("human-me")) as client:
        yield client


@pytest.fixture
async def agent(worker: Running) -> AsyncIterator[MemoryClient]:
    """An agent's client."""
    async with await MemoryClient.connect(worker.credentials("agent-default")) as client:
        yield client


@pytest.fixture
async def harness(worker: Running) -> AsyncIterator[MemoryClient]:
    """A harness's client."""
    async with await MemoryClient.connect(worker.credentials("system-harness")) as client:
        yield client


def turn(turn_id: str, bank: str, *texts: tuple[str, str], session: str | None = None) -> TurnCompleted:
    """A finished turn of (role, text) messages."""
    return TurnCompleted(
        turn_id=turn_id,
        session_id=session or f"session-of-{turn_id}",
        status="completed",
        completed_at=datetime.now(UTC),
        metadata={"memory_bank": bank},
        messages=[TurnMessage(id=f"{turn_id}-{n}", role=role, text=text) for n, (role, text) in enumerate(texts)],
    )


async def read(harness: MemoryClient, done: int) -> None:
    """Wait until that many turns have been read in all."""

    async def settled() -> bool:
        status = await harness.extraction_status()
        return status.done >= done and status.backlog == 0

    await eventually(settled, "reading the turns")


async def test_own_output_is_not_learned_back(person: MemoryClient, harness: MemoryClient) -> None:
    """A turn that contains the block, the rules and the update that context handed out adds nothing."""
    await person.bank_create(name="echo")
    await person.save(text="The user's dog is called Rex", bank="echo")
    await person.rule_set(name="tone", content="Always answer in short sentences.", bank="echo")
    given = await harness.context(
        session_id="echo-s", turn_id="echo-0", message="what is my dog called?", metadata={"memory_bank": "echo"}
    )
    assert "Rex" in given.memories
    assert "short sentences" in given.system
    before = await person.list(bank="echo")
    done = (await harness.extraction_status()).done
    fed_back = turn(
        "echo-1",
        "echo",
        ("user", f"{given.memories}\n\n{given.system}\n\nwhat is my dog called?"),
        ("assistant", f"According to my memory: {given.memories}"),
        ("user", "The user's dog is called Rex"),
        session="echo-s",
    )
    await harness.publish_turn(fed_back)
    await read(harness, done + 1)
    after = await person.list(bank="echo")
    assert [(one.id, one.text) for one in after.memories] == [(one.id, one.text) for one in before.memories]
    assert [rule.name for rule in (await person.rule_list(bank="echo")).rules] == ["tone"]


async def test_fifty_identical_saves_make_one_memory(person: MemoryClient, worker: Running) -> None:
    """Fifty concurrent identical saves from two clients are one row, said again forty-nine times."""
    await person.bank_create(name="race")
    async with await MemoryClient.connect(worker.credentials("agent-default")) as other:
        saves = [
            (person if number % 2 else other).save(text=f"{' ' * (number % 3)}The bridge opens at NINE.", bank="race")
            for number in range(50)
        ]
        replies = await asyncio.gather(*saves)
    assert sorted({reply.outcome for reply in replies}) == ["created", "reinforced"]
    assert sum(reply.outcome == "created" for reply in replies) == 1
    listed = await person.list(bank="race")
    assert listed.total == 1
    assert listed.memories[0].corroboration == 49


async def test_the_same_request_twice_counts_once(person: MemoryClient) -> None:
    """A repeated idempotency key gives the same reply and one effect; for another request it is refused."""
    await person.bank_create(name="keyed")
    first = await person.with_key("keyed-1").save(text="The key lies under the mat", bank="keyed")
    again = await person.with_key("keyed-1").save(text="The key lies under the mat", bank="keyed")
    assert again == first
    with pytest.raises(FunctionError) as refused:
        await person.with_key("keyed-1").save(text="The key lies in the drawer", bank="keyed")
    assert refused.value.code == "conflict"
    assert (await person.list(bank="keyed")).memories[0].corroboration == 0


async def test_redelivery_changes_nothing(person: MemoryClient, harness: MemoryClient) -> None:
    """Turns delivered five times and out of order end as if they came once and in order."""
    turns = [
        turn(f"again-{n}", "again", ("user", f"Remember that locker {n} holds box {n * 7}."), session="again-s")
        for n in range(6)
    ]
    deliveries = [one for one in turns for _ in range(5)]
    random.Random(7).shuffle(deliveries)
    done = (await harness.extraction_status()).done
    for one in deliveries:
        await harness.publish_turn(one)
    await read(harness, done + 6)
    listed = await person.list(bank="again", limit=200)
    assert listed.total == 6
    assert {one.corroboration for one in listed.memories} == {0}


async def test_expired_memories_do_not_take_the_slots_of_live_ones(person: MemoryClient) -> None:
    """A hundred expired memories and five live ones, five asked for: five come; a lapsed one is never served."""
    await person.bank_create(name="lapse")
    soon = datetime.now(UTC) + timedelta(seconds=2)
    for n in range(100):
        await person.save(text=f"The parcel number {n} waits at the harbour", bank="lapse", expires_at=soon)
    for n in range(5):
        await person.save(text=f"The parcel of dock {n} waits at the harbour", bank="lapse")

    async def lapsed() -> bool:
        return datetime.now(UTC) > soon

    await eventually(lapsed, "the expiry")
    found = await person.recall(query="which parcel waits at the harbour", bank="lapse", limit=5)
    assert len(found.memories) == 5
    assert all("dock" in one.memory.text for one in found.memories)


async def test_a_tag_with_one_match_among_many_is_found(person: MemoryClient) -> None:
    """Filters apply before the best are chosen, so a single match among a thousand comes."""
    await person.bank_create(name="tags")
    await asyncio.gather(
        *(person.save(text=f"The red lantern number {n} hangs in the hall", bank="tags") for n in range(200))
    )
    await person.save(text="The red lantern by the door is broken", bank="tags", tags=["Repair  Shop"])
    found = await person.recall(query="red lantern in the hall", bank="tags", tag="repair shop", limit=3)
    assert [one.memory.text for one in found.memories] == ["The red lantern by the door is broken"]


async def test_a_bank_made_again_is_empty_and_counts_on(person: MemoryClient) -> None:
    """After deletion a name is free at once; the new bank holds nothing of the old, and its numbers have no gap."""
    await person.bank_create(name="phoenix")
    await person.save(text="The old bird sings", bank="phoenix")
    await person.bank_delete(name="phoenix")
    with pytest.raises(FunctionError) as gone:
        await person.list(bank="phoenix")
    assert gone.value.code == "not_found"
    await person.bank_create(name="phoenix")
    assert (await person.list(bank="phoenix")).total == 0
    assert (await person.recall(query="old bird", bank="phoenix")).memories == []
    assert (await person.save(text="The old bird sings", bank="phoenix")).outcome == "created"
    changes = (await person.changes_list(bank="phoenix", after_seq=0, limit=200)).changes
    numbers = [change.bank_seq for change in changes if change.bank_seq is not None]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_restored_bank_is_as_it_was(person: MemoryClient) -> None:
    """Restoring brings memories back with their ids, and recall finds them again."""
    await person.bank_create(name="attic")
    saved = await person.save(text="The sledge is in the attic", bank="attic")
    assert saved.memory is not None
    await person.bank_delete(name="attic")
    await person.bank_restore(name="attic")
    found = await person.recall(query="where is the sledge", bank="attic")
    assert [one.memory.id for one in found.memories] == [saved.memory.id]


async def test_a_corrected_wording_stays_corrected(
    person: MemoryClient, agent: MemoryClient, harness: MemoryClient
) -> None:
    """Hearing a wording again that a person corrected away neither makes a second memory nor strengthens the first."""
    done = (await harness.extraction_status()).done
    await harness.publish_turn(turn("fix-1", "fix", ("user", "Remember that the meeting is on Monday.")))
    await read(harness, done + 1)
    [heard] = (await person.list(bank="fix")).memories
    await person.update(id=heard.id, text="The meeting is on Tuesday")
    await harness.publish_turn(turn("fix-2", "fix", ("user", "Remember that the meeting is on Monday.")))
    await read(harness, done + 2)
    repeated = await agent.save(text=heard.text, bank="fix")
    assert repeated.outcome == "awaiting_review"
    [kept] = (await person.list(bank="fix")).memories
    assert (kept.id, kept.text, kept.tier, kept.corroboration) == (heard.id, "The meeting is on Tuesday", "stated", 0)


async def test_a_subscriber_sees_every_change_in_order(person: MemoryClient, worker: Running) -> None:
    """A durable subscriber that comes late gets every change of a bank, numbered without a gap."""
    await person.bank_create(name="watched")
    for n in range(20):
        saved = await person.save(text=f"The watched pot number {n} boils", bank="watched")
    assert saved.memory is not None
    await person.pin(id=saved.memory.id, pinned=True)
    await person.delete(id=saved.memory.id)
    seen: list[ItemChanged] = []
    async with person.on_item_changed(bank="watched", durable="human-me") as events:
        async for event in events:
            seen.append(event)
            if len(seen) == 22:
                break
    assert [event.bank_seq for event in seen] == list(range(2, 24)), "number 1 is the bank's own creation"
    assert [event.event_type for event in seen] == [*["created"] * 20, "pinned", "deleted"]


async def test_two_banks_with_the_same_text_stay_apart(person: MemoryClient, agent: MemoryClient) -> None:
    """Nothing of one bank shows in another, and a private bank shows to nobody but its owner."""
    for bank in ("left", "right"):
        await person.bank_create(name=bank)
        await person.save(text="The vault code is in the safe", bank=bank, tags=[bank], entities=[f"Keeper {bank}"])
    await agent.save(text="The vault code is in the safe", bank="agent-default", tags=["secretly"])
    found = await person.recall(query="where is the vault code", bank="left", limit=50)
    assert {one.memory.bank for one in found.memories} == {"left"}
    assert [one.tag for one in (await person.tags(bank="left")).tags] == ["left"]
    names = [bank.name for bank in (await person.bank_list()).banks]
    assert "agent-default" not in names
    for call in (person.list, person.tags, person.rule_list, person.changes_list):
        with pytest.raises(FunctionError) as refused:
            await call(bank="agent-default")
        assert refused.value.code == "not_found"
    changes = (await person.changes_list(limit=200)).changes
    assert not [change for change in changes if change.bank == "agent-default"]


def test_an_unwritable_data_directory_is_refused(tmp_path: Path) -> None:
    """The worker does not start on a directory it cannot use, and never keeps memory anywhere else."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with (tmp_path / "log").open("wb") as log, pytest.raises(RuntimeError), running_worker(blocked / "data", log):
        pass
    assert "data directory" in (tmp_path / "log").read_text()


async def test_a_turn_for_no_valid_bank_is_parked(person: MemoryClient, harness: MemoryClient) -> None:
    """A turn whose metadata names no valid bank, or another's private one, is set aside and shown, not lost."""
    await harness.publish_turn(turn("lost-1", "Not A Bank", ("user", "Remember that the gate is green.")))
    await harness.publish_turn(turn("lost-2", "agent-somebody", ("user", "Remember that the gate is blue.")))

    async def parked() -> bool:
        found = {one.turn_id for one in (await person.extraction_status()).parked}
        return {"lost-1", "lost-2"} <= found

    await eventually(parked, "parking")
    assert (await person.recall(query="what colour is the gate")).memories == []
