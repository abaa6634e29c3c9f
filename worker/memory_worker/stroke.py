"""Carries a forgetting out: one stroke over store, index, files, bus and memory, which resumes after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from memory_contracts.errors import FunctionError
from memory_contracts.names import DEFAULT_BANK
from memory_contracts.records import Receipt
from memory_worker.bus import BusError, Relay
from memory_worker.clock import to_datetime
from memory_worker.context import ContextService
from memory_worker.files import FileRoom
from memory_worker.gate import (
    Destroyed,
    Gate,
    KeyedVault,
    Names,
    Plan,
    Texts,
    destroy,
    destroy_paths,
    in_turns,
    noticing,
    proposals,
)
from memory_worker.recall import RecallService
from memory_worker.store import Caller, Origin, Transaction, banks, forgetting, new_id
from memory_worker.store import suggestions as suggestion_rows
from memory_worker.store.forgetting import ForgettingRow
from memory_worker.store.scrubbing import ScrubFailed, remove_backups, scrub

log = structlog.get_logger(__name__)

RETRY_S = 5.0
"""Pause before a step is tried again whose place was out of reach, in seconds."""
STUCK_S = 300.0
"""Age from which a forgetting that nothing keeps waiting is told of as not finished, in seconds."""
ANSWER_S = 30.0
"""Longest wait of the asker, in seconds. Overwriting an event takes 10 to 25 ms: a large bank goes on after it."""
BUS_PLACES = ("turn stream", "event streams")
"""Steps that need the bus."""

EARLY = "database, early"
"""Step that is taken once when the bus is out of reach."""
FINISHED = "forgetting"
"""Kind of the notice that a forgetting is finished which had to wait."""
STILL_AT_WORK = "still at work: a notice says when it is finished"
"""What the receipt says that an asker gets before the forgetting is finished."""
FOR_GOOD = "not reachable: "
"""Begins what a receipt names although the forgetting is done."""

NOTHING_LEFT = Plan(kind="memory")
"""The plan of a forgetting whose values are all destroyed."""

_decode_plan = msgspec.json.Decoder(Plan).decode


class TurnStream(Protocol):
    """What still lies in our own turn stream."""

    async def erase_turns(self, holds: Callable[[bytes], bool]) -> int:
        """Overwrite turns of this tenant whose bytes `holds` something; gives how many."""
        ...


class Stroke:
    """The forgettings of one tenant under way."""

    def __init__(
        self,
        gate: Gate,
        vault: KeyedVault,
        recall: RecallService,
        contexts: ContextService,
        files: FileRoom | None,
        relay: Relay,
        turn_stream: TurnStream,
        failpoint: Callable[[str], None] = lambda name: None,
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        """`answer_s` is how long `begin` waits for the end, in seconds."""
        self._gate = gate
        self._vault = vault
        self._store = gate.store
        self._recall = recall
        self._contexts = contexts
        self._files = files
        self._relay = relay
        self._turn_stream = turn_stream
        self._failpoint = failpoint
        self._answer_s = answer_s
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._at_work: set[asyncio.Task[ForgettingRow]] = set()
        self._unanswered: set[str] = set()

    async def begin(self, caller: Caller, plan: Plan) -> Receipt:
        """Record a forgetting and carry it out; gives its receipt, done, or pending after `answer_s` at most."""
        row_id = new_id("fgt")

        def start(tx: Transaction) -> ForgettingRow:
            receipt = Receipt(id=row_id, at=to_datetime(tx.now), state="pending")
            row = ForgettingRow(row_id, tx.now, "pending", (), msgspec.json.encode(plan), receipt)
            forgetting.put(tx, row)
            if plan.suggestion is not None:
                act = self._gate.act(tx, caller, Origin.of(caller, plan.suggestion, "suggestion"))
                known = suggestion_rows.find(tx, plan.suggestion)
                if known is None or known.suggestion.state != "open":
                    raise FunctionError("conflict", "the suggestion was decided meanwhile", field="ids")
                proposals.settle(act, known, "approved")
            return row

        row = await self._store.write(start)
        self._failpoint("forgetting.begun")
        # A task of its own: an asker that goes away, or is kept waiting, must not stop it half way.
        task = asyncio.create_task(self._advance(row, caller), name=f"forgetting {row_id}")
        self._at_work.add(task)
        task.add_done_callback(self._worked)
        done, _ = await asyncio.wait({task}, timeout=self._answer_s)
        if done:
            return task.result().receipt
        self._unanswered.add(row_id)
        receipt = (await forgetting.read(self._store.readers, row_id)).receipt
        return msgspec.structs.replace(receipt, unreachable=(*receipt.unreachable, STILL_AT_WORK))

    def _worked(self, task: asyncio.Task[ForgettingRow]) -> None:
        self._at_work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._wake.set()

    async def run(self) -> None:
        """Finish what a crash or an unreachable place left; runs until it is cancelled."""
        try:
            await self._run()
        finally:
            for task in self._at_work:
                task.cancel()

    async def _run(self) -> None:
        while True:
            for row in await forgetting.pending(self._store.readers):
                try:
                    await self._advance(row, Caller(self._store.tenant, "human", "forgetting"), tell=True)
                except Exception as error:  # one that cannot go on must not stop the others
                    log.error("forgetting.failed", id=row.id, error=type(error).__name__)
            pending = await forgetting.pending(self._store.readers)
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), RETRY_S if pending else None)
            except TimeoutError:
                continue

    async def _tell(self, row: ForgettingRow) -> None:
        """Tell that a forgetting whose asker had no final answer is finished."""
        counts = ", ".join(f"{count} {place}" for place, count in row.receipt.counts.items()) or "nothing was left"
        left = "".join(f"; {one}" for one in row.receipt.unreachable)
        text = f"The forgetting of {row.receipt.at:%Y-%m-%d %H:%M} UTC ({row.id}) is finished: {counts}{left}."
        caller = Caller(self._store.tenant, "system", "forgetting")

        def work(tx: Transaction) -> None:
            bank = banks.find(tx, DEFAULT_BANK)
            assert bank is not None
            act = self._gate.act(tx, caller, Origin.of(caller, row.id, "forget"))
            noticing.create(act, bank, FINISHED, text, row.id)

        await self._store.write(work)

    async def pending(self) -> list[Receipt]:
        """The receipts of forgettings that wait for a place, or take longer than any should, the oldest first."""
        late = self._store.clock.now() - STUCK_S
        rows = await forgetting.pending(self._store.readers)
        return [row.receipt for row in rows if row.receipt.unreachable or row.at < late]

    async def _advance(self, row: ForgettingRow, caller: Caller, *, tell: bool = False) -> ForgettingRow:
        """Take the steps that are left, each recorded when done; a place out of reach is named and comes later."""
        async with self._lock:
            row = await forgetting.read(self._store.readers, row.id)  # another may have brought it on meanwhile
            if row.state == "done":
                return row
            unreachable: list[str] = []
            for name, step in self._steps():
                if name in row.steps:
                    continue
                if name == "plan" and unreachable:
                    # The names are still needed; they go when every place was reached. The values go now.
                    row = await self._scrub_early(row, unreachable)
                    break
                self._failpoint(f"forgetting.{name}")
                # Each step reads the plan as the step before left it: the first one adds what it destroyed.
                plan = _decode_plan(row.plan) if row.plan else NOTHING_LEFT
                try:
                    row = await step(row, plan, caller)
                except (BusError, ScrubFailed, OSError) as error:
                    if name not in BUS_PLACES and not isinstance(error, ScrubFailed):
                        raise
                    unreachable.append(f"{name}: {error}")
                    continue
            left = [name for name, _ in self._steps() if name not in row.steps]
            state = "pending" if left else "done"
            for_good = [left for left in row.receipt.unreachable if left.startswith(FOR_GOOD)]
            receipt = msgspec.structs.replace(row.receipt, state=state, unreachable=(*for_good, *unreachable))
            row = msgspec.structs.replace(row, state=state, receipt=receipt)
            self._failpoint("forgetting.finishing")
            await self._store.write(lambda tx: forgetting.put(tx, row))
            if state == "pending":
                self._wake.set()
            elif tell or row.id in self._unanswered:
                self._unanswered.discard(row.id)
                await self._tell(row)
            return row

    def _steps(
        self,
    ) -> tuple[tuple[str, Callable[[ForgettingRow, Plan, Caller], Awaitable[ForgettingRow]]], ...]:
        return (
            ("records", self._destroy_records),
            ("index", self._rebuild_index),
            ("files", self._erase_files),
            ("backups", self._remove_backups),
            ("turn stream", self._erase_turns),
            ("event streams", self._erase_events),
            ("plan", self._empty_plan),
            ("database", self._scrub),
        )

    async def _destroy_records(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        def work(tx: Transaction) -> ForgettingRow:
            act = self._gate.act(tx, caller, Origin.of(caller, row.id, "forget"))
            destroyed: Destroyed = destroy(act, plan, self._vault)
            fresh = msgspec.structs.replace(plan, memory_ids=tuple(destroyed.ids), texts=tuple(destroyed.texts))
            done = _with(row, "records", destroyed.counts)
            receipt = msgspec.structs.replace(done.receipt, unreachable=self._out_of_reach(destroyed))
            done = msgspec.structs.replace(done, plan=msgspec.json.encode(fresh), receipt=receipt)
            forgetting.put(tx, done)
            self._failpoint("forgetting.records.written")
            return done

        done = await self._store.write(work)
        # Copies in memory: journal rows, context, and replies that would be repeated.
        self._store.drop_tail()
        self._contexts.drop_caches()
        self._failpoint("forgetting.records.done")
        return done

    def _out_of_reach(self, destroyed: Destroyed) -> tuple[str, ...]:
        """What this forgetting will never reach."""
        left = []
        if self._vault.trouble:
            left.append(f"{FOR_GOOD}what was destroyed is not recognised when it is said again: {self._vault.trouble}")
        if destroyed.named:
            left.append(f"{FOR_GOOD}{destroyed.named} banks, rules or properties are named so: make them anew")
        return tuple(left)

    async def _rebuild_index(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        await self._recall.drop(plan.texts)
        if plan.names:
            # The names tell where else to look; the texts of a person need not stay until every place is reached.
            row = msgspec.structs.replace(row, plan=msgspec.json.encode(msgspec.structs.replace(plan, texts=())))
        return await self._done(row, "index")

    async def _erase_files(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        if self._files is None:
            return await self._done(row, "files")
        # A bank in the trash may share its name with a live one, whose files are not its own.
        wiped = None if plan.bank is None else await self._gate.directory.named(plan.bank)
        bank = plan.bank if wiped is not None and wiped.n == plan.bank_n else None
        announced = set(plan.paths)

        async def announce(paths: Sequence[str]) -> None:
            """Keep the paths in the plan: once the files are gone nothing else tells what was told about them."""
            nonlocal row
            announced.update(paths)
            kept = msgspec.structs.replace(plan, paths=tuple(sorted(announced)))
            row = msgspec.structs.replace(row, plan=msgspec.json.encode(kept))
            await self._store.write(lambda tx: forgetting.put(tx, row))

        erased = await self._files.erase(plan.memory_ids, plan.names, bank, announce, plan.paths)
        self._failpoint("forgetting.files.removed")
        paths = sorted(announced)
        counts = {"files": erased.files, "archives": erased.archives}
        if paths:
            origin = Origin.of(caller, row.id, "forget")
            await self._store.write(lambda tx: destroy_paths(self._gate.act(tx, caller, origin), paths))
            self._store.drop_tail()
            self._contexts.drop_caches()
        return await self._done(row, "files", counts)

    async def _remove_backups(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        removed = await asyncio.to_thread(remove_backups, self._store)
        return await self._done(row, "backups", {"backups": removed})

    async def _erase_turns(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        count = await self._turn_stream.erase_turns(in_turns(Names(plan.names), Texts(plan.texts)))
        return await self._done(row, "turn stream", {"turns in the stream": count})

    async def _erase_events(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        await self._relay.caught_up()
        self._failpoint("forgetting.event streams.caught up")
        count = 0
        for memory_id in plan.memory_ids:
            count += await self._relay.erase_memory(memory_id)
        return await self._done(row, "event streams", {"events": count})

    async def _empty_plan(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        return await self._done(msgspec.structs.replace(row, plan=None), "plan")

    async def _scrub(self, row: ForgettingRow, plan: Plan, caller: Caller) -> ForgettingRow:
        await scrub(self._store, lambda: self._failpoint("forgetting.database.rewritten"))
        return await self._done(row, "database")

    async def _scrub_early(self, row: ForgettingRow, unreachable: list[str]) -> ForgettingRow:
        """Clean the database once while another place is out of reach: that may last for days."""
        if EARLY in row.steps:
            return row
        try:
            await scrub(self._store)
        except ScrubFailed as error:
            unreachable.append(f"database: {error}")
            return row
        return await self._done(row, EARLY)

    async def _done(self, row: ForgettingRow, step: str, counts: dict[str, int] | None = None) -> ForgettingRow:
        done = _with(row, step, counts or {})
        await self._store.write(lambda tx: forgetting.put(tx, done))
        self._failpoint(f"forgetting.{step}.done")
        return done


def _with(row: ForgettingRow, step: str, counts: dict[str, int]) -> ForgettingRow:
    """The row with one more step done and its counts in the receipt."""
    known = dict(row.receipt.counts)
    for name, count in counts.items():
        if count:
            known[name] = known.get(name, 0) + count
    receipt = msgspec.structs.replace(row.receipt, counts=known)
    return msgspec.structs.replace(row, steps=(*row.steps, step), receipt=receipt)
