"""One tenant at work: its store and every part that stands on it, opened and closed in order."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from memory_contracts.names import DEFAULT_BANK
from memory_contracts.records import Memory
from memory_contracts.siblings import EmbedRequest
from memory_contracts.subjects import Subjects
from memory_worker.bridges import (
    ContextRecaller,
    GateBankMaker,
    HandedOutTexts,
    NearestMemories,
    NoteReader,
    RecallFunction,
    TurnBanks,
    snapshot_dir,
)
from memory_worker.bus import Bus, OwnTurns, Relay, Router, SessionManager
from memory_worker.clock import Clock
from memory_worker.config import Settings
from memory_worker.context import Bounds, Budgets, ContextService, ContextSettings, render_bank
from memory_worker.extraction import TurnWorker
from memory_worker.feeds import StoreIndexFeed
from memory_worker.files import (
    Archives,
    FileRoom,
    FilesSettings,
    GateCommands,
    StoreFeed,
    StoreLedger,
    StoreSnapshot,
    Trash,
)
from memory_worker.forgetting import Forgetting
from memory_worker.gate import Gate, GateSettings, KeyedVault, Review, Sweeper, TurnResult
from memory_worker.recall import Embedder, RecallQuery, RecallService, RecallSettings, RemoteEmbedder
from memory_worker.store import TenantStore
from memory_worker.store.writer import WriterObserver
from memory_worker.stroke import Stroke
from memory_worker.tenant_key import KeySource, open_vault
from memory_worker.turn_work import GateCommit, StoreInbox

log = structlog.get_logger(__name__)

STOP_S = 10.0
"""Seconds that turns being read get to finish when a tenant closes."""
WARM_UP = "the first question"
"""A recall made at the start, for nobody."""


class Observer(WriterObserver, Protocol):
    """Is told what the parts of a tenant do, for the metrics."""

    def worked(self, outcome: str, seconds: float) -> None:
        """A turn was taken to work and became `outcome`."""
        ...

    def extracted(self, outcome: str, count: int) -> None:
        """So many items of a turn became `outcome`."""
        ...

    def expired(self, count: int) -> None:
        """Memories lapsed."""
        ...

    def arm(self, arm: str, state: str, seconds: float) -> None:
        """An arm of recall looked for what a turn is given."""
        ...

    def sibling(self, sibling: str, outcome: str, seconds: float) -> None:
        """A sibling was asked."""
        ...


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """What all tenants of a process share."""

    settings: Settings
    clock: Clock
    bus: Bus
    subjects: Subjects
    embedder: Embedder | None
    version: str
    observer: Observer
    failpoint: Callable[[str], None] = lambda name: None


class Tenant:
    """The parts of one tenant."""

    def __init__(self, name: str, directory: Path, shared: Shared) -> None:
        settings = shared.settings
        self.name = name
        self.directory = directory
        self.settings = settings
        self.store = TenantStore(
            name,
            directory,
            shared.clock,
            group_max=settings.commit_group_max,
            observer=shared.observer,
            failpoint=shared.failpoint,
        )
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.vault = KeyedVault(trouble="the tenant is not open yet")
        self.gate = Gate(self.store, gate_settings(settings), self.vault, _render)
        self.router = _router(shared, name)
        self.recall = RecallService(
            StoreIndexFeed(self.store),
            recall_settings(settings),
            shared.clock,
            snapshot_dir(directory),
            _embedder(shared, self.router),
        )
        self.sessions = _session_manager(shared, name)
        self.contexts = ContextService(
            self.store,
            ContextRecaller(self.recall, shared.observer.arm),
            GateBankMaker(self.gate),
            self.sessions,
            context_settings(settings),
        )
        self.recalling = RecallFunction(self.recall, self.contexts)
        self.turns = TurnWorker(
            StoreInbox(self.store),
            GateCommit(self.gate, lambda result: _tell(shared.observer, result)),
            self.sessions,
            self.router,
            HandedOutTexts(self.store, self.contexts),
            NearestMemories(self.store, self.recall),
            settings,
            shared.clock,
            banks=TurnBanks(self.contexts, settings.session_deadline_ms / 1_000),
            observer=shared.observer.worked,
        )
        self.relay = Relay(
            shared.bus,
            shared.subjects,
            name,
            self.store,
            shared.clock,
            retention_days=settings.event_retention_days,
            include_memory=settings.events_include_memory,
            failpoint=shared.failpoint,
        )
        self.files = _files(self.store, self.gate, shared) if settings.files else None
        self.stroke = Stroke(
            self.gate,
            self.vault,
            self.recall,
            self.contexts,
            self.files,
            self.relay,
            OwnTurns(shared.bus, shared.subjects, name),
            shared.failpoint,
        )
        self.forgetting = Forgetting(self.gate, self.vault, self.stroke)
        self.archives = Archives(
            directory,
            self.gate,
            shared.clock,
            shared.version,
            self.forgetting.reveal,
            data_dir=directory.parent,
        )
        self.review = Review(self.gate, NoteReader(self.store, self.turns), self.forgetting)
        self.sweeper = Sweeper(
            self.store,
            self.gate.settings,
            batch=settings.expiry_batch,
            interval_s=settings.expiry_interval_s,
            expired=shared.observer.expired,
        )
        self.trash = Trash(self.store, settings.trash_retention_days, self.forgetting.destroy_trashed)
        self._working: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Open the store, then what reads it, then what works on it."""
        await self.store.open()
        try:
            await open_vault(self.vault, self.store, KeySource(self.directory, self.settings.vault_key))
            await self.gate.open()
            await self.recall.start()
            # What is loaded at first use is loaded now: the first turn's context has a deadline to keep.
            await self.recall.recall((DEFAULT_BANK,), RecallQuery(text=WARM_UP))
            await self.relay.start()
            if self.files is not None:
                await self.files.open()
        except BaseException:
            await self.store.close()
            raise
        if self.files is not None:
            self.files.start()
        self._working = [
            asyncio.create_task(self.turns.run(), name=f"turns {self.name}"),
            asyncio.create_task(self.sweeper.run(), name=f"sweeper {self.name}"),
            asyncio.create_task(self.stroke.run(), name=f"forgetting {self.name}"),
            asyncio.create_task(self.trash.run(), name=f"trash {self.name}"),
        ]

    async def close(self) -> None:
        """Finish what is being read, publish what is committed, and close the store."""
        await self.turns.stop()
        for task in self._working[1:]:
            task.cancel()
        if self._working:
            _, late = await asyncio.wait(self._working, timeout=STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._working, return_exceptions=True)
        if self.files is not None:
            await self.files.close()
        await self.contexts.close()
        await self.relay.stop()
        with contextlib.suppress(OSError):  # a snapshot that is missing only makes the next start slower
            await self.recall.stop()
        await self.store.close()

    def apply(self, settings: Settings) -> None:
        """Take over every setting that may change while running; what is under way ends by the old ones."""
        self.settings = settings
        self.gate.settings = gate_settings(settings)
        self.recall.apply(recall_settings(settings))
        self.contexts.apply(context_settings(settings))
        self.turns.apply(settings)
        self.relay.apply(settings.event_retention_days, include_memory=settings.events_include_memory)
        self.sweeper.apply(self.gate.settings, settings.expiry_batch, settings.expiry_interval_s)
        self.trash.apply(settings.trash_retention_days)
        if self.sessions is not None:
            self.sessions.deadline_s = settings.session_deadline_ms / 1_000
        if self.router is not None:
            self.router.complete_deadline_s = settings.router_deadline_ms / 1_000
            self.router.embed_deadline_s = settings.router_embed_deadline_ms / 1_000

    def turns_arrived(self) -> None:
        """New turns are committed to the inbox: begin to read them."""
        self.turns.wake()

    def busy(self) -> bool:
        """Whether the tenant has work that must not wait for its next request."""
        return self.relay.lag > 0 or self.turns.status().in_work > 0


def _tell(observer: Observer, result: TurnResult) -> None:
    """Tell what a turn's items became."""
    for outcome in ("created", "reinforced", "replaced", "awaiting_review", "learned"):
        observer.extracted(outcome, getattr(result, outcome))


def gate_settings(settings: Settings) -> GateSettings:
    """The gate's part of the settings."""
    return GateSettings(
        suggestion_days=settings.suggestion_days,
        idempotency_hours=settings.idempotency_hours,
        deciders=settings.deciders,
        grace_days=settings.notice_grace_days,
        protect_automatically=settings.protect_automatic,
    )


def recall_settings(settings: Settings) -> RecallSettings:
    """Recall's part of the settings."""
    chosen = settings.recall
    return RecallSettings(
        floor=chosen.floor,
        candidates=chosen.candidates,
        embed_batch=chosen.embed_batch,
        snapshot_changes=chosen.snapshot_rows,
    )


def context_settings(settings: Settings) -> ContextSettings:
    """Context's part of the settings."""
    return ContextSettings(
        bounds=Bounds(settings.context_max_items, settings.context_max_pinned, settings.context_max_chars),
        budgets=Budgets(settings.context_max_rule_chars, settings.context_max_learned_chars),
        deadline_s=settings.context_deadline_ms / 1_000,
        session_deadline_s=settings.context_deadline_ms / 3_000,
        repeat_turns=settings.context_repeat_turns,
        uses_days=settings.uses_days,
    )


def _render(bank: str, page: Sequence[Memory], total: int) -> str:
    return render_bank(page, total, bank)


def _files(store: TenantStore, gate: Gate, shared: Shared) -> FileRoom:
    settings = shared.settings
    return FileRoom(
        store.directory,
        feed=StoreFeed(store),
        snapshot=StoreSnapshot(store),
        ledger=StoreLedger(store),
        commands=GateCommands(gate, settings.file_route),
        clock=shared.clock,
        settings=FilesSettings(
            batch_rows=settings.files_batch,
            settle_s=settings.files_settle_ms / 1_000,
            file_max_bytes=settings.file_max_kb * 1_024,
        ),
    )


def _session_manager(shared: Shared, tenant: str) -> SessionManager | None:
    settings = shared.settings
    if settings.session_manager == "none":
        return None
    return SessionManager(
        shared.bus,
        tenant,
        get_subject=settings.session_get_subject,
        messages_subject=settings.session_messages_subject,
        deadline_s=settings.session_deadline_ms / 1_000,
        observer=shared.observer.sibling,
    )


def _embedder(shared: Shared, router: Router | None) -> Embedder | None:
    """What turns this tenant's texts into vectors: the process's own model, or the tenant's router."""
    settings = shared.settings
    if settings.embedding_model != "router" or router is None:
        return shared.embedder

    async def ask(texts: Sequence[str]) -> tuple[str, Sequence[Sequence[float]]]:
        reply = await router.embed(EmbedRequest(input=list(texts), model=settings.router_embed_model or None))
        return reply.model, reply.embeddings

    return RemoteEmbedder(ask)


def _router(shared: Shared, tenant: str) -> Router | None:
    settings = shared.settings
    if settings.router == "none":
        return None
    return Router(
        shared.bus,
        tenant,
        complete_subject=settings.router_complete_subject,
        embed_subject=settings.router_embed_subject,
        models_subject=settings.router_models_subject,
        complete_deadline_s=settings.router_deadline_ms / 1_000,
        embed_deadline_s=settings.router_embed_deadline_ms / 1_000,
        observer=shared.observer.sibling,
    )
