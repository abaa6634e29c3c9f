"""The worker on a bus that an operator runs: the steps of the deployment guide, on a real server."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_worker.bus import server_binary
from memory_worker.bus.server import free_port
from memory_worker.cli import memory
from tests.cli.conftest import START_S, environment, until

DEPLOY = Path(__file__).parents[2] / "deploy"


def run(data_dir: Path, *args: str, code: int = 0, **more: str) -> str:
    """Run one command of the guide."""
    env: dict[str, str | None] = {name: None for name in os.environ if name.startswith(("MEMORY_", "NATS_"))}
    result = CliRunner().invoke(memory, list(args), env={**env, **environment(data_dir, **more)})
    assert result.exit_code == code, (args, result.output, result.exception)
    return result.stdout


@pytest.fixture(params=["accounts", "single"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    """The server of the compose file: its directory, its address, its layout."""
    port = free_port(0)
    home = tmp_path / "bus"
    url = f"nats://127.0.0.1:{port}"
    run(home, "credentials", "init", "--url", url, "--layout", request.param)
    conf = (DEPLOY / "compose-nats.conf").read_text()
    conf = conf.replace("0.0.0.0:4222", f"127.0.0.1:{port}").replace("127.0.0.1:8222", "127.0.0.1:-1")
    (home / "nats" / "server.conf").write_text(conf.replace("/streams", str(home / "streams")))
    command = [str(server_binary()), "-c", str(home / "nats" / "server.conf")]
    assert subprocess.run([*command, "-t"], capture_output=True, check=False).returncode == 0
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: _admin_gets_in(home))
    yield home, url, request.param
    server.terminate()
    server.wait(START_S)


def _admin_gets_in(home: Path) -> bool:
    admin = str(home / "credentials" / "admin.json")
    found = CliRunner().invoke(memory, ["admin", "streams", "--check"], env=environment(home, MEMORY_CREDENTIALS=admin))
    return found.exit_code == 11  # it answers, and there are no streams yet


def test_the_guide_leads_to_a_worker_that_serves(bus: tuple[Path, str, str], tmp_path: Path) -> None:
    """Users, server, streams, worker: then a turn is kept, recall finds it, and the doctor is content."""
    home, url, layout = bus
    credentials = home / "credentials"
    data = tmp_path / "worker"
    settings = {"MEMORY_REQUIRE_OWN_INBOX": "true"} if layout == "single" else {}
    as_worker = {"NATS_URL": url, "MEMORY_CREDENTIALS": str(credentials / "worker.json"), **settings}
    assert "is missing" in run(home, "admin", "streams", "--check", code=11)
    # Without its streams the worker refuses to start, and says which are missing.
    early = _worker(data, as_worker)
    assert early.wait(START_S) != 0
    assert early.stderr is not None
    assert b"stream TURNS is missing" in early.stderr.read()
    early.stderr.close()
    assert early.stdout is not None
    early.stdout.close()
    run(home, "admin", "streams", MEMORY_CREDENTIALS=str(credentials / "admin.json"))
    worker = _worker(data, as_worker)
    assert worker.stdout is not None
    assert json.loads(worker.stdout.readline())["ready"] is True
    try:
        assert "Porto" in run(home, "turn", "My sister Ana lives in Porto.")
        found = json.loads(run(home, "recall", "where does my sister live?", "--json"))
        assert found["memories"][0]["memory"]["text"] == "My sister Ana lives in Porto"
        report = json.loads(run(home, "doctor", "--json"))
        assert [check for check in report["checks"] if check["state"] != "ok"] == []
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(START_S) == 0
        worker.stdout.close()
        assert worker.stderr is not None
        worker.stderr.close()


def _worker(data: Path, settings: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "memory_worker.cli", "worker", "--http-port", "0", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(data, **settings),
    )
