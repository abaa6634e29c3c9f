"""When banks are run, and who may run them."""

import ast
from pathlib import Path

import memory_consolidate
from memory_consolidate.schedule import changed, due_at, finished, released, renewed, taken
from memory_consolidate.settings import ConsolidateSettings
from memory_consolidate.state import BankState, Lease

SETTINGS = ConsolidateSettings()


def lease(holder: str = "one", run: str = "run_1", **fields: object) -> Lease:
    known: dict[str, object] = {
        "holder": holder,
        "until": 1_030.0,
        "run_id": run,
        "trigger": "schedule",
        "dry_run": False,
        "started_at": 1_000.0,
    }
    return Lease(**(known | fields))  # type: ignore[arg-type]


def test_the_defaults_are_five_minutes_of_quiet_and_a_day() -> None:
    """A changed bank is run after five quiet minutes, every bank at least once a day."""
    assert (SETTINGS.quiet_s, SETTINGS.interval_s) == (300.0, 86_400.0)
    assert due_at(BankState(ran_at=1_000.0, changed_at=2_000.0), SETTINGS) == 2_300.0
    assert due_at(BankState(ran_at=1_000.0), SETTINGS) == 87_400.0


def test_a_bank_that_never_ran_is_due_at_once() -> None:
    """Whatever happened while nobody looked is caught up with."""
    assert due_at(BankState(), SETTINGS) == 0.0


def test_a_bank_that_never_falls_quiet_is_run_after_the_interval() -> None:
    """Steady writing cannot put a run off for ever."""
    assert due_at(BankState(ran_at=1_000.0, changed_at=87_390.0), SETTINGS) == 87_400.0


def test_changes_close_together_are_one_write() -> None:
    """A busy bank is not written at every event; a change after that is remembered."""
    state = changed(BankState(), 100.0)
    assert state is not None
    assert changed(state, 105.0) is None
    later = changed(state, 111.0)
    assert later is not None
    assert later.changed_at == 111.0


def test_a_held_bank_is_not_taken_until_the_reservation_lapses() -> None:
    """Two instances never run one bank at once; a dead one does not block it for ever."""
    held = taken(BankState(), lease("one"), 1_000.0)
    assert held is not None
    assert taken(held, lease("two", "run_2"), 1_029.0) is None
    assert taken(held, lease("two", "run_2"), 1_031.0) is not None


def test_an_abandoned_scheduled_run_is_gone_on_with_under_its_id() -> None:
    """Undoing the run undoes both halves."""
    held = taken(BankState(), lease("one", "run_1"), 1_000.0)
    assert held is not None
    successor = taken(held, lease("two", "run_2", started_at=2_000.0, until=2_030.0), 2_000.0)
    assert successor is not None
    assert successor.lease is not None
    assert (successor.lease.run_id, successor.lease.holder) == ("run_1", "two")


def test_a_manual_run_shifts_no_schedule() -> None:
    """Neither a run of one bank by hand nor a dry run moves when the next scheduled one is due."""
    state = BankState(ran_at=500.0, changed_at=900.0, carried=7)
    for dry_run in (True, False):
        held = taken(state, lease(trigger="manual", dry_run=dry_run), 1_000.0)
        assert held is not None
        done = finished(held, "one", "manual", dry_run=dry_run, left=0, told=())
        assert done == state


def test_a_scheduled_run_reads_what_changed_before_it_began() -> None:
    """What changed while it ran makes the bank due again."""
    for changed_at, after in ((900.0, None), (1_010.0, 1_010.0)):
        held = taken(BankState(ran_at=500.0, changed_at=changed_at), lease(), 1_000.0)
        assert held is not None
        done = finished(held, "one", "schedule", dry_run=False, left=0, told=())
        assert done is not None
        assert (done.ran_at, done.changed_at, done.lease) == (1_000.0, after, None)


def test_what_a_cap_left_is_run_after_the_quiet_time() -> None:
    """The rest of a capped run does not wait for a day."""
    held = taken(BankState(), lease(), 1_000.0)
    assert held is not None
    done = finished(held, "one", "schedule", dry_run=False, left=12, told=())
    assert done is not None
    assert done.carried == 12
    assert due_at(done, SETTINGS) == 1_300.0


def test_only_the_holder_renews_gives_back_and_finishes() -> None:
    """An instance that lost a bank can no longer write about it."""
    held = taken(BankState(), lease("one"), 1_000.0)
    assert held is not None
    assert renewed(held, "two", 2_000.0) is None
    assert released(held, "two") is None
    assert finished(held, "two", "schedule", dry_run=False, left=0, told=()) is None
    given_back = released(held, "one")
    assert given_back is not None
    assert given_back.lease is None


def test_it_knows_nothing_of_the_worker() -> None:
    """The consolidate worker imports no code of the memory worker: it can be stopped, removed or replaced."""
    for path in Path(memory_consolidate.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("memory_worker", "memory_router")], path
