"""What a pass keeps of each memory it read, and how two records are weighed against each other."""

import hashlib
import math
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

from memory_consolidate.tokens import Tokens, tokens_of
from memory_contracts.names import Kind, Tier
from memory_contracts.normal import normalise
from memory_contracts.records import Claim, Memory

SAME_EVENT = timedelta(days=1)
"""Two texts about something that happened are about one event only when their times lie this close."""
_TIER_RANK: dict[Tier, int] = {"inferred": 0, "observed": 1, "stated": 2}

_tokens = lru_cache(maxsize=4_096)(tokens_of)
# Pairs come in order of their rows, so a text is compared with its neighbours while it is here.

Relation = Literal["same", "unsure", "different"]


class Item(NamedTuple):
    """One live memory. `words` is its text as compared, `digest` and `bag` hash the tokens in order and sorted."""

    id: str
    text: str
    words: str
    digest: bytes
    bag: bytes
    kind: Kind
    tier: Tier
    pinned: bool
    subject: str
    entities: frozenset[str]
    about: frozenset[str]
    claim: Claim | None
    corroboration: int
    created_at: datetime
    last_seen_at: datetime
    occurred_at: datetime | None
    expires_at: datetime | None
    revision: int

    def tokens(self) -> Tokens:
        """Cut the text again; keeping every text's tokens would cost ten times its length."""
        return _tokens(self.text)


def item_of(memory: Memory) -> Item:
    """Keep what a pass needs of `memory`."""
    folded = tokens_of(memory.text).folded
    return Item(
        id=memory.id,
        text=memory.text,
        words=" ".join(folded),
        digest=_digest(folded),
        bag=_digest(tuple(sorted(folded))),
        kind=memory.kind,
        tier=memory.tier,
        pinned=memory.pinned,
        subject=normalise(memory.subject) if memory.subject else "",
        entities=frozenset(map(normalise, memory.entities)),
        about=frozenset(memory.about),
        claim=memory.claim,
        corroboration=memory.corroboration,
        created_at=memory.created_at,
        last_seen_at=memory.last_seen_at,
        occurred_at=memory.occurred_at,
        expires_at=memory.expires_at,
        revision=memory.revision,
    )


def _digest(folded: tuple[str, ...]) -> bytes:
    return hashlib.blake2b("\x1f".join(folded).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def name_words(*items: Item) -> frozenset[str]:
    """Case-folded words of the names of everything the items are about."""
    return frozenset(word for item in items for name in item.entities for word in name.split())


def relation(one: Item, other: Item) -> Relation:
    """Whether two texts that read the same are about the same thing, as far as what is filed with them tells.

    Other handles, other entities or another time mean another thing: “tests run with make check” in two repositories.
    Whatever only one of the two carries leaves it unsure.
    """
    if one.claim and other.claim and _claim_key(one.claim) != _claim_key(other.claim):
        return "different"
    if one.about != other.about and one.about and other.about:
        return "different"
    if one.entities and other.entities and not one.entities & other.entities:
        return "different"
    if one.occurred_at and other.occurred_at and abs(one.occurred_at - other.occurred_at) > SAME_EVENT:
        return "different"
    filed_alike = (
        one.about == other.about
        and (one.occurred_at is None) == (other.occurred_at is None)
        and (not one.subject or not other.subject or one.subject == other.subject)
        and _same_claim(one.claim, other.claim)
    )
    return "same" if filed_alike else "unsure"


def _claim_key(claim: Claim) -> tuple[str, str]:
    return normalise(claim.entity), normalise(claim.property)


def _same_claim(one: Claim | None, other: Claim | None) -> bool:
    return one is None or other is None or normalise(one.value) == normalise(other.value)


def worth(item: Item) -> tuple[bool, int, int, float, float, str]:
    """Order of records that say the same, the best last.

    Pinned, then tier, then corroboration; among equals the one that lasts longer, then the older.
    """
    lasts = item.expires_at.timestamp() if item.expires_at else math.inf
    return (item.pinned, _TIER_RANK[item.tier], item.corroboration, lasts, -item.created_at.timestamp(), item.id)


def currency(item: Item) -> tuple[bool, int, float, float, str]:
    """Order of records that say different things about one thing, the one to believe last.

    Pinned, then tier, then the one heard last: facts change.
    """
    return (
        item.pinned,
        _TIER_RANK[item.tier],
        item.last_seen_at.timestamp(),
        item.created_at.timestamp(),
        item.id,
    )


def may_retire(item: Item) -> bool:
    """Whether an automatic path may retire the record: never a pinned one, never one a person stated."""
    return not item.pinned and item.tier != "stated"
