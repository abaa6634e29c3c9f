"""A worker whose tenant key is lost says so, shuts what needs it, and serves all else."""

from pathlib import Path

from tests.cli.conftest import Start


def test_the_doctor_and_the_errors_name_the_lost_file(start: Start, tmp_path: Path) -> None:
    """Without `tenant.key` the doctor is degraded and names the file, protected calls are unavailable, saves go on."""
    data_dir = tmp_path / "data"
    first = start(data_dir, "--no-consolidate")
    saved = first.as_person("save", "The safe opens with zinnia", "--protect")["memory"]
    assert first.stop() == 0
    key = data_dir / "local" / "tenant.key"
    kept = key.read_bytes()
    key.unlink()
    second = start(data_dir, "--no-consolidate")
    for command in (("reveal", saved["protected"]), ("save", "The door opens with lilac", "--protect")):
        error = second.error(*command, code=4, speaks_as="human-me")
        assert error["code"] == "unavailable"
        assert str(key) in error["message"]
    assert second.as_person("save", "The kettle is red")["outcome"] == "created"
    report = second.json("doctor", code=10)
    [line] = [check for check in report["checks"] if check["name"] == "vault"]
    assert line["state"] == "degraded"
    assert str(key) in line["detail"]
    assert not key.exists()
    assert second.stop() == 0
    key.write_bytes(kept)
    third = start(data_dir, "--no-consolidate")
    assert third.as_person("reveal", saved["protected"])["value"] == "The safe opens with zinnia"
    assert third.stop() == 0
