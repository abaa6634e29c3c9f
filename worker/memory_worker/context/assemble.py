"""Puts together what a turn is given: rules first, then memories and notices, within a deadline. Changes nothing."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
import structlog

from memory_contracts.functions.recalling import ArmReport, ContextItem, ContextReply, ContextRule, LeftOut
from memory_contracts.names import RECALL_LIMIT_MAX
from memory_contracts.records import Memory, Notice, Rule, UsedMemory
from memory_worker.context import block, handles, rules, safe, select
from memory_worker.context.bank import ResolvedBank
from memory_worker.context.given import Given, Session, StoredRules, ToldRules, used
from memory_worker.context.live import NOTICES_MAX, Content, LiveBanks
from memory_worker.context.needs import RecallAnswer, Recaller
from memory_worker.context.readback import asks_for_everything
from memory_worker.store import TenantStore, memories, uses

log = structlog.get_logger(__name__)

RECALL_SHARE = 0.8
"""Part of the time left that recall is asked to keep to; the rest is for what follows it."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One question for a turn's context; `until` = event loop time by which it must be answered."""

    where: ResolvedBank
    message: str
    agent: str = ""
    about: Sequence[str] = ()
    known: Sequence[str] | None = None
    explain: bool = False
    until: float


class Draft(msgspec.Struct, kw_only=True):
    """A turn's answer and what it would change in its session; `whole` is False when not even the rules were read."""

    reply: ContextReply
    entries: Sequence[block.Entry] = ()
    scored: Mapping[str, select.Scored] = {}
    told: ToldRules | None = None
    steps: Sequence[rules.Step] = ()
    confirmed: dict[str, Given] = {}
    """Memories whose newer revision says the same as the one that was given."""
    reports: bool = False
    left_out: Sequence[LeftOut] = ()
    arms: Sequence[ArmReport] = ()
    whole: bool = True


class Assembler:
    """Reads banks and recall, and renders."""

    def __init__(
        self,
        store: TenantStore,
        live: LiveBanks,
        recaller: Recaller,
        bounds: select.Bounds,
        budgets: rules.Budgets,
        repeat_turns: int,
    ) -> None:
        self._store = store
        self._live = live
        self._recaller = recaller
        self._bounds = bounds
        self._budgets = budgets
        self._repeat_turns = repeat_turns

    async def assemble(self, ask: Ask, session: Session) -> Draft:
        """Give the answer to `ask` for a session, which stays as it is."""
        try:
            async with asyncio.timeout_at(ask.until):
                contents = [await self._live.content(name) for name in ask.where.scope]
                made = await self._made(ask.where.bank)
                effective = rules.effective([content.rules for content in contents])
                known_rules = await self._known_rules(ask, session, effective, made)
        except TimeoutError:
            reply = ContextReply(bank=ask.where.bank, system="", memories="", mode="cut", truncated=["rules: cut"])
            return Draft(reply=reply, whole=False)
        told, steps, update, cut_in_update = await self._updated(ask, session, known_rules, effective)
        answer, cut = await self._found(ask, session)
        held, changed, confirmed = await self._held(ask, session, contents, answer)
        total = sum(content.total for content in contents)
        choice = select.choose(
            [memory for content in contents for memory in content.pinned],
            answer.found,
            total=total,
            bounds=self._bounds,
            known=held,
            changed=changed,
            now=self._store.clock.now(),
        )
        notices = sorted((n for content in contents for n in content.notices), key=lambda n: (n.at, n.id))[:NOTICES_MAX]
        reply = render(
            bank=ask.where.bank,
            told=told,
            update=update,
            entries=choice.entries,
            scores=scores_of(choice.scored),
            total=total,
            notices=notices,
            mode=answer.mode,
            truncated=[*told.section.truncated, *cut_in_update, *cut],
            # A harness may list shared banks only: what is private is read back by its owner.
            readback=not ask.where.private and asks_for_everything(ask.message),
        )
        return Draft(
            reply=reply,
            entries=choice.entries,
            scored=choice.scored,
            told=told,
            steps=steps,
            confirmed=confirmed,
            reports=session.reports or any(memory in session.given for memory in ask.known or ()),
            left_out=_left_out(choice, answer),
            arms=list(answer.arms),
        )

    # Rules

    async def _made(self, name: str) -> float:
        bank = (await self._live.banks()).get(name)
        return bank.created_at.timestamp() if bank else 0.0

    async def _known_rules(self, ask: Ask, session: Session, effective: list[Rule], made: float) -> ToldRules:
        """Give the rules as this session was told them: as held, as stored, or as they are now for a new session."""
        key = (ask.where.bank, ask.agent)
        told = session.rules.get(key)
        if told is None and key in session.stored:
            told = await restore_rules(self._store, session.stored[key])
        if told is None or told.made != made:
            told = _tell(effective, effective, self._budgets, made, 0)
        return told

    async def _updated(
        self, ask: Ask, session: Session, told: ToldRules, effective: list[Rule]
    ) -> tuple[ToldRules, Sequence[rules.Step], str, Sequence[str]]:
        """Tell what changed since the session was told; tell it again when the window has lost the telling."""
        base = told.told
        if told.updated and _lost(ask.known, session, told.updated):
            base = _by_key(told.shown)
        steps = rules.steps({key: rule.revision for key, rule in base.items()}, effective)
        if not steps:
            return told, (), "", ()
        now = _by_key(effective)

        def find(bank: str, name: str, revision: int) -> Rule | None:
            held = (base.get((bank, name)), now.get((bank, name)))
            return next((rule for rule in held if rule is not None and rule.revision == revision), None)

        update, cut = rules.render_update(steps, find, self._budgets)
        updated = session.turns + 1 if update else told.updated
        return msgspec.structs.replace(told, told=now, updated=updated), steps if update else (), update, cut

    # Memories

    async def _found(self, ask: Ask, session: Session) -> tuple[RecallAnswer, Sequence[str]]:
        """Give what recall found, and beside it what the asked handles select."""
        answer, cut = await self._recall(ask, session)
        if not ask.about:
            return answer, cut
        try:
            async with asyncio.timeout_at(ask.until):
                selected = [
                    item
                    for name in ask.where.scope
                    if (held := await self._live.handles(name)) is not None
                    for item in held.select(ask.about)
                ]
                found = {item.memory.id: item for item in answer.found}
                missing = [item.id for item in selected if item.id not in found]
                fetched = {memory.id: memory for memory in await memories.read_many(self._store.readers, missing)}
        except TimeoutError:
            return answer, (*cut, "handles: cut at the deadline")
        for item in selected:
            scored = found.get(item.id)
            if scored is not None:
                score = max(item.score, min(1.0, scored.score + handles.BOOST))
                found[item.id] = select.Scored(scored.memory, score, {**scored.arms, "handles": item.score})
            elif item.id in fetched:
                found[item.id] = select.Scored(fetched[item.id], item.score, {"handles": item.score})
        return msgspec.structs.replace(answer, found=list(found.values())), cut

    async def _recall(self, ask: Ask, session: Session) -> tuple[RecallAnswer, Sequence[str]]:
        if not ask.message.strip():
            return RecallAnswer(), ()
        left = ask.until - asyncio.get_running_loop().time()
        # What the session holds already may take the best places: ask for as many more.
        spare = len(ask.known) if ask.known is not None else len(self._recent(session))
        try:
            async with asyncio.timeout_at(ask.until):
                answer = await self._recaller.recall(
                    ask.where.scope,
                    ask.message,
                    about=ask.about,
                    limit=min(RECALL_LIMIT_MAX, self._bounds.items + spare),
                    deadline_ms=max(1.0, left * RECALL_SHARE * 1_000),
                    explain=ask.explain,
                )
        except TimeoutError:
            return RecallAnswer(mode="cut"), ("recall: cut at the deadline",)
        except Exception as error:  # whatever is wrong with the index, a turn has its rules and pinned memories
            log.warning("context.recall_failed", error=type(error).__name__)
            return RecallAnswer(mode="down"), ("recall: down",)
        return answer, (f"recall: {answer.cut}",) if answer.cut else ()

    def _recent(self, session: Session) -> dict[str, Given]:
        since = session.turns - self._repeat_turns
        return {memory: given for memory, given in session.given.items() if given.turn > since}

    async def _held(
        self, ask: Ask, session: Session, contents: Sequence[Content], answer: RecallAnswer
    ) -> tuple[set[str], set[str], dict[str, Given]]:
        """Give the ids the session holds unchanged, those it holds in an older wording, and those of a newer revision
        that says the same."""
        holds = set(ask.known) if ask.known is not None else set(self._recent(session))
        candidates = {memory.id: memory for content in contents for memory in content.pinned}
        candidates.update((item.memory.id, item.memory) for item in answer.found)
        newer = {
            memory.id: memory
            for memory in candidates.values()
            if memory.id in holds
            and memory.id in session.given
            and session.given[memory.id].revision != memory.revision
        }
        if not newer:
            return holds, set(), {}
        old = await uses.memories_at(
            self._store.readers, [(memory, session.given[memory].revision) for memory in newer]
        )
        changed: set[str] = set()
        confirmed: dict[str, Given] = {}
        for memory in newer.values():
            given = session.given[memory.id]
            if _same_words(old.get((memory.id, given.revision)), memory):
                confirmed[memory.id] = Given(memory.revision, given.turn)
            else:
                changed.add(memory.id)
        return holds - changed, changed, confirmed


def _left_out(choice: select.Choice, answer: RecallAnswer) -> list[LeftOut]:
    """Everything that was looked at and not given, once; a pinned memory is given or not whatever its relevance."""
    settled = {entry.memory.id for entry in choice.entries} | {item.id for item in choice.left_out}
    return [*choice.left_out, *(item for item in answer.near if item.id not in settled)]


def scores_of(scored: Mapping[str, select.Scored]) -> dict[str, float]:
    """Scores by id, to four places, as they are given and kept."""
    return {key: round(item.score, 4) for key, item in scored.items()}


def etag_of(text: str) -> str:
    """The etag of a rules section."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _same_words(old: Memory | None, new: Memory) -> bool:
    return old is not None and safe.line(old.text) == safe.line(new.text) and old.tier == new.tier


def _lost(known: Sequence[str] | None, session: Session, turn: int) -> bool:
    """Tell whether the window, by what the harness says it holds, has lost an update block given in `turn`.

    It has when nothing is left of what it held a turn ago, and when something is gone that was given with the block
    or later: windows lose their oldest part first. A harness that never names what it holds tells nothing.
    """
    if known is None:
        return False
    window = set(known)
    if session.window and not window:
        return True
    return session.reports and any(
        given.turn >= turn and memory not in window for memory, given in session.given.items()
    )


async def restore_rules(store: TenantStore, stored: StoredRules) -> ToldRules | None:
    """Rebuild a session's rules from their revisions; None when forgetting destroyed one of them."""
    keys = {(item.bank, item.name, item.revision) for item in [*stored.shown, *stored.told]}
    found = await uses.rules_at(store.readers, list(keys))
    if len(found) < len(keys):
        return None
    shown = [found[item.bank, item.name, item.revision] for item in stored.shown]
    told = [found[item.bank, item.name, item.revision] for item in stored.told]
    return _tell(shown, told, stored.budgets, stored.made, stored.updated)


def store_rules(told: ToldRules, budgets: rules.Budgets) -> StoredRules:
    """Give the stored form of a session's rules."""
    return StoredRules(
        shown=used(told.shown),
        told=used(list(told.told.values())),
        made=told.made,
        updated=told.updated,
        budgets=budgets,
    )


def _tell(shown: Sequence[Rule], told: Sequence[Rule], budgets: rules.Budgets, made: float, updated: int) -> ToldRules:
    section = rules.render(shown, budgets)
    return ToldRules(section, etag_of(section.text), tuple(shown), _by_key(told), made, updated)


def _by_key(items: Sequence[Rule]) -> dict[rules.RuleKey, Rule]:
    return {(rule.bank, rule.name): rule for rule in items}


def render(
    *,
    bank: str,
    told: ToldRules,
    update: str,
    entries: Sequence[block.Entry],
    scores: Mapping[str, float],
    total: int,
    notices: Sequence[Notice],
    mode: str,
    truncated: Sequence[str],
    readback: bool,
) -> ContextReply:
    """Render an answer; equal values give equal bytes."""
    shown: list[ContextRule] = [
        ContextRule(
            name=item.rule.name,
            bank=item.rule.bank,
            revision=item.rule.revision,
            content=item.content,
            clipped=item.clipped,
        )
        for item in told.section.rules
    ]
    return ContextReply(
        bank=bank,
        system=told.section.text,
        memories=block.render(entries, total),
        update=update,
        items=[_item(entry, scores.get(entry.memory.id, 0.0)) for entry in entries],
        rules=shown,
        notices=list(notices),
        notices_text=block.render_notices(notices),
        used=[
            UsedMemory(id=entry.memory.id, revision=entry.memory.revision, score=scores.get(entry.memory.id, 0.0))
            for entry in entries
        ],
        used_rules=used(list(told.told.values())),
        mode=mode,
        truncated=list(dict.fromkeys(truncated)),
        etag=told.etag,
        readback=readback,
        total=total,
    )


def _item(entry: block.Entry, score: float) -> ContextItem:
    memory = entry.memory
    at: datetime = block.happened(memory)
    return ContextItem(
        id=memory.id,
        revision=memory.revision,
        text=entry.text,
        tier=memory.tier,
        label=block.label(memory),
        at=at,
        bank=memory.bank,
        kind=memory.kind,
        pinned=memory.pinned,
        confidence=memory.confidence,
        score=score,
        clipped=entry.clipped,
    )
