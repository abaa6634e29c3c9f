"""Consolidation beside people, agents and extraction: it comes to rest, and never takes back what they did."""

import asyncio
import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memory_consolidate.finding import find
from memory_consolidate.items import Item
from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from memory_contracts.normal import fingerprint
from memory_contracts.turns import TurnCompleted, TurnMessage
from tests.consolidate.conftest import Worker, eventually
from tests.consolidate.labelled import item
from tests.consolidate.test_runs import worker_of

SUBJECTS = ["Tom", "Ines", "Ana"]
TAILS = ["tea and coffee", "coffee and tea", "“tea” and coffee", "tea", "no tea", "9 cups of tea", "10 cups of tea"]
TEXTS = [f"{who} likes {what}" for who in SUBJECTS for what in TAILS]


class Beside(RuleBasedStateMachine):
    """A store that obeys the gate's rules, written to between a run's reading and each of its acts."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[str, Item] = {}
        self.retired: dict[str, tuple[str, str]] = {}
        self.protected: set[str] = set()
        self.plan: list[tuple[Item, Item]] = []
        self.count = 0

    @rule(text=st.sampled_from(TEXTS), tier=st.sampled_from(["stated", "inferred", "observed"]))
    def save(self, text: str, tier: str) -> None:
        for known in self.live.values():
            if fingerprint(known.text) == fingerprint(text):
                self.live[known.id] = known._replace(corroboration=known.corroboration + 1)
                return
        self.count += 1
        self.live[f"mem_{self.count:04}"] = item(text, f"mem_{self.count:04}", tier=tier)

    @rule(data=st.data(), text=st.sampled_from(TEXTS))
    def update(self, data: st.DataObject, text: str) -> None:
        if not self.live or any(fingerprint(known.text) == fingerprint(text) for known in self.live.values()):
            return
        known = self.live[data.draw(st.sampled_from(sorted(self.live)))]
        self.live[known.id] = item(text, known.id, tier=known.tier, pinned=known.pinned)._replace(
            revision=known.revision + 1
        )

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        if self.live:
            known = self.live[data.draw(st.sampled_from(sorted(self.live)))]
            self.live[known.id] = known._replace(pinned=True, revision=known.revision + 1)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.live:
            del self.live[data.draw(st.sampled_from(sorted(self.live)))]

    @rule()
    def read_and_plan(self) -> None:
        self.plan = [(act.loser, act.keeper) for act in find(list(self.live.values())).supersedes]

    @rule()
    def act(self) -> None:
        if not self.plan:
            return
        loser, keeper = self.plan.pop(0)
        now, by = self.live.get(loser.id), self.live.get(keeper.id)
        if now is None or by is None or (now.revision, by.revision) != (loser.revision, keeper.revision):
            return
        if now.pinned or now.tier == "stated":
            self.protected.add(now.id)
            return
        assert sorted(now.tokens().folded) == sorted(by.tokens().folded)
        del self.live[now.id]
        self.retired[now.id] = (now.text, by.id)

    @invariant()
    def nothing_protected_was_even_tried(self) -> None:
        """A revision guards the text; pinning raises it too, so no act ever reaches a protected record."""
        assert not self.protected

    @invariant()
    def what_was_retired_stays_so(self) -> None:
        """No run brings a record back."""
        assert not set(self.retired) & set(self.live)

    def teardown(self) -> None:
        """Left alone it comes to rest: one run, and the next finds nothing."""
        gone = {act.loser.id for act in find(list(self.live.values())).supersedes}
        assert find([known for known in self.live.values() if known.id not in gone]).supersedes == []


Beside.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestBeside = Beside.TestCase


async def test_beside_saves_edits_and_extraction_it_comes_to_rest(
    human: MemoryClient, agent: MemoryClient, system: MemoryClient, worker: Worker, bank: str
) -> None:
    """While people, agents and turns write, run after run: nothing stated or pinned is retired, no record twice, and
    when the writing ends one run is enough."""
    consolidator = worker_of(system)
    writing = asyncio.gather(*(_write(client, bank, seed) for seed, client in enumerate((human, agent, agent), 1)))
    turns = asyncio.create_task(_tell(worker, bank))
    while not (writing.done() and turns.done()):
        report = await consolidator.run_bank(bank, "manual")
        assert report is None or report.state == "done"
    await writing
    await turns
    await eventually(lambda: _all_read(human))
    await consolidator.run_bank(bank, "manual")
    last = await consolidator.run_bank(bank, "manual")
    assert last is not None
    assert (last.superseded, last.suggested) == (0, 0)
    changes = await _changes(human, bank)
    ours = [change for change in changes if change.type == "memory.superseded" and change.actor.route == "system"]
    assert len({change.target for change in ours}) == len(ours)
    for change in ours:
        assert not change.before["pinned"]
        assert change.before["tier"] != "stated"
        assert change.after["text"] == change.before["text"]
    assert not [change for change in changes if change.type == "memory.restored"]


async def _write(client: MemoryClient, bank: str, seed: int) -> None:
    chance = random.Random(seed)
    ids: list[str] = []
    for _ in range(40):
        try:
            if ids and chance.random() < 0.3:
                await client.update(id=chance.choice(ids), text=chance.choice(TEXTS))
            elif ids and chance.random() < 0.1:
                await client.pin(id=chance.choice(ids), pinned=True)
            else:
                reply = await client.save(text=chance.choice(TEXTS), bank=bank)
                if reply.memory is not None:
                    ids.append(reply.memory.id)
        except FunctionError as error:
            assert error.code in ("conflict", "not_found", "pinned", "forbidden"), error  # noqa: PT017


async def _tell(worker: Worker, bank: str) -> None:
    async with await MemoryClient.connect(worker.credentials("system-harness")) as harness:
        for number in range(15):
            await harness.publish_turn(_turn(f"{bank}-{number}", bank, f"Remember that {TEXTS[number % len(TEXTS)]}."))


def _turn(turn_id: str, bank: str, text: str) -> TurnCompleted:
    fields: dict[str, Any] = {
        "turn_id": turn_id,
        "session_id": f"session-{bank}",
        "status": "completed",
        "completed_at": "2026-11-30T05:00:00Z",
        "metadata": {"memory_bank": bank},
    }
    message = TurnMessage(id=f"{turn_id}-1", role="user", text=text)
    return TurnCompleted(**fields, messages=[message])


async def _all_read(client: MemoryClient) -> bool:
    status = await client.extraction_status()
    return status.backlog == 0 and status.in_work == 0


async def _changes(client: MemoryClient, bank: str) -> list[Any]:
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        reply = await client.changes_list(bank=bank, limit=200, cursor=cursor)
        rows += reply.changes
        cursor = reply.cursor
        if cursor is None:
            return rows
