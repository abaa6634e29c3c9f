"""What people decide, undo, forget and uncover from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Running, until


@pytest.fixture
def bank(running: Running, request: pytest.FixtureRequest) -> str:
    """A bank of this test alone."""
    name: str = request.node.name.removeprefix("test_").replace("_", "-")[:60].strip("-")
    running.as_person("banks", "create", name)
    return name


def contradiction(running: Running, bank: str, person: str = "Ana") -> dict[str, Any]:
    """An agent contradicts a person; what it saved waits as a suggestion."""
    phone = f"{person}/phone"
    running.as_person("save", f"{person} has the number one", "--bank", bank, "--subject", phone)
    answer = running.json("save", f"{person} has the number two", "--bank", bank, "--subject", phone)
    assert answer["outcome"] == "awaiting_review"
    found: dict[str, Any] = answer["suggestion"]
    return found


def test_a_suggestion_shows_what_is_believed_beside_what_is_proposed(running: Running, bank: str) -> None:
    """A person sees both before deciding, and approval makes the change."""
    waiting = contradiction(running, bank)
    shown = running.text("suggestions", "--bank", bank, speaks_as="human-me")
    assert "now       Ana has the number one" in shown
    assert "proposed  Ana has the number two" in shown
    refused = running.error("decide", waiting["id"], "approve", "--yes", code=1)
    assert refused["code"] == "forbidden"
    (done,) = running.as_person("decide", waiting["id"], "approve")["decided"]
    assert done["state"] == "approved"
    assert running.text("suggestions", "--bank", bank, speaks_as="human-me").startswith("nothing waits")
    late = running.invoke("decide", waiting["id"], "reject", speaks_as="human-me", code=1)
    assert "approved" in late.output


def test_a_suggestion_can_be_edited_and_rejected(running: Running, bank: str) -> None:
    """What a person types instead is the person's word; what is rejected changes nothing."""
    waiting = contradiction(running, bank)
    edit = json.dumps({"text": "Ana has the number three"})
    (done,) = running.as_person("decide", waiting["id"], "approve", "--edit", edit)["decided"]
    assert done["memory"]["text"] == "Ana has the number three"
    assert running.error("decide", waiting["id"], "approve", "--edit", "[]", speaks_as="human-me", code=1)
    other = contradiction(running, bank, "Ben")
    (done,) = running.as_person("decide", other["id"], "reject")["decided"]
    assert done["state"] == "rejected"
    texts = {memory["text"] for memory in running.json("list", "--bank", bank)["memories"]}
    assert texts == {"Ana has the number three", "Ben has the number one"}


def test_suggest_and_learn_only_propose(running: Running, bank: str) -> None:
    """An agent's proposal and a correction wait for a person."""
    change = ("suggest", "save", "text=Tea is better", f"bank={bank}", "--bank", bank, "--reason", "said twice")
    assert running.json(*change)["outcome"] == "awaiting_review"
    assert running.json(*change)["outcome"] == "known"
    running.json("learn", "I always want answers in metric units.", "--bank", bank)
    assert running.json("list", "--bank", bank)["total"] == 0


def test_a_change_a_turn_and_a_session_can_be_undone(running: Running, bank: str) -> None:
    """“Unlearn what that session taught” is one command."""
    memory = running.as_person("save", "Undo me", "--bank", bank)["memory"]
    (row,) = running.as_person("changes", "--target", memory["id"])["changes"]
    running.as_person("revert", row["id"])
    session = f"undo-{bank}"[:60]
    running.text("turn", "I prefer green ink for notes.", "--bank", bank, "--session", session)
    assert running.json("list", "--bank", bank)["total"] == 1
    running.as_person("revert", session)
    assert running.json("list", "--bank", bank)["total"] == 0
    assert running.error("revert", "chg_none", speaks_as="human-me", code=3)["code"] == "not_found"


def test_an_entitys_page_shows_facts_aliases_and_links(running: Running, bank: str) -> None:
    """Whom memories are about can be looked up, by any of their names."""
    running.as_person("save", "Oksana leads the data team", "--bank", bank, "--entity", "Oksana")
    running.as_person("entity", "alias", "Oksana", "email", "oksana@example.org")
    running.as_person("entity", "link", "Oksana", "https://example.org/oksana")
    page = running.text("entity", "show", "oksana@example.org", "--bank", bank, speaks_as="human-me")
    for part in ("Oksana", "email:oksana@example.org", "https://example.org/oksana", "leads the data team"):
        assert part in page
    assert "Oksana" in running.text("entity", "list", "Oks", speaks_as="human-me")


def test_forgetting_shows_what_will_go_and_leaves_nothing(running: Running, bank: str) -> None:
    """The name is typed again, the texts are shown, and afterwards no list, file or search has them."""
    running.as_person("save", "Marisol keeps parrots", "--bank", bank, "--entity", "Marisol")
    refused = running.error("forget", "Marisol", speaks_as="human-me", code=1)
    assert refused["field"] == "--confirm-name"
    waiting = running.text("forget", "Marisol", "--confirm-name", "Marisol", speaks_as="human-me")
    assert "Marisol keeps parrots" in waiting
    assert "waits for a person" in waiting
    assert running.json("list", "--bank", bank)["total"] == 1
    receipt = running.text("forget", "Marisol", "--confirm-name", "Marisol", "--yes", speaks_as="human-me")
    assert "memories" in receipt
    assert running.json("list", "--bank", bank)["total"] == 0
    assert running.json("recall", "parrots", "--bank", bank)["memories"] == []
    for path in running.data_dir.rglob("*"):
        if path.is_file():
            assert b"parrots" not in path.read_bytes(), path


def test_a_program_cannot_forget(running: Running, bank: str) -> None:
    """There is no agent's way to destroy anything."""
    memory = running.json("save", "An agent's note", "--bank", bank)["memory"]
    for command in (
        ("erase", memory["id"], "--yes"),
        ("forget", "Ana", "--confirm-name", "Ana", "--yes"),
        ("banks", "wipe", bank, "--confirm-name", bank),
    ):
        assert running.error(*command, code=1)["code"] == "forbidden"


def test_erase_destroys_one_memory(running: Running, bank: str) -> None:
    """Its revisions and events go with it, its neighbours stay."""
    gone = running.as_person("save", "Quagga number one", "--bank", bank)["memory"]
    running.as_person("save", "Okapi number two", "--bank", bank)
    receipt = running.as_person("erase", gone["id"], "--yes")["receipt"]
    assert receipt["counts"]["memories"] == 1
    assert [memory["text"] for memory in running.json("list", "--bank", bank)["memories"]] == ["Okapi number two"]


def test_a_protected_value_is_shown_once_to_a_person(running: Running, bank: str) -> None:
    """It lies encrypted, reads ••• everywhere, and a person can ask for it."""
    saved = running.as_person("save", "The safe opens with zinnia", "--bank", bank, "--protect")["memory"]
    assert saved["text"] == "•••"
    assert running.as_person("reveal", saved["protected"])["value"] == "The safe opens with zinnia"
    assert running.error("reveal", saved["protected"], code=1)["code"] == "forbidden"
    assert "zinnia" not in running.text("list", "--bank", bank)
    for path in running.data_dir.rglob("*"):
        if path.is_file():
            assert b"zinnia" not in path.read_bytes(), path


def test_export_and_import_carry_a_bank_away(running: Running, bank: str, tmp_path: Path) -> None:
    """An archive is made where it is said to be, a dry run changes nothing, and facts in files come in as inferred."""
    running.as_person("save", "Carried away", "--bank", bank)
    made = running.as_person("export", "--bank", bank)
    assert Path(made["path"]).stat().st_size == made["bytes"]
    (tmp_path / "fact.md").write_text("---\nkind: fact\n---\nThe archive has a moon\n")
    trial = running.as_person("import", str(tmp_path), "--bank", bank, "--dry-run")
    assert trial["dry_run"] is True
    assert running.json("list", "--bank", bank)["total"] == 1
    running.as_person("import", str(tmp_path), "--bank", bank)
    (memory,) = (m for m in running.json("list", "--bank", bank)["memories"] if m["text"] == "The archive has a moon")
    assert memory["tier"] == "inferred"


def test_files_can_be_edited_and_read_again(running: Running, bank: str) -> None:
    """A correction in an editor is a correction, and the status says how far the files are."""
    memory = running.as_person("save", "The train leaves at noon", "--bank", bank)["memory"]
    folder = running.data_dir / "local" / "banks" / bank / "memories"
    (path,) = until(lambda: folder.is_dir() and list(folder.glob("*.md")))
    until(lambda: "noon" in path.read_text())
    path.write_text(path.read_text().replace("noon", "dusk"))
    until(lambda: running.json("get", memory["id"])["memory"]["text"] == "The train leaves at dusk")
    assert running.as_person("reload", "--bank", bank)["problems"] == []
    assert "last sync  20" in running.text("files", "status", speaks_as="human-me")
