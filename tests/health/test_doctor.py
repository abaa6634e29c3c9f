"""The doctor: every part on its own line, and a roundtrip that leaves nothing."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from memory_contracts.functions.operations import Check, ExtractionStatusReply, ParkedTurn
from memory_worker.config import Settings
from memory_worker.health import DoctorService, Roundtrip, RoundtripError, checks, doctor, roundtrip


class Scratch:
    """Records the steps of a roundtrip; one of them may fail."""

    def __init__(self, fails: str = "", error: Exception | None = None) -> None:
        self.fails = fails
        self.error = error or RoundtripError("not found")
        self.steps: list[str] = []

    def _did(self, step: str) -> None:
        self.steps.append(step)
        if step == self.fails:
            raise self.error

    async def save(self, text: str) -> str:
        """Keep a text."""
        self._did("save")
        return "mem_1"

    async def committed(self, _: str) -> None:
        """Re-read from disk."""
        self._did("commit")

    async def recall(self, _: str, __: str) -> None:
        """Find it."""
        self._did("recall")

    async def trigger(self, _: str) -> None:
        """See the trigger."""
        self._did("trigger")

    async def file(self, _: str) -> None:
        """See the file."""
        self._did("file")

    async def erase(self) -> None:
        """Leave nothing."""
        self._did("erase")

    async def run(self) -> Sequence[Check]:
        """Go round."""
        steps = Roundtrip(
            save=self.save,
            committed=self.committed,
            recall=self.recall,
            trigger=self.trigger,
            file=self.file,
            erase=self.erase,
        )
        return await roundtrip(steps)()


async def test_the_roundtrip_goes_through_every_part() -> None:
    """Save, disk, recall, trigger, file, and gone again."""
    scratch = Scratch()
    (line,) = await scratch.run()
    assert scratch.steps == ["save", "commit", "recall", "trigger", "file", "erase"]
    assert line.state == "ok"
    assert line.detail.startswith("save → commit → recall → trigger → file → erase in ")


@pytest.mark.parametrize(
    ("step", "state"),
    [
        ("save", "failing"),
        ("commit", "failing"),
        ("recall", "failing"),
        ("trigger", "degraded"),
        ("file", "degraded"),
        ("erase", "failing"),
    ],
)
async def test_a_broken_step_is_named_and_the_scratch_bank_is_erased_all_the_same(step: str, state: str) -> None:
    """Whatever breaks, nothing of the roundtrip stays behind, and the line says what to do."""
    scratch = Scratch(step)
    (line,) = await scratch.run()
    assert scratch.steps[-1] == "erase"
    assert line.state == state
    assert line.detail.startswith(f"{step} did not work")
    assert line.hint


async def test_an_unexpected_error_is_told_by_type_alone() -> None:
    """An exception's words may quote a memory; a report must not."""
    (line,) = await Scratch("recall", ValueError("my sister lives in Porto")).run()
    assert "ValueError" in line.detail
    assert "Porto" not in line.detail


async def test_one_broken_part_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that raise or hang are lines like any other, and the worst state is the report's."""
    monkeypatch.setattr(doctor, "CHECK_DEADLINE_S", 0.05)

    async def breaks() -> Sequence[Check]:
        raise RuntimeError("x")

    async def hangs() -> Sequence[Check]:
        await asyncio.Event().wait()
        return []

    async def good() -> Sequence[Check]:
        return [checks.ok("good", "fine")]

    service = DoctorService("0.1.0", [("breaks", breaks), ("hangs", hangs), ("good", good)])
    reply = await service.examine()
    assert [(check.name, check.state) for check in reply.checks] == [
        ("breaks", "failing"),
        ("hangs", "failing"),
        ("good", "ok"),
    ]
    assert reply.state == "failing"


async def _state(examine: doctor.Examine) -> list[str]:
    return [check.state for check in await examine()]


async def test_disk_warns_before_it_fails(tmp_path: Path) -> None:
    """Little space is a warning, too little a failure."""
    assert await _state(checks.disk(tmp_path, Settings(disk_free_min_mb=0, disk_free_warn_mb=0))) == ["ok"]
    assert await _state(checks.disk(tmp_path, Settings(disk_free_warn_mb=10**9))) == ["degraded"]
    full = Settings(disk_free_min_mb=10**9, disk_free_warn_mb=10**9)
    assert await _state(checks.disk(tmp_path, full)) == ["failing"]


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("2.15.1", "ok"),
        ("2.14.3", "ok"),
        ("2.14.2", "degraded"),
        ("2.13.9", "degraded"),
        ("2.12.12", "ok"),
        ("2.12.11", "degraded"),
        ("2.9.10", "degraded"),
        ("3.0.0-beta.1", "ok"),
        ("odd", "degraded"),
    ],
)
async def test_servers_with_known_holes_are_named(version: str, state: str) -> None:
    """The floor is 2.14.3, or 2.12.12 on the older line."""

    async def found() -> str:
        return version

    async def synced() -> bool | None:
        return True

    assert await _state(checks.server(found, synced)) == [state, "ok"]


async def test_a_server_that_acknowledges_before_it_syncs_is_named() -> None:
    """A power cut may take turns the harness was told are safe."""

    async def version() -> str:
        return "2.15.1"

    async def lazy() -> bool | None:
        return False

    async def silent() -> bool | None:
        return None

    assert await _state(checks.server(version, lazy)) == ["ok", "degraded"]
    assert await _state(checks.server(version, silent)) == ["ok", "ok"]


async def test_parked_turns_and_an_old_backlog_are_named() -> None:
    """Turns that nobody can read, and turns that wait long, are for a person to look at."""

    def status(oldest: float, parked: int) -> ExtractionStatusReply:
        rows: list[ParkedTurn] = []
        return ExtractionStatusReply(
            backlog=1,
            in_work=0,
            oldest_age_s=oldest,
            parked=rows,
            parked_total=parked,
            kept=0,
            refused={},
            ignored={},
            router="none",
            extractor="rules",
        )

    async def calm() -> ExtractionStatusReply:
        return status(10, 0)

    async def bad() -> ExtractionStatusReply:
        return status(301, 2)

    assert await _state(checks.backlog(calm)) == ["ok", "ok"]
    assert await _state(checks.backlog(bad)) == ["degraded", "degraded"]


async def test_a_sibling_that_is_not_configured_is_not_asked() -> None:
    """`none` means never asked, and that is fine; required and silent is degraded, not failing: turns wait."""

    async def silent() -> None:
        raise TimeoutError

    assert await _state(checks.sibling("router", "none", silent)) == ["ok"]
    assert await _state(checks.sibling("router", "required", silent)) == ["degraded"]


async def test_clock_skew_lags_arms_files_permissions_streams_and_store() -> None:
    """Each part says ok or what differs."""

    async def skew() -> float:
        return -3.0

    async def arms() -> dict[str, str]:
        return {"lexical": "ok", "semantic": "down"}

    async def problems() -> list[str]:
        return ["banks/main/memories/x.md"]

    async def none() -> list[str]:
        return []

    async def drift() -> list[str]:
        return ["may publish memory.v1.rpc.>"]

    async def sound() -> tuple[int, list[str]]:
        return 1, []

    async def torn() -> tuple[int, list[str]]:
        return 1, ["row 5 missing from index"]

    assert await _state(checks.clock_skew(skew)) == ["degraded"]
    assert await _state(checks.readers(lambda: {"index": 0, "relay": 10**9}, Settings())) == ["ok", "degraded"]
    lags = await checks.readers(lambda: {"files": 0, "index": 12, "relay": 3}, Settings())()
    assert [line.detail for line in lags] == [
        "has read every change",
        "12 changes since the last question; it reads them before it answers the next one",
        "3 changes not read yet",
    ]
    assert await _state(checks.arms(arms)) == ["ok", "degraded"]
    assert await _state(checks.files(problems)) == ["degraded"]
    assert await _state(checks.files(none)) == ["ok"]
    assert await _state(checks.permissions(drift)) == ["degraded"]
    assert await _state(checks.permissions(none)) == ["ok"]
    assert await _state(checks.streams(drift)) == ["failing"]
    assert await _state(checks.store(sound)) == ["ok", "ok"]
    assert await _state(checks.store(torn)) == ["ok", "failing"]
