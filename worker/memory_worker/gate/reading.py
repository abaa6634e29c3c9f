"""Reads records as a caller may see them: get, history, list, tags, banks, rules, changes."""

from collections.abc import Callable, Sequence

import msgspec

from memory_contracts.errors import forbidden, invalid, not_found
from memory_contracts.functions.banks import (
    BankListReply,
    BankListRequest,
    RuleGetRequest,
    RuleListReply,
    RuleListRequest,
    RuleReply,
)
from memory_contracts.functions.memories import (
    GetRequest,
    HistoryReply,
    HistoryRequest,
    ListReply,
    ListRequest,
    MemoryReply,
    TagCount,
    TagsReply,
    TagsRequest,
)
from memory_contracts.functions.review import ChangesListReply, ChangesListRequest
from memory_contracts.records import BankCounts, Memory
from memory_worker.clock import to_seconds
from memory_worker.gate import pages
from memory_worker.gate.access import may_read, no_memory
from memory_worker.gate.cleaning import clean_label
from memory_worker.gate.directory import BankDirectory
from memory_worker.gate.lapsing import as_it_is
from memory_worker.gate.saving import Vault
from memory_worker.store import Caller, TenantStore, banks, entities, journal, memories, rules
from memory_worker.store.banks import BankRow
from memory_worker.store.memories import Filter, MemoryRow

Render = Callable[[str, Sequence[Memory], int], str]
"""Turns a page of a bank's memories, and how many there are in all, into text to read out."""

BEYOND_ALL = 2**53
"""A sequence beyond every journal row."""


class Reading:
    """The read side of the gate."""

    def __init__(self, store: TenantStore, directory: BankDirectory, vault: Vault, render: Render) -> None:
        self._store = store
        self._vault = vault
        self._directory = directory
        self._render = render

    async def visible_memory(self, caller: Caller, memory_id: str) -> MemoryRow:
        """Give a memory the caller may see. Raises `not_found`."""
        row = await memories.read(self._store.readers, memory_id)
        bank = None if row is None else await self._directory.numbered(row.bank)
        if row is None or bank is None or not may_read(caller, bank.bank):
            raise no_memory(memory_id)
        return row

    async def get(self, caller: Caller, request: GetRequest) -> MemoryReply:
        """Read one memory in any state; one whose time is over reads `expired` from that second on."""
        row = await self.visible_memory(caller, request.id)
        return MemoryReply(memory=as_it_is(row.memory, self._store.clock.now()))

    async def history(self, caller: Caller, request: HistoryRequest) -> HistoryReply:
        """Read every change of one memory, oldest first."""
        await self.visible_memory(caller, request.id)
        position = pages.from_cursor(request)
        after = int(position.at) if position else 0
        found = await journal.of_target(self._store.readers, request.id, after, request.limit + 1)
        page, more = pages.fit([journal.change_of(row) for row in found], request.limit)
        cursor = pages.to_cursor(request, pages.Position(page[-1].seq, page[-1].id)) if more else None
        return HistoryReply(revisions=page, cursor=cursor)

    async def list(self, caller: Caller, request: ListRequest) -> ListReply:
        """Page through a bank, live memories by default. Only a person asks by a protected value."""
        if request.protected_value is not None and caller.route != "human":
            raise forbidden("only a person looks for a protected value", "protected_value")
        bank = await self._directory.readable(caller, request.bank)
        keep = await self._filter(bank, request)
        now = self._store.clock.now()
        readers = self._store.readers
        if keep is None:
            return ListReply(memories=[], total=0, text=self._render(bank.bank.name, [], 0) if request.render else None)
        position = pages.read_cursor(request, pages.CountedPosition)
        after = None if position is None else (position.at, position.id)
        found = await memories.page(readers, keep, request.order, after, request.limit + 1, now)
        # Counting reads the whole bank, so the pages that follow the first do not count again.
        total = await memories.total(readers, keep, now) if position is None else position.total
        # The page as text says it all once more.
        page, more = pages.fit(found, request.limit, pages.BYTES_MAX // (2 if request.render else 1))
        cursor = None
        if more:
            last = page[-1]
            at = last.updated_at if request.order == "updated" else last.created_at
            cursor = pages.to_cursor(request, pages.CountedPosition(to_seconds(at), last.id, total))
        text = self._render(bank.bank.name, page, total) if request.render else None
        return ListReply(memories=page, total=total, cursor=cursor, text=text)

    async def _filter(self, bank: BankRow, request: ListRequest) -> Filter | None:
        """What the page keeps; None when it names an entity that nothing is known about."""
        entity_id = None
        if request.entity is not None:
            entity = await entities.read_named(self._store.readers, request.entity)
            if entity is None:
                return None
            entity_id = entity.id
        states: tuple[str, ...] = ("live", "superseded") if request.include_superseded else ("live",)
        return Filter(
            bank=bank.n,
            states=states if request.state is None else (request.state,),
            kind=request.kind,
            tier=request.tier,
            session=request.session_id,
            tag=None if request.tag is None else clean_label(request.tag, "tag"),
            entity=entity_id,
            value=None if request.protected_value is None else self._vault.search_mark(request.protected_value),
        )

    async def tags(self, caller: Caller, request: TagsRequest) -> TagsReply:
        """Count a bank's tags."""
        bank = await self._directory.readable(caller, request.bank)
        found = await memories.tags(self._store.readers, bank.n, self._store.clock.now())
        kept = found[: memories.TAGS_MAX]
        return TagsReply(tags=[TagCount(tag=tag, count=count) for tag, count in kept], cut=len(found) > len(kept))

    async def bank_list(self, caller: Caller, request: BankListRequest) -> BankListReply:
        """List the banks the caller sees, with what they hold."""
        counts = await banks.counts(self._store.readers, self._store.clock.now())
        return BankListReply(
            banks=[
                msgspec.structs.replace(row.bank, counts=counts.get(row.n, BankCounts()))
                for row in await self._directory.rows()
                if may_read(caller, row.bank) and (request.include_trash or row.bank.trash_id is None)
            ]
        )

    async def rule_list(self, caller: Caller, request: RuleListRequest) -> RuleListReply:
        """Page through a bank's rules by priority, then name."""
        bank = await self._directory.readable(caller, request.bank)
        found = await rules.read_all(self._store.readers, bank.n)
        position = pages.from_cursor(request)
        if position is not None:
            found = [rule for rule in found if (rule.priority, rule.name) > (position.at, position.id)]
        page, more = pages.fit(found, request.limit)
        cursor = pages.to_cursor(request, pages.Position(page[-1].priority, page[-1].name)) if more else None
        return RuleListReply(rules=page, cursor=cursor)

    async def rule_get(self, caller: Caller, request: RuleGetRequest) -> RuleReply:
        """Read one rule. Raises `not_found`."""
        bank = await self._directory.readable(caller, request.bank)
        rule = await rules.read(self._store.readers, bank.n, request.name)
        if rule is None:
            raise no_rule(request.name, bank.bank.name)
        return RuleReply(rule=rule)

    async def changes_list(self, caller: Caller, request: ChangesListRequest) -> ChangesListReply:
        """Read the journal, newest first, or oldest first after `after_seq`."""
        if request.bank is not None:
            await self._known_bank(caller, request.bank)
        route, principal = _actor(request.actor)
        keep = journal.JournalFilter(
            private=await self._directory.private(caller),
            bank=request.bank,
            target=request.target,
            cause=request.cause,
            cause_kind=request.cause_kind,
            session=request.session_id,
            route=route,
            principal=principal,
        )
        position = pages.from_cursor(request)
        limit = request.limit + 1
        if request.after_seq is not None:
            start = int(position.at) if position else request.after_seq
            found = await journal.oldest(self._store.readers, keep, start, limit)
        else:
            start = int(position.at) if position else BEYOND_ALL
            found = await journal.newest(self._store.readers, keep, start, limit)
        page, more = pages.fit([journal.change_of(row) for row in found], request.limit)
        cursor = pages.to_cursor(request, pages.Position(page[-1].seq, page[-1].id)) if more else None
        return ChangesListReply(changes=page, cursor=cursor)

    async def _known_bank(self, caller: Caller, name: str) -> None:
        """Raise `not_found` unless the caller sees a bank of that name, in the trash or not."""
        rows = await self._directory.rows()
        if not any(row.bank.name == name and may_read(caller, row.bank) for row in rows):
            await self._directory.readable(caller, name)


def no_rule(name: str, bank: str) -> Exception:
    """The error for a rule that is not there."""
    return not_found(f"no rule {name} in bank {bank}", "name", "rule.list names the bank's rules")


def _actor(actor: str | None) -> tuple[str | None, str | None]:
    """Read an actor filter: a route, or `<route>.<principal>`."""
    if actor is None:
        return None, None
    route, _, principal = actor.partition(".")
    if route not in ("human", "agent", "observer", "system"):
        raise invalid("actor is a route or <route>.<principal>", "actor", "for example human or agent.coder")
    return route, principal or None
