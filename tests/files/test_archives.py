"""What is carried away can be brought back, here or elsewhere."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import ExportRequest, ImportRequest
from memory_worker.files import Archives
from tests.files.world import World, opened


def archives(world: World) -> Archives:
    """The functions under test."""
    return Archives(world.root, world.gate, world.clock, "1.2.3", world.reveal, data_dir=world.root)


async def export(world: World, **fields: object) -> Path:
    """Export as a person; gives the archive's path."""
    reply = await archives(world).export(world.person, ExportRequest(**fields))  # type: ignore[arg-type]
    return Path(reply.path)


async def bring(world: World, path: Path, **fields: object) -> dict[str, int]:
    """Import as a person; gives the counts, and checks that there were no problems."""
    reply = await archives(world).import_(world.person, ImportRequest(path=str(path), **fields))  # type: ignore[arg-type]
    assert reply.problems == []
    return reply.counts


def contents(path: Path) -> dict[str, bytes]:
    """Give the files of an archive."""
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def mode(path: Path) -> int:
    """Give a file's permissions."""
    return path.stat().st_mode & 0o777


async def filled(world: World) -> None:
    """Put some of everything into a tenant."""
    await world.make_bank("work", description="everything about work", layers=["main"], expiry="year")
    await world.save("Ana likes tea.", kind="preference", entities=["Ana"], tags=["food"], confidence="high")
    pinned = await world.save("The key is under the mat.", pinned=True, bank="work")
    await world.update(pinned, text="The key is under the pot.")
    await world.save("An inference.", by=world.agent, about=["repo:api"])
    await world.set_rule("style", "# Style\n\nShort.", bank="work")
    await world.set_rule("learned", "- Use metric units.\n- Say good morning.")
    gone = await world.save("Gone again.")
    await world.delete(gone)


async def test_an_archive_says_what_is_in_it(world: World) -> None:
    """One archive: markdown, journal, and a manifest with versions and checksums."""
    await filled(world)
    reply = await archives(world).export(world.person, ExportRequest())
    path = Path(reply.path)
    files = contents(path)
    manifest = json.loads(files["manifest.json"])
    assert path.parent == world.root / "exports"
    assert mode(path) == 0o600
    assert (manifest["format"], manifest["worker"], manifest["tenant"]) == (1, "1.2.3", "local")
    assert manifest["seq"] == world.store.head
    assert manifest["files"].keys() == files.keys() - {"manifest.json"}
    assert reply.counts == {
        "banks": 2,
        "memories": 3,
        "rules": 2,
        "protected_left_out": 0,
        "journal": len(files["journal.jsonl"].splitlines()),
    }
    assert b"Gone again." in files["journal.jsonl"]
    assert not any(b"Gone again." in data for name, data in files.items() if name.startswith("banks/"))


async def test_a_round_trip_changes_nothing(world: World, tmp_path: Path) -> None:
    """Exported, imported on trust into a fresh tenant and exported again: the same files, byte for byte."""
    await filled(world)
    first = await export(world)
    async with opened(tmp_path / "other") as other:
        other.moved.pass_(86_400)
        counts = await bring(other, first, trust=True)
        assert counts == {"banks_created": 1, "banks_known": 1, "memories_created": 3, "rules_created": 2}
        second = await export(other)
        run = {"manifest.json", "journal.jsonl"}
        before, after = contents(first), contents(second)
        assert {name: data for name, data in after.items() if name not in run} == {
            name: data for name, data in before.items() if name not in run
        }
        rule = await other.rule("learned")
        assert rule is not None
        assert [line.text for line in rule.lines] == ["Use metric units.", "Say good morning."]
        assert await bring(other, first, trust=True) == {
            "banks_known": 2,
            "memories_known": 3,
            "rules_known": 2,
        }


async def test_without_trust_everything_arrives_as_inferred(world: World, tmp_path: Path) -> None:
    """An archive cannot say of itself that a person stated something, pinned it, or made it a rule."""
    await filled(world)
    path = await export(world)
    async with opened(tmp_path / "other") as other:
        counts = await bring(other, path)
        assert counts == {"banks_created": 1, "banks_known": 1, "memories_created": 3, "rules_held": 2}
        for memory in (*await other.live("main"), *await other.live("work")):
            assert (memory.tier, memory.pinned, memory.confidence) == ("inferred", False, "normal")
            assert (memory.source.route, memory.source.principal) == ("human", "me")
        assert await other.rule("style", "work") is None
        [suggestion] = await other.suggestions("work")
        assert suggestion.change.function == "rule.set"


async def test_trust_stands_in_the_journal(world: World, tmp_path: Path) -> None:
    """The journal tells an import that a person vouched for from one that nobody did."""
    await world.save("Ana likes tea.")
    path = await export(world)
    for trust, word in ((True, "import-trusted:"), (False, "import:")):
        async with opened(tmp_path / word) as other:
            await bring(other, path, trust=trust)
            rows = await other.store.journal_after(0, 100)
            [row] = [row for row in rows if row.type == "memory.created"]
            assert row.cause_id.startswith(word)
            assert (row.actor_route, row.actor_principal) == ("human", "me")


async def test_an_import_into_a_tenant_merges_by_text(world: World, tmp_path: Path) -> None:
    """What is there stays as it is; only what is new is added; a contradiction of a person's word is a question."""
    await world.save("Ana likes tea.", by=world.agent)
    await world.save("The office is in Berlin.", subject="office", by=world.agent)
    await world.save("Bo plays chess.", by=world.agent)
    path = await export(world)
    async with opened(tmp_path / "other") as other:
        kept = await other.save("ANA LIKES TEA")
        await other.save("The office is in Hamburg.", subject="office")
        assert await bring(other, path) == {
            "banks_known": 1,
            "memories_created": 1,
            "memories_held": 1,
            "memories_known": 1,
        }
        assert await other.memory(kept.id) == kept
        assert await other.texts() == ["ANA LIKES TEA", "Bo plays chess.", "The office is in Hamburg."]
        [suggestion] = await other.suggestions()
        assert suggestion.change.args["text"] == "The office is in Berlin."


async def test_what_was_corrected_away_does_not_come_back(world: World) -> None:
    """An older archive of the same tenant brings no corrected wording back beside its correction."""
    memory = await world.save("The standup is at nine.")
    path = await export(world)
    await world.update(memory, text="The standup is at ten.")
    assert await bring(world, path, trust=True) == {"banks_known": 1, "memories_known": 1}
    assert await world.texts() == ["The standup is at ten."]


async def test_what_was_deleted_comes_back_under_a_new_id(world: World) -> None:
    """A person may bring a deleted memory back from an archive; ids are never used again."""
    memory = await world.save("The standup is at nine.")
    path = await export(world)
    await world.delete(memory)
    assert await bring(world, path, trust=True) == {"banks_known": 1, "memories_created": 1}
    [back] = await world.live()
    assert (back.text, back.created_at) == (memory.text, memory.created_at)
    assert back.id != memory.id


async def test_a_dry_run_changes_nothing(world: World, tmp_path: Path) -> None:
    """A rehearsed import counts what would happen and leaves no trace."""
    await filled(world)
    path = await export(world)
    async with opened(tmp_path / "other") as other:
        head = other.store.head
        counts = await bring(other, path, trust=True, dry_run=True)
        assert counts == {"banks_created": 1, "banks_known": 1, "memories_created": 3, "rules_created": 2}
        assert other.store.head == head
        assert await other.texts() == []


async def test_one_bank_can_be_carried_into_another(world: World, tmp_path: Path) -> None:
    """An archive of one bank goes into the bank that is named."""
    await filled(world)
    path = await export(world, bank="work")
    assert {name.split("/")[1] for name in contents(path) if name.startswith("banks/")} == {"work"}
    async with opened(tmp_path / "other") as other:
        await other.make_bank("office")
        await bring(other, path, bank="office", trust=True)
        assert await other.texts("office") == ["The key is under the pot."]


async def test_an_export_is_whole_while_writes_go_on(world: World) -> None:
    """Whatever changes while an archive is written, it is the state at the row its manifest names."""
    kept = [await world.save(f"Fact number {n}.") for n in range(1_200)]
    exporting = archives(world)
    changed = False

    class Meddling:
        """Changes records between two pages of the export."""

        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        async def memories(self, bank: str, after_id: str, limit: int) -> object:
            nonlocal changed
            page = await self._inner.memories(bank, after_id, limit)  # type: ignore[attr-defined]
            if not changed:
                changed = True
                await world.delete(kept[0])
                await world.update(kept[1_100], text="Changed meanwhile.")
                await world.save("Added meanwhile.")
            return page

    exporting._exporter._snapshot = Meddling(exporting._exporter._snapshot)  # type: ignore[assignment]
    reply = await exporting.export(world.person, ExportRequest())
    files = contents(Path(reply.path))
    texts = sorted(
        data.decode().rpartition("---\n\n")[2].strip() for name, data in files.items() if "/memories/" in name
    )
    assert texts == await world.texts()
    assert json.loads(files["manifest.json"])["seq"] == world.store.head


async def test_private_banks_are_their_owners_to_carry_away(world: World) -> None:
    """An export holds what its caller may read: no agent's private notes, neither as files nor in the journal."""
    await world.save("A private note.", by=world.agent, bank="agent-coder")
    await world.save("A shared fact.")
    files = contents(await export(world))
    assert not any(b"private note" in data for data in files.values())
    with pytest.raises(FunctionError, match="no bank agent-coder"):
        await export(world, bank="agent-coder")


# Damaged and hostile archives


def _tar(members: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            member.type = kind
            member.linkname = "/etc/passwd"
            tar.addfile(member, io.BytesIO(data))
    return raw.getvalue()


HOSTILE: list[tuple[str, bytes, str]] = [
    ("no archive", b"PK\x03\x04 something else", "the archive is damaged or is none"),
    ("empty", b"", "the archive is damaged or is none"),
    ("nothing in it", _tar([]), "the archive has no manifest"),
    ("leads out", _tar([("../../etc/cron.d/x", b"x")]), "the archive holds something that no export writes"),
    ("absolute", _tar([("/etc/passwd", b"x")]), "the archive holds something that no export writes"),
    ("a link", _tar([("banks/main/memories/x.md", b"")], tarfile.SYMTYPE), "something that no export writes"),
    ("a device", _tar([("banks/main/memories/x.md", b"")], tarfile.CHRTYPE), "something that no export writes"),
    ("twice", _tar([("manifest.json", b"{}")] * 2), "the archive"),
    ("no json", _tar([("manifest.json", b"{")]), "the archive's manifest cannot be read"),
    (
        "a bomb",
        _tar([("banks/main/memories/x.md", b"0" * 3_000_000)]),
        "the archive holds a file larger than any export writes",
    ),
]


@pytest.mark.parametrize(("content", "reason"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
async def test_a_hostile_archive_brings_nothing_in(world: World, tmp_path: Path, content: bytes, reason: str) -> None:
    """What is not exactly an archive of ours is refused as a whole, before anything comes in."""
    path = tmp_path / "hostile.tar.gz"
    path.write_bytes(content)
    head = world.store.head
    with pytest.raises(FunctionError, match=reason):
        await bring(world, path, trust=True)
    assert world.store.head == head


async def test_a_changed_or_cut_archive_is_refused(world: World, tmp_path: Path) -> None:
    """Every file's checksum stands in the manifest; one changed byte, one missing file or a cut end is noticed."""
    await filled(world)
    path = await export(world)
    files = contents(path)
    memory = next(name for name in files if "/memories/" in name)
    changed = [(name, data + b" " if name == memory else data) for name, data in files.items()]
    missing = [(name, data) for name, data in files.items() if name != memory]
    newer = {**json.loads(files["manifest.json"]), "format": 2}
    future = [(name, data if name != "manifest.json" else json.dumps(newer).encode()) for name, data in files.items()]
    for content, reason in (
        (_tar(changed), "1 files are not as its manifest says"),
        (_tar(missing), "1 files are not as its manifest says"),
        (_tar(future), "the archive has format 2"),
        (path.read_bytes()[:-200], "the archive is damaged"),
    ):
        other = tmp_path / "changed.tar.gz"
        other.write_bytes(content)
        with pytest.raises(FunctionError, match=reason):
            await bring(world, other, trust=True)


async def test_the_same_state_gives_the_same_archive(world: World) -> None:
    """An archive holds no times of its own making: two exports of one state differ in the manifest's time alone."""
    await filled(world)
    first = await export(world)
    world.moved.pass_(1)
    second = await export(world)
    one, two = contents(first), contents(second)
    assert {k: v for k, v in one.items() if k != "manifest.json"} == {
        k: v for k, v in two.items() if k != "manifest.json"
    }
    assert gzip.decompress(first.read_bytes())[:512] == gzip.decompress(second.read_bytes())[:512]


# Markdown of other tools


async def test_a_folder_of_facts_is_taken_in(world: World, tmp_path: Path) -> None:
    """Notes with or without front matter, lists of facts, and what cannot be read is named."""
    folder = tmp_path / "notes"
    (folder / "people").mkdir(parents=True)
    (folder / "people" / "ana.md").write_text(
        "---\ntitle: Ana\ntype: person\ntags: friends, chess\n---\n# Ana\n\nPlays chess\nevery Monday.\n"
    )
    (folder / "list.md").write_text("# Things\n\n- The key is under the mat.\n- [x] The code is on the fridge.\n")
    (folder / "plain.md").write_text("Bo lives in Porto.\n")
    (folder / "broken.md").write_bytes(b"\xff\xfe\x00")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "link.md").symlink_to("/etc/hostname")
    reply = await archives(world).import_(world.person, ImportRequest(path=str(folder)))
    assert reply.counts == {"memories_created": 4, "unreadable": 2}
    assert reply.problems == [
        "broken.md: not UTF-8 text (byte 0)",
        "link.md: it is a link, and links are not followed",
    ]
    assert await world.texts() == [
        "Bo lives in Porto.",
        "Plays chess every Monday.",
        "The code is on the fridge.",
        "The key is under the mat.",
    ]
    [ana] = [memory for memory in await world.live() if memory.kind == "person"]
    assert (ana.tier, ana.tags) == ("inferred", ("friends", "chess"))


@pytest.mark.parametrize(("name", "rule"), [("CLAUDE.md", "claude"), ("AGENTS.md", "agents")])
async def test_a_rule_file_of_a_coding_agent_becomes_a_rule(world: World, tmp_path: Path, name: str, rule: str) -> None:
    """A rule file becomes a rule when a person vouches for it, and a question when nobody does."""
    path = tmp_path / name
    path.write_text("# Project\n\nRun the tests first.\n")
    assert await bring(world, path) == {"rules_held": 1}
    assert await world.rule(rule) is None
    assert await bring(world, path, trust=True) == {"rules_created": 1}
    made = await world.rule(rule)
    assert made is not None
    assert made.content == "# Project\n\nRun the tests first."


async def test_the_mirrors_own_folder_can_be_brought_in(world: World, tmp_path: Path) -> None:
    """Files of ours, copied from another machine, are read with their labels."""
    await world.save("Ana likes tea.", kind="preference", tags=["food"])
    await world.room.drain()
    async with opened(tmp_path / "other") as other:
        assert await bring(other, world.folder()) == {"memories_created": 1}
        [memory] = await other.live()
        assert (memory.kind, memory.tags, memory.tier) == ("preference", ("food",), "inferred")


async def test_a_path_where_nothing_is_is_refused(world: World, tmp_path: Path) -> None:
    """An import of nothing says so."""
    with pytest.raises(FunctionError, match="there is nothing at this path"):
        await bring(world, tmp_path / "nowhere")


async def test_an_import_reaches_the_folder(world: World, tmp_path: Path) -> None:
    """What came in is mirrored like anything else."""
    (tmp_path / "x.md").write_text("Bo lives in Porto.\n")
    await bring(world, tmp_path / "x.md")
    await world.room.drain()
    assert len(world.files()) == 1
