"""What people ask of forgetting: propose a person, approve, erase a memory, wipe a bank, reveal a value."""

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
from memory_worker.gate import Act, Gate, KeyedVault, Names, Plan, may_read, proposals, texts_about
from memory_worker.gate.access import no_bank, no_memory
from memory_worker.store import Caller, Origin, banks, entities, memories, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.caller import EXPIRY
from memory_worker.store.fingerprint import normalise
from memory_worker.stroke import Stroke

MENTIONS_SHOWN = 200
"""Most texts one reply shows for selection; the count is of all."""


class Forgetting:
    """The functions of one tenant that destroy or uncover; each is a person's alone."""

    def __init__(self, gate: Gate, vault: KeyedVault, stroke: Stroke) -> None:
        self._gate = gate
        self._vault = vault
        self._store = gate.store
        self._stroke = stroke

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
        return await self._stroke.begin(caller, plan)

    async def erase(self, caller: Caller, request: EraseRequest) -> ReceiptReply:
        """Destroy one memory, every revision and copy of it."""
        self._check_human(caller)
        row = await memories.read(self._store.readers, request.id)
        bank = None if row is None else await self._gate.directory.numbered(row.bank)
        if row is None or bank is None or not may_read(caller, bank.bank):
            raise no_memory(request.id)
        return ReceiptReply(receipt=await self._stroke.begin(caller, Plan(kind="memory", memory_ids=(request.id,))))

    async def bank_wipe(self, caller: Caller, request: BankWipeRequest) -> ReceiptReply:
        """Destroy everything that a bank holds; the bank itself stays, empty."""
        self._check_human(caller)
        if request.confirm_name != request.name:
            raise invalid("confirm_name is not the bank's name", "confirm_name", "type the name once more")
        row = await self._gate.directory.named(request.name)
        if row is None or not may_read(caller, row.bank):
            raise no_bank(request.name)
        plan = Plan(kind="bank", bank=request.name, bank_n=row.n)
        return ReceiptReply(receipt=await self._stroke.begin(caller, plan))

    async def destroy_trashed(self, row: BankRow) -> Receipt:
        """Destroy everything that a bank in the trash holds, since its time there is over."""
        caller = Caller(self._store.tenant, "system", EXPIRY)
        return await self._stroke.begin(caller, Plan(kind="bank", bank=row.bank.name, bank_n=row.n))

    async def reveal(self, caller: Caller, request: ValueRevealRequest) -> ValueRevealReply:
        """Give a protected value, for this call alone."""
        self._check_human(caller)
        origin = Origin.of(caller, new_id("req"))
        return await self._store.write(lambda tx: self._vault.reveal(self._gate.act(tx, caller, origin), request))

    def _check_human(self, caller: Caller) -> None:
        if caller.route != "human":
            raise FunctionError("forbidden", "only a person may do this")
