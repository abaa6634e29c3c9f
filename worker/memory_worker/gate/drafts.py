"""A memory on its way in: a request's, a turn's or a file's statement in one cleaned form."""

from datetime import datetime

import msgspec

from memory_contracts.errors import invalid
from memory_contracts.functions.memories import SaveRequest
from memory_contracts.names import Confidence, Kind, Tier
from memory_contracts.records import Claim, Source
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_instant, clean_label, clean_labels, clean_names, clean_text


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that is clean and labelled, but not decided yet."""

    text: str
    tier: Tier
    source: Source
    kind: Kind = "fact"
    subject: str | None = None
    slot: str | None = None
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    claim: Claim | None = None
    confidence: Confidence = "normal"
    pinned: bool = False
    protected: bool = False
    occurred_at: datetime | None = None
    expires_at: datetime | None = None


def draft_of(act: Act, request: SaveRequest, tier: Tier, source: Source) -> Draft:
    """Clean a request. Raises `invalid_input` naming the field, and `forbidden` for what the route may not ask."""
    if request.slot is not None and act.writer.route != "observer":
        raise invalid("slot is for observers", "slot", "use subject: a new text for a subject replaces the old one")
    if request.pinned and act.writer.route == "observer":
        raise invalid("an observer cannot pin", "pinned", "leave pinned out")
    if request.expires_at is not None and request.expires_at <= act.now:
        raise invalid("expires_at lies in the past", "expires_at", "give a time to come, or leave it out")
    if request.pinned and request.expires_at is not None:
        raise invalid("a pinned memory never expires", "expires_at", "leave out pinned or expires_at")
    claim = None if request.claim is None else clean_claim(request.claim)
    entities = clean_names(request.entities, "entities")
    if claim is not None:
        entities = clean_names((*entities, claim.entity), "entities")
    return Draft(
        text=clean_text(request.text),
        tier=tier,
        source=source,
        kind=request.kind,
        subject=None if request.subject is None else clean_label(request.subject, "subject"),
        slot=None if request.slot is None else clean_label(request.slot, "slot"),
        entities=entities,
        tags=clean_labels(request.tags, "tags"),
        about=clean_labels(request.about, "about"),
        claim=claim,
        confidence=request.confidence,
        pinned=request.pinned,
        protected=request.protected,
        occurred_at=None if request.occurred_at is None else clean_instant(request.occurred_at, "occurred_at"),
        expires_at=None if request.expires_at is None else clean_instant(request.expires_at, "expires_at"),
    )


def clean_claim(claim: Claim) -> Claim:
    """Clean a claim: the entity's name keeps its case, the property is a label, the value a text."""
    return Claim(
        entity=clean_text(claim.entity, "claim.entity", 128),
        property=clean_label(claim.property, "claim.property"),
        value=clean_text(claim.value, "claim.value", 128),
    )


def request_of(draft: Draft, bank: str) -> SaveRequest:
    """Give the request that would make this draft, for a suggestion."""
    return SaveRequest(
        text=draft.text,
        bank=bank,
        kind=draft.kind,
        subject=draft.subject,
        slot=draft.slot,
        entities=list(draft.entities),
        tags=list(draft.tags),
        about=list(draft.about),
        claim=draft.claim,
        confidence=draft.confidence,
        pinned=draft.pinned,
        protected=draft.protected,
        occurred_at=draft.occurred_at,
        expires_at=draft.expires_at,
    )
