"""SIGHUP: what may change while running takes effect at once, and what may not is named."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.cli.conftest import Running, Start, until

WEAKLY = "Are there walnuts, hazelnuts or almonds in the kitchen?"
"""A question to which the memories are relevant, though not wholly."""


def reload(running: Running, file: Path, text: str) -> dict[str, Any]:
    """Write the settings file, ask for a reload, and give the line that tells what came of it."""
    before = len(told(running))
    file.write_text(text)
    running.process.send_signal(signal.SIGHUP)
    line: dict[str, Any] = until(lambda: told(running)[before:])[0]
    return line


def told(running: Running) -> list[dict[str, Any]]:
    """The log's lines about reloads."""
    lines = [json.loads(line) for line in running.log.read_text().splitlines() if line.endswith("}")]
    return [line for line in lines if line["event"] == "settings.reloaded"]


def test_reloaded_settings_take_effect_and_the_others_wait(start: Start, tmp_path: Path) -> None:
    """Budgets, floors and who learns what change under a running worker; turning files off waits for the restart."""
    file = tmp_path / "settings.toml"
    file.write_text("")
    running = start(tmp_path / "data", "--no-consolidate", "--config", str(file))
    for number in range(3):
        running.as_person("save", f"Walnut number {number} lies in drawer {number}")
    assert len(running.json("preview", "Where do the walnuts lie?")["items"]) == 3
    assert running.json("recall", WEAKLY)["memories"] != []
    running.json("turn", "Always answer in English.", speaks_as="system-harness")
    assert len(running.json("rules", "show", "learned")["rule"]["lines"]) == 1

    line = reload(
        running,
        file,
        'context_max_items = 1\ncontext_max_pinned = 1\nrule_learning = "off"\nfiles = false\n[recall]\nfloor = 1.0\n',
    )
    assert set(line["taken"]) == {"context_max_items", "context_max_pinned", "rule_learning", "recall.floor"}
    assert line["needs_restart"] == ["files"]
    assert running.json("recall", WEAKLY)["memories"] == []
    running.json("turn", "Always answer in French.", speaks_as="system-harness")
    assert len(running.json("rules", "show", "learned")["rule"]["lines"]) == 1
    assert "Always answer in French" in {one["text"] for one in running.json("list")["memories"]}
    assert running.as_person("files", "status")["mirrored"] is True

    line = reload(running, file, "context_max_items = 1\ncontext_max_pinned = 1\nfiles = false\n")
    assert set(line["taken"]) == {"rule_learning", "recall.floor"}
    assert len(running.json("preview", "Where do the walnuts lie?")["items"]) == 1
    assert running.stop() == 0
    again = start(tmp_path / "data", "--no-consolidate", "--config", str(file))
    assert again.as_person("files", "status")["mirrored"] is False


def test_a_setting_that_cannot_be_read_changes_nothing(start: Start, tmp_path: Path) -> None:
    """One mistake in the file leaves every setting as it was."""
    file = tmp_path / "settings.toml"
    file.write_text("")
    running = start(tmp_path / "data", "--no-consolidate", "--config", str(file))
    running.as_person("save", "A walnut lies in the drawer")
    file.write_text("[recall]\nfloor = 1.0\ncandidates = 0\n")
    running.process.send_signal(signal.SIGHUP)
    until(lambda: "settings.refused" in running.log.read_text())
    assert running.json("recall", WEAKLY)["memories"] != []
