"""An import reads what it is meant to take and nothing else; an export overwrites nothing."""

from pathlib import Path

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import ExportRequest, ImportRequest
from memory_worker.files import Archives
from memory_worker.store import Caller
from tests.files.world import World

SECRET = "The password is zinnia."
BOB = Caller("local", "human", "bob")


def functions(world: World) -> Archives:
    """The functions under test, in a data directory that is the tenant folder's parent, as the worker has it."""
    return Archives(world.root, world.gate, world.clock, "1.2.3", world.reveal, data_dir=world.root.parent)


async def refused(world: World, path: Path | str) -> FunctionError:
    """Import a path that must be refused; gives the error, and checks that it names the field and what to do."""
    with pytest.raises(FunctionError) as caught:
        await functions(world).import_(BOB, ImportRequest(path=str(path)))
    assert caught.value.field == "path"
    assert caught.value.hint
    assert await world.texts() == []
    return caught.value


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is not in the data directory."""
    return tmp_path_factory.mktemp("outside")


def filled(world: World) -> list[Path]:
    """Put a secret into everything of the worker's own that must not be read; gives the paths."""
    data = world.root.parent
    paths = [
        data / "credentials" / "human-me.json",
        data / "credentials" / "notes.md",
        data / "key.md",
        data / "store-id",
        data / "other" / "banks" / "main" / "memories" / "fact.md",
        data / "other" / "exports" / "memory-all.tar.gz",
        world.root / "banks" / "main" / "memories" / "fact.md",
        world.root / "exports" / "fact.md",
        world.root / "exports" / "deeper" / "memory-all.tar.gz",
        world.root / "memory.db",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(f"{SECRET}\n")
    folders = {path.parent for path in paths} | {data, data / "other", world.root, *data.parents}
    return [*paths, *sorted(folders)]


async def test_the_workers_own_is_never_imported(world: World, outside: Path) -> None:
    """Credentials, keys, stores, files, other tenants, and folders that hold them: refused by every way to them."""
    for number, path in enumerate(filled(world)):
        link = outside / f"link-{number}{path.suffix}"
        link.symlink_to(path)
        detour = path.parent / ".." / path.parent.name / path.name
        for way in (path, detour, link):
            assert (await refused(world, way)).code == "forbidden", way
    (outside / "into").symlink_to(world.root.parent)
    assert (await refused(world, outside / "into" / "credentials" / "notes.md")).code == "forbidden"
    assert (await refused(world, outside / "into" / "other" / "banks")).code == "forbidden"


async def test_only_archives_folders_and_markdown_are_taken(world: World, outside: Path) -> None:
    """Any other file is refused, whatever is in it, and so is a link that is only named like markdown."""
    for name in ("passwd", "key.pem", "human-me.json", "notes.txt", "notes.md.json", "old.tar", "X.TAR.GZ"):
        (outside / name).write_text(f"{SECRET}\n")
        assert (await refused(world, outside / name)).code == "invalid_input"
    for target in (Path("/etc/passwd"), outside / "key.pem", Path("/dev/zero")):
        link = outside / "innocent.md"
        link.symlink_to(target)
        assert (await refused(world, link)).code == "invalid_input"
        link.unlink()
    (outside / "loop.md").symlink_to(outside / "loop.md")
    for path in (
        "/etc/passwd",
        "/dev/zero",
        "/proc/self/environ",
        "nul\x00.md",
        outside / "loop.md",
        "~nobody-here/x.md",
    ):
        assert (await refused(world, path)).code == "invalid_input"
    not_ours = outside / "not-ours.tar.gz"
    not_ours.write_text(SECRET)
    with pytest.raises(FunctionError, match="damaged or is none"):
        await functions(world).import_(BOB, ImportRequest(path=str(not_ours)))


async def test_a_folder_gives_its_markdown_and_follows_no_link(world: World, outside: Path) -> None:
    """Of a folder the `.md` files come in; links in it, to files and to folders, lead nowhere."""
    secret = filled(world)[1]
    folder = outside / "notes"
    folder.mkdir()
    (folder / "fact.md").write_text("Bo lives in Porto.\n")
    (folder / "human-me.json").write_text(SECRET)
    (folder / "link.md").symlink_to(secret)
    (folder / "credentials").symlink_to(secret.parent)
    reply = await functions(world).import_(BOB, ImportRequest(path=str(folder)))
    assert reply.problems == ["link.md: it is a link, and links are not followed"]
    assert await world.texts() == ["Bo lives in Porto."]


async def test_a_refusal_does_not_tell_what_exists(world: World, outside: Path) -> None:
    """The answer about a file that may not be read is the one about a file that is not there."""
    filled(world)
    (outside / "here.json").write_text(SECRET)
    data = world.root.parent
    for there, not_there in (
        (data / "credentials" / "human-me.json", data / "credentials" / "human-x.json"),
        (data / "other" / "banks", data / "nobody" / "banks"),
        (data / "other" / "exports" / "memory-all.tar.gz", data / "other" / "exports" / "memory-x.tar.gz"),
        (outside / "here.json", outside / "nowhere.json"),
        (Path("/etc/passwd"), Path("/etc/passwd-not-there")),
    ):
        one, two = await refused(world, there), await refused(world, not_there)
        assert one.body() == two.body()


async def test_own_archives_come_back_from_the_exports(world: World) -> None:
    """The one place of the worker's own that an import reads are the tenant's archives."""
    saved = await world.save("Bo lives in Porto.")
    made = await functions(world).export(world.person, ExportRequest())
    await world.delete(saved)
    reply = await functions(world).import_(world.person, ImportRequest(path=made.path, dry_run=True))
    assert reply.problems == []
    assert "memories_created" in reply.counts or "memories_known" in reply.counts


async def test_a_private_bank_in_an_archive_stays_its_owners(world: World) -> None:
    """Somebody else's archive lies in the same folder: naming it brings nothing of what was private to others."""
    await world.make_bank("diary", owner="human.me")
    await world.make_bank("bobs", owner="human.bob")
    await world.save(SECRET, bank="diary")
    await world.save("Everybody may know this.")
    await world.set_rule("style", SECRET, bank="diary")
    path = Path((await functions(world).export(world.person, ExportRequest())).path)
    for into in ("bobs", None):
        reply = await functions(world).import_(BOB, ImportRequest(path=str(path), bank=into, trust=True))
        assert reply.counts["unreadable"] >= 3
        assert all("private bank of somebody else" in problem for problem in reply.problems)
    assert await world.texts("bobs") == ["Everybody may know this."]
    assert await world.rule("style", "bobs") is None
    mine = await functions(world).import_(world.person, ImportRequest(path=str(path), trust=True))
    assert mine.problems == []


async def test_an_export_overwrites_nothing(world: World) -> None:
    """Where something has the archive's name already, it stays as it is, and no half archive is left beside it."""
    first = Path((await functions(world).export(world.person, ExportRequest())).path)
    for name in (first.name, f".{first.name}.partial"):
        taken = first.with_name(name)
        taken.unlink(missing_ok=True)
        taken.write_text("a file of mine")
        with pytest.raises(FunctionError) as caught:
            await functions(world).export(world.person, ExportRequest())
        assert caught.value.code == "conflict"
        assert [path.name for path in first.parent.iterdir()] == [name]
        assert taken.read_text() == "a file of mine"
        taken.unlink()
