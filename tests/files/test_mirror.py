"""What stands in the folder follows what stands in the store."""

import os
from pathlib import Path

import pytest

from memory_contracts.functions.banks import BankUpdateRequest
from memory_worker.files import FilesSettings
from tests.files.world import World, opened


async def test_a_saved_memory_is_one_markdown_file(world: World) -> None:
    """One file per live memory: front matter, an empty line, the fact."""
    memory = await world.save("The standup is at nine.", kind="fact", subject="Standup timing", tags=["Work"])
    await world.room.drain()
    tail = memory.id[-4:].lower()
    expected = (
        "---\n"
        f"id: {memory.id}\n"
        "kind: fact\n"
        "subject: standup timing\n"
        "tier: stated\n"
        "source: {route: human, principal: me}\n"
        "tags: [work]\n"
        "pinned: false\n"
        "confidence: normal\n"
        "learned: 2026-11-30T04:00:00Z\n"
        "expires: 2027-02-28T04:00:00Z\n"
        "revision: 1\n"
        "---\n"
        "\n"
        "The standup is at nine.\n"
    )
    assert world.files() == {f"standup-timing-{tail}.md": expected}


async def test_a_corrected_memory_keeps_its_file_name(world: World) -> None:
    """A file's name is stable: a correction changes what is in it."""
    memory = await world.save("Ana lives in Lisbon.")
    await world.room.drain()
    before = world.path_of(memory)
    await world.update(memory, text="Ana lives in Porto.")
    await world.room.drain()
    assert world.path_of(memory) == before
    assert before.read_text().endswith("\n\nAna lives in Porto.\n")
    assert len(world.files()) == 1


async def test_a_deleted_memory_has_no_file(world: World) -> None:
    """What is no longer live is no longer in the folder."""
    memory = await world.save("Ana lives in Lisbon.")
    await world.room.drain()
    await world.delete(memory)
    await world.room.drain()
    assert world.files() == {}


async def test_a_replaced_memory_gives_way_to_its_successor(world: World) -> None:
    """A superseded memory's file goes, its successor's comes."""
    await world.save("The office is in Berlin.", subject="office")
    await world.save("The office is in Hamburg.", subject="office")
    await world.room.drain()
    [text] = world.files().values()
    assert "Hamburg" in text


async def test_rules_and_settings_are_files(world: World) -> None:
    """A rule is a markdown file, a bank's settings are `bank.yaml`."""
    await world.make_bank("work", description="everything about work", layers=["main"])
    await world.set_rule("style", "# Style\n\nShort sentences.", bank="work")
    await world.room.drain()
    folder = world.root / "banks" / "work"
    assert (folder / "rules" / "style.md").read_text() == (
        "---\npriority: 100\nrevision: 1\n---\n\n# Style\n\nShort sentences.\n"
    )
    assert (folder / "bank.yaml").read_text() == (
        "name: work\ndescription: everything about work\nlayers: [main]\nreview: auto\nexpiry: quarter\n"
        "mirror: true\nrevision: 1\n"
    )


async def test_two_memories_that_begin_alike_have_two_files(world: World) -> None:
    """Names differ by the end of the id, whatever the texts."""
    for n in range(20):
        await world.save("The same beginning of a long sentence that goes on and on, variant " + "x" * n)
    await world.room.drain()
    assert len(world.files()) == 20


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ("CON", "con"),
        ("../../etc/passwd", "etc-passwd"),
        ("Über-Größe: café & crème brûlée!", "über-größe-café-crème-brûlée"),
        ("東京タワーに行った", "東京タワーに行った"),
        ("Привет, мир", "привет-мир"),
        ("👩‍🚀🚀✨", "memory"),
        ("a" * 2_000, "a" * 48),
        ("Ana's dog isn't here", "anas-dog-isnt-here"),
        (".hidden", "hidden"),
        ("~$lock#", "lock"),
    ],
)
async def test_names_are_readable_and_safe(world: World, text: str, readable: str) -> None:
    """Letters and digits of every script stay; what a file system minds never comes into a name."""
    memory = await world.save(text)
    await world.room.drain()
    assert list(world.files()) == [f"{readable}-{memory.id[-4:].lower()}.md"]


async def test_names_that_windows_reserves_are_set_apart(world: World) -> None:
    """A bank or rule named like a device gets a folder or file that every system can hold."""
    await world.make_bank("nul")
    await world.set_rule("con", "Be brief.", bank="nul")
    await world.room.drain()
    assert (world.root / "banks" / "nul~" / "rules" / "con~.md").is_file()


async def test_a_bank_can_be_left_out(world: World) -> None:
    """With `mirror: false` a bank has no files; turned on again it has all of them."""
    await world.make_bank("quiet")
    await world.save("Not for the folder.", bank="quiet")
    await world.room.drain()
    assert len(world.files("quiet")) == 1
    await world.gate.bank_update(world.person, BankUpdateRequest(name="quiet", mirror=False))
    await world.save("Nor this.", bank="quiet")
    await world.room.drain()
    assert not (world.root / "banks" / "quiet").exists()
    await world.gate.bank_update(world.person, BankUpdateRequest(name="quiet", mirror=True))
    await world.room.drain()
    assert len(world.files("quiet")) == 2


async def test_private_banks_are_mirrored_too(world: World) -> None:
    """The folder belongs to the operating system's user, who sees an agent's private notes in it."""
    await world.save("A private note.", by=world.agent, bank="agent-coder")
    await world.room.drain()
    assert len(world.files("agent-coder")) == 1


async def test_an_echo_of_our_own_writes_is_no_edit(world: World) -> None:
    """What the mirror wrote is recognised by its content: reading everything changes nothing."""
    await world.save("One.")
    await world.set_rule("style", "Short.")
    await world.room.drain()
    head = world.store.head
    read = await world.room.reload()
    assert (read.looked, read.changed) == (3, 0)
    assert world.store.head == head


async def test_a_touched_file_is_no_edit(world: World) -> None:
    """Files are compared by content, never by time."""
    memory = await world.save("One.")
    await world.room.drain()
    os.utime(world.path_of(memory), (1, 1))
    await world.sync()
    assert (await world.memory(memory.id)).revision == 1


async def test_the_folder_is_rebuilt_from_nothing(world: World) -> None:
    """Everything the mirror writes is derived: on demand it is written anew."""
    for n in range(30):
        await world.save(f"Fact number {n}.")
    await world.set_rule("style", "Short.")
    await world.room.drain()
    before = world.files()
    for path in sorted((world.root / "banks").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert await world.room.rebuild() == 32
    assert world.files() == before
    assert len(await world.live()) == 30


async def test_a_store_that_was_never_mirrored_is_written_at_the_start(tmp_path: Path) -> None:
    """A mirror without a past writes the records as they are instead of replaying every change."""
    async with opened(tmp_path / "local", settings=FilesSettings(batch_rows=5)) as world:
        kept = [await world.save(f"Fact number {n}.") for n in range(30)]
        for memory in kept[:10]:
            await world.delete(memory)
        await world.restart()
        assert len(world.files()) == 20
        assert (await world.room.status()).lag_rows == 0


async def test_a_rule_made_again_after_its_removal_is_written(world: World) -> None:
    """Revisions count on with a rule that is made again; its file follows."""
    for content in ("One.", "Two.", "Three."):
        await world.set_rule("style", content)
    await world.room.drain()
    await world.set_rule("style", "")
    await world.set_rule("style", "Anew.")
    await world.room.drain()
    assert (world.root / "banks/main/rules/style.md").read_text().endswith("revision: 4\n---\n\nAnew.\n")


async def test_being_said_again_moves_the_expiry_in_the_file(world: World) -> None:
    """Reinforcement leaves the revision and puts off the expiry: the file shows it."""
    memory = await world.save("The standup is at nine.")
    await world.room.drain()
    world.moved.pass_(86_400 * 31)
    await world.save("the standup is at nine")
    await world.room.drain()
    assert "expires: 2027-03-31T04:00:00Z\n" in world.path_of(memory).read_text()
    world.edit(memory, "at nine", "at ten")
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at ten."


async def test_a_deleted_bank_lies_in_the_trash_and_its_name_is_free(world: World) -> None:
    """`bank.delete` moves the folder to the trash; a bank made under the name at once has a folder of its own."""
    await world.make_bank("work")
    await world.save("The standup is at nine.", bank="work")
    await world.trash("work")
    await world.make_bank("work")
    await world.save("Another standup.", bank="work")
    await world.room.drain()
    [trashed] = (world.root / ".trash").glob("work-20261130T040000Z-*/memories/*.md")
    assert "The standup is at nine." in trashed.read_text()
    [kept] = world.files("work").values()
    assert "Another standup." in kept
    await world.trash("work")
    await world.room.drain()
    assert len(list((world.root / ".trash").iterdir())) == 2
    assert not (world.root / "banks/work").exists()


async def test_a_restored_bank_has_its_files_under_their_names(world: World) -> None:
    """A folder that comes back from the trash is the folder that went there."""
    await world.make_bank("work")
    memory = await world.save("The standup is at nine.", bank="work")
    await world.set_rule("style", "Short.", bank="work")
    await world.room.drain()
    world.path_of(memory).rename(world.folder("work") / "mine.md")
    await world.sync()
    await world.trash("work")
    await world.room.drain()
    assert not (world.root / "banks/work").exists()
    world.moved.pass_(60)
    await world.untrash("work")
    await world.room.drain()
    assert list(world.files("work")) == ["mine.md"]
    assert (world.root / "banks/work/rules/style.md").is_file()
    assert list((world.root / ".trash").iterdir()) == []
    read = await world.room.reload()
    assert read.changed == 0
