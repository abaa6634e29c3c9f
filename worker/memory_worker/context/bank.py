"""Finds the bank of a turn or a request: the one resolver of context, extraction, recall and preview."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from memory_contracts.errors import not_found
from memory_contracts.names import AGENT_BANK_PREFIX, DEFAULT_BANK, is_name
from memory_contracts.records import Bank
from memory_worker.context.sessions import SessionCache, SessionManagerAway

PRIVATE_BANK_PREFIX = "private-"
"""`private-<principal>` is the bank of a private session whose owner is a person and has no private bank yet."""

_OWNER = re.compile(r"(?:(human|agent|observer|system)\.)?([a-z0-9][a-z0-9_-]{0,63})")
_ON = frozenset({"on", "true", "yes", "auto"})


class ResolvedBank(msgspec.Struct, frozen=True, kw_only=True):
    """The bank that is written, and the banks that are read, the nearest first; `bank` leads `scope`."""

    bank: str
    scope: tuple[str, ...]
    private: bool = False
    """Only its owner and managers may know of it: nothing of it may go anywhere else."""
    created: bool = False


class Off(msgspec.Struct, frozen=True):
    """Nothing is given and nothing is learned. `park` = the metadata is wrong and a person should see the turn."""

    reason: str
    park: bool = False


class Wait(msgspec.Struct, frozen=True):
    """The bank cannot be known yet: nothing is given, and a finished turn waits."""

    reason: str = "the session manager does not answer"


class Banks(Protocol):
    """The tenant's banks."""

    async def banks(self) -> Mapping[str, Bank]:
        """Give every bank that is not in the trash, by name, as of the last commit."""
        ...

    async def make(self, name: str, owner: str | None, session_id: str | None) -> Bank:
        """Make a bank and give it; one that has come to be meanwhile is given as it is. `owner` makes it private."""
        ...


class BankResolver:
    """Resolves in one order for every path: the turn's metadata, the session's, `main`."""

    def __init__(self, banks: Banks, sessions: SessionCache | None) -> None:
        """`sessions` is None when no session manager is configured."""
        self._banks = banks
        self._sessions = sessions

    async def resolve(
        self,
        session_id: str | None,
        metadata: Mapping[str, Any] | None,
        agent: str | None = None,
        *,
        within_s: float,
        create: bool = True,
        ask_again: bool = False,
    ) -> ResolvedBank | Off | Wait:
        """Give the bank of a turn.

        `metadata` keys: `memory_bank`; `memory` (`off`, `private`); `memory_owner` (`<route>.<principal>`, a bare name
        is a person's); `agent`. A key of the turn's wins over the session's. `within_s` bounds the wait for the session
        manager. With `create` a valid new name makes the bank, without it the bank is given as if it were empty.
        """
        said = {key: value for key, value in (metadata or {}).items() if value is not None and value != ""}
        if _mode(said) == "off":
            return Off("memory is off for this turn")
        if self._sessions is not None and session_id is not None:
            try:
                known = await self._sessions.metadata(session_id, within_s, ask_again=ask_again)
                said = {**{key: value for key, value in known.items() if value is not None and value != ""}, **said}
            except SessionManagerAway:
                # A turn that names its bank, or its private owner, needs nobody to decide where it belongs.
                if "memory_bank" not in said and not (_mode(said) == "private" and "memory_owner" in said):
                    return Wait()
        agent = agent or (said.get("agent") if is_name(str(said.get("agent", ""))) else None)
        return await self._place(said, agent, session_id, create)

    async def _place(
        self, said: Mapping[str, Any], agent: str | None, session_id: str | None, create: bool
    ) -> ResolvedBank | Off:
        mode = _mode(said)
        if mode == "off":
            return Off("memory is off for this session")
        if mode == "unknown":
            return Off("metadata `memory` is neither `off` nor `private`", park=True)
        name = said.get("memory_bank")
        if name is not None and not (isinstance(name, str) and is_name(name)):
            return Off("metadata `memory_bank` is not a valid bank name", park=True)
        owner = _owner(said.get("memory_owner"))
        if mode == "private" and owner is None:
            return Off("memory is private, and metadata `memory_owner` names nobody")
        banks = await self._banks.banks()
        if mode == "private":
            assert owner is not None
            return await self._private(banks, name, owner, session_id, create)
        return await self._shared(banks, name or DEFAULT_BANK, owner, agent, session_id, create)

    async def _shared(
        self,
        banks: Mapping[str, Bank],
        name: str,
        owner: str | None,
        agent: str | None,
        session_id: str | None,
        create: bool,
    ) -> ResolvedBank | Off:
        bank = banks.get(name)
        holder = bank.owner if bank else _owner_of_agent_bank(name)
        if holder is not None and holder not in (owner, f"agent.{agent}"):
            return Off(f"bank {name} is private, and the turn does not come from its owner", park=True)
        created = bank is None and create
        if created:
            bank = await self._banks.make(name, holder, session_id)
        scope = [name]
        private_agent = banks.get(f"{AGENT_BANK_PREFIX}{agent}") if agent else None
        if private_agent is not None and private_agent.owner == f"agent.{agent}":
            scope.append(private_agent.name)
        for layer in bank.layers if bank else ():
            below = banks.get(layer)
            if below is not None and below.owner in (None, holder):
                scope.append(layer)
        return ResolvedBank(bank=name, scope=_once(scope), private=holder is not None, created=created)

    async def _private(
        self, banks: Mapping[str, Bank], name: str | None, owner: str, session_id: str | None, create: bool
    ) -> ResolvedBank | Off:
        """Only the owner's own bank: no layers, no agent's, whatever else the metadata names."""
        route, principal = owner.split(".", 1)
        usual = f"{AGENT_BANK_PREFIX if route == 'agent' else PRIVATE_BANK_PREFIX}{principal}"[:64]
        owned = sorted(bank.name for bank in banks.values() if bank.owner == owner)
        if name is not None and (name in owned or (name not in banks and _owner_of_agent_bank(name) in (None, owner))):
            chosen = name
        elif usual in owned or not owned:
            chosen = usual
        else:
            chosen = owned[0]
        created = chosen not in banks and create
        if created:
            await self._banks.make(chosen, owner, session_id)
        elif chosen in banks and chosen not in owned:
            return Off(f"memory is private, and bank {chosen} is not its owner's", park=True)
        return ResolvedBank(bank=chosen, scope=(chosen,), private=True, created=created)

    async def scope_for_request(self, caller: str, name: str | None) -> ResolvedBank:
        """Give the bank that a request of `caller` (`<route>.<principal>`) names, with the layers it may read.

        Raises `not_found` for a bank that does not exist and, in the same words, for one the caller may not see.
        """
        wanted = name or DEFAULT_BANK
        banks = await self._banks.banks()
        bank = banks.get(wanted)
        if bank is None and (wanted == DEFAULT_BANK or _owner_of_agent_bank(wanted) == caller):
            return ResolvedBank(bank=wanted, scope=(wanted,))  # there from its first use: empty until then
        if bank is None or not visible(bank, caller):
            raise not_found(f"no bank {wanted}", "bank", "bank.list names the banks you can use")
        below = [layer for layer in bank.layers if layer in banks and visible(banks[layer], caller)]
        return ResolvedBank(bank=wanted, scope=_once([wanted, *below]), private=bank.owner is not None)

    async def readable(self, caller: str, names: tuple[str, ...]) -> frozenset[str]:
        """Give those of the named banks that `caller` may see."""
        banks = await self._banks.banks()
        return frozenset(name for name in names if name in banks and visible(banks[name], caller))


def visible(bank: Bank, caller: str) -> bool:
    """Tell whether `caller` (`<route>.<principal>`) may know of a bank: it is shared, theirs, or theirs to manage."""
    return bank.owner is None or caller == bank.owner or caller in bank.managers


def _mode(said: Mapping[str, Any]) -> str:
    value = said.get("memory", True)
    if isinstance(value, bool):
        return "on" if value else "off"
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in ("off", "private") else ("on" if word in _ON else "unknown")


def _owner(value: object) -> str | None:
    match = _OWNER.fullmatch(value) if isinstance(value, str) else None
    return f"{match.group(1) or 'human'}.{match.group(2)}" if match else None


def _owner_of_agent_bank(name: str) -> str | None:
    principal = name.removeprefix(AGENT_BANK_PREFIX)
    return f"agent.{principal}" if principal != name and is_name(principal) else None


def _once(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
