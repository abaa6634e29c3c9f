"""The worker on a bus that an operator runs: the steps of the deployment guide, on a real server."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.breaking import OwnBus
from tests.cli.conftest import START_S


@pytest.fixture(params=["accounts", "single"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnBus]:
    """The server of the compose file, without streams yet."""
    own = OwnBus(tmp_path / "bus", request.param)
    assert subprocess.run([*own.command, "-t"], capture_output=True, check=False).returncode == 0
    own.start()
    yield own
    own.stop()


def test_the_guide_leads_to_a_worker_that_serves(bus: OwnBus, tmp_path: Path) -> None:
    """Users, server, streams, worker: then a turn is kept, recall finds it, and the doctor is content."""
    data, log = tmp_path / "worker", tmp_path / "log"
    settings = {"MEMORY_REQUIRE_OWN_INBOX": "true"} if bus.layout == "single" else {}
    assert "is missing" in bus.run("admin", "streams", "--check", code=11)
    # Without its streams the worker refuses to start, and says which are missing.
    early = bus.worker(data, log, **settings)
    assert early.wait(START_S) != 0
    assert "stream TURNS is missing" in log.read_text()
    assert early.stdout is not None
    early.stdout.close()
    bus.make_streams()
    worker = bus.worker(data, log, **settings)
    assert worker.stdout is not None
    assert json.loads(worker.stdout.readline())["ready"] is True
    try:
        assert "Porto" in bus.run("turn", "My sister Ana lives in Porto.")
        found = json.loads(bus.run("recall", "where does my sister live?", "--json"))
        assert found["memories"][0]["memory"]["text"] == "My sister Ana lives in Porto"
        report = json.loads(bus.run("doctor", "--json"))
        assert [check for check in report["checks"] if check["state"] != "ok"] == []
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(START_S) == 0
        worker.stdout.close()
