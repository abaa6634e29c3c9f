"""The table of handlers: which part of a tenant answers which function."""

from collections.abc import Awaitable, Callable
from typing import Any

from memory_contracts.errors import FunctionError
from memory_contracts.functions.base import Reply
from memory_contracts.functions.operations import (
    ArchiveRun,
    ExtractionRetryReply,
    ExtractionRetryRequest,
    ExtractionStatusReply,
    FilesStatusReply,
    ParkedTurn,
    ReloadReply,
    ReloadRequest,
    UnreadFile,
)
from memory_worker.bus import CallInfo, Handler
from memory_worker.clock import to_datetime
from memory_worker.store import Caller, inbox
from memory_worker.tenant import Tenant

Bound = Callable[[Tenant, Caller, Any, CallInfo], Awaitable[Reply]]
"""Answers one function within an open tenant."""

PARKED_SHOWN = 100
"""Most parked turns one `extraction.status` names."""


async def extraction_status(tenant: Tenant) -> ExtractionStatusReply:
    """Tell how reading turns is going."""
    status = await inbox.status(tenant.store.readers, PARKED_SHOWN)
    counters = await tenant.store.counters()
    work = tenant.turns.status()
    oldest = 0.0 if status.oldest_at is None else max(0.0, tenant.store.clock.now() - status.oldest_at)
    return ExtractionStatusReply(
        backlog=status.backlog,
        in_work=work.in_work,
        oldest_age_s=round(oldest, 3),
        parked=[
            ParkedTurn(turn_id=turn.turn_id, session_id=turn.session_id, reason=turn.reason, at=turn.at)
            for turn in status.parked
        ],
        parked_total=status.parked_total,
        kept=counters.get("kept", 0),
        refused=_counted(counters, "refused."),
        ignored=_counted(counters, "ignored."),
        router=work.router,
        extractor=work.extractor,
        waiting=status.waiting,
        done=counters.get("turns_read", 0),
    )


def _counted(counters: dict[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): value for name, value in counters.items() if name.startswith(prefix)}


async def extraction_retry(tenant: Tenant, request: ExtractionRetryRequest) -> ExtractionRetryReply:
    """Put parked turns back to work."""
    if request.all == bool(request.ids):
        raise FunctionError("invalid_input", "give either ids or all", field="ids")
    ids = None if request.all else request.ids
    retried = await tenant.store.write(lambda tx: inbox.unpark(tx, ids))
    tenant.turns.wake()
    return ExtractionRetryReply(retried=retried)


async def reload_files(tenant: Tenant, request: ReloadRequest) -> ReloadReply:
    """Read every file again."""
    if tenant.files is None:
        raise FunctionError("unavailable", "files are off", hint="set files = true and restart the worker")
    read = await tenant.files.reload(request.bank)
    written = await tenant.files.rebuild(request.bank) if request.rewrite else 0
    status = await tenant.files.status()
    return ReloadReply(
        read=read.looked,
        changed=read.changed,
        problems=[f"{one.path}: {one.reason}" for one in status.problems],
        written=written,
    )


async def files_status(tenant: Tenant, caller: Caller) -> FilesStatusReply:
    """Tell how the files stand; a file's name tells what it says, so only people are told names."""
    running = [
        ArchiveRun(function=one.function, done=one.done, total=one.total)
        for one in tenant.archives.running
        if one.caller == caller
    ]
    if tenant.files is None:
        return FilesStatusReply(mirrored=False, running=running)
    status = await tenant.files.status()
    named = status.problems if caller.route == "human" else []
    return FilesStatusReply(
        mirrored=True,
        files=status.files,
        lag_rows=status.lag_rows,
        lag_s=round(status.lag_s, 3),
        last_sync_at=None if status.last_sync_at is None else to_datetime(status.last_sync_at),
        last_scan_at=None if status.last_scan_at is None else to_datetime(status.last_scan_at),
        watching=status.watching,
        vanished=status.vanished,
        problems_total=status.problems_total,
        problems=[UnreadFile(path=one.path, reason=one.reason, since=to_datetime(one.since)) for one in named],
        not_written=len(status.failures),
        error=status.error,
        running=running,
    )


def bound() -> dict[str, Bound]:
    """Every function that a tenant answers by itself."""
    return {
        "save": lambda t, c, r, i: t.gate.save(c, r, i.idempotency_key),
        "get": lambda t, c, r, i: t.gate.reading.get(c, r),
        "history": lambda t, c, r, i: t.gate.reading.history(c, r),
        "list": lambda t, c, r, i: t.gate.reading.list(c, r),
        "update": lambda t, c, r, i: t.gate.update(c, r, i.idempotency_key),
        "delete": lambda t, c, r, i: t.gate.delete(c, r, i.idempotency_key),
        "pin": lambda t, c, r, i: t.gate.pin(c, r, i.idempotency_key),
        "tags": lambda t, c, r, i: t.gate.reading.tags(c, r),
        "recall": lambda t, c, r, i: t.recalling.recall(c, r),
        "context": lambda t, c, r, i: t.contexts.context(r),
        "preview": lambda t, c, r, i: t.contexts.preview(r, c),
        "why": lambda t, c, r, i: t.contexts.why(r, c),
        "bank.create": lambda t, c, r, i: t.gate.bank_create(c, r, i.idempotency_key),
        "bank.update": lambda t, c, r, i: t.gate.bank_update(c, r, i.idempotency_key),
        "bank.list": lambda t, c, r, i: t.gate.reading.bank_list(c, r),
        "bank.delete": lambda t, c, r, i: t.gate.bank_delete(c, r, i.idempotency_key),
        "bank.restore": lambda t, c, r, i: t.gate.bank_restore(c, r, i.idempotency_key),
        "rule.list": lambda t, c, r, i: t.gate.reading.rule_list(c, r),
        "rule.get": lambda t, c, r, i: t.gate.reading.rule_get(c, r),
        "rule.set": lambda t, c, r, i: t.gate.rule_set(c, r, i.idempotency_key),
        "supersede": lambda t, c, r, i: t.gate.supersede(c, r, i.idempotency_key),
        "suggest": lambda t, c, r, i: t.review.suggest(c, r, i.idempotency_key),
        "learn": lambda t, c, r, i: t.review.learn(c, r, i.idempotency_key),
        "suggestion.list": lambda t, c, r, i: t.review.suggestion_list(c, r),
        "suggestion.decide": lambda t, c, r, i: t.review.suggestion_decide(c, r, i.idempotency_key),
        "changes.revert": lambda t, c, r, i: t.review.changes_revert(c, r, i.idempotency_key),
        "entity.list": lambda t, c, r, i: t.review.entity_list(c, r),
        "entity.get": lambda t, c, r, i: t.review.entity_get(c, r),
        "entity.link": lambda t, c, r, i: t.review.entity_link(c, r, i.idempotency_key),
        "entity.unlink": lambda t, c, r, i: t.review.entity_unlink(c, r, i.idempotency_key),
        "entity.alias": lambda t, c, r, i: t.review.entity_alias(c, r, i.idempotency_key),
        "entity.merge": lambda t, c, r, i: t.review.entity_merge(c, r, i.idempotency_key),
        "property.list": lambda t, c, r, i: t.review.property_list(c, r),
        "property.propose": lambda t, c, r, i: t.review.property_propose(c, r, i.idempotency_key),
        "notice.list": lambda t, c, r, i: t.review.notice_list(c, r),
        "notice.ack": lambda t, c, r, i: t.review.notice_ack(c, r, i.idempotency_key),
        "person.forget": lambda t, c, r, i: t.forgetting.person_forget(c, r, i.idempotency_key),
        "erase": lambda t, c, r, i: t.forgetting.erase(c, r),
        "bank.wipe": lambda t, c, r, i: t.forgetting.bank_wipe(c, r),
        "value.reveal": lambda t, c, r, i: t.forgetting.reveal(c, r),
        "reload": lambda t, c, r, i: reload_files(t, r),
        "files.status": lambda t, c, r, i: files_status(t, c),
        "export": lambda t, c, r, i: t.archives.export(c, r),
        "import": lambda t, c, r, i: t.archives.import_(c, r),
        "changes.list": lambda t, c, r, i: t.gate.reading.changes_list(c, r),
        "extraction.status": lambda t, c, r, i: extraction_status(t),
        "extraction.retry": lambda t, c, r, i: extraction_retry(t, r),
    }


def handlers(tenant: Callable[[str], Awaitable[Tenant]]) -> dict[str, Handler]:
    """The handlers for the dispatch layer; each opens the caller's tenant at its first use."""

    def handler(answer: Bound) -> Handler:
        async def handle(caller: Caller, request: Any, info: CallInfo) -> Reply:
            opened = await tenant(caller.tenant)
            # An agent's private bank is there from its first use, also when that is a read.
            await opened.gate.open_agent_bank(caller, getattr(request, "bank", None))
            return await answer(opened, caller, request, info)

        return handle

    return {name: handler(answer) for name, answer in bound().items()}
