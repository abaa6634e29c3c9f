"""Chooses which memories a turn is given: pinned ones first, then by relevance, nothing the session already holds."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from memory_contracts.functions.recalling import LeftOut
from memory_contracts.names import Tier
from memory_contracts.records import Memory
from memory_worker.context.block import ITEM_MAX_CHARS, Entry, fit

_RANK: dict[Tier, int] = {"stated": 0, "observed": 1, "inferred": 2}


class Scored(msgspec.Struct, frozen=True):
    """A memory that recall found: `score` in [0, 1] over the relevance floor, and its score per arm."""

    memory: Memory
    score: float
    arms: dict[str, float]


class Bounds(msgspec.Struct, frozen=True):
    """What the memory block may hold: entries, pinned slots, and characters of the whole block."""

    items: int = 8
    pinned: int = 4
    chars: int = 1_200


class Choice(msgspec.Struct, frozen=True):
    """The entries of the block in order, their scores by id, and what was left out and why."""

    entries: tuple[Entry, ...]
    scored: Mapping[str, Scored]
    left_out: tuple[LeftOut, ...]


def choose(
    pinned: Sequence[Memory],
    found: Sequence[Scored],
    *,
    total: int,
    bounds: Bounds,
    known: Collection[str],
    changed: Collection[str],
    now: float,
) -> Choice:
    """Choose from the pinned memories of the scope and what recall found, both nearest bank first where equal.

    `known` = ids the session still holds unchanged, `changed` = ids it was given in an older wording, `now` = unix
    seconds. Reasons in `left_out`: `known`, `expired`, `subject` (a better memory says the same or is of the same
    subject), `budget`.
    """
    scored = {item.memory.id: item for item in found}
    left: dict[str, str] = {}

    def score(memory: Memory) -> float:
        item = scored.get(memory.id)
        return item.score if item else 0.0

    candidates = {memory.id: memory for memory in pinned}
    candidates.update((item.memory.id, item.memory) for item in found)
    kept = _best(list(candidates.values()), now, left)
    for memory in kept:
        if memory.id in known:
            left[memory.id] = "known"
    fresh = [memory for memory in kept if memory.id not in known]
    # Sorting is stable: what is equal stays in the order it came in, nearest bank first.
    slots = sorted((m for m in fresh if m.pinned), key=lambda m: (-score(m), -m.updated_at.timestamp()))[
        : bounds.pinned
    ]
    taken = {memory.id for memory in slots}
    ranked = sorted((m for m in fresh if m.id in scored and m.id not in taken), key=lambda m: -score(m))
    wanted = [Entry(memory, ITEM_MAX_CHARS, memory.id in changed) for memory in [*slots, *ranked][: bounds.items]]
    entries = fit(wanted, total, bounds.items, bounds.chars)
    given = {entry.memory.id for entry in entries}
    left.update((memory.id, "budget") for memory in fresh if memory.id not in given)
    return Choice(
        tuple(entries),
        scored,
        tuple(
            LeftOut(id=memory_id, reason=reason, score=score(candidates[memory_id]))
            for memory_id, reason in left.items()
        ),
    )


def _best(memories: Sequence[Memory], now: float, left: dict[str, str]) -> list[Memory]:
    """Keep one memory per subject of a bank (stated first, then the newest) and one per wording of the scope."""
    live: list[Memory] = []
    for memory in memories:
        if memory.state != "live" or (memory.expires_at is not None and memory.expires_at.timestamp() <= now):
            left[memory.id] = "expired" if memory.state in ("live", "expired") else memory.state
        else:
            live.append(memory)
    best: dict[tuple[str, str], Memory] = {}
    for memory in live:
        if memory.subject is None:
            continue
        key = (memory.bank, memory.subject.casefold())
        holder = best.get(key)
        if holder is None or _better(memory, holder):
            best[key] = memory
    winners = {memory.id for memory in best.values()}
    wordings: set[str] = set()
    for memory in sorted(live, key=lambda memory: _RANK[memory.tier]):
        wording = memory.text.casefold()
        if (memory.subject is not None and memory.id not in winners) or wording in wordings:
            left[memory.id] = "subject"
        wordings.add(wording)
    return [memory for memory in live if memory.id not in left]


def _better(memory: Memory, holder: Memory) -> bool:
    if memory.pinned != holder.pinned and memory.tier == holder.tier:
        return memory.pinned
    if memory.tier != holder.tier:
        return _RANK[memory.tier] < _RANK[holder.tier]
    return memory.created_at > holder.created_at
