"""Keeps what every turn needs of its banks in memory: rules, pinned memories, notices, counts. A journal reader.

It is brought up to the journal's head before it is read, so an acknowledged change is in the very next context.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from memory_contracts.names import Tier
from memory_contracts.records import Bank, Memory, Notice, Rule
from memory_worker.context.handles import Handles
from memory_worker.store import JournalRow, TenantStore, banks, handles, memories, notices, rules, uses
from memory_worker.store.handles import HandledRow

PINNED_MAX = 64
"""Most pinned memories of one bank that are looked at; a turn is given a few of them."""
NOTICES_MAX = 20
"""Most notices of one bank that one turn delivers; the others follow when these are acknowledged."""
BANKS_MAX = 256
"""Banks whose content is held; the least used is dropped beyond it."""
BATCH = 1_000
"""Journal rows read per step."""
LAG_MAX = 8_000
"""Journal rows behind which everything is read anew rather than followed."""

_ERASING = frozenset({"memory.forgotten", "bank.wiped"})


class _Labels(msgspec.Struct):
    """The part of a memory's JSON that decides whether it counts here."""

    id: str
    state: str
    tier: Tier
    created_at: datetime
    about: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def live(self) -> bool:
        return self.state == "live"


_decode = msgspec.json.Decoder(_Labels).decode


class BankContent(msgspec.Struct):
    """What a bank holds for every turn. None = not read yet; `counted_at`, `handled_at` = journal sequences of `total`
    and `handles`."""

    rules: list[Rule] | None = None
    pinned: list[Memory] | None = None
    notices: list[Notice] | None = None
    total: int | None = None
    counted_at: int = 0
    handles: Handles | None = None
    handled_at: int = 0


class Content(msgspec.Struct, frozen=True):
    """The same, read."""

    rules: list[Rule]
    pinned: list[Memory]
    notices: list[Notice]
    total: int


_EMPTY = Content([], [], [], 0)


class LiveBanks:
    """The banks of one tenant as of the journal's head."""

    def __init__(self, store: TenantStore, erased: Callable[[], None]) -> None:
        """`erased` is called when a forgetting or wiping passes by: what others hold in memory may be of it."""
        self._store = store
        self._erased = erased
        self._seq: int | None = None
        self._banks: dict[str, Bank] | None = None
        self._numbers: dict[str, int] = {}
        self._contents: OrderedDict[str, BankContent] = OrderedDict()
        self._following = asyncio.Lock()

    async def banks(self) -> Mapping[str, Bank]:
        """Give every bank that is not in the trash, by name."""
        await self.catch_up()
        if self._banks is None:
            rows = [row for row in await banks.read_all(self._store.readers) if row.bank.trashed_at is None]
            self._numbers = {row.bank.name: row.n for row in rows}
            self._banks = {row.bank.name: row.bank for row in rows}
        return self._banks

    async def content(self, name: str) -> Content:
        """Give what a bank holds for every turn; a bank that does not exist holds nothing."""
        if name not in await self.banks():
            return _EMPTY
        number = self._numbers[name]
        readers = self._store.readers
        while True:
            held = self._contents.setdefault(name, BankContent())
            self._contents.move_to_end(name)
            if held.rules is None:
                held.rules = await rules.read_all(readers, number)
            elif held.pinned is None:
                held.pinned = await memories.pinned(readers, number, PINNED_MAX)
            elif held.notices is None:
                held.notices = await notices.page(readers, [number], False, None, NOTICES_MAX)
            elif held.total is None:
                held.counted_at, held.total = await uses.live_total(readers, number)
            else:
                while len(self._contents) > BANKS_MAX:
                    self._contents.popitem(last=False)
                return Content(held.rules, held.pinned, held.notices, held.total)

    async def handles(self, name: str) -> Handles | None:
        """Give the handles of a bank's memories, read when they are first asked for; None for no such bank."""
        await self.content(name)
        while name in await self.banks():
            held = self._contents.setdefault(name, BankContent())
            if held.handles is not None:
                return held.handles
            held.handled_at, rows = await handles.of_bank(self._store.readers, self._numbers[name])
            held.handles = Handles(rows)
        return None

    def drop(self) -> None:
        """Let go of everything; it is read again when needed."""
        self._banks = None
        self._contents.clear()

    async def catch_up(self) -> None:
        """Follow the journal to its head."""
        if self._seq is None:
            self._seq = self._store.head  # nothing is held yet that a change could make wrong
        if self._seq >= self._store.head:
            return
        async with self._following:
            if self._store.head - self._seq > LAG_MAX:
                self._seq = self._store.head
                self.drop()
                self._erased()
            while self._seq < self._store.head:
                rows = await self._store.journal_after(self._seq, BATCH)
                for row in rows:
                    self._apply(row)
                self._seq = rows[-1].seq if rows else self._store.head

    def _apply(self, row: JournalRow) -> None:
        if row.type in _ERASING:
            self.drop()
            self._erased()
            return
        family = row.type.split(".", 1)[0]
        if family == "bank":
            self._banks = None
            self._contents.pop(row.bank, None)
            return
        held = self._contents.get(row.bank)
        if held is None:
            return
        # A read that runs meanwhile fills the dropped object, not the one that takes its place.
        if family == "rule":
            self._contents[row.bank] = msgspec.structs.replace(held, rules=None)
        elif family == "notice":
            self._contents[row.bank] = msgspec.structs.replace(held, notices=None)
        elif family == "memory":
            before = _decode(row.before) if row.before else None
            after = _decode(row.after) if row.after else None
            if (before and before.pinned) or (after and after.pinned):
                held = msgspec.structs.replace(held, pinned=None)
            if held.total is not None and row.seq > held.counted_at:
                change = int(after is not None and after.live) - int(before is not None and before.live)
                held = msgspec.structs.replace(held, total=held.total + change, counted_at=row.seq)
            if held.handles is not None and row.seq > held.handled_at:
                _follow_handles(held.handles, row.target, after)
                held = msgspec.structs.replace(held, handled_at=row.seq)
            self._contents[row.bank] = held


def _follow_handles(held: Handles, memory: str, after: _Labels | None) -> None:
    if after is None or not after.live:
        held.remove(memory)
    else:
        held.put(HandledRow(after.id, after.tier, after.created_at.timestamp(), after.about))
