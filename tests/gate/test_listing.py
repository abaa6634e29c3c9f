"""A bank is gone through page by page, in every order, and counted once."""

from typing import Any, Literal

import msgspec
import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import BankListRequest
from memory_contracts.functions.memories import DeleteRequest, ListReply, ListRequest, UpdateRequest
from memory_contracts.functions.review import ChangesListRequest, EntityListRequest
from memory_worker.gate import pages
from tests.gate.conftest import ANA, World


async def listed(world: World, **fields: object) -> ListReply:
    """One page, as a person."""
    return await world.gate.reading.list(ANA, ListRequest(limit=3, **fields))  # type: ignore[arg-type]


async def whole(world: World, **fields: object) -> list[str]:
    """The texts of every page, one after the other."""
    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = await listed(world, cursor=cursor, **fields)
        texts += [memory.text for memory in page.memories]
        cursor = page.cursor
        if cursor is None:
            return texts


@pytest.fixture
async def filled(world: World) -> World:
    """Eight memories, said a minute apart; the third was corrected last, every second one is tagged."""
    for number in range(8):
        world.clock.forward(seconds=60)
        await world.save(ANA, f"Fact {number}", tags=["odd"] if number % 2 else [])
    world.clock.forward(seconds=60)
    third = next(one for one in (await listed(world, order="oldest")).memories if one.text == "Fact 2")
    await world.gate.update(ANA, UpdateRequest(id=third.id, text="Fact 2, corrected"))
    return world


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("newest", [7, 6, 5, 4, 3, 2, 1, 0]),
        ("oldest", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("updated", [2, 7, 6, 5, 4, 3, 1, 0]),
    ],
)
async def test_pages_follow_each_other_in_every_order(
    filled: World, order: Literal["newest", "oldest", "updated"], expected: list[int]
) -> None:
    """Going from page to page gives each memory once, in the order asked for."""
    assert [int(text.split()[1].rstrip(",")) for text in await whole(filled, order=order)] == expected


async def test_the_pages_that_follow_carry_the_first_count(filled: World) -> None:
    """What is said while somebody reads shifts no count under him; who begins anew gets the new one."""
    first = await listed(filled)
    await filled.save(ANA, "Said meanwhile")
    second = await listed(filled, cursor=first.cursor)
    assert (first.total, second.total) == (8, 8)
    assert (await listed(filled)).total == 9


async def test_a_count_is_of_what_the_page_keeps(filled: World) -> None:
    """Filters, states and what has lapsed but is not swept yet are left out of the count as of the page."""
    assert (await listed(filled, tag="odd")).total == 4
    assert (await listed(filled, kind="person")).total == 0
    assert (await listed(filled, state="deleted")).total == 0
    gone = (await listed(filled)).memories[0]
    await filled.gate.delete(ANA, DeleteRequest(id=gone.id))
    assert (await listed(filled)).total == 7
    assert (await listed(filled, state="deleted")).total == 1
    filled.clock.forward(days=400)
    assert (await listed(filled)).total == len(await whole(filled)) == 0


async def test_a_cursor_of_something_else_is_refused(filled: World) -> None:
    """Only a cursor of this list is taken; another says what to use instead."""
    for cursor in ("bogus", "WzEsIm1lbV8xIl0", "WzEsIm1lbV8xIiwtNV0"):
        with pytest.raises(FunctionError) as caught:
            await listed(filled, cursor=cursor)
        assert (caught.value.code, caught.value.field) == ("invalid_input", "cursor")


@pytest.mark.parametrize(
    "other", [{"order": "oldest"}, {"tag": "odd"}, {"state": "deleted"}, {"include_superseded": True}]
)
async def test_a_cursor_goes_with_the_list_it_was_made_for(filled: World, other: dict[str, Any]) -> None:
    """With another filter or order rows would be missing without a word: it is refused, naming the field."""
    first = await listed(filled)
    assert first.cursor is not None
    with pytest.raises(FunctionError) as caught:
        await listed(filled, cursor=first.cursor, **other)
    assert (caught.value.code, caught.value.field) == ("invalid_input", "cursor")


async def test_a_page_may_be_longer_than_the_one_before(filled: World) -> None:
    """How many rows a page has, and whether it is rendered, does not change the list."""
    first = await listed(filled)
    rest = await filled.gate.reading.list(ANA, ListRequest(limit=200, cursor=first.cursor, render=True))
    assert len(first.memories) + len(rest.memories) == 8


async def test_a_cursor_of_one_function_is_refused_by_another(filled: World) -> None:
    """Memories, changes, histories and suggestions are lists of their own."""
    first = await listed(filled)
    with pytest.raises(FunctionError) as caught:
        await filled.gate.reading.changes_list(ANA, ChangesListRequest(cursor=first.cursor))
    assert (caught.value.code, caught.value.field) == ("invalid_input", "cursor")
    changes = await filled.gate.reading.changes_list(ANA, ChangesListRequest(limit=2))
    with pytest.raises(FunctionError) as caught:
        await filled.gate.reading.changes_list(ANA, ChangesListRequest(limit=2, cursor=changes.cursor, after_seq=0))
    assert (caught.value.code, caught.value.field) == ("invalid_input", "cursor")


def test_a_cursor_beyond_every_row_is_refused() -> None:
    """A forged place that no store has is told as such, not as a fault of the worker."""
    request = ChangesListRequest()
    for at in (1e30, -1e300, float(2**63)):
        forged = msgspec.structs.replace(request, cursor=pages.to_cursor(request, pages.Position(at, "chg_1")))
        with pytest.raises(FunctionError) as caught:
            pages.from_cursor(forged)
        assert (caught.value.code, caught.value.field) == ("invalid_input", "cursor")


async def test_pages_by_name_hold_names_of_every_script(world: World) -> None:
    """The longest name there is fits into a cursor that the contract takes."""
    for number in range(3):
        await world.save(ANA, f"Fact {number}", entities=[f"{number}" + "\U0001f980" * 127])
    names: list[str] = []
    cursor: str | None = None
    while True:
        asked = msgspec.json.encode(EntityListRequest(limit=1, cursor=cursor))
        page = await world.review.entity_list(ANA, msgspec.json.decode(asked, type=EntityListRequest))
        names += [entity.name[0] for entity in page.entities]
        cursor = page.cursor
        if cursor is None:
            break
    assert names == ["0", "1", "2"]


async def test_a_bank_counts_what_has_lapsed_as_expired(filled: World) -> None:
    """The counts of a bank go by what reads show: what is over counts as expired, swept or not."""
    kept = await filled.save(ANA, "Kept for ever", pinned=True)
    filled.clock.forward(days=400)
    [bank] = (await filled.gate.reading.bank_list(ANA, BankListRequest())).banks
    assert bank.counts is not None
    assert (bank.counts.live, bank.counts.expired) == (1, 8)
    await filled.sweeper.sweep()
    [bank] = (await filled.gate.reading.bank_list(ANA, BankListRequest())).banks
    assert bank.counts is not None
    assert (bank.counts.live, bank.counts.expired) == (1, 8)
    assert [memory.id for memory in (await listed(filled)).memories] == [kept.id]
