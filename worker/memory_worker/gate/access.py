"""Who sees and writes which bank; a bank that is not visible does not exist for the caller."""

from memory_contracts.errors import forbidden, not_found
from memory_contracts.functions import FUNCTIONS
from memory_contracts.names import AGENT_BANK_PREFIX, DEFAULT_BANK
from memory_contracts.records import Bank
from memory_worker.gate.act import Act
from memory_worker.store import Caller, banks
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import MemoryRow, encode


def may_read(caller: Caller, bank: Bank) -> bool:
    """Tell whether a bank is visible: it is shared, the caller owns it, or the caller manages it."""
    return bank.owner is None or caller.name == bank.owner or caller.name in bank.managers


def may_write(caller: Caller, bank: Bank) -> bool:
    """Tell whether the caller may change what a bank holds: it is shared or the caller's own."""
    return bank.owner is None or caller.name == bank.owner


def check_route(caller: Caller, function: str) -> None:
    """Raise `forbidden` unless the contract's table gives the function to the caller's route."""
    if caller.route not in FUNCTIONS[function].routes:
        raise forbidden(f"{function} is not for the route {caller.route}", hint="suggest proposes a change to a person")


def no_bank(name: str) -> Exception:
    """The one error for a bank that does not exist and for one that is not the caller's to see."""
    return not_found(
        f"no bank {name}", "bank", "bank.list names the banks you can use; a person makes one with bank.create"
    )


def no_memory(memory_id: str) -> Exception:
    """The one error for a memory that does not exist and for one that is not the caller's to see."""
    return not_found(f"no memory {memory_id}", "id", "list or recall give the ids you can use")


def open_bank(act: Act, name: str | None, *, write: bool) -> BankRow:
    """Give the bank a request names, `main` when it names none.

    An agent's private bank is made at its first use. Raises `not_found` for a bank that is not there or not visible,
    and `forbidden` when it may be read but not written.
    """
    wanted = name or DEFAULT_BANK
    row = banks.find(act.tx, wanted)
    if row is None and wanted == own_bank(act.caller):
        row = make_agent_bank(act, act.caller.principal)
    if row is None or not (act.automatic or may_read(act.caller, row.bank)):
        raise no_bank(wanted)
    if write and not (act.automatic or act.approved or may_write(act.caller, row.bank)):
        raise forbidden(f"bank {wanted} can be read by you, not written", "bank")
    return row


def own_bank(caller: Caller) -> str | None:
    """Name of the caller's private bank, for agents."""
    return f"{AGENT_BANK_PREFIX}{caller.principal}" if caller.route == "agent" else None


def make_agent_bank(act: Act, principal: str) -> BankRow:
    """Make the private bank of an agent."""
    bank = Bank(
        name=f"{AGENT_BANK_PREFIX}{principal}",
        created_at=act.now,
        updated_at=act.now,
        description=f"private notes of the agent {principal}",
        owner=f"agent.{principal}",
        managers=act.settings.agent_bank_managers,
    )
    return insert_bank(act, bank)


def insert_bank(act: Act, bank: Bank) -> BankRow:
    """Add a bank and its journal row."""
    row = banks.insert(act.tx, bank)
    act.tx.append("bank.created", bank.name, act.origin, bank=bank.name, owner=bank.owner, after=encode(bank))
    return row


def bank_of(act: Act, row: MemoryRow, *, write: bool) -> Bank:
    """Give the bank of a memory. Raises `not_found` when it is not visible, `forbidden` when not writable."""
    bank = banks.by_number(act.tx, row.bank).bank
    if not may_read(act.caller, bank):
        raise no_memory(row.memory.id)
    if write and not (act.approved or may_write(act.caller, bank)):
        raise forbidden(f"bank {bank.name} can be read by you, not written", "id")
    return bank
