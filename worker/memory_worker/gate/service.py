"""The gate of one tenant: every write function as one decision inside one transaction."""

from collections.abc import Callable
from typing import TypeVar

from memory_contracts.functions import banks as bank_functions
from memory_contracts.functions import memories as memory_functions
from memory_contracts.functions.base import Reply, Request
from memory_contracts.records import Bank, CauseKind
from memory_worker.gate import banking, changing, ruling, saving
from memory_worker.gate.access import check_route, open_bank
from memory_worker.gate.act import Act, GateSettings
from memory_worker.gate.directory import BankDirectory
from memory_worker.gate.reading import Reading, Render
from memory_worker.gate.saving import Vault
from memory_worker.gate.turns import TurnCommit, TurnResult, commit_turn
from memory_worker.store import Caller, Origin, TenantStore, Transaction, idempotency, new_id
from memory_worker.store.caller import EXTRACTION, FILE

R = TypeVar("R", bound=Reply)


class Gate:
    """Decides and commits changes for callers of one tenant."""

    def __init__(self, store: TenantStore, settings: GateSettings, vault: Vault, render: Render) -> None:
        self.store = store
        self.settings = settings
        self.vault = vault
        self.directory = BankDirectory(store)
        self.reading = Reading(store, self.directory, vault, render)

    async def open(self) -> None:
        """Make what exists from the first use."""
        caller = Caller(self.store.tenant, "system", "worker")
        await self.store.write(lambda tx: banking.ensure_main(self.act(tx, caller, Origin.of(caller, "start"))))

    def act(self, tx: Transaction, caller: Caller, origin: Origin, *, automatic: bool = False) -> Act:
        """What a decision works with."""
        return Act(tx=tx, caller=caller, origin=origin, settings=self.settings, automatic=automatic)

    async def write(
        self,
        caller: Caller,
        function: str,
        request: Request,
        reply_type: type[R],
        key: str | None,
        decide: Callable[[Act], R],
        cause_id: str | None = None,
        cause_kind: CauseKind | None = None,
    ) -> R:
        """Decide and commit one request; the same idempotency key gives the same reply and one effect."""
        check_route(caller, function)
        kind = cause_kind or ("file" if caller.principal == FILE else "request")
        origin = Origin.of(caller, cause_id or key or new_id("req"), kind)

        def work(tx: Transaction) -> R:
            act = self.act(tx, caller, origin)
            return idempotency.once(
                tx,
                caller,
                key,
                self.settings.idempotency_hours,
                function,
                request,
                reply_type,
                lambda: decide(act),
            )

        return await self.store.write(work)

    # Memories

    async def save(
        self, caller: Caller, request: memory_functions.SaveRequest, key: str | None = None
    ) -> memory_functions.SaveReply:
        """Keep one statement."""
        return await self.write(
            caller,
            "save",
            request,
            memory_functions.SaveReply,
            key,
            lambda act: saving.save(act, request, self.vault),
        )

    async def update(
        self, caller: Caller, request: memory_functions.UpdateRequest, key: str | None = None
    ) -> memory_functions.MemoryReply:
        """Correct a memory."""
        return await self.write(
            caller,
            "update",
            request,
            memory_functions.MemoryReply,
            key,
            lambda act: saving.update(act, request, self.vault),
        )

    async def delete(
        self, caller: Caller, request: memory_functions.DeleteRequest, key: str | None = None
    ) -> memory_functions.MemoryReply:
        """Delete a memory, leaving a tombstone."""
        return await self.write(
            caller, "delete", request, memory_functions.MemoryReply, key, lambda act: changing.delete(act, request)
        )

    async def pin(
        self, caller: Caller, request: memory_functions.PinRequest, key: str | None = None
    ) -> memory_functions.MemoryReply:
        """Pin or un-pin a memory."""
        return await self.write(
            caller, "pin", request, memory_functions.MemoryReply, key, lambda act: changing.pin(act, request)
        )

    async def supersede(
        self, caller: Caller, request: memory_functions.SupersedeRequest, key: str | None = None
    ) -> memory_functions.SupersedeReply:
        """Retire a memory in favour of another; the run it belongs to is its cause."""
        return await self.write(
            caller,
            "supersede",
            request,
            memory_functions.SupersedeReply,
            key,
            lambda act: changing.supersede(act, request),
            cause_id=request.run_id,
        )

    # Banks and rules

    async def bank_create(
        self, caller: Caller, request: bank_functions.BankCreateRequest, key: str | None = None
    ) -> bank_functions.BankReply:
        """Make a bank."""
        return await self.write(
            caller, "bank.create", request, bank_functions.BankReply, key, lambda act: banking.create(act, request)
        )

    async def bank_update(
        self, caller: Caller, request: bank_functions.BankUpdateRequest, key: str | None = None
    ) -> bank_functions.BankReply:
        """Change a bank's settings."""
        return await self.write(
            caller, "bank.update", request, bank_functions.BankReply, key, lambda act: banking.update(act, request)
        )

    async def bank_delete(
        self, caller: Caller, request: bank_functions.BankDeleteRequest, key: str | None = None
    ) -> bank_functions.BankReply:
        """Move a bank to the trash."""

        def decide(act: Act) -> bank_functions.BankReply:
            reply = banking.delete(act, request)
            banking.ensure_main(act)
            return reply

        return await self.write(caller, "bank.delete", request, bank_functions.BankReply, key, decide)

    async def bank_restore(
        self, caller: Caller, request: bank_functions.BankRestoreRequest, key: str | None = None
    ) -> bank_functions.BankReply:
        """Bring a bank back from the trash."""
        return await self.write(
            caller, "bank.restore", request, bank_functions.BankReply, key, lambda act: banking.restore(act, request)
        )

    async def rule_set(
        self, caller: Caller, request: bank_functions.RuleSetRequest, key: str | None = None
    ) -> bank_functions.RuleReply:
        """Write a rule."""
        return await self.write(
            caller, "rule.set", request, bank_functions.RuleReply, key, lambda act: ruling.set_rule(act, request)
        )

    # Turns and sessions

    async def commit_turn(self, commit: TurnCommit) -> TurnResult:
        """Commit what reading a turn came to, once."""
        caller = Caller(self.store.tenant, "system", EXTRACTION)
        origin = Origin.of(caller, commit.turn_id, "turn", commit.session_id)
        return await self.store.write(
            lambda tx: commit_turn(self.act(tx, caller, origin, automatic=True), commit, self.vault)
        )

    async def make_bank(self, name: str, owner: str | None, session_id: str | None) -> Bank:
        """Make a bank that a session names, private when it has an `owner`; one that is there is given as it is."""
        caller = Caller(self.store.tenant, "system", "session")
        origin = Origin.of(caller, session_id or "session", session=session_id)
        return await self.store.write(lambda tx: banking.ensure(self.act(tx, caller, origin), name, owner)[0].bank)

    async def open_agent_bank(self, caller: Caller, name: str | None) -> None:
        """Make an agent's own private bank when its first use is a read."""
        if name is None or name != f"agent-{caller.principal}" or caller.route != "agent":
            return
        if await self.directory.named(name) is None:
            origin = Origin.of(caller, new_id("req"))
            await self.store.write(lambda tx: open_bank(self.act(tx, caller, origin), name, write=False))
