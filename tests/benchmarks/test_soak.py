"""A short soak: mixed load with a bus that is killed in the middle."""

from pathlib import Path

from tests.benchmarks.soak import broken, soak


async def test_mixed_load_with_a_killed_bus_loses_nothing_and_errs_only_meanwhile(tmp_path: Path) -> None:
    """Outside the fault no call fails, and what was acknowledged before, during and after it is there."""
    report = await soak(20, tmp_path / "data", fault_after=12)
    assert report["faults"] >= 1
    assert min(report["done"].values()) > 20
    assert report["events"] > 0
    assert broken(report, slopes=False) == []
