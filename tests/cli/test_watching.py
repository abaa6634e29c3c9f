"""What an operator sees of a running worker: health, metrics, the doctor, files."""

import json
import re
import urllib.request
from typing import Any

from tests.cli.conftest import Running, until

DOCTOR_CODES = (0, 10, 11)
"""Exit codes of a doctor that gave a report: fine, degraded, failing."""


def scrape(running: Running) -> dict[str, float]:
    """Every sample of the metrics by its line."""
    url = f"http://127.0.0.1:{running.ready['http_port']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"}


def test_a_request_shows_in_the_metrics_by_function_route_and_outcome(running: Running) -> None:
    """Counts by who and what; nothing about whose."""
    running.as_person("save", "Counted once")
    running.error("get", "mem_none", code=3)
    found = scrape(running)
    assert found['memory_requests_total{function="save",outcome="ok",route="human"}'] == 1
    assert found['memory_requests_total{function="get",outcome="not_found",route="agent"}'] == 1
    assert found["memory_commit_group_size_count"] > 0
    assert found["memory_bus_connected"] == 1
    assert not [name for name in found if re.search(r"(tenant|bank|principal|session)=", name)]


def test_turns_and_triggers_are_counted(running: Running) -> None:
    """What was taken in, read, kept and published shows within the sampling time."""
    running.text("turn", "I prefer the window seat on night trains.")
    until(lambda: scrape(running).get('memory_turns_total{outcome="received"}', 0) >= 1)
    until(lambda: scrape(running).get('memory_extracted_total{outcome="created"}', 0) >= 1)
    until(lambda: scrape(running)["memory_triggers_published_total"] >= 1)
    until(lambda: scrape(running)["memory_unpublished_rows"] == 0)


def test_recall_arms_are_counted(running: Running) -> None:
    """A dead arm would show here before anybody misses it."""
    running.as_person("save", "The piano tuner comes in spring")
    running.json("recall", "piano tuner")
    arms = {name: value for name, value in scrape(running).items() if name.startswith("memory_recall_arms_total")}
    assert {re.search(r'arm="(\w+)"', name)[1] for name in arms} >= {"lexical", "semantic"}  # type: ignore[index]


def report(running: Running) -> dict[str, Any]:
    """The doctor's report by line."""
    return {check["name"]: check for check in running.json("doctor")["checks"]}


def test_the_doctor_is_content_with_a_healthy_worker(running: Running) -> None:
    """Every part is looked at, and all of it is fine."""
    lines = report(running)
    wanted = {
        "roundtrip",
        "disk",
        "schema",
        "integrity",
        "backlog",
        "parked turns",
        "session manager",
        "router",
        "bus version",
    }
    assert wanted | {"bus sync", "clock", "streams", "permissions", "index", "recall lexical"} <= set(lines)
    assert [line for line in lines.values() if line["state"] != "ok"] == []
    assert lines["roundtrip"]["detail"].startswith("save → commit → recall → trigger → file → erase in ")
    text = running.text("doctor")
    assert "✓ disk" in text
    assert text.strip().splitlines()[-1].startswith("ok")


def test_the_doctor_leaves_nothing_behind(running: Running) -> None:
    """No bank to be seen, no memory, no file, no byte of what it saved to try things out."""
    running.json("doctor")
    banks = {bank["name"] for bank in running.as_person("banks", "--trash")["banks"]}
    assert "doctor" not in banks
    for path in running.data_dir.rglob("*"):
        if path.is_file():
            assert b"thermometer" not in path.read_bytes(), path


def test_the_doctor_without_a_worker_says_what_to_do(running: Running) -> None:
    """The one question that must work when nothing works."""
    found = running.invoke("doctor", "--timeout", "1", speaks_as="ui-none", code=4)
    assert "known here" in found.stderr


def test_files_that_cannot_be_read_degrade_the_report(running: Running) -> None:
    """A file with broken front matter is named by the doctor, with the exit code of “degraded”, until it is gone."""
    memory = running.as_person("save", "Mirrored as a file")["memory"]
    folder = running.data_dir / "local" / "banks" / "main" / "memories"
    until(lambda: folder.is_dir() and [path for path in folder.iterdir() if memory["id"][-4:].lower() in path.name])
    (folder / "broken.md").write_text("---\n: [\n---\n")
    until(lambda: "broken.md" in json.dumps(_degraded(running)), 60)
    # To an agent it is counted, not named: a file's name tells what it says.
    seen = report_whatever(running, speaks_as="agent-default")
    assert seen["files"]["state"] == "degraded"
    assert "broken" not in json.dumps(seen)
    (folder / "broken.md").unlink()
    until(lambda: not _degraded(running), 60)


def _degraded(running: Running) -> list[Any]:
    """Lines that are not fine."""
    return [line for line in report_whatever(running).values() if line["state"] != "ok"]


def report_whatever(running: Running, speaks_as: str = "human-me") -> dict[str, Any]:
    """The report, whatever the exit code says about it: asked once, since the state may change between two askings."""
    found = json.loads(running.invoke("doctor", "--json", speaks_as=speaks_as, code=DOCTOR_CODES).stdout)
    return {check["name"]: check for check in found["checks"]}
