"""Carried to a fresh tenant and back, every record is the same in every field; protected values only if asked for."""

import gzip
from pathlib import Path

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import ExportRequest, ImportRequest, ValueRevealRequest
from memory_contracts.records import Claim, Memory
from memory_worker.files import Archives
from memory_worker.store import Caller
from tests.files.test_archives import archives, bring, contents, export
from tests.files.world import World, opened

SECRET = "The safe opens with 4711-0815."


def unpacked(path: Path) -> bytes:
    """Every byte of an archive."""
    return gzip.decompress(path.read_bytes())


async def varied(world: World, count: int) -> None:
    """Save memories of which every field is set in some, at different times, by different callers."""
    await world.make_bank("work", layers=["main"])
    for n in range(count):
        world.moved.pass_(61)
        memory = await world.save(
            f"Fact {n}: the {'größte' if n % 2 else '“small”'} room — no. {n} #1: yes, 'tis - really.",
            by=world.agent if n % 3 == 0 else None,
            bank="work" if n % 4 == 0 else "main",
            kind=("fact", "person", "preference", "place")[n % 4],
            subject=f"room {n}" if n % 2 else None,
            entities=[f"Person {n % 5}", f"Place {n}"] if n % 3 else [],
            tags=[f"tag{n % 4}", "all"] if n % 5 else [],
            about=[f"repo:r{n % 3}"] if n % 2 == 0 else [],
            claim=Claim(entity=f"Thing {n}", property="room", value=f"{n}") if n % 6 == 0 else None,
            confidence=("low", "normal", "high")[n % 3],
            pinned=n % 7 == 0,
        )
        if n % 8 == 1:
            await world.update(memory, text=f"Fact {n}, corrected: 0{n}: null")
        elif n % 9 == 2:
            await world.save(memory.text, by=world.agent, bank=memory.bank)


async def every(world: World) -> dict[str, Memory]:
    """Every live memory by id."""
    return {memory.id: memory for bank in ("main", "work") for memory in await world.live(bank)}


async def test_every_field_of_every_record_survives_the_round_trip(world: World, tmp_path: Path) -> None:
    """Imported on trust into a fresh tenant and exported again, each record is equal in all fields, ids and times."""
    await varied(world, 300)
    first = await export(world)
    async with opened(tmp_path / "other") as other:
        other.moved.pass_(30 * 86_400)
        await bring(other, first, trust=True)
        assert await every(other) == await every(world)
        second = await export(other)
        run = {"manifest.json", "journal.jsonl"}
        before, after = contents(first), contents(second)
        assert {name: data for name, data in after.items() if name not in run} == {
            name: data for name, data in before.items() if name not in run
        }


async def test_a_protected_value_is_in_an_archive_only_when_a_person_asks(world: World) -> None:
    """Without the wish no byte of the archive tells the value; with it the memory's file does, and nothing else."""
    await world.save(SECRET, protected=True)
    without = await archives(world).export(world.person, ExportRequest())
    assert b"4711-0815" not in unpacked(Path(without.path))
    assert (without.counts["memories"], without.counts["protected_left_out"]) == (0, 1)
    world.moved.pass_(1)
    reply = await archives(world).export(world.person, ExportRequest(include_protected=True))
    assert (reply.counts["memories"], reply.counts["protected_left_out"]) == (1, 0)
    assert unpacked(Path(reply.path)).count(b"4711-0815") == 1
    [name] = [name for name, data in contents(Path(reply.path)).items() if b"4711-0815" in data]
    assert "/memories/" in name
    assert "4711" not in name
    assert "safe" not in name


async def test_each_value_in_an_archive_is_journalled_as_revealed(world: World) -> None:
    """The journal names who uncovered which memory, once for each value, and never the value."""
    memories = [await world.save(f"Code {n} is 4711-{n}.", protected=True) for n in range(3)]
    await world.save("An open fact.")
    await export(world, include_protected=True)
    rows = [row for row in await world.store.journal_after(0, 100) if row.type == "value.revealed"]
    assert sorted(row.target for row in rows) == sorted(memory.id for memory in memories)
    assert {(row.actor_route, row.actor_principal) for row in rows} == {("human", "me")}
    assert {(row.before, row.after) for row in rows} == {(None, None)}


async def test_protected_values_are_for_people(world: World) -> None:
    """No other route gets protected values in an archive, and nothing is uncovered or written for asking."""
    await world.save(SECRET, protected=True)
    head = world.store.head
    for route in ("agent", "observer", "system"):
        with pytest.raises(FunctionError, match="to a person only") as caught:
            await archives(world).export(Caller("local", route, "x"), ExportRequest(include_protected=True))
        assert caught.value.code == "forbidden"
    assert world.store.head == head
    assert not (world.root / "exports").exists()


async def test_values_of_banks_the_caller_may_not_read_stay_hidden(world: World) -> None:
    """An agent's private bank is not there for a person who does not manage it, its protected values included."""
    await world.save(SECRET, protected=True, by=world.agent, bank="agent-coder")
    reply = await archives(world).export(world.person, ExportRequest(include_protected=True))
    assert b"4711-0815" not in unpacked(Path(reply.path))
    assert not [row for row in await world.store.journal_after(0, 100) if row.type == "value.revealed"]


async def test_a_protected_value_goes_back_into_a_vault(world: World, tmp_path: Path) -> None:
    """In a fresh tenant the value lies in the vault alone, is revealed there, and a second import adds nothing."""
    kept = await world.save(
        SECRET, protected=True, entities=["Ana"], tags=["home"], pinned=True, confidence="high", kind="place"
    )
    path = await export(world, include_protected=True)
    async with opened(tmp_path / "other") as other:
        other.moved.pass_(86_400)
        assert await bring(other, path, trust=True) == {"banks_known": 1, "memories_created": 1}
        [back] = await other.live()
        assert back == msgspec.structs.replace(kept, protected=back.protected)
        assert back.text == "•••"
        assert back.protected is not None
        shown = await other.reveal(other.person, ValueRevealRequest(ref=back.protected))
        assert shown.value == SECRET
        await other.room.drain()
        for file in (tmp_path / "other").rglob("*"):
            assert not file.is_file() or b"4711-0815" not in file.read_bytes(), file
        assert await bring(other, path, trust=True) == {"banks_known": 1, "memories_known": 1}


async def test_an_archive_without_values_says_what_it_cannot_bring(world: World, tmp_path: Path) -> None:
    """A tenant's archive without values brings the rest; the mirror's own folder names what it cannot bring."""
    await world.save(SECRET, protected=True)
    await world.save("An open fact.")
    path = await export(world)
    async with opened(tmp_path / "other") as other:
        assert await bring(other, path) == {"banks_known": 1, "memories_created": 1}
        assert await other.texts() == ["An open fact."]


async def test_values_that_cannot_be_opened_stop_the_export(world: World) -> None:
    """With another tenant key no archive is made that only seems to hold the values."""
    await world.save(SECRET, protected=True)

    async def other_key(caller: Caller, request: ValueRevealRequest) -> None:
        raise FunctionError("unavailable", "protected values cannot be opened")

    exporting = Archives(world.root, world.gate, world.clock, "1.2.3", other_key, data_dir=world.root)  # type: ignore[arg-type]
    with pytest.raises(FunctionError, match="cannot be opened"):
        await exporting.export(world.person, ExportRequest(include_protected=True))
    assert not list(world.root.glob("exports/*"))


async def test_an_import_says_how_far_it_is(world: World, tmp_path: Path) -> None:
    """While an archive is read the number of memories done rises to all of them; afterwards nothing runs."""
    await varied(world, 250)
    path = await export(world)
    async with opened(tmp_path / "other") as other:
        importing = archives(other)
        seen: list[tuple[str, int, int]] = []
        unsubscribe = other.store.subscribe(
            lambda _: seen.extend((one.function, one.done, one.total) for one in importing.running)
        )
        await importing.import_(other.person, ImportRequest(path=str(path), trust=True))
        unsubscribe()
        assert {function for function, _, _ in seen} == {"import"}
        assert {total for _, _, total in seen} == {250}
        assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
        assert importing.running == []
