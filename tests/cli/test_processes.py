"""How `memory up` starts, reloads, stops, and what it leaves behind."""

import base64
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import START_S, Running, Start, environment, until


def start_fails(data_dir: Path, *flags: str, **more: str) -> tuple[int, str]:
    """Start a worker that must not come up; give exit code and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "memory_worker.cli", "up", "--port", "0", "--http-port", "0", *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_S,
        env=environment(data_dir, **more),
        check=False,
    )
    return done.returncode, done.stderr


def children(running: Running) -> list[psutil.Process]:
    """Every process below the worker."""
    return psutil.Process(running.process.pid).children(recursive=True)


def command_lines(running: Running) -> list[str]:
    """What runs below the worker."""
    lines = []
    for child in children(running):
        with contextlib.suppress(psutil.NoSuchProcess):
            lines.append(" ".join(child.cmdline()))
    return lines


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty place for data."""
    return tmp_path / "data"


def test_what_was_saved_is_there_after_a_restart_and_after_a_kill(start: Start, data: Path) -> None:
    """An orderly stop and kill -9 lose nothing acknowledged."""
    running = start(data, "--no-consolidate")
    running.as_person("save", "Before the stop")
    assert running.stop() == 0
    running = start(data, "--no-consolidate")
    running.as_person("save", "Before the kill")
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    running = start(data, "--no-consolidate")
    texts = {memory["text"] for memory in running.json("list")["memories"]}
    assert texts == {"Before the stop", "Before the kill"}
    assert running.stop(signal.SIGINT) == 0


def test_everything_it_started_ends_with_it_even_after_a_kill(start: Start, data: Path) -> None:
    """The bus and the consolidate worker do not outlive the worker, however it ends."""
    running = start(data)
    until(lambda: any(" consolidate " in line for line in command_lines(running)))
    assert any("nats-server" in line for line in command_lines(running))
    below = children(running)
    running.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=30)
    assert alive == []


def test_a_consolidate_worker_that_dies_is_started_again(start: Start, data: Path) -> None:
    """The helper's death costs the worker nothing."""
    running = start(data)

    def helper() -> psutil.Process | None:
        for child in psutil.Process(running.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "consolidate" in child.cmdline():
                    return child
        return None

    first = until(helper)
    first.kill()
    again = until(lambda: (found := helper()) is not None and found.pid != first.pid and found)
    assert again.is_running()
    running.json("save", "Still here")
    assert running.stop() == 0


def test_a_second_worker_on_the_same_data_is_refused(start: Start, data: Path) -> None:
    """Two owners of one store would ruin it."""
    running = start(data, "--no-consolidate")
    code, says = start_fails(data)
    assert code != 0
    assert "another worker owns the data directory" in says
    running.json("save", "Unharmed")
    assert running.stop() == 0


def test_a_data_directory_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    """Memory is never kept in some other place instead."""
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    code, says = start_fails(blocked / "data")
    assert code != 0
    assert "cannot be written" in says


def test_a_store_of_a_newer_release_is_refused_and_left_alone(start: Start, data: Path) -> None:
    """An older program must not touch what it does not understand."""
    running = start(data, "--no-consolidate")
    running.stop()
    store = data / "local" / "memory.db"
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version=9999")
    before = store.read_bytes()
    code, says = start_fails(data, "--no-consolidate")
    assert code != 0
    assert "9999" in says
    assert store.read_bytes() == before


def test_wrong_settings_are_told_all_at_once_before_anything_starts(data: Path) -> None:
    """A start with three mistakes names three mistakes."""
    code, says = start_fails(data, MEMORY_LOG_LEVEL="loud", MEMORY_CONTEXT_MAX_ITEMS="-1", MEMORY_EXTRACTOR="model")
    assert code == 2
    for key in ("log_level", "context_max_items", "extractor"):
        assert key in says
    assert not data.exists()


def test_ports_in_use_fall_back_to_free_ones(start: Start, data: Path, tmp_path: Path) -> None:
    """Two people on one machine both get a worker; where it listens is printed."""
    first = start(data, "--no-consolidate")
    port = first.ready["url"].rsplit(":", 1)[1]
    second = start(tmp_path / "other", "--no-consolidate", "--port", port, "--http-port", str(first.ready["http_port"]))
    assert second.ready["url"] != first.ready["url"]
    assert second.ready["http_port"] != first.ready["http_port"]
    assert (first.stop(), second.stop()) == (0, 0)


def test_sighup_takes_over_what_may_change_and_names_what_needs_a_restart(
    start: Start, data: Path, tmp_path: Path
) -> None:
    """A reload of the settings file is told in the log, and a broken file changes nothing."""
    file = tmp_path / "c.toml"
    file.write_text('log_level = "info"\n')
    running = start(data, "--no-consolidate", "--config", str(file))

    def logged(event: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in running.log.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if line["event"] == event]

    file.write_text('log_level = "error"\ncommit_group_max = 5\n')
    running.process.send_signal(signal.SIGHUP)
    # The reload turns the level to error before it is logged, so only a lowered level shows its own line.
    until(lambda: not _logs_requests(running))
    file.write_text('log_level = "debug"\ncommit_group_max = 5\n')
    running.process.send_signal(signal.SIGHUP)
    (line,) = until(lambda: logged("settings.reloaded")[-1:])
    assert line["needs_restart"] == ["commit_group_max"]
    assert "log_level" in str(line["taken"])
    file.write_text('log_level = "debug"\ncommit_group_max = 5\ndeciders = ["ana"]\n')
    running.process.send_signal(signal.SIGHUP)
    until(lambda: logged("settings.reloaded")[-1]["taken"] == ["deciders"])
    file.write_text("log_level = 7\n")
    running.process.send_signal(signal.SIGHUP)
    until(lambda: logged("settings.refused"))
    running.json("save", "Still serving")
    assert running.stop() == 0


def _logs_requests(running: Running) -> bool:
    """Whether a request still leaves a line in the log."""
    before = running.log.stat().st_size
    running.json("list")
    return running.log.stat().st_size > before


def test_a_stop_under_load_answers_everything_it_took(start: Start, data: Path) -> None:
    """SIGTERM in the middle of many saves: each save that was answered is there, and none hangs."""
    running = start(data, "--no-consolidate")
    saver = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.saver", str(data / "credentials" / "agent-default.json"), "16"],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=running.env,
    )
    assert saver.stdout is not None
    first = [saver.stdout.readline() for _ in range(200)]
    assert running.stop() == 0
    rest, _ = saver.communicate(timeout=30)
    answered = {line.decode().strip() for line in [*first, *rest.splitlines(keepends=True)]}
    assert "" not in answered
    with contextlib.closing(sqlite3.connect(data / "local" / "memory.db")) as connection:
        (integrity,) = connection.execute("PRAGMA integrity_check").fetchone()
    assert integrity == "ok"
    running = start(data, "--no-consolidate")
    lines = running.invoke("list", "--all", "--json").stdout.splitlines()
    stored = {memory["text"] for line in lines for memory in json.loads(line)["memories"]}
    unanswered = {word for word in answered if word.startswith("unanswered")}
    assert unanswered == set()
    assert answered <= stored
    assert running.stop() == 0


def test_the_worker_runs_on_a_bus_of_its_own_operator(start: Start, data: Path, tmp_path: Path) -> None:
    """`memory worker` serves on a bus that something else runs, and leaves it running when it stops."""
    bus = start(tmp_path / "bus", "--no-consolidate")
    credentials = tmp_path / "bus" / "credentials"
    url = bus.ready["url"]
    os.kill(bus.process.pid, 0)
    code, says = _worker(data, credentials / "worker.json", url)
    # The store that `memory up` serves is there already: a second store for the same tenant is refused.
    assert code != 0
    assert "store" in says
    assert bus.stop() == 0


def _worker(data: Path, credentials: Path, url: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "memory_worker.cli", "worker", "--http-port", "0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_S,
        env=environment(data, NATS_URL=url, MEMORY_CREDENTIALS=str(credentials)),
        check=False,
    )
    return done.returncode, done.stderr


def test_the_vaults_key_can_come_from_the_environment(start: Start, data: Path) -> None:
    """With the key outside, the data directory alone opens no protected value; a wrong key breaks nothing else."""
    key = base64.b64encode(b"k" * 32).decode()
    running = start(data, "--no-consolidate", MEMORY_VAULT_KEY=key)
    saved = running.as_person("save", "The safe opens with zinnia", "--protect")["memory"]
    assert running.as_person("reveal", saved["protected"])["value"] == "The safe opens with zinnia"
    assert running.stop() == 0
    assert list(data.rglob("tenant.key")) == []
    other = base64.b64encode(b"o" * 32).decode()
    running = start(data, "--no-consolidate", MEMORY_VAULT_KEY=other)
    assert "zinnia" not in json.dumps(running.error("reveal", saved["protected"], speaks_as="human-me", code=4))
    running.json("save", "All else works")
    assert running.stop() == 0


def test_a_sentence_model_that_is_not_installed_is_said_at_the_start(data: Path) -> None:
    """Nothing falls back silently to another model."""
    code, says = start_fails(data, "--no-consolidate", MEMORY_EMBEDDING_MODEL="minilm")
    assert code != 0
    assert "memory-worker[minilm]" in says
