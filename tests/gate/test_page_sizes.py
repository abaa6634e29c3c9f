"""A page of long records fits the bus: it is cut short, and its cursor leads to every other record, once."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from memory_contracts.functions.banks import RuleListRequest, RuleSetRequest
from memory_contracts.functions.memories import HistoryRequest, ListRequest, UpdateRequest
from memory_contracts.functions.review import ChangesListRequest, SuggestionListRequest
from tests.gate.conftest import ANA, CODER, World

BUS_MAX_BYTES = 1_024 * 1_024
"""What the bus takes as one message."""
LONG = "\U00020000" * 1_990
"""Nearly the longest text, of the characters that take the most bytes."""

Ask = Callable[[str | None], Awaitable[Any]]


async def every(ask: Ask, field: str, key: str) -> tuple[list[Any], int]:
    """Read page after page, each within the bus's limit; gives every record's key, and how many pages there were."""
    keys: list[Any] = []
    cursor, count = None, 0
    while count == 0 or cursor is not None:
        reply = await ask(cursor)
        assert len(msgspec.json.encode(reply)) < BUS_MAX_BYTES
        keys += [getattr(record, key) for record in getattr(reply, field)]
        cursor, count = reply.cursor, count + 1
    return keys, count


async def test_rules(world: World) -> None:
    """Sixty rules of 19,000 characters are read page by page, in their order."""
    for number in range(60):
        request = RuleSetRequest(name=f"rule-{number:02}", content="é" * 19_000, priority=number % 3)
        await world.gate.rule_set(ANA, request)
    reading = world.gate.reading
    keys, pages = await every(lambda c: reading.rule_list(ANA, RuleListRequest(cursor=c)), "rules", "name")
    assert keys == [f"rule-{number:02}" for priority in range(3) for number in range(priority, 60, 3)]
    assert pages > 1


@pytest.mark.parametrize("render", [False, True])
async def test_memories_and_changes(world: World, render: bool) -> None:
    """Two hundred long memories, as records, as text and as changes of the journal."""
    made = [(await world.save(ANA, f"{LONG}{number}")).id for number in range(200)]
    reading = world.gate.reading

    async def memories(cursor: str | None) -> Any:
        return await reading.list(ANA, ListRequest(limit=200, order="oldest", cursor=cursor, render=render))

    keys, pages = await every(memories, "memories", "id")
    assert keys == made
    assert pages > 1

    async def changes(cursor: str | None) -> Any:
        return await reading.changes_list(ANA, ChangesListRequest(limit=200, after_seq=0, cursor=cursor))

    keys, pages = await every(changes, "changes", "target")
    assert [key for key in keys if key.startswith("mem_")] == made
    assert pages > 1


async def test_history_and_suggestions(world: World) -> None:
    """A memory that was corrected often, and as often proposed otherwise."""
    memory = await world.save(ANA, f"{LONG}x")
    for number in range(80):
        await world.gate.update(ANA, UpdateRequest(id=memory.id, text=f"{LONG}{number}"))
    reading, review = world.gate.reading, world.review

    async def history(cursor: str | None) -> Any:
        return await reading.history(ANA, HistoryRequest(id=memory.id, limit=200, cursor=cursor))

    keys, pages = await every(history, "revisions", "seq")
    assert (len(keys), len(set(keys)), keys) == (81, 81, sorted(keys))
    assert pages > 1
    for number in range(60):
        await world.gate.update(CODER, UpdateRequest(id=memory.id, text=f"{LONG}y{number}"))

    async def suggestions(cursor: str | None) -> Any:
        return await review.suggestion_list(ANA, SuggestionListRequest(limit=200, cursor=cursor))

    keys, pages = await every(suggestions, "suggestions", "id")
    assert (len(keys), len(set(keys))) == (60, 60)
    assert pages > 1
