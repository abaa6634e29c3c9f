"""Answers `context`, `preview` and `why`: what a turn is given, what it would be given, and what it was given."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from memory_contracts.functions.recalling import (
    ContextReply,
    ContextRequest,
    PreviewReply,
    PreviewRequest,
    WhyReply,
    WhyRequest,
)
from memory_contracts.records import Bank
from memory_worker.context import assemble, rules, select
from memory_worker.context.again import rebuild
from memory_worker.context.assemble import Ask, Assembler, Draft
from memory_worker.context.bank import BankResolver, Off, ResolvedBank, Wait
from memory_worker.context.block import Entry
from memory_worker.context.given import HISTORY_TURNS, Detail, Given, GivenStore, Session, used
from memory_worker.context.live import LiveBanks
from memory_worker.context.needs import BankMaker, Recaller
from memory_worker.context.sessions import SessionCache, SessionManager
from memory_worker.context.why import Why
from memory_worker.store import Caller, TenantStore, new_id, uses

GIVEN_MAX = 5_000
"""Most memories remembered as given to one session; the longest ago are forgotten first."""
HANDED_OUT_MAX = 2_000
"""Most memories of one session whose wordings are recognised when they come back in a turn."""


class ContextSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the context room can be set to."""

    bounds: select.Bounds = select.Bounds()
    budgets: rules.Budgets = rules.Budgets()
    deadline_s: float = 0.3
    """Seconds within which a context is answered with what there is."""
    session_deadline_s: float = 0.1
    """Seconds of them that the session manager has to answer."""
    repeat_turns: int = 20
    """Turns of a session during which the same memory is not given again."""
    uses_days: float = 90.0
    """Days for which it is kept which turn was given what."""


class _BankSource:
    """The resolver's banks: read from memory, made by the gate."""

    def __init__(self, live: LiveBanks, maker: BankMaker) -> None:
        self._live = live
        self._maker = maker

    async def banks(self) -> Mapping[str, Bank]:
        return await self._live.banks()

    async def make(self, name: str, owner: str | None, session_id: str | None) -> Bank:
        return await self._maker.make_bank(name, owner, session_id)


class ContextService:
    """The context room of one tenant."""

    def __init__(
        self,
        store: TenantStore,
        recaller: Recaller,
        maker: BankMaker,
        session_manager: SessionManager | None = None,
        settings: ContextSettings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`session_manager` is None where none is configured."""
        self._store = store
        self._settings = settings or ContextSettings()
        self._given = GivenStore(store, self._settings.uses_days)
        self._live = LiveBanks(store, self._given.drop)
        self._sessions = SessionCache(session_manager, monotonic) if session_manager is not None else None
        self.resolver = BankResolver(_BankSource(self._live, maker), self._sessions)
        """The resolver of every path that needs a bank."""
        self._recaller = recaller
        self._assembler = self._make_assembler()
        self._why = Why(store, self.resolver, self._given)

    def apply(self, settings: ContextSettings) -> None:
        """Change budgets and deadlines, from the next turn on."""
        self._settings = settings
        self._given.uses_days = settings.uses_days
        self._assembler = self._make_assembler()

    def _make_assembler(self) -> Assembler:
        settings = self._settings
        return Assembler(
            self._store, self._live, self._recaller, settings.bounds, settings.budgets, settings.repeat_turns
        )

    async def context(self, request: ContextRequest) -> ContextReply:
        """Give a turn its blocks and remember that it was given them; the same turn again gets the same bytes.

        Never raises for what it cannot read in time: it gives less and says so in `mode`, `truncated` or `reason`.
        """
        until = asyncio.get_running_loop().time() + self._settings.deadline_s
        where = await self._resolve(request.session_id, request.metadata, request.agent, create=True)
        if not isinstance(where, ResolvedBank):
            return ContextReply(bank=None, system="", memories="", mode="off", reason=where.reason)
        session = await self._given.session(request.session_id)
        try:
            async with asyncio.timeout_at(until):
                await session.lock.acquire()
        except TimeoutError:
            return ContextReply(
                bank=where.bank,
                system="",
                memories="",
                mode="cut",
                truncated=["an earlier turn is still being answered"],
            )
        try:
            reply = await self._answer(request, where, session, until)
        finally:
            session.lock.release()
        return _unless_unchanged(reply, request.etag)

    async def preview(self, request: PreviewRequest, caller: Caller) -> PreviewReply:
        """Give what a turn would be given, with scores and what was left out and why; nothing is remembered.

        Banks that the caller may not see stay out. Raises `not_found` for such a `bank`.
        """
        until = asyncio.get_running_loop().time() + self._settings.deadline_s
        where: ResolvedBank | Off | Wait
        if request.bank is not None:
            where = await self.resolver.scope_for_request(caller.name, request.bank)
        else:
            where = await self._resolve(request.session_id, request.metadata, request.agent, create=False)
            where = await self._for_caller(where, caller)
        if not isinstance(where, ResolvedBank):
            return PreviewReply(bank=None, system="", memories="", mode="off", reason=where.reason)
        session = await self._given.session(request.session_id) if request.session_id else Session()
        draft = await self._assembler.assemble(
            Ask(
                where=where,
                message=request.message,
                agent=request.agent or "",
                about=request.about,
                known=request.known,
                explain=True,
                until=until,
            ),
            session,
        )
        for item in draft.reply.items:
            scored = draft.scored.get(item.id)
            item.arms = dict(scored.arms) if scored else {}
        fields = msgspec.structs.asdict(draft.reply)
        return PreviewReply(**fields, left_out=list(draft.left_out), arms=list(draft.arms))

    async def why(self, request: WhyRequest, caller: Caller) -> WhyReply:
        """Give what a turn was given, or the turns a memory was given to, newest first, as far as the caller may see.

        Raises `invalid_input` unless exactly one of the two is asked.
        """
        return await self._why.answer(request, caller)

    async def description(self, bank: str) -> str:
        """Give what a bank is for, as its people wrote it; empty for one that does not exist."""
        found = (await self._live.banks()).get(bank)
        return found.description if found else ""

    async def handed_out(self, session_id: str) -> tuple[str, ...]:
        """Give every wording of memories and rule lines that a session was given, as given and as it is now, so that
        extraction knows the system's own output when it comes back."""
        await self._given.flush()
        return await self._why.handed_out(session_id, HISTORY_TURNS, HANDED_OUT_MAX)

    async def sweep(self) -> int:
        """Remove uses older than the setting, as happens every hour by itself; gives how many were removed."""
        return await self._given.sweep()

    async def flush(self) -> None:
        """Write the uses that wait."""
        await self._given.flush()

    def drop_caches(self) -> None:
        """Let go of everything held in memory, for a forgetting that must not wait for the next turn."""
        self._live.drop()
        self._given.drop()

    async def close(self) -> None:
        """Write what waits and stop."""
        if self._sessions is not None:
            await self._sessions.close()
        await self._given.close()

    async def _resolve(
        self, session_id: str | None, metadata: Mapping[str, Any], agent: str | None, *, create: bool
    ) -> ResolvedBank | Off | Wait:
        within = min(self._settings.session_deadline_s, self._settings.deadline_s)
        return await self.resolver.resolve(session_id, metadata, agent, within_s=within, create=create)

    async def _for_caller(self, where: ResolvedBank | Off | Wait, caller: Caller) -> ResolvedBank | Off | Wait:
        """Keep a scope to what the caller may see; the harness, which asks `context`, may see what a turn is given."""
        if not isinstance(where, ResolvedBank) or caller.route == "system":
            return where
        readable = await self.resolver.readable(caller.name, where.scope)
        if where.private and where.bank not in readable:
            return Off("that bank is not yours to see")
        scope = tuple(name for name in where.scope if name in readable or name == where.bank)
        return msgspec.structs.replace(where, scope=scope)

    async def _answer(
        self, request: ContextRequest, where: ResolvedBank, session: Session, until: float
    ) -> ContextReply:
        turn_id = request.turn_id or new_id("turn")
        if turn_id in session.turn_ids:
            held = self._given.answer(request.session_id, turn_id)
            held = held or await self._rebuilt(request.session_id, turn_id, session)
            if held is not None:
                return held
        ask = Ask(
            where=where,
            message=request.message,
            agent=request.agent or "",
            about=request.about,
            known=request.known,
            until=until,
        )
        draft = await self._assembler.assemble(ask, session)
        if draft.whole:
            self._remember(request.session_id, turn_id, ask, draft, session)
        return draft.reply

    def _remember(self, session_id: str, turn_id: str, ask: Ask, draft: Draft, session: Session) -> None:
        told = draft.told
        assert told is not None
        key = (ask.where.bank, ask.agent)
        news = session.rules.get(key) != told
        session.turns += 1
        session.turn_ids[turn_id] = None
        session.reports = draft.reports
        if ask.known is not None:
            session.window = tuple(ask.known)
        session.rules[key] = told
        session.given.update(draft.confirmed)
        for entry in draft.entries:
            session.given.pop(entry.memory.id, None)  # so that the newest stand last
            session.given[entry.memory.id] = Given(entry.memory.revision, session.turns)
        _trim(session.given, GIVEN_MAX)
        _trim(session.turn_ids, HISTORY_TURNS)
        self._given.hold(session_id, turn_id, draft.reply)
        reply = draft.reply
        scores = assemble.scores_of(draft.scored)
        detail = Detail(
            agent=ask.agent,
            scope=ask.where.scope,
            total=reply.total,
            mode=reply.mode,
            truncated=tuple(reply.truncated),
            readback=reply.readback,
            rules=tuple(used(list(told.told.values()))),
            steps=tuple(draft.steps),
            notices=tuple(notice.id for notice in reply.notices),
        )
        row = uses.UseRow(
            turn=turn_id,
            session=session_id,
            at=self._store.clock.now(),
            bank=ask.where.bank,
            detail=msgspec.json.encode(detail),
            memories=tuple(_row(entry, scores) for entry in draft.entries),
        )
        state = None
        if news:
            stored = assemble.store_rules(told, self._settings.budgets)
            state = uses.SessionRow(session=session_id, bank=key[0], agent=key[1], state=msgspec.json.encode(stored))
        self._given.record(row, state)

    async def _rebuilt(self, session_id: str, turn_id: str, session: Session) -> ContextReply | None:
        """Give a turn's answer again that is no longer held."""
        await self._given.flush()
        reply = await rebuild(self._store, self._live, session, session_id, turn_id, self._settings.budgets)
        if reply is not None:
            self._given.hold(session_id, turn_id, reply)
        return reply


def _row(entry: Entry, scores: Mapping[str, float]) -> uses.GivenRow:
    memory = entry.memory
    return uses.GivenRow(
        memory.id, memory.bank, memory.revision, scores.get(memory.id, 0.0), entry.chars, entry.changed
    )


def _unless_unchanged(reply: ContextReply, etag: str | None) -> ContextReply:
    if etag is None or etag != reply.etag:
        return reply
    return msgspec.structs.replace(reply, system="", rules=[], unchanged=True)


def _trim(kept: dict[str, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
