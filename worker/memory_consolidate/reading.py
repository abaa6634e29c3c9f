"""Reads a bank through the memory functions, page by page, with a rest after each."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from memory_consolidate.items import Item, item_of
from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from memory_contracts.names import LIST_LIMIT_MAX
from memory_contracts.normal import normalise
from memory_contracts.records import Change, Memory, Rule, Suggestion, SuggestionState

T = TypeVar("T")

MEMORIES_MAX = 250_000
"""Most memories read of one bank; what is beyond is named in the report."""
PAGES_MAX = 100
"""Most pages of suggestions or changes read at a time."""
ATTEMPTS = 4
"""Times a call is made while the worker does not answer."""
RETRY_S = 0.5
"""Seconds before the first repetition; doubles each time."""
_REMEMBERED: tuple[SuggestionState, ...] = ("open", "rejected", "approved", "stale")
_AIMS = (("id", "expected_revision"), ("by", "expected_by_revision"))
PAGE = LIST_LIMIT_MAX
"""Memories per page. Each page is counted against the whole bank, so few large ones cost the worker least."""
REST = 1.0
"""Rest after a call or a group of acts, as a multiple of the time it took: at most half of the worker's time."""


class Pace(Protocol):
    """Rests after something that took `seconds`."""

    async def __call__(self, seconds: float) -> None:
        """Rest."""
        ...


async def rest(seconds: float) -> None:
    """The pace of a run beside people's work."""
    await asyncio.sleep(seconds * REST)


class Pages(NamedTuple):
    """A bank as read: what can be compared, what cannot, and whether it was cut."""

    items: list[Item]
    skipped: Counter[str]
    cut: bool


class Reader:
    """Calls of one run, counted. Raises FunctionError when the worker refuses or stays away."""

    def __init__(self, client: MemoryClient, bank: str, pace: Pace = rest) -> None:
        self.requests = 0
        self.client = client
        self.bank = bank
        self._pace = pace

    async def asked(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call and rest; again, with growing pauses, while the worker is `unavailable`."""
        async with self.paced():
            return await self.repeated(call)

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call; again, with growing pauses, while the worker is `unavailable`."""
        for attempt in range(ATTEMPTS):
            self.requests += 1
            try:
                return await call()
            except FunctionError as error:
                if error.code != "unavailable" or attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(RETRY_S * 2**attempt)
        raise AssertionError("unreachable")

    @contextlib.asynccontextmanager
    async def paced(self) -> AsyncIterator[None]:
        """Rest after the block, in proportion to the time it took."""
        started = asyncio.get_running_loop().time()
        yield
        await self._pace(asyncio.get_running_loop().time() - started)

    async def memories(self) -> Pages:
        """Every live memory of the bank; protected values and rewritten slots are left out."""
        items: list[Item] = []
        skipped: Counter[str] = Counter()
        cursor: str | None = None
        while len(items) < MEMORIES_MAX:
            page = await self.asked(
                partial(self.client.list, bank=self.bank, state="live", order="oldest", limit=PAGE, cursor=cursor)
            )
            for memory in page.memories:
                reason = _unfit(memory)
                if reason:
                    skipped[reason] += 1
                else:
                    items.append(item_of(memory))
            cursor = page.cursor
            if cursor is None:
                return Pages(items, skipped, False)
        return Pages(items, skipped, True)

    async def rules(self) -> list[Rule]:
        """The bank's rules."""
        page = await self.asked(partial(self.client.rule_list, bank=self.bank))
        found = list(page.rules)
        while page.cursor is not None:
            page = await self.asked(partial(self.client.rule_list, bank=self.bank, cursor=page.cursor))
            found += page.rules
        return found

    async def single_valued(self) -> frozenset[str]:
        """Names of the properties that hold one value at a time."""
        reply = await self.asked(self.client.property_list)
        return frozenset(normalise(entry.name) for entry in reply.properties if entry.cardinality == "one")

    async def own_suggestions(self, principal: str, revisions: Mapping[str, int]) -> tuple[int, set[frozenset[str]]]:
        """How many suggestions of ours are open, and what we asked about that needs no asking again.

        That is what is open, what a person decided, and what was put away (its run undone) while both records stayed at
        the revisions it was made on.
        """
        known: set[frozenset[str]] = set()
        still_open = 0
        for state in _REMEMBERED:
            async for suggestion in self._suggestions(state):
                args = suggestion.change.args
                if (suggestion.by.route, suggestion.by.principal) != ("system", principal):
                    continue
                still_open += state == "open"
                about = {str(args[name]): args.get(revision) for name, revision in _AIMS if name in args}
                if state != "stale" or all(revisions.get(memory) == at for memory, at in about.items()):
                    known.add(frozenset(about))
        known.discard(frozenset())
        return still_open, known

    async def _suggestions(self, state: SuggestionState) -> AsyncIterator[Suggestion]:
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            reply = await self.asked(
                partial(self.client.suggestion_list, bank=self.bank, state=state, limit=LIST_LIMIT_MAX, cursor=cursor)
            )
            for suggestion in reply.suggestions:
                yield suggestion
            cursor = reply.cursor
            if cursor is None:
                return

    async def acts_of_run(self, run_id: str) -> Counter[str]:
        """How often a run did what already, by the journal: types of its changes."""
        counted: Counter[str] = Counter()
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            reply = await self.asked(
                partial(self.client.changes_list, bank=self.bank, cause=run_id, limit=LIST_LIMIT_MAX, cursor=cursor)
            )
            counted.update(change.type for change in reply.changes)
            cursor = reply.cursor
            if cursor is None:
                break
        return counted

    async def was_restored(self, memory_id: str, principal: str) -> bool:
        """Whether this worker retired the memory before and somebody brought it back."""
        reply = await self.asked(partial(self.client.history, id=memory_id, limit=LIST_LIMIT_MAX))
        return restored_after_us(reply.revisions, principal)

    async def was_used(self, memory_id: str) -> bool:
        """Whether a turn was ever given the memory."""
        return bool((await self.asked(partial(self.client.why, memory_id=memory_id, limit=1))).uses)


def _unfit(memory: Memory) -> str | None:
    if memory.state != "live":
        return "not_live"
    if memory.protected:
        return "protected"
    return "slot" if memory.slot else None


def restored_after_us(revisions: list[Change], principal: str) -> bool:
    """Whether a retirement by `system.<principal>` is followed by a change that made the memory live again."""
    ours = [
        change.seq
        for change in revisions
        if change.type == "memory.superseded" and (change.actor.route, change.actor.principal) == ("system", principal)
    ]
    return any(change.type == "memory.restored" and change.seq > min(ours) for change in revisions) if ours else False
