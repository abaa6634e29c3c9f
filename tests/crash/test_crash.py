"""The short crash run of every test run; `make crash` is the long one."""

from pathlib import Path

from tests.crash.harness import CrashRun


async def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """Acknowledged saves and turns are there once, and every change reaches a subscriber, whatever is killed when."""
    run = CrashRun(tmp_path, seed=20261130)
    try:
        report = await run.run(kills=12, bus_kills=1)
    finally:
        run.close()
    assert report.faults() == {}
    assert report.worker_kills >= 12
    assert report.bus_kills == 1
    assert report.acked_saves > 0
    assert report.acked_turns > 0
