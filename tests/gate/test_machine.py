"""Whatever is done in whatever order, the live view is the model's, the journal's replay, and no label rises."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import DeleteRequest, PinRequest, SaveRequest, SupersedeRequest, UpdateRequest
from memory_contracts.functions.review import ChangesRevertRequest, SuggestionDecideRequest
from memory_contracts.records import Memory, Suggestion
from memory_worker.store import Caller, JournalRow
from tests.gate.conftest import ANA, BEN, CODER, CONSOLIDATE, SENSOR, WRITER, World, said
from tests.gate.model import FIRST_OF_ROUTE, Kept, Model

T = TypeVar("T")

MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one: a crash here is of the process, not of the machine."""

TEXTS = st.sampled_from([f"statement {letter}" for letter in "abcdef"])
SUBJECTS = st.sampled_from([None, None, "home", "work"])
CALLERS = st.sampled_from([ANA, BEN, CODER, WRITER, SENSOR])
WRITERS = st.sampled_from([ANA, BEN, CODER, WRITER])
RANK = {"inferred": 0, "observed": 1, "stated": 2}
SAME_WHEN_REINFORCED = ("text", "tier", "source", "pinned", "state", "subject", "entities", "tags", "about", "claim")

decode = msgspec.json.Decoder(Memory).decode


class GateMachine(RuleBasedStateMachine):
    """Random lives of one bank: people, agents, sensors, turns, hygiene, undoing, crashes, restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.root = Path(tempfile.mkdtemp(prefix="gate-machine-", dir=MEMORY if MEMORY.is_dir() else None))
        self.generation = 0
        self.world = World(self.root / "0")
        self.model = Model()
        self.rows: list[JournalRow] = []
        self.replayed: dict[str, Memory] = {}
        self.held: dict[str, set[tuple[str, str]]] = {}
        self.turns: dict[str, list[tuple[str, str | None]]] = {}
        self.keys: list[tuple[Caller, str, SaveRequest, bytes]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize()
    def open(self) -> None:
        self.run(self.world.open())

    def teardown(self) -> None:
        self.run(self.world.close())
        self.loop.close()
        shutil.rmtree(self.root)

    def refused(self, work: Coroutine[Any, Any, Any]) -> FunctionError | None:
        try:
            self.run(work)
        except FunctionError as error:
            return error
        return None

    def pick(self, data: st.DataObject, *states: str) -> Kept | None:
        kept = [one for one in self.model.kept.values() if one.state in (states or ("live",))]
        return data.draw(st.sampled_from(kept)) if kept else None

    # What callers do

    @rule(caller=CALLERS, text=TEXTS, subject=SUBJECTS, keyed=st.booleans())
    def save(self, caller: Caller, text: str, subject: str | None, keyed: bool) -> None:
        request = SaveRequest(text=text, subject=subject)
        key = f"key-{len(self.keys)}" if keyed else None
        reply = self.run(self.world.gate.save(caller, request, key))
        assert reply.outcome == self.model.save(caller, text, subject)
        if reply.memory is not None:
            self.model.name_new(reply.memory.id)
        if key is not None:
            self.keys.append((caller, key, request, msgspec.json.encode(reply)))

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def save_again_with_its_key(self, data: st.DataObject) -> None:
        """A request repeated with its key gives the same reply and has no effect."""
        caller, key, request, reply = data.draw(st.sampled_from(self.keys))
        head = self.world.store.head
        assert msgspec.json.encode(self.run(self.world.gate.save(caller, request, key))) == reply
        assert self.world.store.head == head

    @rule(caller=WRITERS, text=TEXTS, data=st.data())
    def update(self, caller: Caller, text: str, data: st.DataObject) -> None:
        one = self.pick(data)
        if one is None:
            return
        other = self.model.with_text(text)
        request = UpdateRequest(id=one.id, text=text)
        if other is not None and other is not one:
            error = self.refused(self.world.gate.update(caller, request))
            assert error is not None
            assert error.code == "conflict"
            return
        reply = self.run(self.world.gate.update(caller, request))
        if other is one:
            assert reply.outcome == "unchanged"
        elif self.model.may_change(caller, one):
            assert reply.outcome == "done"
            one.text, one.author = text, caller.name
            one.tier = "stated" if caller.route == "human" else "inferred"
            one.wordings.add(text)
        else:
            assert reply.outcome == "awaiting_review"

    @rule(caller=WRITERS, data=st.data())
    def delete(self, caller: Caller, data: st.DataObject) -> None:
        one = self.pick(data, "live", "superseded", "expired")
        if one is None:
            return
        reply = self.run(self.world.gate.delete(caller, DeleteRequest(id=one.id)))
        if self.model.may_change(caller, one):
            one.state, one.by_person = "deleted", caller.route == "human"
        else:
            assert reply.outcome == "awaiting_review"

    @rule(pinned=st.booleans(), data=st.data())
    def pin(self, pinned: bool, data: st.DataObject) -> None:
        one = self.pick(data)
        if one is not None:
            self.run(self.world.gate.pin(ANA, PinRequest(id=one.id, pinned=pinned)))
            one.pinned = pinned

    @rule(caller=st.sampled_from([ANA, CONSOLIDATE]), data=st.data())
    def supersede(self, caller: Caller, data: st.DataObject) -> None:
        one, by = self.pick(data), self.pick(data)
        if one is None or by is None or one is by:
            return
        request = SupersedeRequest(id=one.id, by=by.id, reason="the same", run_id="run")
        error = self.refused(self.world.gate.supersede(caller, request))
        if caller.route == "human" or not one.firm:
            assert error is None
            one.state, one.by = "superseded", by.id
        else:
            assert error is not None
            assert error.code in ("pinned", "forbidden")

    # What happens by itself

    @rule(items=st.lists(st.tuples(TEXTS, SUBJECTS), min_size=1, max_size=3))
    def turn(self, items: list[tuple[str, str | None]]) -> None:
        turn = f"turn-{len(self.turns)}"
        self.turns[turn] = items
        self.run(self.world.turn(turn, *(said(text, subject=subject) for text, subject in items)))
        for text, subject in items:
            extraction = Caller("local", "system", "extraction")
            if self.model.save(extraction, text, subject, automatic=True) == "created":
                self.model.name_new(self.live_id(text))

    def live_id(self, text: str) -> str:
        return self.run(self.world.live())[text].id

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def redeliver(self, data: st.DataObject) -> None:
        """A turn that comes again changes nothing, however often and late."""
        turn = data.draw(st.sampled_from(sorted(self.turns)))
        head = self.world.store.head
        result = self.run(self.world.turn(turn, *(said(text) for text, _ in self.turns[turn])))
        assert result.repeated
        assert self.world.store.head == head

    @rule()
    def all_time_passes(self) -> None:
        """After more than a quarter everything but what is pinned has lapsed."""
        self.world.clock.forward(days=100)
        self.run(self.world.sweeper.sweep())
        for one in self.model.kept.values():
            if one.state == "live" and not one.pinned:
                one.state = "expired"
        self.keys.clear()  # kept for a day
        self.turns.clear()  # remembered for a month

    @rule()
    def restart(self) -> None:
        self.run(self.world.restart())

    @rule()
    def crash(self) -> None:
        """What a killed process leaves on disk is opened by the next one."""
        self.generation += 1
        target = self.root / str(self.generation)
        target.mkdir()
        fresh = World(target)
        fresh.directory.mkdir()
        for name in ("memory.db", "memory.db-wal"):
            shutil.copy(self.world.directory / name, fresh.directory / name)
        fresh.clock.at = self.world.clock.at
        old, self.world = self.world, fresh
        self.run(fresh.open())
        self.run(old.close())

    # What people decide and undo

    @rule(data=st.data(), decision=st.sampled_from(["approve", "reject"]))
    def decide(self, data: st.DataObject, decision: Any) -> None:
        waiting = self.run(self.world.waiting())
        if waiting:
            one = data.draw(st.sampled_from(waiting))
            request = SuggestionDecideRequest(ids=[one.id], decision=decision)
            [decided] = self.run(self.world.review.suggestion_decide(BEN, request)).decided
            assert decided.state in ("approved", "rejected", "stale")
            self.take_over()

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        """A revert that is reverted leaves every record as it was."""
        row = data.draw(st.sampled_from(self.rows[-8:]))
        before = self.shape()
        reply = self.run(self.world.review.changes_revert(ANA, ChangesRevertRequest(id=row.id)))
        if reply.reverted and not reply.refused and data.draw(st.booleans()):
            again = ChangesRevertRequest(id=reply.reverted[0].cause.id)
            assert self.run(self.world.review.changes_revert(ANA, again)).refused == []
            assert self.shape() == before
        self.take_over()

    def shape(self) -> dict[str, tuple[Any, ...]]:
        self.read_on()
        return {
            one.id: (one.text, one.tier, one.source, one.pinned, one.state, one.superseded_by, one.subject)
            for one in self.replayed.values()
        }

    def take_over(self) -> None:
        """Take the records into the model as they are now: what was done is not the model's to foresee."""
        self.read_on()
        for memory in self.replayed.values():
            one = self.model.kept.setdefault(memory.id, Kept(memory.id, memory.text, memory.tier, "", None))
            one.text, one.tier, one.subject = memory.text, memory.tier, memory.subject
            one.author = f"{memory.source.route}.{memory.source.principal}"
            one.pinned, one.state, one.by = memory.pinned, memory.state, memory.superseded_by
            one.by_person = memory.reason == "deleted by a person"
            one.wordings.add(memory.text)

    # What must hold

    def read_on(self) -> None:
        """Read the journal on, checking each row."""
        new = self.run(self.world.store.journal_after(self.rows[-1].seq if self.rows else 0, 1_000))
        self.rows.extend(new)
        for row in new:
            if row.type.startswith("memory.") and row.after is not None:
                self.check(row, None if row.before is None else decode(row.before), decode(row.after))

    def labels_proposed(self, row: JournalRow, said: str) -> set[tuple[str, str]]:
        """What an approved suggestion says, with the label of who wrote it; nothing of any other cause or text."""
        if row.cause_kind != "suggestion":
            return set()
        [proposal] = [one for one in self.rows if one.type == "suggestion.created" and one.target == row.cause_id]
        assert proposal.after is not None
        suggestion = msgspec.json.decode(proposal.after, type=Suggestion)
        author = suggestion.source or suggestion.by
        return {(text, FIRST_OF_ROUTE[author.route]) for text in [suggestion.change.args.get("text")] if text == said}

    def check(self, row: JournalRow, before: Memory | None, after: Memory) -> None:
        known = self.held.setdefault(after.id, set())
        known |= self.labels_proposed(row, after.text)
        assert before == self.replayed.get(after.id), "a row begins where the last one of its record ended"
        by_person = row.actor_route == "human"
        if before is not None:
            if RANK[after.tier] > RANK[before.tier]:
                assert by_person
                assert row.cause_kind == "request" or (after.text, after.tier) in known, "a label rose"
            if not by_person and (before.pinned or before.tier == "stated"):
                if row.type == "memory.expired":
                    assert not before.pinned
                else:
                    assert row.type == "memory.reinforced", row.type
                    assert all(getattr(before, name) == getattr(after, name) for name in SAME_WHEN_REINFORCED)
            assert after.revision == before.revision + (row.type != "memory.reinforced")
        else:
            assert after.revision == 1
        if row.cause_kind == "suggestion" and (before is None or before.text != after.text):
            assert after.tier != "stated", "nobody but agents, sensors and turns proposed anything"
        known.add((after.text, after.tier))
        self.replayed[after.id] = after

    @invariant()
    def live_view_is_the_models_and_the_replays(self) -> None:
        if not self.world.store.head:
            return
        self.read_on()
        view = self.run(self.world.live())
        assert {one.id: one for one in view.values()} == {
            one.id: one for one in self.replayed.values() if one.state == "live"
        }
        assert {one.id: (one.text, one.tier, one.pinned) for one in view.values()} == self.model.live()

    @invariant()
    def bank_sequence_is_dense(self) -> None:
        numbers = [row.bank_seq for row in self.rows if row.bank == "main" and row.bank_seq is not None]
        assert numbers == list(range(1, len(numbers) + 1))


GateMachine.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestGate = GateMachine.TestCase
