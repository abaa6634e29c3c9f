"""Reads what people review: suggestions, entities with their facts, properties, notices."""

from collections.abc import Sequence

import msgspec

from memory_contracts.functions.review import (
    EntityFact,
    EntityGetReply,
    EntityGetRequest,
    EntityListReply,
    EntityListRequest,
    NoticeListReply,
    NoticeListRequest,
    PropertyListReply,
    PropertyListRequest,
    SuggestionListReply,
    SuggestionListRequest,
)
from memory_contracts.names import LIST_LIMIT_MAX
from memory_contracts.normal import normalise
from memory_contracts.records import Entity, Memory, Suggestion
from memory_worker.clock import to_seconds
from memory_worker.gate import pages
from memory_worker.gate.directory import BankDirectory
from memory_worker.gate.identities import no_entity
from memory_worker.store import Caller, TenantStore, entities, notices, suggestions

PAGE_FACTS_MAX = 200
"""Most facts on an entity's page."""
PAGE_MENTIONS_MAX = 50
"""Most mentions on an entity's page; `list` with `entity` pages through all."""
PROPERTIES_MAX = 1_000
"""Most properties one `property.list` gives."""

TIERS = {"stated": 2, "observed": 1, "inferred": 0}
CONFIDENCES = {"high": 2, "normal": 1, "low": 0}


class Looking(msgspec.Struct, frozen=True):
    """The read side of reviewing."""

    store: TenantStore
    directory: BankDirectory

    async def suggestion_list(self, caller: Caller, request: SuggestionListRequest) -> SuggestionListReply:
        """Page through the suggestions of the banks the caller sees, oldest first."""
        banks = await self.directory.numbers(caller, request.bank)
        readers = self.store.readers
        found = await suggestions.page(
            readers, banks, request.state, request.target, pages.after(request), request.limit + 1
        )
        page, more = pages.fit([row.suggestion for row in found], request.limit)
        counts = await suggestions.counts(readers, banks, request.target)
        cursor = None
        if more:
            cursor = pages.to_cursor(request, pages.Position(to_seconds(page[-1].created_at), page[-1].id))
        return SuggestionListReply(suggestions=page, total=counts.get(request.state, 0), counts=counts, cursor=cursor)

    async def notice_list(self, caller: Caller, request: NoticeListRequest) -> NoticeListReply:
        """Page through the notices of the banks the caller sees, oldest first."""
        banks = await self.directory.numbers(caller, request.bank)
        readers = self.store.readers
        found = await notices.page(readers, banks, request.include_acked, pages.after(request), request.limit + 1)
        page, more = pages.fit(found, request.limit)
        cursor = None
        if more:
            cursor = pages.to_cursor(request, pages.Position(to_seconds(page[-1].at), page[-1].id))
        total = await notices.total(readers, banks, request.include_acked)
        return NoticeListReply(notices=page, total=total, cursor=cursor)

    async def property_list(self, caller: Caller, request: PropertyListRequest) -> PropertyListReply:
        """List the properties that claims may use; those of other private banks are not named."""
        banks = await self.directory.numbers(caller, None)
        private = await self.directory.private(caller)
        found = await entities.read_visible_properties(self.store.readers, banks, private, PROPERTIES_MAX)
        return PropertyListReply(properties=found)

    async def entity_list(self, caller: Caller, request: EntityListRequest) -> EntityListReply:
        """Page through the entities that a live memory the caller sees names, by name."""
        banks = await self.directory.numbers(caller, request.bank)
        readers, now = self.store.readers, self.store.clock.now()
        after = _name_position(request)
        found = await entities.page(readers, banks, request.query, after, request.limit + 1, now)
        page, more = pages.fit(found, request.limit)
        cursor = None
        if more:
            cursor = pages.to_cursor(request, pages.NamePosition(page[-1].name, page[-1].id))
        total = await entities.total(readers, banks, request.query, now)
        return EntityListReply(entities=page, total=total, cursor=cursor)

    async def visible_entity(self, caller: Caller, name: str) -> Entity:
        """The entity that an id, a name or an alias means. Raises `not_found` when no visible bank names it."""
        readers = self.store.readers
        entity = await entities.read(readers, name) or await entities.read_named(readers, name)
        while entity is not None and entity.state == "merged" and entity.merged_into is not None:
            entity = await entities.read(readers, entity.merged_into)
        if entity is None or entity.state != "live":
            raise no_entity(name)
        visible = set(await self.directory.numbers(caller, None))
        if not visible & set(await entities.banks_naming(readers, entity.id)):
            raise no_entity(name)
        return entity

    async def entity_get(self, caller: Caller, request: EntityGetRequest) -> EntityGetReply:
        """Open an entity's page: what is claimed of it, who mentions it, and what about it waits for a person."""
        banks = await self.directory.numbers(caller, request.bank)
        entity = await self.visible_entity(caller, request.entity)
        readers, now = self.store.readers, self.store.clock.now()
        claims = await entities.read_claims(readers, entity.id, banks, now, PAGE_FACTS_MAX + 1)
        mentions, total = await entities.read_mentions(readers, entity.id, banks, now, PAGE_MENTIONS_MAX)
        properties = await entities.read_visible_properties(
            readers, banks, await self.directory.private(caller), PROPERTIES_MAX
        )
        single = {found.name for found in properties if found.cardinality == "one"}
        return EntityGetReply(
            entity=entity,
            facts=facts_of(claims[:PAGE_FACTS_MAX], single),
            mentions=mentions,
            suggestions=await self._waiting(entity, [memory.id for memory in mentions], banks),
            total=total,
            cut=total > len(mentions) or len(claims) > PAGE_FACTS_MAX,
        )

    async def _waiting(self, entity: Entity, memories: list[str], banks: Sequence[int]) -> list[Suggestion]:
        """Open suggestions about an entity or about the memories on its page, of the visible banks."""
        found: dict[str, Suggestion] = {}
        for target in (entity.id, *memories):
            for row in await suggestions.read_open_of_target(self.store.readers, target, LIST_LIMIT_MAX):
                if row.bank in banks:
                    found[row.suggestion.id] = row.suggestion
            if len(found) >= LIST_LIMIT_MAX:
                break
        return list(found.values())[:LIST_LIMIT_MAX]


def facts_of(memories: list[Memory], single: set[str]) -> list[EntityFact]:
    """Claims as facts, by property: the better sourced first.

    Of a property with one value only the best is current: stated over observed over inferred, then the surer, then the
    newer. A superseded one never is.
    """
    ordered = sorted(memories, key=_rank, reverse=True)
    facts: list[EntityFact] = []
    settled: dict[str, str] = {}
    for memory in ordered:
        claim = memory.claim
        if claim is None:
            continue
        value = normalise(claim.value)
        current = memory.state == "live" and (
            claim.property not in single or settled.setdefault(claim.property, value) == value
        )
        facts.append(EntityFact(property=claim.property, value=claim.value, memory=memory, current=current))
    return sorted(facts, key=lambda fact: (fact.property, not fact.current))


def _rank(memory: Memory) -> tuple[bool, int, int, float]:
    return (
        memory.state == "live",
        TIERS[memory.tier],
        CONFIDENCES[memory.confidence],
        to_seconds(memory.last_seen_at),
    )


def _name_position(request: EntityListRequest) -> tuple[str, str] | None:
    position = pages.read_cursor(request, pages.NamePosition)
    return None if position is None else (position.name, position.id)
