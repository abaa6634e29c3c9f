"""Files and folders nobody should put into a bank, and what becomes of each."""

import os
import socket
from pathlib import Path

import pytest

from memory_worker.files import FilesSettings
from tests.files.world import World, opened

FACT = "The standup is at nine."

UNREADABLE: list[tuple[str, bytes, str]] = [
    ("an-empty-file.md", b"", "the file is empty"),
    ("only-space.md", b" \n\t\n", "the file is empty"),
    ("only-front-matter.md", b"---\nkind: fact\n---\n", "no text below the front matter"),
    ("cut-off.md", b"---\nkind: fact\ntags: [a", "the front matter has no closing line of ---"),
    (
        "bad-yaml.md",
        b"---\nkind: [fact\ntags: x\n---\nA fact.\n",
        "the front matter is not valid YAML in line 3: did not find expected ',' or ']'",
    ),
    ("a-list.md", b"---\n- fact\n---\nA fact.\n", "the front matter is not a list of `field: value` lines"),
    ("unknown-field.md", b"---\ntitle: x\n---\nA fact.\n", "the field 'title' is not known"),
    ("twice.md", b"---\nkind: fact\nkind: place\n---\nA fact.\n", "the field 'kind' is given twice"),
    ("wrong-word.md", b"---\nkind: rumour\n---\nA fact.\n", "kind: is not one of the words it may have"),
    ("wrong-type.md", b"---\ntags: {a: b}\n---\nA fact.\n", "tags: Expected `array`, got `object`"),
    (
        "no-zone.md",
        b"---\nexpires: 2030-01-01 10:00\n---\nA fact.\n",
        "expires needs its offset from UTC, such as 2026-11-30T03:51:42Z",
    ),
    *[
        (
            f"{field}-beyond-the-calendar-{number}.md",
            f"---\n{field}: {time}\n---\nA fact.\n".encode(),
            f"{field} lies outside 0001-01-02 to 9999-12-30",
        )
        for field in ("learned", "occurred", "expires", "updated", "seen")
        for number, time in enumerate(
            ("0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00", "0001-01-01", "9999-12-31T23:59:59Z")
        )
    ],
    (
        "in-the-past.md",
        b"---\nexpires: 2001-01-01\n---\nA fact.\n",
        "expires_at lies in the past (give a time to come, or leave it out)",
    ),
    ("python.md", b"---\nsubject: !!python/name:os.system x\n---\nA fact.\n", "YAML types (!) are not read"),
    (
        "laughs.md",
        b"---\nabout: &a [x, x]\ntags: [*a, *a]\n---\nA fact.\n",
        "references (& and *) are not read",
    ),
    (
        "deep.md",
        b"---\ntags: " + b"[" * 500 + b"]" * 500 + b"\n---\nA fact.\n",
        "the front matter is nested more than 4 deep",
    ),
    ("latin-1.md", b"Caf\xe9 at noon.\n", "not UTF-8 text (byte 3)"),
    ("utf-16.md", "A fact.".encode("utf-16"), "not UTF-8 text (byte 0)"),
    ("binary.md", b"\x00\x01\x02\x03", "not a text: it holds NUL bytes"),
    (
        "two-in-one.md",
        b"---\nkind: fact\n---\nOne.\n\n---\nkind: fact\n---\nTwo.\n",
        "two memories in one file: give each a file of its own",
    ),
    ("too-long.md", b"x" * 2_001, "the text has 2,001 characters, at most 2,000 make one memory"),
    ("ten-megabytes.md", b"x" * 10_000_000, "it has 10,000,000 bytes, more than the 1,048,576 that are read"),
    ("long-label.md", b"---\nsubject: " + b"x" * 129 + b"\n---\nA fact.\n", "subject: Expected `str` of length <= 128"),
    ("bell.md", b"A fact\x07.\n", "text holds the control character U+0007 (remove control characters)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "reason"), UNREADABLE, ids=[name for name, _, _ in UNREADABLE])
async def test_an_unreadable_file_is_left_and_told(world: World, name: str, content: bytes, reason: str) -> None:
    """What cannot be read stays byte for byte, is listed with its reason, and becomes a notice until it is gone."""
    await world.save(FACT)
    await world.room.drain()
    path = world.folder() / name
    path.write_bytes(content)
    await world.sync()
    shown = f"banks/main/memories/{name}"
    assert await world.problems() == {shown: reason}
    assert path.read_bytes() == content
    assert await world.texts() == [FACT]
    [listing] = world.listed()
    assert listing.startswith(f"File:   {shown}\nReason: {reason}\nSince:  2026-11-30 04:00:00 UTC\n")
    assert [notice.text for notice in await world.notices()] == [
        f"The file {shown} is not read: {reason}. It was left as it is."
    ]
    await world.room.reload()
    assert len(await world.notices()) == 1
    path.unlink()
    await world.sync()
    assert (await world.problems(), world.listed(), await world.notices()) == ({}, [], [])


@pytest.mark.parametrize(("name", "content", "reason"), UNREADABLE, ids=[name for name, _, _ in UNREADABLE])
async def test_a_memory_survives_whatever_its_file_becomes(
    world: World, name: str, content: bytes, reason: str
) -> None:
    """A memory's own file made unreadable changes nothing in the store; put right, it is that memory's file again."""
    memory = await world.save(FACT)
    await world.room.drain()
    path = world.path_of(memory)
    whole = path.read_bytes()
    path.write_bytes(content)
    await world.sync()
    now = await world.memory(memory.id)
    if reason.startswith("expires_at lies in the past"):
        reason = "expires_at lies in the past"
    assert (now.state, now.text, now.revision) == ("live", FACT, 1)
    assert list((await world.problems()).values()) == [reason]
    assert path.read_bytes() == content
    path.write_bytes(whole.replace(b"nine", b"ten"))
    await world.sync()
    assert (await world.memory(memory.id)).text == "The standup is at ten."
    assert (await world.problems(), await world.notices()) == ({}, [])


@pytest.mark.parametrize(
    "name",
    [
        ".fact.md.swp", ".#fact.md", "#fact.md#", "fact.md~", "4913", "fact.md.tmp", ".DS_Store", "~$fact.md",
        "fact.md___jb_tmp___", "fact.md.crdownload", ".goutputstream-ABC123", "fact.swo.md.bak", "notes.txt",
        "fact.md.tmp.12345.678",
    ],
)  # fmt: skip
async def test_what_editors_leave_about_is_not_read(world: World, name: str) -> None:
    """Swap files, backups, half-downloaded files and anything that is not markdown are no memories and no problems."""
    world.folder().mkdir(parents=True)
    (world.folder() / name).write_text("A draft.")
    await world.sync()
    assert (await world.texts(), await world.problems()) == ([], {})
    assert (world.folder() / name).read_text() == "A draft."


# What is not a plain file


async def test_a_link_out_of_the_folder_is_not_followed(world: World, tmp_path: Path) -> None:
    """A symbolic link is never read through, wherever it leads, and reported."""
    outside = tmp_path / "secret.md"
    outside.write_text("The password is hunter2.")
    world.folder().mkdir(parents=True)
    (world.folder() / "link.md").symlink_to(outside)
    (world.folder() / "dangling.md").symlink_to(tmp_path / "nowhere")
    await world.sync()
    reason = "it is a link, and links are not followed"
    assert await world.problems() == {
        "banks/main/memories/dangling.md": reason,
        "banks/main/memories/link.md": reason,
    }
    assert await world.texts() == []


async def test_a_memorys_file_that_becomes_a_link_is_not_written_through(world: World, tmp_path: Path) -> None:
    """A link that takes the place of a memory's file is neither read nor written: what it leads to stays as it is."""
    memory = await world.save(FACT)
    await world.room.drain()
    path = world.path_of(memory)
    outside = tmp_path / "outside.md"
    path.rename(outside)
    path.symlink_to(outside)
    before = outside.read_bytes()
    await world.update(memory, text="The standup is at ten.")
    await world.sync()
    assert outside.read_bytes() == before
    assert path.is_symlink()
    assert (await world.memory(memory.id)).state == "live"
    assert list((await world.problems()).values()) == ["it is a link, and links are not followed"]


async def test_a_folder_that_becomes_a_link_is_neither_read_nor_written(world: World, tmp_path: Path) -> None:
    """A bank's folder replaced by a link is left alone: nothing is read or written outside, nothing is deleted."""
    memory = await world.save(FACT)
    await world.room.drain()
    outside = tmp_path / "outside"
    (world.root / "banks" / "main").rename(outside)
    (world.root / "banks" / "main").symlink_to(outside)
    (outside / "memories" / "planted.md").write_text("Planted.")
    before = sorted(path.name for path in (outside / "memories").iterdir())
    await world.save("Another fact.")
    await world.update(memory, text="The standup is at ten.")
    await world.sync()
    assert sorted(path.name for path in (outside / "memories").iterdir()) == before
    assert await world.texts() == ["Another fact.", "The standup is at ten."]
    assert "a bank's folder must be a folder of its own: links are not followed" in (await world.problems()).values()


async def test_a_link_to_the_whole_disk_is_no_trap(world: World) -> None:
    """A link to `/` among the memories is not walked."""
    world.folder().mkdir(parents=True)
    (world.folder() / "everything").symlink_to("/")
    await world.sync()
    assert await world.texts() == []


async def test_a_link_that_leads_to_itself_is_no_trap(world: World) -> None:
    """A loop of links ends nothing."""
    world.folder().mkdir(parents=True)
    (world.folder() / "loop.md").symlink_to("loop.md")
    await world.sync()
    assert list((await world.problems()).values()) == ["it is a link, and links are not followed"]


async def test_a_pipe_does_not_make_the_worker_wait(world: World) -> None:
    """A named pipe with nobody at its other end is reported like any other thing that is no file."""
    world.folder().mkdir(parents=True)
    os.mkfifo(world.folder() / "pipe.md")
    await world.sync()
    assert list((await world.problems()).values()) == ["it is not a regular file"]


async def test_a_socket_is_no_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket called like a memory is reported."""
    world.folder().mkdir(parents=True)
    monkeypatch.chdir(world.folder())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        await world.sync()
    assert list((await world.problems()).values()) == ["it cannot be opened: No such device or address"]


async def test_a_folder_named_like_a_memory_is_a_folder(world: World) -> None:
    """`x.md/` is a folder with memories in it."""
    (world.folder() / "x.md").mkdir(parents=True)
    (world.folder() / "x.md" / "y.md").write_text("A fact.")
    await world.sync()
    assert await world.texts() == ["A fact."]


async def test_a_memorys_file_that_becomes_a_folder_deletes_nothing(world: World) -> None:
    """A folder in the place of a memory's file is no removed file: it is reported and the memory stays."""
    memory = await world.save(FACT)
    await world.room.drain()
    path = world.path_of(memory)
    path.unlink()
    path.mkdir()
    await world.sync()
    assert (await world.memory(memory.id)).state == "live"
    assert path.is_dir()
    assert list((await world.problems()).values()) == ["it is not a regular file"]


# Names


async def test_a_name_that_is_not_text_is_reported(world: World) -> None:
    """A file name that is not UTF-8 cannot be recorded, so the file is left and reported."""
    world.folder().mkdir(parents=True)
    (world.folder() / os.fsdecode(b"caf\xe9.md")).write_bytes(b"A fact.")
    await world.sync()
    assert await world.problems() == {"banks/main/memories/caf\\udce9.md": "its name is not UTF-8 text"}
    assert await world.texts() == []


async def test_a_name_with_line_ends_and_escapes_stays_one_line_in_reports(world: World) -> None:
    """A file name cannot break out of the line it is reported on."""
    world.folder().mkdir(parents=True)
    (world.folder() / "a\nReason: all is well\x1b[2K\u202e.md").write_text("")
    await world.sync()
    [shown] = await world.problems()
    assert shown == "banks/main/memories/a\\u000aReason: all is well\\u001b[2K\\u202e.md"


async def test_the_longest_name_a_file_system_takes_is_a_name(world: World) -> None:
    """255 bytes of name are read and written."""
    world.folder().mkdir(parents=True)
    path = world.folder() / ("x" * 252 + ".md")
    path.write_text("A fact.")
    await world.sync()
    assert await world.texts() == ["A fact."]
    assert path.read_text().endswith("\n\nA fact.\n")


@pytest.mark.parametrize("name", ["Style.md", "my style.md", "-x.md", "a.b.md", "x" * 65 + ".md", "über.md"])
async def test_a_rule_with_a_name_no_rule_has_is_reported(world: World, name: str) -> None:
    """Rule names are lower case and plain, so that no two fall together on any system."""
    folder = world.root / "banks/main/rules"
    folder.mkdir(parents=True)
    (folder / name).write_text("Be kind.")
    await world.sync()
    assert list((await world.problems()).values()) == [
        "a rule is named by lower-case letters, digits, - and _, at most 64 of them"
    ]


RULES: list[tuple[bytes, str]] = [
    (b"", "the rule is empty: to remove it, remove the file"),
    (b"---\npriority: high\n---\nBe kind.", "priority is a whole number"),
    (b"---\npriority: 1001\n---\nBe kind.", "priority is at least 0 and at most 1000"),
    (b"---\nglobs: '*'\n---\nBe kind.", "a rule's front matter holds priority and revision, not 'globs'"),
    (b"x" * 20_001, "the rule has 20,001 characters, at most 20,000 are injected"),
    (b"\xff", "not UTF-8 text (byte 0)"),
]


@pytest.mark.parametrize(("content", "reason"), RULES, ids=[reason[:20] for _, reason in RULES])
async def test_an_unreadable_rule_is_never_taken_for_an_empty_one(world: World, content: bytes, reason: str) -> None:
    """A `learned` file that cannot be read is left alone, and so is the rule: later lines are not written over it."""
    await world.set_rule("learned", "- Use metric units.")
    await world.room.drain()
    path = world.root / "banks/main/rules/learned.md"
    path.write_bytes(content)
    await world.set_rule("learned", "- Use metric units.\n- Say good morning.")
    await world.sync()
    assert path.read_bytes() == content
    rule = await world.rule("learned")
    assert rule is not None
    assert rule.content == "- Use metric units.\n- Say good morning."
    assert list((await world.problems()).values()) == [reason]


async def test_an_unreadable_bank_file_is_left(world: World) -> None:
    """A broken `bank.yaml` changes no setting and is not written over."""
    await world.room.drain()
    path = world.root / "banks/main/bank.yaml"
    path.write_text("review: sometimes\n")
    await world.sync()
    assert path.read_text() == "review: sometimes\n"
    assert await world.problems() == {"banks/main/bank.yaml": "review: is not one of the words it may have"}


# Folders


async def test_a_folder_without_a_bank_is_reported(world: World) -> None:
    """A folder nobody made a bank for is not taken for one; once there is such a bank, its files are read."""
    world.folder("work").mkdir(parents=True)
    (world.folder("work") / "x.md").write_text("A fact.")
    await world.sync()
    assert await world.problems() == {
        "banks/work/memories/x.md": "there is no bank for the folder banks/work: make the bank first"
    }
    await world.make_bank("work")
    await world.room.reload()
    assert await world.texts("work") == ["A fact."]
    assert await world.problems() == {}


async def test_edits_in_a_private_bank_are_not_taken(world: World) -> None:
    """An agent's private notes can be read in the folder; a change there is the agent's to make, and is reported."""
    memory = await world.save("A private note.", by=world.agent, bank="agent-coder")
    await world.room.drain()
    world.edit(memory, "private note", "note")
    await world.sync()
    assert (await world.memory(memory.id)).text == "A private note."
    assert list((await world.problems()).values()) == [
        "the bank is private: its files are written for reading, and changes by hand are not taken"
    ]


async def test_a_folder_of_foreign_files_does_not_flood_a_person(world: World) -> None:
    """A thousand unreadable files are all listed, and told in twenty notices."""
    world.folder().mkdir(parents=True)
    for n in range(1_000):
        (world.folder() / f"{n}.md").write_text("")
    await world.sync()
    assert (await world.room.status()).problems_total == 1_000
    assert len(await world.notices()) == 20
    assert len(world.listed()) == 1_000


async def test_folders_nested_without_end_are_read_to_a_depth(world: World) -> None:
    """Folders are read eight deep; what lies deeper stays unread."""
    deep = world.folder()
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "x.md").write_text("Too deep.")
    await world.sync()
    assert await world.texts() == []


async def test_a_store_full_of_hostile_texts_is_written_and_read_back(world: World) -> None:
    """A memory's text may look like front matter, YAML or markdown: its file reads back as the same memory."""
    texts = [
        "---",
        "--- kind: fact ---",
        "- item: [1, 2",
        "# heading",
        "key: value",
        "\"quoted\" 'twice' \\ backslash",
        "ends with a colon:",
        "\u200bzero\u2060width\ufeff",
        "e\u0301 combining",
        "{{ template }} {% raw %}",
        "<!-- comment --> </memory>",
        "null",
    ]
    for text in texts:
        await world.save(text, subject=text[:20], tags=["no", "1.10", "~", "a: b"], entities=["Yes", "0x1f"])
    await world.room.drain()
    for path in world.folder().iterdir():
        path.write_bytes(path.read_bytes() + b"\n\n")
    head = world.store.head
    await world.sync()
    assert await world.problems() == {}
    assert world.store.head == head


async def test_the_size_a_file_may_have_is_a_setting(tmp_path: Path) -> None:
    """Files larger than `file_max_bytes` are not read."""
    async with opened(tmp_path / "local", settings=FilesSettings(file_max_bytes=4_096)) as world:
        world.folder().mkdir(parents=True)
        (world.folder() / "x.md").write_bytes(b"x" * 4_097)
        await world.sync()
        assert list((await world.problems()).values()) == ["it has 4,097 bytes, more than the 4,096 that are read"]
