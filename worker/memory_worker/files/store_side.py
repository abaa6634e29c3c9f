"""The file mirror's ports, met by the store and the gate of one tenant."""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from memory_contracts.functions.banks import BankReply, BankUpdateRequest, RuleReply, RuleSetRequest
from memory_contracts.functions.memories import (
    DeleteRequest,
    MemoryReply,
    PinRequest,
    SaveReply,
    SaveRequest,
    UpdateRequest,
)
from memory_contracts.names import Route
from memory_contracts.records import Bank, Memory, ProposedChange, Rule
from memory_worker.gate import Act, Gate, banking, changing, filing, importing, ruling, saving
from memory_worker.store import Caller, Origin, TenantStore, Transaction, banks, ledger, memories, rules
from memory_worker.store.caller import FILE
from memory_worker.store.journal import JournalRow
from memory_worker.store.ledger import FileEntry, FileKind, FileProblem, LedgerChange

T = TypeVar("T")

READER = "files"
"""Name of the mirror's cursor in the journal."""


class StoreFeed:
    """The journal of a tenant's store."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store

    def head(self) -> int:
        return self._store.head

    def cursor(self) -> int:
        return self._store.cursor(READER)

    def move(self, seq: int) -> None:
        self._store.move_cursor(READER, seq)

    async def rows(self, after_seq: int, limit: int) -> Sequence[JournalRow]:
        return await self._store.journal_after(after_seq, limit)

    def subscribe(self, callback: Callable[[int], None]) -> Callable[[], None]:
        return self._store.subscribe(callback)


class StoreSnapshot:
    """The records of a tenant's store."""

    def __init__(self, store: TenantStore) -> None:
        self._readers = store.readers

    async def banks(self) -> Sequence[Bank]:
        return [row.bank for row in await banks.read_all(self._readers) if row.bank.trash_id is None]

    async def memories(self, bank: str, after_id: str, limit: int) -> tuple[Sequence[Memory], str | None]:
        row = await banks.read(self._readers, bank)
        page = [] if row is None else await memories.scan_bank(self._readers, row.n, after_id, limit)
        live = [memory for memory in page if memory.state == "live"]
        return live, page[-1].id if len(page) == limit else None

    async def of_ids(self, ids: Sequence[str]) -> dict[str, Memory]:
        return {memory.id: memory for memory in await memories.read_many(self._readers, ids)}

    async def rules(self, bank: str) -> Sequence[Rule]:
        row = await banks.read(self._readers, bank)
        return [] if row is None else await rules.read_all(self._readers, row.n)

    async def history(self, target: str) -> Sequence[JournalRow]:
        return await ledger.history(self._readers, target)


class StoreLedger:
    """The mirror's record in a tenant's store."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store
        self._readers = store.readers

    async def of_targets(self, folder: str, kind: FileKind, targets: Sequence[str]) -> dict[str, FileEntry]:
        return await ledger.of_targets(self._readers, folder, kind, targets)

    async def anywhere(self, ids: Sequence[str]) -> Sequence[FileEntry]:
        return await ledger.anywhere(self._readers, ids)

    async def of_paths(self, paths: Sequence[str]) -> dict[str, FileEntry]:
        return await ledger.of_paths(self._readers, paths)

    async def of_folder(self, folder: str) -> Sequence[FileEntry]:
        return await ledger.of_folder(self._readers, folder)

    async def of_held(self, suggestion: str) -> Sequence[FileEntry]:
        return await ledger.of_held(self._readers, suggestion)

    async def any_held(self) -> bool:
        return await ledger.any_held(self._readers)

    async def behind(self) -> Sequence[FileEntry]:
        return await ledger.behind(self._readers)

    async def folders(self) -> Sequence[tuple[str, int]]:
        return await ledger.folders(self._readers)

    async def problems(self) -> Sequence[FileProblem]:
        return await ledger.problems(self._readers)

    async def record(self, change: LedgerChange) -> None:
        await self._store.write(lambda tx: ledger.record(tx, change))

    async def forget(self, ids: Sequence[str]) -> int:
        return await self._store.write(lambda tx: ledger.forget(tx, ids))


class GateCommands:
    """Writes through the gate as the principal `file`; the journal says that a file was the cause."""

    def __init__(self, gate: Gate, route: Route) -> None:
        self._gate = gate
        self._caller = Caller(gate.store.tenant, route, FILE)

    async def _decide(self, cause: str, decide: Callable[[Act], T], caller: Caller | None = None) -> T:
        who = caller or self._caller
        origin = Origin.of(who, cause, "file")
        return await self._gate.store.write(lambda tx: decide(self._gate.act(tx, who, origin)))

    async def save(self, request: SaveRequest, cause: str) -> SaveReply:
        return await self._decide(cause, lambda act: saving.save(act, request, self._gate.vault))

    async def update(self, request: UpdateRequest, cause: str) -> MemoryReply:
        return await self._decide(cause, lambda act: saving.update(act, request, self._gate.vault))

    async def pin(self, request: PinRequest, cause: str) -> MemoryReply:
        return await self._decide(cause, lambda act: changing.pin(act, request))

    async def delete(self, request: DeleteRequest, cause: str) -> MemoryReply:
        return await self._decide(cause, lambda act: changing.delete(act, request))

    async def rule_set(self, request: RuleSetRequest, cause: str) -> RuleReply:
        return await self._decide(cause, lambda act: ruling.set_rule(act, request))

    async def bank_update(self, request: BankUpdateRequest, cause: str) -> BankReply:
        return await self._decide(cause, lambda act: banking.update(act, request))

    async def suggest(self, bank: str, change: ProposedChange, reason: str, cause: str) -> str:
        held = await self._decide(cause, lambda act: filing.hold_edit(act, bank, change.function, change.args, reason))
        return held.id

    async def suggest_removal(
        self, bank: str, ids: Sequence[str], rules: Sequence[str], reason: str, cause: str
    ) -> str:
        asked = await self._decide(cause, lambda act: filing.ask_removal(act, bank, ids, rules, reason))
        return asked.id

    async def end_removal(self, suggestion_id: str) -> None:
        await self._decide(READER, lambda act: filing.end_removal(act, suggestion_id), self._worker())

    async def notify(self, bank: str, kind: str, text: str, target: str | None) -> str:
        notice = await self._decide(READER, lambda act: filing.notify(act, bank, kind, text, target), self._worker())
        return notice.id

    async def withdraw(self, notice_id: str) -> None:
        await self._decide(READER, lambda act: filing.withdraw(act, notice_id), self._worker())

    def _worker(self) -> Caller:
        """The worker itself, who tells of files; a person did not."""
        return Caller(self._caller.tenant, "system", FILE)


class _NothingKept(Exception):
    """Takes a rehearsed change back: its savepoint is rolled back and its answer carried out."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer


class GateIntake:
    """Takes an import in through the gate, as the person who asked for it; rehearsed, nothing of it stays."""

    def __init__(self, gate: Gate, caller: Caller, cause: str, *, trust: bool, dry_run: bool) -> None:
        self._gate = gate
        self._caller = caller
        self._origin = Origin.of(caller, cause)
        self._trust = trust
        self._dry_run = dry_run
        self._made: dict[str, Bank] = {}

    async def _decide(self, decide: Callable[[Act], T]) -> T:
        def work(tx: Transaction) -> T:
            act = self._gate.act(tx, self._caller, self._origin)
            if not self._dry_run:
                return decide(act)
            for bank in self._made.values():
                importing.import_bank(act, bank)
            raise _NothingKept(decide(act))

        try:
            return await self._gate.store.write(work)
        except _NothingKept as kept:
            return cast(T, kept.answer)

    async def bank(self, bank: Bank) -> importing.Imported:
        outcome = await self._decide(lambda act: importing.import_bank(act, bank))
        self._made[bank.name] = bank
        return importing.Imported(outcome)

    async def memories(self, bank: str, records: Sequence[Memory]) -> Sequence[importing.Imported]:
        return await self._decide(
            lambda act: importing.import_memories(act, bank, records, self._trust, self._gate.vault)
        )

    async def rule(self, bank: str, rule: Rule) -> importing.Imported:
        return await self._decide(lambda act: importing.import_rule(act, bank, rule, self._trust))
