"""The command line against a running worker, as people, programs and harnesses use it."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory_worker.cli.render import clean
from tests.cli.conftest import Running


def test_a_turn_becomes_a_memory_that_recall_finds(running: Running) -> None:
    """The main job: say it in a turn, find it by asking."""
    said = running.text("turn", "My sister Ana lives in Porto.", "--bank", "t1")
    assert "My sister Ana lives in Porto" in said
    found = running.json("recall", "where does my sister live?", "--bank", "t1")
    assert [item["memory"]["text"] for item in found["memories"]] == ["My sister Ana lives in Porto"]
    assert found["memories"][0]["memory"]["tier"] == "inferred"
    assert "Porto" in running.text("recall", "where does my sister live?", "--bank", "t1")


def test_who_speaks_decides_the_label(running: Running) -> None:
    """Without a terminal a program speaks as an agent; a person is named by --as or by a credentials file."""
    running.as_person("banks", "create", "who")
    assert running.json("save", "By a program", "--bank", "who")["memory"]["tier"] == "inferred"
    assert running.as_person("save", "By a person", "--bank", "who")["memory"]["tier"] == "stated"
    file = str(running.data_dir / "credentials" / "human-me.json")
    running.env["MEMORY_CREDENTIALS"] = file
    try:
        assert running.json("save", "By file", "--bank", "who")["memory"]["tier"] == "stated"
    finally:
        del running.env["MEMORY_CREDENTIALS"]


def test_at_a_terminal_a_person_speaks(running: Running) -> None:
    """A person who types needs no --as."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memory_worker.cli", "save", "Typed by hand", "--json"],
        stdin=side,
        stdout=subprocess.PIPE,
        env=running.env,
    )
    os.close(side)
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    process.stdout.close()
    assert process.wait(10) == 0
    os.close(main)
    assert answer["memory"]["tier"] == "stated"


def test_save_takes_every_field_and_get_shows_it(running: Running) -> None:
    """What is put in by hand can be read back by hand."""
    running.as_person("banks", "create", "fields")
    args = ("--bank", "fields", "--kind", "person", "--subject", "ana/phone", "--entity", "Ana", "--tag", "family")
    more = ("--about", "repo:api", "--confidence", "high", "--pin", "--occurred", "2026-03-14")
    saved = running.as_person("save", "Ana calls on Sundays", *args, *more, "--claim", "Ana.calls_on=Sunday")["memory"]
    assert (saved["kind"], saved["subject"], saved["entities"], saved["tags"]) == (
        "person",
        "ana/phone",
        ["Ana"],
        ["family"],
    )
    assert (saved["pinned"], saved["occurred_at"]) == (True, "2026-03-14T00:00:00Z")
    page = running.text("get", saved["id"])
    for part in ("Ana calls on Sundays", "stated", "ana/phone", "family", "repo:api", "Ana · calls_on · Sunday"):
        assert part in page
    assert running.as_person("save", "Ana calls on Sundays", "--bank", "fields")["outcome"] == "reinforced"


def test_standard_input_is_read_for_a_dash(running: Running) -> None:
    """Long texts come through a pipe."""
    assert running.json("save", "-", stdin="Piped in\n")["memory"]["text"] == "Piped in"


def test_update_pin_delete_history_revision_guard(running: Running) -> None:
    """A person corrects, pins and deletes; a change made against an old revision is refused."""
    memory = running.as_person("save", "The standup is at nine", "--tag", "team")["memory"]
    new = running.as_person("update", memory["id"], "--text", "The standup is at ten", "--tag", "")["memory"]
    assert (new["text"], new["tags"], new["revision"]) == ("The standup is at ten", [], 2)
    stale = running.error("update", memory["id"], "--text", "x", "--if-revision", "1", speaks_as="human-me", code=1)
    assert stale["code"] == "conflict"
    assert running.as_person("pin", memory["id"])["memory"]["pinned"] is True
    assert running.as_person("pin", memory["id"], "--off")["memory"]["pinned"] is False
    assert running.as_person("delete", memory["id"])["memory"]["state"] == "deleted"
    story = running.text("history", memory["id"])
    assert [word for word in ("created", "updated", "deleted") if word in story] == ["created", "updated", "deleted"]
    assert "The standup is at nine" in story


def test_list_pages_filters_and_reads_aloud(running: Running) -> None:
    """A bank can be gone through page by page, by tag, and as text to be read out."""
    running.as_person("banks", "create", "pages")
    for number in range(5):
        tag = "odd" if number % 2 else "even"
        running.as_person("save", f"Fact number {number}", "--bank", "pages", "--tag", tag)
    page = running.json("list", "--bank", "pages", "--limit", "2")
    assert (len(page["memories"]), page["total"]) == (2, 5)
    rest = running.json("list", "--bank", "pages", "--limit", "2", "--cursor", page["cursor"])
    assert len(rest["memories"]) == 2
    lines = running.invoke("list", "--bank", "pages", "--all", "--limit", "2", "--json").stdout.splitlines()
    assert sum(len(json.loads(line)["memories"]) for line in lines) == 5
    assert len(running.json("list", "--bank", "pages", "--tag", "odd")["memories"]) == 2
    assert "Fact number 3" in running.text("list", "--bank", "pages", "--read")
    assert {tag["tag"]: tag["count"] for tag in running.json("tags", "--bank", "pages")["tags"]} == {
        "even": 3,
        "odd": 2,
    }


def test_banks_are_made_changed_deleted_and_restored(running: Running) -> None:
    """A bank's life from the command line; the trash gives it back with what it held."""
    running.as_person("banks", "create", "travel", "--description", "Trips", "--expiry", "never", "--review", "all")
    assert "Trips" in running.text("banks", speaks_as="human-me")
    running.as_person("banks", "update", "travel", "--review", "auto")
    running.as_person("save", "The visa runs out in May", "--bank", "travel")
    running.as_person("banks", "delete", "travel", "--yes")
    assert running.error("list", "--bank", "travel", code=3)["code"] == "not_found"
    assert "in the trash since" in running.text("banks", "--trash", speaks_as="human-me")
    running.as_person("banks", "restore", "travel")
    assert running.json("list", "--bank", "travel")["total"] == 1


def test_rules_are_written_shown_edited_and_removed(running: Running, tmp_path: Path) -> None:
    """A rule comes from an argument, a file, a pipe or an editor, and the context shows it at once."""
    running.as_person("banks", "create", "ruled")
    running.as_person("rules", "set", "style", "--content", "Be brief.", "--bank", "ruled")
    file = tmp_path / "r.md"
    file.write_text("# Tests\nRun them.\n")
    running.as_person("rules", "set", "tests", str(file), "--bank", "ruled", "--priority", "5")
    running.as_person("rules", "set", "pipe", "-", "--bank", "ruled", stdin="Piped rule.")
    shown = running.json("rules", "--bank", "ruled")["rules"]
    assert [rule["name"] for rule in shown] == ["tests", "pipe", "style"]
    editor = tmp_path / "edit.sh"
    editor.write_text('#!/bin/sh\necho "Be very brief." > "$1"\n')
    editor.chmod(0o755)
    running.env["EDITOR"] = str(editor)
    running.invoke("rules", "edit", "style", "--bank", "ruled", speaks_as="human-me")
    assert "Be very brief." in running.text("rules", "show", "style", "--bank", "ruled")
    assert "Be very brief." in running.json("preview", "hello", "--bank", "ruled")["system"]
    running.as_person("rules", "remove", "pipe", "--bank", "ruled")
    assert [rule["name"] for rule in running.json("rules", "--bank", "ruled")["rules"]] == ["tests", "style"]


def test_changes_show_who_did_what_and_why(running: Running) -> None:
    """The journal can be read by target, actor and cause."""
    memory = running.as_person("save", "Changes are kept")["memory"]
    (row,) = running.json("changes", "--target", memory["id"])["changes"]
    assert (row["type"], row["actor"]) == ("memory.created", {"route": "human", "principal": "me"})
    assert memory["id"] in running.text("changes", "--actor", "human.me", "--limit", "3")


def test_replay_reads_a_file_and_counts(running: Running) -> None:
    """The shipped example runs through: nothing parked, nothing waiting, and a second run adds nothing."""
    example = Path(__file__).parents[2] / "examples" / "turns.jsonl"
    first = running.json("replay", str(example))
    turns = len(example.read_text().splitlines())
    assert (first["turns"], first["new"], first["sessions"]) == (turns, turns, 3)
    assert (first["parked"], first["backlog"]) == (0, 0)
    assert first["kept"] > 5
    again = running.json("replay", str(example))
    assert (again["new"], again["kept"]) == (0, 0)
    moved = running.text("replay", str(example), "--bank", "elsewhere", "--no-wait")
    assert "bank: elsewhere" in moved


@pytest.mark.parametrize(
    ("line", "says"),
    [("{", "line 2"), ('{"turn_id": 5}', "line 2"), ("\udcff", "line 2")],
)
def test_a_replay_file_with_a_bad_line_is_refused_by_its_number(
    running: Running, tmp_path: Path, line: str, says: str
) -> None:
    """Nothing of a broken file is published, and the line is named."""
    good = Path(__file__).parents[2] / "examples" / "turns.jsonl"
    file = tmp_path / "bad.jsonl"
    file.write_bytes(good.read_bytes().splitlines()[0] + b"\n" + line.encode("utf-8", "surrogateescape"))
    assert says in running.error("replay", str(file), code=1)["message"]


def test_watch_shows_changes_as_they_happen(running: Running) -> None:
    """A change made elsewhere appears in the watcher's output, as JSON for programs."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", "memory_worker.cli", "watch", "--count", "1", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=running.env,
    )
    assert watcher.stdout is not None
    for number in range(200):  # the watcher subscribes some time after it was started
        running.json("save", f"Seen at once {number}")
        if select.select([watcher.stdout], [], [], 0.05)[0]:
            break
    event = json.loads(watcher.stdout.readline())
    watcher.stdout.close()
    assert watcher.wait(10) == 0
    assert event["event_type"] == "created"
    assert event["memory"]["text"].startswith("Seen at once")


def test_errors_name_the_field_and_have_their_exit_code(running: Running) -> None:
    """A script can tell what went wrong without reading words."""
    missing = running.error("get", "mem_none", code=3)
    assert (missing["code"], missing["field"]) == ("not_found", "id")
    long = running.error("save", "x" * 2_001, code=1)
    assert (long["code"], long["field"]) == ("invalid_input", "text")
    name = running.error("save", "x", "--bank", "Bad Name", code=1)
    assert name["field"] == "bank"
    claim = running.error("save", "x", "--claim", "nonsense", code=1)
    assert claim["field"] == "claim"
    assert running.invoke("save", code=2).stderr.startswith("Usage: ")
    assert "2026-13-01" in running.invoke("save", "x", "--expires", "2026-13-01", code=2).stderr


def test_an_agent_that_needs_a_person_is_told_so(running: Running) -> None:
    """The hint says who one speaks as, and how a person speaks."""
    refused = running.error("banks", "create", "mine", code=1)
    assert refused["code"] == "forbidden"
    text = running.invoke("banks", "create", "mine", code=1).stderr
    assert "agent-default" in text
    assert "--as human-me" in text


def test_an_unknown_identity_names_the_known_ones(running: Running) -> None:
    """A typo in --as is not a riddle."""
    found = running.error("list", speaks_as="human-you", code=4)
    assert "human-me" in found["hint"]


def test_stored_text_cannot_steer_the_terminal(running: Running) -> None:
    """Escape sequences, direction marks and line breaks in a memory come out as harmless characters."""
    assert clean("a\x1b]0;title\x07b\u202ec\nd\u200de") == "a\ufffd]0;title\ufffdb\ufffdc d\u200de"
    running.as_person("banks", "create", "hostile")
    running.as_person("rules", "set", "x", "--content", "left \u202e right", "--bank", "hostile")
    assert "\u202e" not in running.text("rules", "--bank", "hostile")


def test_destructive_commands_ask_and_without_a_terminal_refuse(running: Running) -> None:
    """Nothing is destroyed by a script that did not say so."""
    running.as_person("banks", "create", "precious")
    refused = running.error("banks", "delete", "precious", speaks_as="human-me", code=1)
    assert refused["field"] == "--yes"
    refused = running.error("banks", "wipe", "precious", speaks_as="human-me", code=1)
    assert refused["field"] == "--confirm-name"
    memory = running.as_person("save", "Keep me", "--bank", "precious")["memory"]
    assert running.error("erase", memory["id"], speaks_as="human-me", code=1)["field"] == "--yes"
    assert running.json("list", "--bank", "precious")["total"] == 1


def test_credentials_are_made_listed_and_work_at_once(running: Running) -> None:
    """A new agent speaks a moment after its credentials were made, with no restart."""
    made = running.json("credentials", "add", "--route", "agent", "--principal", "coder")
    assert made["server_reloaded"] is True
    assert oct(os.stat(made["path"]).st_mode & 0o777) == "0o600"
    saved = running.json("save", "By the coder", speaks_as="agent-coder")
    assert saved["memory"]["source"]["principal"] == "coder"
    listed = running.text("credentials", "list")
    assert "coder" in listed
    password = json.loads(Path(made["path"]).read_text())["password"]
    assert password not in listed
    assert running.error("credentials", "add", "--route", "agent", "--principal", "coder", code=1)
    assert running.error("credentials", "add", "--route", "agent", "--principal", "Bad Name", code=1)


def test_admin_streams_says_that_all_is_as_it_should_be(running: Running) -> None:
    """The admin step can be run again, and checks without changing anything."""
    assert running.json("admin", "streams", "--check") == {"ok": True, "differs": ""}
    assert running.json("admin", "streams")["ok"] is True


def test_logs_of_all_this_hold_nothing_that_was_stored(running: Running) -> None:
    """No memory, rule, query or secret is in the log of the runs above."""
    running.as_person("save", "Planted sentinel zebrafish", "--claim", "Zed.likes=okapi")
    running.json("recall", "sentinel axolotl query")
    running.text("turn", "I prefer the planted sentinel quokka over coffee.")
    running.error("save", "sentinel wombat " * 200, code=1)
    deadline = time.monotonic() + 10
    while '"function":"extraction.status"' not in running.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    log = running.log.read_text()
    assert '"event":"request"' in log
    for word in ("zebrafish", "okapi", "axolotl", "quokka", "wombat", "Porto", "Be very brief"):
        assert word not in log
    for file in (running.data_dir / "credentials").glob("*.json"):
        assert json.loads(file.read_text())["password"] not in log
