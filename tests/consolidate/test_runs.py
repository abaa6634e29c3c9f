"""Runs over a real worker on a real bus."""

import asyncio
import time

import pytest

from memory_consolidate import ConsolidateSettings, Consolidator
from memory_consolidate.bucket import Bucket
from memory_consolidate.keeping import holding
from memory_consolidate.state import Lease, States
from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from tests.consolidate.conftest import Worker, eventually, running

DOUBLED = [
    "Tom speaks Polish and Danish",
    "Tom speaks Danish and Polish",
    "Ines's cat is called Momo",
    "**Ines's** cat is called Momo",
    "Standup starts at 9:30",
    "Standup starts at 9:45",
    "Ines eats fish",
    "Ines does not eat fish",
    "The van is parked behind the shop",
]


async def unhurried(_: float) -> None:
    """No rest between requests."""


async def save(client: MemoryClient, bank: str, *texts: str, **fields: object) -> list[str]:
    ids = []
    for text in texts:
        reply = await client.save(text=text, bank=bank, **fields)  # type: ignore[arg-type]
        assert reply.memory is not None
        ids.append(reply.memory.id)
    return ids


async def live(client: MemoryClient, bank: str) -> list[str]:
    reply = await client.list(bank=bank, order="oldest", limit=200)
    return [memory.text for memory in reply.memories]


def worker_of(client: MemoryClient, **settings: object) -> Consolidator:
    return Consolidator(client, ConsolidateSettings(**settings), pace=unhurried)  # type: ignore[arg-type]


async def test_a_run_retires_what_is_the_same_and_asks_about_the_rest(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """Equal texts and re-ordered lists go; what differs by a word becomes a suggestion with both texts and a reason."""
    await save(agent, bank, *DOUBLED)
    report = await worker_of(system).run_bank(bank, "manual")
    assert report is not None
    assert (report.state, report.memories, report.superseded, report.suggested) == ("done", 9, 2, 2)
    assert await live(agent, bank) == [DOUBLED[n] for n in (0, 2, 4, 5, 6, 7, 8)]
    suggestions = (await human.suggestion_list(bank=bank)).suggestions
    assert sorted(s.change.function for s in suggestions) == ["supersede", "supersede"]
    by_clock = next(s for s in suggestions if "9:30" in s.reason)
    assert "9:45" in by_clock.reason
    assert {by_clock.now["memory"]["text"], by_clock.now["by"]["text"]} == {DOUBLED[4], DOUBLED[5]}


async def test_a_second_run_changes_nothing(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """Running again finds the same suggestions known and nothing to retire; the journal stays as it is."""
    await save(agent, bank, *DOUBLED)
    consolidator = worker_of(system)
    await consolidator.run_bank(bank, "manual")
    before = (await human.changes_list(bank=bank, limit=200)).changes
    report = await consolidator.run_bank(bank, "manual")
    assert report is not None
    assert (report.superseded, report.suggested, report.known) == (0, 0, 2)
    assert (await human.changes_list(bank=bank, limit=200)).changes == before


async def test_a_dry_run_only_tells(human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str) -> None:
    """A dry run says what would be done, by id, and does none of it."""
    await save(agent, bank, *DOUBLED)
    before = (await human.changes_list(bank=bank, limit=200)).changes
    report = await worker_of(system).run_bank(bank, "manual", dry_run=True)
    assert report is not None
    assert (report.superseded, report.suggested, len(report.acts)) == (2, 2, 4)
    assert (await human.changes_list(bank=bank, limit=200)).changes == before


async def test_a_run_is_undone_by_its_id_and_not_repeated(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """After `changes.revert` of the run everything is live again, and no later run retires or asks it once more."""
    await save(agent, bank, *DOUBLED[:6])
    consolidator = worker_of(system)
    report = await consolidator.run_bank(bank, "manual")
    assert report is not None
    assert (report.superseded, report.suggested) == (2, 1)
    reply = await human.changes_revert(id=report.run_id)
    assert reply.refused == []
    assert await live(agent, bank) == DOUBLED[:6]
    again = await consolidator.run_bank(bank, "manual")
    assert again is not None
    assert (again.superseded, again.suggested) == (0, 0)
    assert again.skipped["restored_by_a_person"] == 2
    assert await live(agent, bank) == DOUBLED[:6]


async def test_what_a_person_stated_or_pinned_is_not_touched(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """A person's own repetition stays; an agent's copy of it goes."""
    stated = await save(human, bank, "Tom speaks Polish and Danish", "Tom speaks Danish and Polish")
    (copied,) = await save(agent, bank, "Tom speaks “Polish” and Danish")
    await worker_of(system).run_bank(bank, "manual")
    assert (await agent.get(id=copied)).memory.state == "superseded"  # type: ignore[union-attr]
    for memory_id in stated:
        assert (await agent.get(id=memory_id)).memory.state == "live"  # type: ignore[union-attr]


async def test_a_rejected_suggestion_does_not_come_back(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """A person says no once."""
    await save(agent, bank, *DOUBLED[4:6])
    consolidator = worker_of(system)
    await consolidator.run_bank(bank, "manual")
    (suggestion,) = (await human.suggestion_list(bank=bank)).suggestions
    await human.suggestion_decide(ids=[suggestion.id], decision="reject")
    report = await consolidator.run_bank(bank, "manual")
    assert report is not None
    assert report.suggested == 0
    assert (await human.suggestion_list(bank=bank)).suggestions == []


async def test_a_text_corrected_between_reading_and_acting_is_left_alone(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """The plan was made on another text: the store refuses, the run goes on and says so."""
    ids = await save(agent, bank, *DOUBLED[:4])
    corrected = False

    async def correct(_: float) -> None:
        nonlocal corrected
        if not corrected:
            corrected = True
            await agent.update(id=ids[1], text="Tom speaks Swedish and Danish")

    report = await Consolidator(system, pace=correct).run_bank(bank, "manual")
    assert report is not None
    assert (report.superseded, report.skipped["refused_conflict"]) == (1, 1)
    assert "Tom speaks Swedish and Danish" in await live(agent, bank)


async def test_a_cap_carries_the_rest_over(agent: MemoryClient, system: MemoryClient, bank: str) -> None:
    """A run stops at its cap and names what is left; the next runs finish, and none does anything twice."""
    for name in ("Ada", "Bea", "Cid", "Dov", "Eli"):
        await save(agent, bank, f"{name} keeps a spare key", f"“{name}” keeps a spare key")
    consolidator = worker_of(system, supersedes_max=2)
    reports = [await consolidator.run_bank(bank, "schedule") for _ in range(4)]
    assert [(r.superseded, r.carried) for r in reports if r] == [(2, 3), (2, 1), (1, 0), (0, 0)]
    assert len(await live(agent, bank)) == 5


async def test_too_many_open_questions_are_not_added_to(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """Above the bound of open suggestions nothing more is asked; what is left is named."""
    for name in ("Ada", "Bea", "Cid", "Dov"):
        await save(agent, bank, f"{name} eats fish on Fridays", f"{name} eats no fish on Fridays")
    report = await worker_of(system, open_max=3).run_bank(bank, "manual")
    assert report is not None
    assert (report.suggested, report.carried) == (3, 1)
    assert (await human.suggestion_list(bank=bank)).total == 3


async def test_what_was_never_used_is_offered_for_deletion(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """An agent's note that nobody repeated and no turn was given is a question after half a year, not before."""
    (old,) = await save(agent, bank, "The old printer jams on Tuesdays")
    await save(human, bank, "The new printer is upstairs")
    half_a_year_on = time.time() + 181 * 86_400
    soon = await worker_of(system).run_bank(bank, "manual")
    assert soon is not None
    assert soon.suggested == 0
    report = await Consolidator(system, clock=lambda: half_a_year_on, pace=unhurried).run_bank(bank, "manual")
    assert report is not None
    assert [(act.kind, act.id) for act in report.acts] == [("unused", old)]
    (suggestion,) = (await human.suggestion_list(bank=bank)).suggestions
    assert suggestion.change.function == "delete"


async def test_a_bank_is_never_run_twice_at_once(agent: MemoryClient, system: MemoryClient, bank: str) -> None:
    """While one instance holds a bank, another passes it by."""
    await save(agent, bank, *DOUBLED[:2])
    states = States(Bucket(system.bus))
    lease = Lease(
        holder="other", until=time.time() + 30, run_id="run_x", trigger="manual", dry_run=False, started_at=time.time()
    )
    async with holding(states, bank, lease, 30.0, time.time) as held:
        assert held is not None
        assert await worker_of(system).run_bank(bank, "manual") is None
    report = await worker_of(system).run_bank(bank, "manual")
    assert report is not None
    assert report.superseded == 1


async def test_two_instances_do_every_act_once(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, worker: Worker, bank: str
) -> None:
    """Started at the same moment on the same bank, one runs and the other passes by; each record is retired once."""
    await save(agent, bank, *DOUBLED[:4])
    async with await MemoryClient.connect(worker.credentials("system-consolidate")) as second:
        reports = await asyncio.gather(
            worker_of(system).run_bank(bank, "manual"), worker_of(second).run_bank(bank, "manual")
        )
    assert sum(report.superseded for report in reports if report) == 2
    changes = (await human.changes_list(bank=bank, limit=200)).changes
    assert sum(change.type == "memory.superseded" for change in changes) == 2


async def test_it_answers_people_and_nobody_else(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """`consolidate.run`, `.status` and `.report` answer on their subjects; an agent is refused."""
    async with running(worker_of(system, quiet_s=9e9, interval_s=9e9, tick_s=0.1).serve()):
        await eventually(lambda: ran(human, bank, 1))
        await save(agent, bank, *DOUBLED[:2])
        dry = (await human.consolidate_run(bank=bank, dry_run=True)).reports
        assert [(report.bank, report.superseded, report.dry_run) for report in dry] == [(bank, 1, True)]
        done = (await human.consolidate_run(bank=bank)).reports
        assert [report.superseded for report in done] == [1]
        status = (await human.consolidate_status()).banks
        (row,) = [row for row in status if row.bank == bank]
        assert row.running is None
        assert row.last_run_at is not None
        reports = (await human.consolidate_report(bank=bank)).reports
        assert [report.run_id for report in reports][:2] == [done[0].run_id, dry[0].run_id]
        with pytest.raises(FunctionError) as refused:
            await agent.consolidate_run(bank=bank)
        assert refused.value.code == "forbidden"
        with pytest.raises(FunctionError) as missing:
            await human.consolidate_run(bank="no-such-bank")
        assert missing.value.code == "not_found"


async def test_it_speaks_into_nobody_elses_inbox(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient
) -> None:
    """A request that asks for its answer under another subject than the caller's own inbox is not answered."""
    subject = agent.subjects.rpc("local", "agent", "default", "consolidate.status")
    elsewhere = system.subjects.rpc("local", "system", "consolidate", "bank.list")
    forged = f"{human.bus.credentials.inbox_prefix}.forged"
    heard: list[str] = []
    own = await human.bus.subscribe(forged, lambda message: heard.append(message.subject))
    async with running(worker_of(system, quiet_s=9e9, interval_s=9e9).serve()):
        await eventually(lambda: answers(human))
        await agent.bus.publish(subject, b"{}", reply=elsewhere)
        await agent.bus.publish(subject, b"{}", reply=forged)
        with pytest.raises(FunctionError) as refused:
            await agent.consolidate_status()
        assert refused.value.code == "forbidden"
        await human.bus.flushed()
    await own.stop()
    assert heard == []


async def answers(client: MemoryClient) -> bool:
    try:
        await client.consolidate_status()
    except FunctionError:
        return False
    return True


async def test_a_change_is_seen_and_run_after_the_quiet_time(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """Saving marks the bank, and once it is quiet a run follows without anybody asking."""
    settings = {"quiet_s": 0.3, "interval_s": 9e9, "tick_s": 0.1}
    async with running(worker_of(system, **settings).serve()):
        await eventually(lambda: ran(human, bank, 1))
        await save(agent, bank, *DOUBLED[:2])
        await eventually(lambda: gone(agent, bank))
    reports = await States(Bucket(system.bus)).reports(bank)
    assert {report.trigger for report in reports} == {"schedule"}


async def ran(client: MemoryClient, bank: str, times: int) -> bool:
    try:
        return len((await client.consolidate_report(bank=bank)).reports) >= times
    except FunctionError:
        return False


async def gone(client: MemoryClient, bank: str) -> bool:
    return len(await live(client, bank)) == 1


async def test_what_changed_while_it_was_down_is_caught_up_with(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """The durable consumer keeps what happened; the next start marks the bank and runs it."""
    settings = {"quiet_s": 0.2, "interval_s": 9e9, "tick_s": 0.1}
    async with running(worker_of(system, **settings).serve()):
        await eventually(lambda: ran(human, bank, 1))
    await save(agent, bank, *DOUBLED[:2])
    async with running(worker_of(system, **settings).serve()):
        await eventually(lambda: gone(agent, bank))


async def test_its_own_acts_do_not_start_it_again(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, bank: str
) -> None:
    """A run's retirements and suggestions leave the bank clean."""
    await save(agent, bank, *DOUBLED)
    settings = {"quiet_s": 0.2, "interval_s": 9e9, "tick_s": 0.1}
    async with running(worker_of(system, **settings).serve()):
        await eventually(lambda: gone_to(agent, bank, 7))
        await eventually(lambda: clean(human, bank))
        reports = (await human.consolidate_report(bank=bank)).reports
        await human.save(text="Something new to wait for", bank=bank)
        await eventually(lambda: ran(human, bank, len(reports) + 1))
        assert len((await human.consolidate_report(bank=bank)).reports) == len(reports) + 1


async def gone_to(client: MemoryClient, bank: str, count: int) -> bool:
    return len(await live(client, bank)) == count


async def clean(client: MemoryClient, bank: str) -> bool:
    rows = (await client.consolidate_status()).banks
    return any(row.bank == bank and not row.dirty and row.running is None for row in rows)
