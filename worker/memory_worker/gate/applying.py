"""Carries out a change that was kept as data: a suggestion that a person approved."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from memory_contracts.errors import FunctionError, invalid
from memory_contracts.functions import banks as bank_functions
from memory_contracts.functions import memories as memory_functions
from memory_contracts.functions import review as review_functions
from memory_contracts.functions.base import Request
from memory_contracts.names import LEARNED_RULE, Name, Text
from memory_contracts.records import Memory, Source
from memory_worker.gate import banking, changing, identities, ruling, saving
from memory_worker.gate.access import open_bank
from memory_worker.gate.act import Act
from memory_worker.gate.saving import Vault
from memory_worker.store import banks

T = TypeVar("T", bound=msgspec.Struct)

LEARNED_ADD = "learned.add"
"""Function of a suggestion that adds one line to `learned`."""


class LearnedAdd(Request):
    """Add one line to a bank's `learned` rule."""

    text: Text
    bank: Name | None = None


REQUESTS: dict[str, type[Request]] = {
    "save": memory_functions.SaveRequest,
    "update": memory_functions.UpdateRequest,
    "delete": memory_functions.DeleteRequest,
    "pin": memory_functions.PinRequest,
    "supersede": memory_functions.SupersedeRequest,
    "rule.set": bank_functions.RuleSetRequest,
    "bank.create": bank_functions.BankCreateRequest,
    "bank.update": bank_functions.BankUpdateRequest,
    "bank.delete": bank_functions.BankDeleteRequest,
    "bank.restore": bank_functions.BankRestoreRequest,
    "entity.alias": review_functions.EntityAliasRequest,
    "entity.merge": review_functions.EntityMergeRequest,
    "property.propose": review_functions.PropertyProposeRequest,
    LEARNED_ADD: LearnedAdd,
}
"""What can wait for a person, and the request that it is. Reading, deciding, undoing and erasing cannot be proposed."""

AIMS = frozenset({"id", "by", "ids", "rules", "entity", "into", "name", "expected_revision", "expected_by_revision"})
"""Arguments that say what a change is about; an edit cannot aim it at something else."""


def read(args: dict[str, Any], kind: type[T], path: str) -> T:
    """Read arguments as the request they are to be. Raises `invalid_input` naming the field's path under `path`."""
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        raise invalid(message, f"{path}{at.rstrip('`')}", "the arguments are those of the function itself") from None


def apply(act: Act, function: str, args: dict[str, Any], source: Source | None, vault: Vault) -> Memory | None:
    """Carry out an approved change in the name of its author; gives the memory it made or changed."""
    return _APPLY[function](act, read(args, REQUESTS[function], "args"), source, vault)


def _save(act: Act, request: Any, source: Source | None, vault: Vault) -> Memory | None:
    return saving.save(act, request, vault, source).memory


def _supersede(act: Act, request: Any, source: Source | None, vault: Vault) -> Memory | None:
    return changing.supersede(act, request).memory


def _learned(act: Act, request: Any, source: Source | None, vault: Vault) -> Memory | None:
    bank = open_bank(act, request.bank, write=True)
    by_writer = Source(route=act.writer.route, principal=act.writer.principal)
    outcome = ruling.add_learned(act, bank, request.text, source or by_writer, again=True)
    if outcome == "full":
        raise FunctionError("conflict", f"the rule {LEARNED_RULE} is full", hint="shorten it with rule.set first")
    return None


def _alias(act: Act, request: Any, source: Source | None, vault: Vault) -> Memory | None:
    identities.alias(act, request, vault)
    return None


def _memory(decide: Callable[[Act, Any], memory_functions.MemoryReply]) -> "_Apply":
    return lambda act, request, source, vault: decide(act, request).memory


def _other(decide: Callable[[Act, Any], object]) -> "_Apply":
    def apply_other(act: Act, request: Any, source: Source | None, vault: Vault) -> None:
        decide(act, request)

    return apply_other


def _trash(act: Act, request: Any) -> object:
    reply = banking.delete(act, request)
    banking.ensure_main(act)
    return reply


_Apply = Callable[[Act, Any, Source | None, Vault], Memory | None]

_APPLY: dict[str, _Apply] = {
    "save": _save,
    "update": lambda act, request, source, vault: saving.update(act, request, vault).memory,
    "delete": _memory(changing.delete),
    "pin": _memory(changing.pin),
    "supersede": _supersede,
    "rule.set": _other(ruling.set_rule),
    "bank.create": _other(banking.create),
    "bank.update": _other(banking.update),
    "bank.delete": _other(_trash),
    "bank.restore": _other(banking.restore),
    "entity.alias": _alias,
    "entity.merge": _other(identities.merge),
    "property.propose": _other(identities.propose_property),
    LEARNED_ADD: _learned,
}


def bank_name(act: Act, function: str, args: dict[str, Any]) -> str | None:
    """The bank that a change's arguments name, if any."""
    named = args.get("name") if function.startswith("bank.") else args.get("bank")
    return named if isinstance(named, str) and banks.find(act.tx, named) is not None else None
