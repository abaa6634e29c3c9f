"""Suggestions, undoing, entities, properties and notices of one tenant: the second half of the gate's functions."""

import functools
from collections.abc import Callable
from typing import Protocol, TypeVar

from memory_contracts.functions import review as functions
from memory_contracts.functions.base import Reply, Request
from memory_contracts.records import Receipt, Suggestion
from memory_worker.gate import deciding, identities, noticing, reverting, suggesting
from memory_worker.gate.access import check_route
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_document
from memory_worker.gate.looking import Looking
from memory_worker.gate.service import Gate
from memory_worker.gate.suggesting import LessonReader
from memory_worker.store import Caller, Origin, new_id

R = TypeVar("R", bound=Reply)
Q = TypeVar("Q", bound=Request)


class Forgetting(Protocol):
    """Carries out what destroys values: it cannot be done in one transaction, and resumes after a crash."""

    async def carry_out(self, caller: Caller, suggestion: Suggestion) -> Receipt:
        """Approve a destructive suggestion and erase what it names; gives the receipt, pending or done."""
        ...


class Review:
    """Decides and commits what people review, for callers of one tenant."""

    def __init__(self, gate: Gate, lessons: LessonReader, forgetting: Forgetting) -> None:
        self._gate = gate
        self._lessons = lessons
        self._forgetting = forgetting
        self.looking = Looking(gate.store, gate.directory)

    async def _write(
        self,
        caller: Caller,
        function: str,
        request: Q,
        reply_type: type[R],
        key: str | None,
        decide: Callable[[Act, Q], R],
    ) -> R:
        return await self._gate.write(caller, function, request, reply_type, key, lambda act: decide(act, request))

    # Suggestions

    async def suggest(
        self, caller: Caller, request: functions.SuggestRequest, key: str | None = None
    ) -> functions.SuggestReply:
        """Propose a change that a person decides; the run it belongs to is its cause."""
        return await self._gate.write(
            caller,
            "suggest",
            request,
            functions.SuggestReply,
            key,
            lambda act: suggesting.suggest(act, request, self._gate.vault),
            cause_id=request.run_id,
        )

    async def learn(
        self, caller: Caller, request: functions.LearnRequest, key: str | None = None
    ) -> functions.LearnReply:
        """Read a correction or a note on a bad run; all that it teaches becomes suggestions."""
        check_route(caller, "learn")
        clean_document(request.text, "text")
        await self._gate.open_agent_bank(caller, request.bank)
        bank = await self._gate.directory.readable(caller, request.bank)
        lessons = await self._lessons.read(bank.bank.name, request.text)
        return await self._write(
            caller,
            "learn",
            request,
            functions.LearnReply,
            key,
            lambda act, asked: suggesting.learn(act, asked, lessons, self._gate.vault),
        )

    async def suggestion_list(
        self, caller: Caller, request: functions.SuggestionListRequest
    ) -> functions.SuggestionListReply:
        """Page through suggestions."""
        return await self.looking.suggestion_list(caller, request)

    async def suggestion_decide(
        self, caller: Caller, request: functions.SuggestionDecideRequest, key: str | None = None
    ) -> functions.SuggestionDecideReply:
        """Approve or reject suggestions; one that destroys is handed to forgetting."""
        check_route(caller, "suggestion.decide")
        origin = Origin.of(caller, key or new_id("req"))
        erasure = await self._gate.store.write(
            lambda tx: deciding.erasure_of(self._gate.act(tx, caller, origin), request)
        )
        if erasure is not None:
            receipt = await self._forgetting.carry_out(caller, erasure)
            decided = functions.Decided(id=erasure.id, state="approved", receipt=receipt)
            return functions.SuggestionDecideReply(decided=[decided])
        return await self._write(
            caller,
            "suggestion.decide",
            request,
            functions.SuggestionDecideReply,
            key,
            functools.partial(deciding.decide, vault=self._gate.vault),
        )

    # Undoing

    async def changes_revert(
        self, caller: Caller, request: functions.ChangesRevertRequest, key: str | None = None
    ) -> functions.ChangesRevertReply:
        """Undo a change, or all of a turn, a session, a run or an approval; the revert itself can be undone by its id.

        The id is that of the cause which the inverse changes carry.
        """
        return await self._gate.write(
            caller,
            "changes.revert",
            request,
            functions.ChangesRevertReply,
            key,
            lambda act: reverting.revert(act, request),
            cause_id=new_id("rev"),
            cause_kind="revert",
        )

    # Entities and properties

    async def entity_list(self, caller: Caller, request: functions.EntityListRequest) -> functions.EntityListReply:
        """Page through entities."""
        return await self.looking.entity_list(caller, request)

    async def entity_get(self, caller: Caller, request: functions.EntityGetRequest) -> functions.EntityGetReply:
        """Open an entity's page."""
        return await self.looking.entity_get(caller, request)

    async def entity_link(
        self, caller: Caller, request: functions.EntityLinkRequest, key: str | None = None
    ) -> functions.EntityReply:
        """Link an entity to a reference."""
        return await self._write(caller, "entity.link", request, functions.EntityReply, key, identities.link)

    async def entity_unlink(
        self, caller: Caller, request: functions.EntityLinkRequest, key: str | None = None
    ) -> functions.EntityReply:
        """Take a link away."""
        return await self._write(caller, "entity.unlink", request, functions.EntityReply, key, identities.unlink)

    async def entity_alias(
        self, caller: Caller, request: functions.EntityAliasRequest, key: str | None = None
    ) -> functions.EntityReply:
        """Give an entity another name."""
        return await self._write(
            caller,
            "entity.alias",
            request,
            functions.EntityReply,
            key,
            lambda act, asked: identities.alias(act, asked, self._gate.vault),
        )

    async def entity_merge(
        self, caller: Caller, request: functions.EntityMergeRequest, key: str | None = None
    ) -> functions.EntityReply:
        """Propose that two entities are one."""
        return await self._write(caller, "entity.merge", request, functions.EntityReply, key, identities.merge)

    async def property_list(
        self, caller: Caller, request: functions.PropertyListRequest
    ) -> functions.PropertyListReply:
        """List properties."""
        return await self.looking.property_list(caller, request)

    async def property_propose(
        self, caller: Caller, request: functions.PropertyProposeRequest, key: str | None = None
    ) -> functions.PropertyReply:
        """Propose a property."""
        return await self._write(
            caller, "property.propose", request, functions.PropertyReply, key, identities.propose_property
        )

    # Notices

    async def notice_list(self, caller: Caller, request: functions.NoticeListRequest) -> functions.NoticeListReply:
        """Page through notices."""
        return await self.looking.notice_list(caller, request)

    async def notice_ack(
        self, caller: Caller, request: functions.NoticeAckRequest, key: str | None = None
    ) -> functions.NoticeAckReply:
        """Say that a person has been told."""
        return await self._write(caller, "notice.ack", request, functions.NoticeAckReply, key, noticing.acknowledge)
