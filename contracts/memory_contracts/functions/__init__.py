"""The table of functions: request type, reply type, routes, and which worker answers."""

from typing import Literal

import msgspec

from memory_contracts.functions import banks, consolidating, memories, operations, recalling, review
from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import ROUTES, Route

Answerer = Literal["memory", "consolidate"]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function of the contract. `writes` says whether it can change anything."""

    name: str
    request: type[Request]
    reply: type[Reply]
    routes: tuple[Route, ...]
    writes: bool
    answered_by: Answerer = "memory"


_ALL = ROUTES
_HUMAN: tuple[Route, ...] = ("human",)
_HUMAN_SYSTEM: tuple[Route, ...] = ("human", "system")
_SPEAKERS: tuple[Route, ...] = ("human", "agent", "observer")
_HUMAN_AGENT: tuple[Route, ...] = ("human", "agent")


def _table() -> dict[str, Function]:
    rows: list[tuple[str, type[Request], type[Reply], tuple[Route, ...], bool]] = [
        ("save", memories.SaveRequest, memories.SaveReply, _SPEAKERS, True),
        ("get", memories.GetRequest, memories.MemoryReply, _ALL, False),
        ("history", memories.HistoryRequest, memories.HistoryReply, _ALL, False),
        ("list", memories.ListRequest, memories.ListReply, _ALL, False),
        ("update", memories.UpdateRequest, memories.MemoryReply, _HUMAN_AGENT, True),
        ("delete", memories.DeleteRequest, memories.MemoryReply, _HUMAN_AGENT, True),
        ("pin", memories.PinRequest, memories.MemoryReply, _HUMAN_AGENT, True),
        ("tags", memories.TagsRequest, memories.TagsReply, _ALL, False),
        ("recall", recalling.RecallRequest, recalling.RecallReply, _ALL, False),
        ("context", recalling.ContextRequest, recalling.ContextReply, ("system",), True),
        ("preview", recalling.PreviewRequest, recalling.PreviewReply, _ALL, False),
        ("why", recalling.WhyRequest, recalling.WhyReply, _ALL, False),
        ("bank.create", banks.BankCreateRequest, banks.BankReply, _HUMAN, True),
        ("bank.update", banks.BankUpdateRequest, banks.BankReply, _HUMAN, True),
        ("bank.list", banks.BankListRequest, banks.BankListReply, _ALL, False),
        ("bank.delete", banks.BankDeleteRequest, banks.BankReply, _HUMAN, True),
        ("bank.restore", banks.BankRestoreRequest, banks.BankReply, _HUMAN, True),
        ("rule.list", banks.RuleListRequest, banks.RuleListReply, _ALL, False),
        ("rule.get", banks.RuleGetRequest, banks.RuleReply, _ALL, False),
        ("rule.set", banks.RuleSetRequest, banks.RuleReply, _HUMAN, True),
        ("supersede", memories.SupersedeRequest, memories.SupersedeReply, _HUMAN_SYSTEM, True),
        ("suggest", review.SuggestRequest, review.SuggestReply, _ALL, True),
        ("learn", review.LearnRequest, review.LearnReply, _ALL, True),
        ("suggestion.list", review.SuggestionListRequest, review.SuggestionListReply, _ALL, False),
        ("suggestion.decide", review.SuggestionDecideRequest, review.SuggestionDecideReply, _HUMAN, True),
        ("changes.list", review.ChangesListRequest, review.ChangesListReply, _ALL, False),
        ("changes.revert", review.ChangesRevertRequest, review.ChangesRevertReply, _HUMAN, True),
        ("entity.list", review.EntityListRequest, review.EntityListReply, _ALL, False),
        ("entity.get", review.EntityGetRequest, review.EntityGetReply, _ALL, False),
        ("entity.link", review.EntityLinkRequest, review.EntityReply, _ALL, True),
        ("entity.unlink", review.EntityLinkRequest, review.EntityReply, _ALL, True),
        ("entity.alias", review.EntityAliasRequest, review.EntityReply, _ALL, True),
        ("entity.merge", review.EntityMergeRequest, review.EntityReply, _ALL, True),
        ("property.list", review.PropertyListRequest, review.PropertyListReply, _ALL, False),
        ("property.propose", review.PropertyProposeRequest, review.PropertyReply, _ALL, True),
        ("person.forget", operations.PersonForgetRequest, operations.PersonForgetReply, _HUMAN, True),
        ("erase", operations.EraseRequest, operations.ReceiptReply, _HUMAN, True),
        ("bank.wipe", operations.BankWipeRequest, operations.ReceiptReply, _HUMAN, True),
        ("value.reveal", operations.ValueRevealRequest, operations.ValueRevealReply, _HUMAN, True),
        ("notice.list", review.NoticeListRequest, review.NoticeListReply, _HUMAN_SYSTEM, False),
        ("notice.ack", review.NoticeAckRequest, review.NoticeAckReply, _HUMAN_SYSTEM, True),
        (
            "extraction.status",
            operations.ExtractionStatusRequest,
            operations.ExtractionStatusReply,
            _HUMAN_SYSTEM,
            False,
        ),
        ("extraction.retry", operations.ExtractionRetryRequest, operations.ExtractionRetryReply, _HUMAN_SYSTEM, True),
        ("doctor", operations.DoctorRequest, operations.DoctorReply, _ALL, True),
        ("reload", operations.ReloadRequest, operations.ReloadReply, _HUMAN, True),
        ("files.status", operations.FilesStatusRequest, operations.FilesStatusReply, _ALL, False),
        ("export", operations.ExportRequest, operations.ExportReply, _HUMAN, True),
        ("import", operations.ImportRequest, operations.ImportReply, _HUMAN, True),
    ]
    table = {
        name: Function(name=name, request=request, reply=reply, routes=routes, writes=writes)
        for name, request, reply, routes, writes in rows
    }
    consolidate: list[tuple[str, type[Request], type[Reply], tuple[Route, ...], bool]] = [
        (
            "consolidate.run",
            consolidating.ConsolidateRunRequest,
            consolidating.ConsolidateRunReply,
            _HUMAN_SYSTEM,
            True,
        ),
        (
            "consolidate.status",
            consolidating.ConsolidateStatusRequest,
            consolidating.ConsolidateStatusReply,
            _HUMAN_SYSTEM,
            False,
        ),
        (
            "consolidate.report",
            consolidating.ConsolidateReportRequest,
            consolidating.ConsolidateReportReply,
            _HUMAN_SYSTEM,
            False,
        ),
    ]
    for name, request, reply, routes, writes in consolidate:
        table[name] = Function(
            name=name, request=request, reply=reply, routes=routes, writes=writes, answered_by="consolidate"
        )
    return table


FUNCTIONS: dict[str, Function] = _table()
"""Every function by name."""
