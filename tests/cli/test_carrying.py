"""Archives from the command line: protected values for people alone, and a bar that shows how far a long one is."""

import gzip
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

from tests.cli.conftest import Running, Start, until

SECRET = "The safe opens with 4711-0815."


def under_a_terminal(running: Running, *args: str) -> tuple[str, str]:
    """Run a command whose standard error is a terminal; gives what it printed to standard output and there."""
    main, side = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        # The terminal reports an error when its last writer is gone.
        try:
            while data := os.read(main, 4_096):
                shown.append(data)
        except OSError:
            return

    reader = threading.Thread(target=read)
    with subprocess.Popen(
        [sys.executable, "-m", "memory_worker.cli", *args, "--as", "human-me"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=side,
        env=running.env,
    ) as process:
        os.close(side)
        reader.start()
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        assert process.wait(60) == 0, b"".join(shown)
    reader.join(10)
    os.close(main)
    return printed, b"".join(shown).decode()


def test_protected_values_travel_only_when_a_person_says_so(start: Start, tmp_path: Path) -> None:
    """No byte of an archive tells a value unless a person asks; then it comes back into the other tenant's vault."""
    here = start(tmp_path / "here", "--no-consolidate")
    here.as_person("save", SECRET, "--protect")
    here.as_person("save", "An open fact")
    without = here.as_person("export")
    assert b"4711-0815" not in gzip.decompress(Path(without["path"]).read_bytes())
    refused = here.error("export", "--include-protected", speaks_as="agent-default", code=1)
    assert refused["code"] == "forbidden"
    archive = here.as_person("export", "--include-protected")
    assert b"4711-0815" in gzip.decompress(Path(archive["path"]).read_bytes())
    assert (archive["counts"]["memories"], archive["counts"]["protected_left_out"]) == (2, 0)
    revealed = [row for row in here.as_person("changes")["changes"] if row["type"] == "value.revealed"]
    assert [row["actor"]["principal"] for row in revealed] == ["me"]
    assert "4711-0815" not in here.text("changes", speaks_as="human-me")
    assert here.stop() == 0

    there = start(tmp_path / "there", "--no-consolidate")
    assert there.as_person("import", archive["path"], "--trust")["counts"]["memories_created"] == 2
    (kept,) = (one for one in there.as_person("list")["memories"] if one["protected"])
    assert (kept["text"], kept["tier"]) == ("•••", "stated")
    assert there.as_person("reveal", kept["protected"])["value"] == SECRET
    until(lambda: there.as_person("files", "status")["lag_rows"] == 0)
    assert there.stop() == 0
    for path in (tmp_path / "there").rglob("*"):
        assert not path.is_file() or b"4711-0815" not in path.read_bytes(), path


def test_a_bar_shows_how_far_an_archive_is(running: Running, tmp_path: Path) -> None:
    """At a terminal export and import show a bar on standard error; programs and pipes get nothing of it."""
    for number in range(450):
        (tmp_path / f"fact-{number}.md").write_text(f"Fact number {number} of the folder.\n")
    running.as_person("banks", "create", "carried")
    printed, shown = under_a_terminal(running, "import", str(tmp_path), "--bank", "carried")
    assert "450 memories_created" in printed
    assert "importing" in shown
    assert "100%" in shown
    assert "importing" not in printed
    printed, shown = under_a_terminal(running, "export", "--bank", "carried")
    assert "exporting" in shown
    assert "100%" in shown
    printed, shown = under_a_terminal(running, "export", "--bank", "carried", "--json")
    assert printed.startswith("{")
    assert shown == ""
    piped = running.invoke("export", "--bank", "carried", speaks_as="human-me")
    assert piped.stderr == ""


def test_the_status_of_the_files(running: Running) -> None:
    """The status tells what is behind, when both sides were last in step, and what cannot be read; names to people."""
    running.as_person("banks", "create", "told")
    running.as_person("save", "A fact to be mirrored", "--bank", "told")
    folder = running.data_dir / "local" / "banks" / "told" / "memories"
    until(lambda: folder.is_dir() and list(folder.glob("*.md")))
    (folder / "broken.md").write_bytes(b"\xff\xfe\x00")
    status = until(lambda: (now := running.as_person("files", "status"))["problems_total"] and now)
    [problem] = status["problems"]
    assert (problem["path"], problem["reason"]) == ("banks/told/memories/broken.md", "not UTF-8 text (byte 0)")
    assert status["last_sync_at"] is not None
    assert (status["watching"], status["running"]) == (True, [])
    text = running.text("files", "status", speaks_as="human-me")
    for part in ("last sync  20", "watching", "not read   1", "broken.md: not UTF-8 text"):
        assert part in text
    to_program = running.json("files", "status", speaks_as="agent-default")
    assert (to_program["problems_total"], to_program["problems"]) == (1, [])
    (folder / "broken.md").unlink()
    (path,) = folder.glob("*.md")
    text = path.read_text()
    path.write_text(text.replace("---\n\n", "---\n\n\n\n"))
    assert running.as_person("reload", "--bank", "told", "--rewrite")["written"] >= 1
    assert path.read_text() == text
    until(lambda: running.as_person("files", "status")["problems_total"] == 0)
