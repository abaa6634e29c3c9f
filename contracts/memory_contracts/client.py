"""The typed client: every function of the contract as a method, turns out, triggers in."""

import asyncio
import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, cast

from memory_contracts import jetstream
from memory_contracts.connection import (
    FIRST_CONNECT_S,
    BodyTooLarge,
    Bus,
    BusAway,
    BusClosed,
    BusError,
    BusTimeout,
    NoResponders,
    NotPermitted,
)
from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.errors import IDEMPOTENCY_HEADER, FunctionError
from memory_contracts.events import BankChanged, ItemChanged
from memory_contracts.functions import FUNCTIONS, banks, consolidating, memories, operations, recalling, review
from memory_contracts.functions.base import Reply, Request
from memory_contracts.jetstream import JetStreamError, Outgoing, PubAck
from memory_contracts.subjects import TURN_STREAM, Subjects, event_stream, private_stream
from memory_contracts.triggers import Triggers
from memory_contracts.turns import TurnCompleted
from memory_contracts.wire import decode_reply, encode, error_of

P = ParamSpec("P")
R = TypeVar("R", bound=Reply)

CALL_S = 10.0
"""Seconds a call may take."""
LONG_CALL_S = 120.0
"""Seconds a call may take that reads or rewrites everything: forgetting, archives, a run over all banks."""
LONG_CALLS = frozenset(
    {"bank.wipe", "consolidate.run", "doctor", "erase", "export", "import", "reload", "suggestion.decide"}
)

_BATCHES_REFUSED = frozenset({10174, 10176, 10199, 10201, 10210})
# The server's error codes around atomic batches: not enabled, incomplete, too large, duplicate, unsupported header.


def _function(
    name: str, request: Callable[P, Request], reply: type[R]
) -> "Callable[Concatenate[MemoryClient, P], Awaitable[R]]":
    """Make the method that calls `name`, taking the fields of its request as keyword arguments."""

    async def method(client: "MemoryClient", /, *args: P.args, **fields: P.kwargs) -> R:
        return cast(R, await client.call(name, request(*args, **fields)))

    method.__name__ = name.replace(".", "_")
    method.__doc__ = request.__doc__
    return method


class MemoryClient:
    """Calls memory functions as one identity. Every method raises FunctionError, whose `code` says what was wrong.

    `unavailable` after a timeout means the outcome is unknown: repeat a write with the same key
    (`client.with_key(key).save(…)`) and it happens once.
    """

    def __init__(self, bus: Bus, *, idempotency_key: str | None = None) -> None:
        self.bus = bus
        self.subjects = Subjects(bus.credentials.prefix, bus.credentials.turn_prefix)
        self._key = idempotency_key

    @classmethod
    async def connect(
        cls,
        credentials: str | os.PathLike[str] | dict[str, Any] | Credentials,
        *,
        name: str | None = None,
        wait: float = FIRST_CONNECT_S,
    ) -> Self:
        """Connect with a credentials file, a dict of its fields, or credentials already read.

        Raises CredentialsError when they cannot be read, FunctionError `unavailable` when the bus cannot be reached
        within `wait` seconds or refuses them.
        """
        read = load_credentials(credentials)
        try:
            bus = await Bus.connect(read, name=name or f"memory-client-{read.route}-{read.principal}", wait=wait)
        except BusError as error:
            raise FunctionError("unavailable", str(error)) from None
        return cls(bus)

    async def close(self) -> None:
        """Close the connection."""
        await self.bus.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def with_key(self, idempotency_key: str) -> "MemoryClient":
        """Give a client on the same connection whose calls carry this key: the same key has one effect for 24 hours."""
        return MemoryClient(self.bus, idempotency_key=idempotency_key)

    async def call(
        self, function: str, request: Request, *, idempotency_key: str | None = None, within: float | None = None
    ) -> Reply:
        """Call a function by name and wait for its reply, at most `within` seconds."""
        creds = self.bus.credentials
        if not creds.calls_functions:
            raise FunctionError("forbidden", f"the {creds.route} credentials call no functions")
        entry = FUNCTIONS.get(function)
        if entry is None:
            raise FunctionError("not_found", f"no function {function}", field="function")
        key = idempotency_key or self._key
        try:
            message = await self.bus.request(
                self.subjects.rpc(creds.tenant, creds.route, creds.principal, function),
                encode(request),
                within=within or (LONG_CALL_S if function in LONG_CALLS else CALL_S),
                headers={IDEMPOTENCY_HEADER: key} if key else None,
            )
        except BusError as error:
            raise _as_function_error(error, function) from None
        failed = error_of(message.headers, message.data)
        if failed is not None:
            raise failed
        return decode_reply(entry.reply, message.data)

    # Turns

    async def publish_turn(self, turn: TurnCompleted) -> PubAck:
        """Publish a finished turn and wait until the bus has it on disk. Publishing it again is harmless."""
        try:
            return await jetstream.publish(self.bus, self._turn(turn))
        except JetStreamError as error:
            raise FunctionError("unavailable", f"the turn was not taken: {error.description}") from None
        except BusError as error:
            raise _as_function_error(error, "turn-completed") from None

    async def publish_turns(self, turns: list[TurnCompleted]) -> int:
        """Publish many turns, as atomic batches where the server takes them; gives how many were stored now."""
        stored = 0
        for start in range(0, len(turns), jetstream.BATCH_MAX):
            part = [self._turn(turn) for turn in turns[start : start + jetstream.BATCH_MAX]]
            try:
                if jetstream.takes_batches(self.bus.server_version):
                    await jetstream.publish_batch(self.bus, part)
                    stored += len(part)
                    continue
            except JetStreamError as error:
                if error.err_code not in _BATCHES_REFUSED:
                    raise FunctionError("unavailable", f"the turns were not taken: {error.description}") from None
            except BusError as error:
                if not isinstance(error, BusTimeout):
                    raise _as_function_error(error, "turn-completed") from None
            # One known id refuses a whole batch, and so does repeating a batch whose answer was lost.
            acks = await asyncio.gather(*(self._publish(message) for message in part))
            stored += sum(not ack.duplicate for ack in acks)
        return stored

    async def _publish(self, message: Outgoing) -> PubAck:
        try:
            return await jetstream.publish(self.bus, message)
        except JetStreamError as error:
            raise FunctionError("unavailable", f"the turn was not taken: {error.description}") from None
        except BusError as error:
            raise _as_function_error(error, "turn-completed") from None

    def _turn(self, turn: TurnCompleted) -> Outgoing:
        creds = self.bus.credentials
        # The stream is shared by all tenants, and whoever publishes an id first makes later ones count as repeats:
        # so the id is keyed by this identity's secret, which nobody else can guess.
        secret = (creds.password or creds.nkey_seed or creds.inbox_prefix).encode()
        msg_id = hmac.new(secret, f"{creds.tenant}\0{turn.turn_id}".encode(), hashlib.sha256).hexdigest()
        return Outgoing(self.subjects.turn_completed(creds.tenant, turn.session_id), encode(turn), msg_id)

    # Triggers

    def on_item_changed(
        self,
        *,
        bank: str | None = None,
        durable: str | None = None,
        owner: str | None = None,
        start: Literal["all", "new"] = "all",
    ) -> Triggers[ItemChanged]:
        """Bind to changes of memories, of one bank or of all shared ones; `owner` (`agent.coder`) = that private bank.

        Without `durable` only what happens from now on is seen. With it, nothing is missed across restarts; a new
        durable begins with everything the stream still holds, or with `start="new"`. A durable's name must be one
        of the credentials' `durables`.
        """
        tenant = self.bus.credentials.tenant
        subject = self.subjects.item_changed_filter(tenant, bank, owner)
        stream = private_stream(tenant) if owner else event_stream(tenant)
        return Triggers(self.bus, ItemChanged, subject, stream=stream, durable=durable, start=start)

    def on_bank_changed(
        self,
        *,
        bank: str | None = None,
        durable: str | None = None,
        owner: str | None = None,
        start: Literal["all", "new"] = "all",
    ) -> Triggers[BankChanged]:
        """Bind to changes of banks, their rules, suggestions and notices; otherwise as `on_item_changed`."""
        tenant = self.bus.credentials.tenant
        subject = self.subjects.bank_changed_filter(tenant, bank, owner)
        stream = private_stream(tenant) if owner else event_stream(tenant)
        return Triggers(self.bus, BankChanged, subject, stream=stream, durable=durable, start=start)

    # Functions, in the order of the contract

    save = _function("save", memories.SaveRequest, memories.SaveReply)
    get = _function("get", memories.GetRequest, memories.MemoryReply)
    history = _function("history", memories.HistoryRequest, memories.HistoryReply)
    list = _function("list", memories.ListRequest, memories.ListReply)
    update = _function("update", memories.UpdateRequest, memories.MemoryReply)
    delete = _function("delete", memories.DeleteRequest, memories.MemoryReply)
    pin = _function("pin", memories.PinRequest, memories.MemoryReply)
    tags = _function("tags", memories.TagsRequest, memories.TagsReply)
    supersede = _function("supersede", memories.SupersedeRequest, memories.SupersedeReply)
    recall = _function("recall", recalling.RecallRequest, recalling.RecallReply)
    context = _function("context", recalling.ContextRequest, recalling.ContextReply)
    preview = _function("preview", recalling.PreviewRequest, recalling.PreviewReply)
    why = _function("why", recalling.WhyRequest, recalling.WhyReply)
    bank_create = _function("bank.create", banks.BankCreateRequest, banks.BankReply)
    bank_update = _function("bank.update", banks.BankUpdateRequest, banks.BankReply)
    bank_list = _function("bank.list", banks.BankListRequest, banks.BankListReply)
    bank_delete = _function("bank.delete", banks.BankDeleteRequest, banks.BankReply)
    bank_restore = _function("bank.restore", banks.BankRestoreRequest, banks.BankReply)
    bank_wipe = _function("bank.wipe", operations.BankWipeRequest, operations.ReceiptReply)
    rule_list = _function("rule.list", banks.RuleListRequest, banks.RuleListReply)
    rule_get = _function("rule.get", banks.RuleGetRequest, banks.RuleReply)
    rule_set = _function("rule.set", banks.RuleSetRequest, banks.RuleReply)
    suggest = _function("suggest", review.SuggestRequest, review.SuggestReply)
    learn = _function("learn", review.LearnRequest, review.LearnReply)
    suggestion_list = _function("suggestion.list", review.SuggestionListRequest, review.SuggestionListReply)
    suggestion_decide = _function("suggestion.decide", review.SuggestionDecideRequest, review.SuggestionDecideReply)
    changes_list = _function("changes.list", review.ChangesListRequest, review.ChangesListReply)
    changes_revert = _function("changes.revert", review.ChangesRevertRequest, review.ChangesRevertReply)
    entity_list = _function("entity.list", review.EntityListRequest, review.EntityListReply)
    entity_get = _function("entity.get", review.EntityGetRequest, review.EntityGetReply)
    entity_link = _function("entity.link", review.EntityLinkRequest, review.EntityReply)
    entity_unlink = _function("entity.unlink", review.EntityLinkRequest, review.EntityReply)
    entity_alias = _function("entity.alias", review.EntityAliasRequest, review.EntityReply)
    entity_merge = _function("entity.merge", review.EntityMergeRequest, review.EntityReply)
    property_list = _function("property.list", review.PropertyListRequest, review.PropertyListReply)
    property_propose = _function("property.propose", review.PropertyProposeRequest, review.PropertyReply)
    person_forget = _function("person.forget", operations.PersonForgetRequest, operations.PersonForgetReply)
    erase = _function("erase", operations.EraseRequest, operations.ReceiptReply)
    value_reveal = _function("value.reveal", operations.ValueRevealRequest, operations.ValueRevealReply)
    notice_list = _function("notice.list", review.NoticeListRequest, review.NoticeListReply)
    notice_ack = _function("notice.ack", review.NoticeAckRequest, review.NoticeAckReply)
    extraction_status = _function(
        "extraction.status", operations.ExtractionStatusRequest, operations.ExtractionStatusReply
    )
    extraction_retry = _function("extraction.retry", operations.ExtractionRetryRequest, operations.ExtractionRetryReply)
    doctor = _function("doctor", operations.DoctorRequest, operations.DoctorReply)
    reload = _function("reload", operations.ReloadRequest, operations.ReloadReply)
    files_status = _function("files.status", operations.FilesStatusRequest, operations.FilesStatusReply)
    export = _function("export", operations.ExportRequest, operations.ExportReply)
    import_ = _function("import", operations.ImportRequest, operations.ImportReply)
    consolidate_run = _function(
        "consolidate.run", consolidating.ConsolidateRunRequest, consolidating.ConsolidateRunReply
    )
    consolidate_status = _function(
        "consolidate.status", consolidating.ConsolidateStatusRequest, consolidating.ConsolidateStatusReply
    )
    consolidate_report = _function(
        "consolidate.report", consolidating.ConsolidateReportRequest, consolidating.ConsolidateReportReply
    )


def _as_function_error(error: BusError, what: str) -> FunctionError:
    match error:
        case BodyTooLarge():
            return FunctionError(
                "too_large", f"the request is {error.size} bytes, the bus takes {error.limit}", field="body"
            )
        case NotPermitted():
            return FunctionError("forbidden", str(error))
        case NoResponders():
            return FunctionError("unavailable", f"nobody answers {what}: is the worker running?")
        case BusTimeout():
            return FunctionError("unavailable", f"no answer to {what} in time; whether it had an effect is unknown")
        case BusAway() | BusClosed():
            return FunctionError("unavailable", str(error))
        case _:
            return FunctionError("unavailable", f"{what}: {error}")


__all__ = ["CALL_S", "LONG_CALL_S", "TURN_STREAM", "MemoryClient"]
