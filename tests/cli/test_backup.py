"""Backup while everything is written, and restore into an empty place."""

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from memory_worker.cli.backup import BackupError, back_up, restore
from memory_worker.clock import SystemClock
from memory_worker.store import TenantStore
from tests.cli.conftest import Running, Start


def everything(running: Running) -> dict[str, object]:
    """What a worker holds, as a person can read it."""
    banks = running.as_person("banks", "--trash")["banks"]
    live = [bank["name"] for bank in banks if not bank["trashed_at"]]
    memories, rules = {}, {}
    for name in live:
        lines = running.invoke("list", "--bank", name, "--all", "--json", speaks_as="human-me").stdout.splitlines()
        memories[name] = [memory for line in lines for memory in json.loads(line)["memories"]]
        rules[name] = running.as_person("rules", "--bank", name)["rules"]
    changes = running.as_person("changes", "--limit", "200")["changes"]
    return {"banks": banks, "memories": memories, "rules": rules, "changes": changes}


def test_a_restored_backup_is_the_same_as_what_was_backed_up(start: Start, tmp_path: Path) -> None:
    """Banks, memories, rules, trash and history come back; the credentials are new ones."""
    running = start(tmp_path / "one", "--no-consolidate")
    running.json("replay", str(Path(__file__).parents[2] / "examples" / "turns.jsonl"))
    running.as_person("rules", "set", "style", "--content", "Be brief.")
    running.as_person("banks", "create", "old")
    running.as_person("save", "In the trash", "--bank", "old")
    running.as_person("banks", "delete", "old", "--yes")
    before = everything(running)
    archive = tmp_path / "b.tar.gz"
    made = running.json("backup", str(archive))
    assert made["tenants"].keys() == {"local"}
    assert oct(archive.stat().st_mode & 0o777) == "0o600"
    restored = tmp_path / "two"
    running.json("restore", str(archive), "--data-dir", str(restored))
    assert running.stop() == 0
    again = start(restored, "--no-consolidate")
    assert everything(again) == before
    assert again.as_person("banks", "restore", "old")["bank"]["name"] == "old"


def test_a_backup_taken_under_load_is_whole(start: Start, tmp_path: Path) -> None:
    """Every save acknowledged before the backup began is in it, and the copy is sound."""
    running = start(tmp_path / "one", "--no-consolidate")
    saver = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.saver", str(running.data_dir / "credentials" / "agent-default.json"), "8"],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=running.env,
    )
    assert saver.stdout is not None
    answered = {saver.stdout.readline().decode().strip() for _ in range(300)}
    running.json("backup", str(tmp_path / "b.tar.gz"))
    running.stop()
    saver.communicate(timeout=30)
    running.json("restore", str(tmp_path / "b.tar.gz"), "--data-dir", str(tmp_path / "two"))
    again = start(tmp_path / "two", "--no-consolidate")
    lines = again.invoke("list", "--all", "--json").stdout.splitlines()
    assert answered <= {memory["text"] for line in lines for memory in json.loads(line)["memories"]}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A small archive of one store."""

    async def make() -> None:
        store = TenantStore("local", tmp_path / "data" / "local", SystemClock())
        await store.open()
        await store.set_meta("k", "v")
        (tmp_path / "data" / "local" / "banks").mkdir()
        (tmp_path / "data" / "local" / "banks" / "x.md").write_text("hello")
        (tmp_path / "data" / "credentials").mkdir()
        (tmp_path / "data" / "credentials" / "human-me.json").write_text("secret")
        (tmp_path / "data" / "link").symlink_to("/etc/passwd")
        back_up(tmp_path / "data", tmp_path / "a.tar.gz")
        await store.close()

    asyncio.run(make())
    return tmp_path / "a.tar.gz"


def members(archive: Path) -> dict[str, bytes]:
    """Every file of an archive."""
    with tarfile.open(archive) as packed:
        found = {}
        for member in packed:
            source = packed.extractfile(member)
            assert source is not None
            found[member.name] = source.read()
    return found


def rewritten(archive: Path, change: Mapping[str, bytes | None]) -> Path:
    """The archive with members replaced, added or (None) left out."""
    target = archive.with_name("changed.tar.gz")
    with tarfile.open(target, "w:gz") as out:
        for name, data in {**members(archive), **change}.items():
            if data is not None:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                out.addfile(info, io.BytesIO(data))
    return target


def test_passwords_links_and_the_bus_are_not_in_it(archive: Path) -> None:
    """Only what is the worker's own to keep: no credentials, no file outside the directory."""
    assert sorted(members(archive)) == ["local/banks/x.md", "local/memory.db", "manifest.json"]


def test_nothing_is_overwritten(archive: Path, tmp_path: Path) -> None:
    """Neither an archive nor a data directory that holds something."""
    with pytest.raises(BackupError, match="exists already"):
        back_up(tmp_path / "data", archive)
    with pytest.raises(BackupError, match="holds stores already"):
        restore(archive, tmp_path / "data")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "local").mkdir()
    with pytest.raises(BackupError, match="in the way"):
        restore(archive, tmp_path / "new")


def test_an_empty_directory_is_no_backup(tmp_path: Path) -> None:
    """A wrong --data-dir is an error, not an empty archive."""
    with pytest.raises(BackupError, match="holds no store"):
        back_up(tmp_path, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"local/banks/x.md": b"changed"}, "differ from the manifest"),
        ({"local/banks/x.md": None}, "differ from the manifest"),
        ({"local/extra.md": b"x"}, "not in it"),
        ({"manifest.json": None}, "no manifest"),
        ({"manifest.json": b"{"}, "cannot be read"),
        ({"../outside": b"x"}, "which no backup does"),
        ({"/absolute": b"x"}, "which no backup does"),
    ],
)
def test_an_archive_that_was_changed_is_refused_and_nothing_is_left_of_it(
    archive: Path, tmp_path: Path, change: dict[str, bytes | None], says: str
) -> None:
    """A restore is all or nothing, and writes nothing outside the data directory."""
    with pytest.raises(BackupError, match=says):
        restore(rewritten(archive, change), tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir() if not path.name.endswith(".lock")] == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("cut", [10, 200, -200])
def test_an_archive_that_was_cut_off_is_refused(archive: Path, tmp_path: Path, cut: int) -> None:
    """A backup whose copying was interrupted is noticed before anything is restored."""
    short = tmp_path / "short.tar.gz"
    short.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(BackupError):
        restore(short, tmp_path / "new")


def test_a_damaged_store_is_refused_although_the_checksums_fit(archive: Path, tmp_path: Path) -> None:
    """The store itself is checked: a backup of a damaged store is not restored silently."""
    found = members(archive)
    store = bytearray(found["local/memory.db"])
    store[4096:8192] = os.urandom(4096)
    manifest = json.loads(found["manifest.json"])
    for entry in manifest["files"]:
        if entry["path"] == "local/memory.db":
            entry["sha256"] = hashlib.sha256(store).hexdigest()
    changed = {"local/memory.db": bytes(store), "manifest.json": json.dumps(manifest).encode()}
    with pytest.raises(BackupError, match="the store of local"):
        restore(rewritten(archive, changed), tmp_path / "new")


def test_an_unfinished_archive_is_removed(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that fails half way leaves no file that looks like one."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memory_worker.cli.backup._add_bytes", full)
    with pytest.raises(OSError, match="No space"):
        back_up(tmp_path / "data", tmp_path / "half.tar.gz")
    assert not (tmp_path / "half.tar.gz").exists()
    assert archive.exists()
