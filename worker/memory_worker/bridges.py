"""Small adapters between rooms that do not know each other: recall for context and extraction, banks for turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory_contracts.errors import FunctionError
from memory_contracts.functions.recalling import ArmReport, LeftOut, RecallReply, RecallRequest
from memory_contracts.functions.recalling import Recalled as RecalledReply
from memory_contracts.names import LEARNED_RULE
from memory_contracts.records import Bank
from memory_contracts.turns import TurnCompleted
from memory_worker import context, extraction
from memory_worker.clock import to_seconds
from memory_worker.context import ContextService, RecallAnswer, Scored
from memory_worker.extraction import Handed, SiblingAway, TurnWorker
from memory_worker.extraction.model import UnreadableReply
from memory_worker.gate import Gate, Lessons
from memory_worker.gate.cleaning import clean_document
from memory_worker.recall import Arm, RecallQuery, RecallService
from memory_worker.store import Caller, TenantStore, banks, rules
from memory_worker.store.fingerprint import fingerprint
from memory_worker.turn_work import items

SNAPSHOTS = "index"
"""Folder of a tenant's index snapshots."""


def snapshot_dir(tenant_dir: Path) -> Path:
    """Where a tenant's index snapshots lie."""
    return tenant_dir / SNAPSHOTS


def arm_report(arm: Arm) -> ArmReport:
    """The wire form of a retrieval arm's account."""
    return ArmReport(
        name=arm.name,
        candidates=arm.candidates,
        ms=round(arm.ms, 3),
        state=arm.state,
        model=arm.model,
        embedded=arm.embedded,
    )


class ContextRecaller:
    """Recall as the context room asks it; `observer` is told how each arm ended and the seconds it took."""

    def __init__(
        self, recall: RecallService, observer: Callable[[str, str, float], None] = lambda arm, state, seconds: None
    ) -> None:
        self._recall = recall
        self._observer = observer

    async def recall(
        self, scope: Sequence[str], text: str, *, about: Sequence[str], limit: int, deadline_ms: float, explain: bool
    ) -> RecallAnswer:
        """Find live memories for a turn's message; handles are a boost, not a filter."""
        query = RecallQuery(text=text, limit=limit, boost_about=tuple(about), deadline_ms=deadline_ms, explain=explain)
        outcome = await self._recall.recall(scope, query)
        for arm in outcome.arms:
            self._observer(arm.name, arm.state, arm.ms / 1_000)
        return RecallAnswer(
            found=[Scored(found.memory, found.score, found.arms) for found in outcome.memories],
            mode=outcome.mode,
            arms=[arm_report(arm) for arm in outcome.arms],
            cut=outcome.cut,
            near=[LeftOut(id=left.id, reason=left.reason, score=left.score) for left in outcome.left],
        )


class RecallFunction:
    """The `recall` function: a request over what its caller may see."""

    def __init__(self, recall: RecallService, contexts: ContextService) -> None:
        self._recall = recall
        self._contexts = contexts

    async def recall(self, caller: Caller, request: RecallRequest) -> RecallReply:
        """Find the memories of a bank, and of the layers below it, that are relevant to the query."""
        clean_document(request.query, "query")
        where = await self._contexts.resolver.scope_for_request(caller.name, request.bank)
        outcome = await self._recall.recall(
            where.scope,
            RecallQuery(
                text=request.query,
                limit=request.limit,
                tag=request.tag,
                kind=request.kind,
                tier=request.tier,
                entity=request.entity,
                about=tuple(request.about),
                session_id=request.session_id,
                since=None if request.since is None else to_seconds(request.since),
                until=None if request.until is None else to_seconds(request.until),
                include_superseded=request.include_superseded,
                explain=request.explain,
            ),
        )
        return RecallReply(
            memories=[
                RecalledReply(memory=found.memory, score=found.score, arms=found.arms, parts=found.parts)
                for found in outcome.memories
            ],
            mode=outcome.mode,
            arms=[arm_report(arm) for arm in outcome.arms],
            bank=where.bank,
            cut=outcome.cut,
        )


class GateBankMaker:
    """The gate's way to make a bank that a turn names."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def make_bank(self, name: str, owner: str | None, session_id: str | None) -> Bank:
        """Make a bank, or give the one that is there."""
        return await self._gate.make_bank(name, owner, session_id)


class TurnBanks:
    """The one resolver, as extraction asks it."""

    def __init__(self, contexts: ContextService, within_s: float) -> None:
        self._contexts = contexts
        self._within_s = within_s

    async def resolve(self, turn: TurnCompleted) -> extraction.ResolvedBank | extraction.Off | extraction.Wait:
        """Find the bank of a turn; a session manager that does not answer makes the turn wait."""
        metadata: dict[str, Any] = turn.metadata or {}
        where = await self._contexts.resolver.resolve(
            turn.session_id, metadata, turn.agent, within_s=self._within_s, create=True, ask_again=True
        )
        if isinstance(where, context.Wait):
            return extraction.Wait(where.reason)
        if isinstance(where, context.Off):
            return extraction.Off(where.reason, where.park)
        return extraction.ResolvedBank(where.bank, await self._contexts.description(where.bank))


class HandedOutTexts:
    """What `context` gave to a session, as extraction recognises it."""

    def __init__(self, store: TenantStore, contexts: ContextService) -> None:
        self._contexts = contexts
        self._store = store

    async def lines(self, session_id: str, bank: str) -> Handed:
        """Fingerprints and texts of every memory and rule line the session was given."""
        texts = await self._contexts.handed_out(session_id)
        return Handed(frozenset(fingerprint(text) for text in texts), texts)


class NearestMemories:
    """What a bank already holds, for a model's prompt."""

    def __init__(self, store: TenantStore, recall: RecallService) -> None:
        self._store = store
        self._recall = recall

    async def memories(self, bank: str, text: str, limit: int) -> Sequence[str]:
        """Texts of the live memories nearest to `text`, best first."""
        return [found.memory.text for found in await self._recall.similar(bank, text, limit)]

    async def learned(self, bank: str) -> Sequence[str]:
        """The live lines of the bank's `learned` rule."""
        row = await banks.read(self._store.readers, bank)
        rule = None if row is None else await rules.read(self._store.readers, row.n, LEARNED_RULE)
        return [] if rule is None else [line.text for line in rule.lines]


class NoteReader:
    """Reads a note as a turn is read, for `learn`."""

    def __init__(self, store: TenantStore, turns: TurnWorker) -> None:
        self._store = store
        self._turns = turns

    async def read(self, bank: str, text: str) -> Lessons:
        """Give what a note teaches. Raises `unavailable` when a model is needed and away."""
        row = await banks.read(self._store.readers, bank)
        where = extraction.ResolvedBank(bank, row.bank.description if row else "")
        try:
            found = await self._turns.read_note(where, text)
        except (SiblingAway, UnreadableReply) as error:
            raise FunctionError(
                "unavailable", "the model that reads notes does not answer", hint="repeat a little later"
            ) from error
        return Lessons(items=items(found.items), learned=(*items(found.learned), *items(found.suggested)))
