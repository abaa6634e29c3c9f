"""Makes, changes, trashes and restores banks."""

from typing import Any

import msgspec
from msgspec import UNSET

from memory_contracts.errors import FunctionError, forbidden, invalid
from memory_contracts.functions.banks import (
    BankCreateRequest,
    BankDeleteRequest,
    BankReply,
    BankRestoreRequest,
    BankUpdateRequest,
)
from memory_contracts.names import AGENT_BANK_PREFIX, DEFAULT_BANK
from memory_contracts.records import Bank
from memory_worker.gate.access import insert_bank, make_agent_bank, may_read, no_bank
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_text
from memory_worker.store import banks, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import encode


def create(act: Act, request: BankCreateRequest) -> BankReply:
    """Make a bank. Raises `conflict` when the name is taken, also by a bank the caller cannot see."""
    if banks.find(act.tx, request.name) is not None:
        raise FunctionError("conflict", f"bank {request.name} exists", field="name", hint="choose another name")
    if request.name.startswith(AGENT_BANK_PREFIX):
        principal = request.name.removeprefix(AGENT_BANK_PREFIX)
        if request.owner != f"agent.{principal}":
            raise invalid(
                f"names beginning with {AGENT_BANK_PREFIX} are for agents' private banks",
                "name",
                f"choose another name, or give the owner agent.{principal}",
            )
    _check_layers(act, request.name, request.layers)
    bank = Bank(
        name=request.name,
        created_at=act.now,
        updated_at=act.now,
        description=_description(request.description),
        owner=request.owner,
        managers=tuple(dict.fromkeys(request.managers)),
        layers=tuple(dict.fromkeys(request.layers)),
        review=request.review,
        expiry=request.expiry,
        mirror=request.mirror,
    )
    return BankReply(bank=insert_bank(act, bank).bank)


def update(act: Act, request: BankUpdateRequest) -> BankReply:
    """Change a bank's settings."""
    row = _managed(act, request.name)
    fields: dict[str, Any] = {}
    if request.description is not UNSET:
        fields["description"] = _description(request.description)
    if request.managers is not UNSET:
        fields["managers"] = tuple(dict.fromkeys(request.managers))
    if request.layers is not UNSET:
        _check_layers(act, request.name, request.layers)
        fields["layers"] = tuple(dict.fromkeys(request.layers))
    for name in ("review", "expiry", "mirror"):
        value = getattr(request, name)
        if value is not UNSET:
            fields[name] = value
    if all(getattr(row.bank, name) == value for name, value in fields.items()):
        return BankReply(bank=row.bank)
    return BankReply(bank=_write(act, row, "bank.updated", **fields))


def delete(act: Act, request: BankDeleteRequest) -> BankReply:
    """Move a bank to the trash; its name is free at once. `main` is made again, empty, at its next use."""
    row = _managed(act, request.name)
    return BankReply(bank=_trash(act, row))


def restore(act: Act, request: BankRestoreRequest) -> BankReply:
    """Bring a trashed bank back; an empty bank that has the name makes way, as `main` does that is made anew.

    Raises `conflict` while a bank that holds something has the name.
    """
    row = banks.find_trashed(act.tx, request.name, request.trash_id)
    if row is None or not may_read(act.caller, row.bank):
        raise no_bank(f"{request.name} in the trash")
    present = banks.find(act.tx, request.name)
    if present is not None and not banks.holds(act.tx, present.n) and may_read(act.caller, present.bank):
        _trash(act, present)
    elif present is not None:
        raise FunctionError(
            "conflict",
            f"a bank {request.name} exists",
            field="name",
            hint="delete that one first; both stay in the trash until you choose",
        )
    return BankReply(bank=_write(act, row, "bank.restored", trashed_at=None, trash_id=None))


def ensure_main(act: Act) -> None:
    """Make `main` where it is missing: it exists from the first use."""
    if banks.find(act.tx, DEFAULT_BANK) is None:
        insert_bank(act, Bank(name=DEFAULT_BANK, created_at=act.now, updated_at=act.now))


def ensure(act: Act, name: str, owner: str | None = None) -> tuple[BankRow, bool]:
    """Give the bank of a valid name, making it where it is new; also whether it was made.

    Raises `not_found` for a private bank of another owner, which metadata alone does not open.
    """
    row = banks.find(act.tx, name)
    if row is not None:
        if row.bank.owner != owner:
            raise no_bank(name)
        return row, False
    if name.startswith(AGENT_BANK_PREFIX):
        principal = name.removeprefix(AGENT_BANK_PREFIX)
        if owner != f"agent.{principal}":
            raise no_bank(name)
        return make_agent_bank(act, principal), True
    return insert_bank(act, Bank(name=name, created_at=act.now, updated_at=act.now, owner=owner)), True


def _managed(act: Act, name: str) -> BankRow:
    row = banks.find(act.tx, name)
    if row is None or not may_read(act.caller, row.bank):
        raise no_bank(name)
    return row


def _trash(act: Act, row: BankRow) -> Bank:
    return _write(act, row, "bank.trashed", trashed_at=act.now, trash_id=new_id("trash"))


def _write(act: Act, row: BankRow, type: str, **fields: Any) -> Bank:
    bank = msgspec.structs.replace(row.bank, updated_at=act.now, revision=row.bank.revision + 1, **fields)
    banks.update(act.tx, row.n, bank)
    act.tx.append(
        type, bank.name, act.origin, bank=bank.name, owner=bank.owner, before=encode(row.bank), after=encode(bank)
    )
    return bank


def _check_layers(act: Act, name: str, layers: list[str]) -> None:
    for i, layer in enumerate(layers):
        if layer == name:
            raise invalid("a bank cannot be its own layer", f"layers[{i}]")
        row = banks.find(act.tx, layer)
        if row is None or not may_read(act.caller, row.bank):
            raise invalid(f"no bank {layer}", f"layers[{i}]", "make it first")
        if row.bank.owner is not None:
            raise forbidden("a private bank cannot be a layer", f"layers[{i}]")


def _description(text: str) -> str:
    return clean_text(text, "description", 500) if text.strip() else ""
