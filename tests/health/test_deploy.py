"""What is shipped for operators fits the program: image, compose, units, alerts, the security checklist."""

import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from memory_worker.cli import memory
from memory_worker.health import GAUGES, Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def lines(name: str) -> list[str]:
    """The instructions of a container file, continuation lines joined, comments left out."""
    text = (DEPLOY / name).read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def compose() -> dict[str, Any]:
    """The compose file."""
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


def unit(path: Path) -> dict[str, str]:
    """The service section of a unit; a key that stands several times keeps its last value."""
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return dict(parser["Service"])


def is_command(*words: str) -> bool:
    """Whether the command line knows these words."""
    return CliRunner().invoke(memory, [*words, "--help"]).exit_code == 0


def test_the_image_is_pinned_and_not_root() -> None:
    """Dependencies come by hash, what builds is not in what runs, and root is nobody in it."""
    instructions = lines("Containerfile")
    stages = [line for line in instructions if line.startswith("FROM ")]
    assert len(stages) == 2
    assert all(re.search(r":\d+\.\d+-slim-\w+( AS build)?$", stage) for stage in stages)
    assert any("--require-hashes" in line for line in instructions)
    last = instructions[instructions.index(stages[-1]) :]
    assert "USER 10001:10001" in last
    assert not any(line.startswith(("ADD ", "RUN ")) for line in last)
    assert 'ENTRYPOINT ["memory"]' in last
    (command,) = (line for line in last if line.startswith("CMD "))
    assert is_command(*re.findall(r'"(\w+)"', command))
    for line in instructions:
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources)


def test_services_are_closed_in_and_have_only_their_own_credentials() -> None:
    """Every container: read-only, no capabilities, its user's number, one secret; nothing published beyond loopback."""
    for name, service in compose()["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"].startswith("${MEMORY_UID"), name
        assert len(service.get("secrets", [])) == (0 if name == "nats" else 1), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if name != "nats":
            assert is_command(*service["command"]), name
    assert compose()["networks"]["bus"] == {"internal": True}
    with_outside = [name for name, service in compose()["services"].items() if "outside" in service["networks"]]
    assert with_outside == ["router"]


def test_the_compose_file_names_only_what_there_is() -> None:
    """Secrets, volumes, networks, files and dependencies all exist."""
    whole = compose()
    for service in whole["services"].values():
        assert set(service.get("secrets", [])) <= set(whole["secrets"])
        assert set(service.get("depends_on", {})) <= set(whole["services"])
        assert set(service["networks"]) <= set(whole["networks"])
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            made = source.startswith("./bus/")
            assert made or source in whole["volumes"] or (DEPLOY / source).is_file(), source
    identities = {"admin", "worker", "system-consolidate", "system-router"}
    assert {Path(secret["file"]).stem for secret in whole["secrets"].values()} == identities


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_are_confined(path: Path) -> None:
    """The system's units run as nobody in particular, with their credentials by file, and are watched."""
    service = unit(path)
    program, *words = service["ExecStart"].split()
    assert program.endswith("/memory")
    assert is_command(*words)
    assert service["NoNewPrivileges"] == "yes"
    assert service["Restart"] == "on-failure"
    assert int(service["TimeoutStopSec"]) > 20
    if path.stem != "memory-consolidate":
        assert (service["Type"], service["WatchdogSec"]) == ("notify", "30")
    if path.stem != "memory-up":
        wanted = {"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "CapabilityBoundingSet": ""}
        assert wanted.items() <= service.items()
        assert "/etc/memory-worker/" in service["LoadCredential"]
        assert "password" not in path.read_text().lower()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_are_accepted_by_systemd(path: Path, tmp_path: Path) -> None:
    """Where systemd is installed its own checker finds nothing; elsewhere every key is one of its known sections."""
    program = tmp_path / "memory"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / path.name
    copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", path.read_text(), flags=re.MULTILINE))
    checker = shutil.which("systemd-analyze")
    if checker is not None:
        scope = ["--user"] if path.stem == "memory-up" else []
        done = subprocess.run([checker, "verify", *scope, str(copy)], capture_output=True, text=True, check=False)
        assert path.name not in done.stderr, done.stderr
    sections = set(re.findall(r"^\[(\w+)\]$", path.read_text(), re.MULTILINE))
    assert sections == {"Unit", "Service", "Install"}


def test_alerts_use_metrics_that_there_are() -> None:
    """No alert waits for a metric that nobody exports, and each says what to do."""
    metrics = Metrics("0.1.0")
    for name in GAUGES:
        metrics.sample(name, lambda: 0.0)
    metrics.sample_readers(lambda: {"relay": 0})
    text = metrics.exposition().decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    rules = [rule for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
             for rule in group["rules"]]  # fmt: skip
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 12
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "action"}
        for used in re.findall(r"\bmemory_\w+", rule["expr"]):
            assert used in families or used.removesuffix("_bucket") in families, used


def test_the_bus_configuration_of_the_compose_file_syncs_and_is_bounded() -> None:
    """An acknowledged turn is on disk, and nobody can fill the server's memory."""
    conf = (DEPLOY / "compose-nats.conf").read_text()
    for line in ("sync_interval: always", "max_payload: 1MB", "max_connections: 1024", 'include "accounts.conf"'):
        assert line in conf
    assert "http: 127.0.0.1:" in conf


def test_the_security_checklist_names_tests_that_exist() -> None:
    """A line of the checklist is a promise only if its test is there."""
    named = re.findall(r"`(tests/\S+?\.py)::(test_\w+)`", (DEPLOY / "SECURITY.md").read_text())
    assert len(named) > 40
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or f"def {test}(" not in (ROOT / path).read_text()
    ]
    assert missing == []
