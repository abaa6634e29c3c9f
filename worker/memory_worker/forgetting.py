"""Carries out forgettings: one stroke over store, index, files, bus and memory, which resumes after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from memory_contracts.errors import FunctionError, invalid, not_found
from memory_contracts.functions.operations import (
    BankWipeRequest,
    EraseRequest,
    PersonForgetReply,
    PersonForgetRequest,
    ReceiptReply,
    ValueRevealReply,
    ValueRevealRequest,
)
from memory_contracts.names import DEFAULT_BANK
from memory_contracts.records import Receipt, Suggestion
from memory_worker.bus import BusError, Relay
from memory_worker.clock import to_datetime
from memory_worker.context import ContextService
from memory_worker.files import FileRoom
from memory_worker.gate import (
    Act,
    Destroyed,
    Gate,
    KeyedVault,
    Names,
    Plan,
    Texts,
    destroy,
    destroy_paths,
    in_turns,
    may_read,
    noticing,
    proposals,
    texts_about,
)
from memory_worker.gate.access import no_bank, no_memory
from memory_worker.recall import RecallService
from memory_worker.store import Caller, Origin, Transaction, banks, entities, forgetting, memories, new_id
from memory_worker.store import suggestions as suggestion_rows
from memory_worker.store.banks import BankRow
from memory_worker.store.caller import EXPIRY
from memory_worker.store.fingerprint import normalise
from memory_worker.store.forgetting import ForgettingRow
from memory_worker.store.scrubbing import ScrubFailed, remove_backups, scrub

log = structlog.get_logger(__name__)

MENTIONS_SHOWN = 200
"""Most texts one reply shows for selection; the count is of all."""
RETRY_S = 5.0
"""Pause before a step is tried again whose place was out of reach, in seconds."""
STUCK_S = 300.0
"""Age from which a forgetting that nothing keeps waiting is told of as not finished, in seconds."""
BUS_PLACES = ("turn stream", "event streams")
"""Steps that need the bus."""

EARLY = "database, early"
"""Step that is taken once when the bus is out of reach."""
FINISHED = "forgetting"
"""Kind of the notice that a forgetting is finished which had to wait."""
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


class Forgetting:
    """The forgettings of one tenant."""

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
    ) -> None:
        self._gate = gate
        self._vault = vault
        self._store = gate.store
        self._recall = recall
        self._contexts = contexts
        self._files = files
        self._relay = relay
        self._turn_stream = turn_stream
        self._failpoint = failpoint
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()

    # What people ask

    async def person_forget(
        self, caller: Caller, request: PersonForgetRequest, key: str | None = None
    ) -> PersonForgetReply:
        """Suggest forgetting a person and show every text that mentions them; nothing is destroyed yet."""
        self._check_human(caller)
        return await self._gate.write(
            caller, "person.forget", request, PersonForgetReply, key, lambda act: self._propose(act, request)
        )

    def _propose(self, act: Act, request: PersonForgetRequest) -> PersonForgetReply:
        entity = entities.find(act.tx, request.entity) or entities.named(act.tx, request.entity)
        if entity is None or entity.state != "live":
            raise not_found("nobody of that name is known", "entity", "entity.list gives names and aliases")
        names = (entity.name, *(alias.value for alias in entity.aliases))
        if normalise(request.confirm_name) not in {normalise(name) for name in names}:
            raise invalid("confirm_name is not a name of this entity", "confirm_name", "type the name once more")
        found = texts_about(act, self._vault, entity.id, Names(names), frozenset(request.keep))
        bank = banks.find(act.tx, DEFAULT_BANK)
        assert bank is not None
        args = {
            "entity": entity.id,
            "confirm_name": request.confirm_name,
            "never_again": request.never_again,
            "keep": list(request.keep),
        }
        suggestion, _ = proposals.propose(
            act,
            bank,
            "person.forget",
            args,
            reason="a person asked to forget someone; approval destroys every text shown",
            targets=[entity.id],
            destructive=True,
        )
        return PersonForgetReply(
            outcome="awaiting_review",
            suggestion=suggestion,
            mentions=found[:MENTIONS_SHOWN],
            cut=len(found) > MENTIONS_SHOWN,
        )

    async def carry_out(self, caller: Caller, suggestion: Suggestion) -> Receipt:
        """Approve a destructive suggestion and erase what it names; gives the receipt, pending or done."""
        args = suggestion.change.args
        entity = await entities.read(self._store.readers, str(args["entity"]))
        if entity is None or entity.state != "live":
            raise FunctionError("conflict", "the person is not known any more", field="ids")
        plan = Plan(
            kind="person",
            entity=entity.id,
            names=(entity.name, *(alias.value for alias in entity.aliases)),
            keep=tuple(args.get("keep", ())),
            never_again=bool(args.get("never_again")),
            suggestion=suggestion.id,
        )
        return await self._begin(caller, plan)

    async def erase(self, caller: Caller, request: EraseRequest) -> ReceiptReply:
        """Destroy one memory, every revision and copy of it."""
        self._check_human(caller)
        row = await memories.read(self._store.readers, request.id)
        bank = None if row is None else await self._gate.directory.numbered(row.bank)
        if row is None or bank is None or not may_read(caller, bank.bank):
            raise no_memory(request.id)
        return ReceiptReply(receipt=await self._begin(caller, Plan(kind="memory", memory_ids=(request.id,))))

    async def bank_wipe(self, caller: Caller, request: BankWipeRequest) -> ReceiptReply:
        """Destroy everything that a bank holds; the bank itself stays, empty."""
        self._check_human(caller)
        if request.confirm_name != request.name:
            raise invalid("confirm_name is not the bank's name", "confirm_name", "type the name once more")
        row = await self._gate.directory.named(request.name)
        if row is None or not may_read(caller, row.bank):
            raise no_bank(request.name)
        plan = Plan(kind="bank", bank=request.name, bank_n=row.n)
        return ReceiptReply(receipt=await self._begin(caller, plan))

    async def destroy_trashed(self, row: BankRow) -> Receipt:
        """Destroy everything that a bank in the trash holds, since its time there is over."""
        caller = Caller(self._store.tenant, "system", EXPIRY)
        return await self._begin(caller, Plan(kind="bank", bank=row.bank.name, bank_n=row.n))

    async def reveal(self, caller: Caller, request: ValueRevealRequest) -> ValueRevealReply:
        """Give a protected value, for this call alone."""
        self._check_human(caller)
        origin = Origin.of(caller, new_id("req"))
        return await self._store.write(lambda tx: self._vault.reveal(self._gate.act(tx, caller, origin), request))

    def _check_human(self, caller: Caller) -> None:
        if caller.route != "human":
            raise FunctionError("forbidden", "only a person may do this")

    # The stroke

    async def _begin(self, caller: Caller, plan: Plan) -> Receipt:
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
        return (await self._advance(row, caller)).receipt

    async def run(self) -> None:
        """Finish what a crash or an unreachable place left; runs until it is cancelled."""
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
            elif tell:
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
