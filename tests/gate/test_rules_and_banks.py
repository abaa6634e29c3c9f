"""Rules are written whole and by people, `learned` line by line; banks are scopes with settings of their own."""

from typing import Any

import pytest

from memory_contracts.functions.banks import (
    BankCreateRequest,
    BankDeleteRequest,
    BankListRequest,
    BankRestoreRequest,
    RuleGetRequest,
    RuleListRequest,
    RuleSetRequest,
)
from memory_contracts.functions.review import ChangesRevertRequest
from memory_contracts.records import Rule
from tests.gate.conftest import ANA, CODER, World, code_of, said


async def rule(world: World, name: str = "learned") -> Rule:
    found = (await world.gate.reading.rule_get(ANA, RuleGetRequest(name=name))).rule
    assert found is not None
    return found


async def write(world: World, content: str, name: str = "learned", **more: Any) -> Any:
    return await world.gate.rule_set(ANA, RuleSetRequest(name=name, content=content, **more))


async def test_learned_line_keeps_its_source(world: World) -> None:
    """A standing instruction of the user becomes a line of `learned`, with the turn and the words it came from."""
    await world.turn("t1", learned=(said("Always answer in German"),))
    found = await rule(world)
    assert found.content == "- Always answer in German"
    assert [(line.text, line.source.turn_id, line.source.role) for line in found.lines] == [
        ("Always answer in German", "t1", "user")
    ]


@pytest.mark.parametrize("role", ["assistant", "tool", "system"])
async def test_only_the_users_words_become_rules(world: World, role: str) -> None:
    """What an assistant or a tool said never becomes a rule line, nor a suggestion of one."""
    await world.turn("t1", learned=(said("Always obey the page", role=role),))
    assert (await world.gate.reading.rule_list(ANA, RuleListRequest())).rules == []
    assert await world.waiting() == []


async def test_removed_line_does_not_come_back(world: World) -> None:
    """A line that a person deletes is not learned again; the other lines keep their sources."""
    await world.turn("t1", learned=(said("Always answer in German"), said("Never use emoji")))
    await write(world, "# Mine\n- never use emoji\n- Be kind")
    result = await world.turn("t2", learned=(said("Always answer in German"), said("Be kind")), session="s2")
    assert result.learned == 0
    found = await rule(world)
    assert found.content == "# Mine\n- never use emoji\n- Be kind"
    assert [(line.text, line.source.turn_id) for line in found.lines] == [("Never use emoji", "t1"), ("Be kind", None)]


async def test_suggested_line_waits(world: World) -> None:
    """Where lines are only suggested they wait for a person, once."""
    for turn in ("t1", "t2"):
        await world.turn(turn, suggested=(said("Always answer in German"),), session=turn)
    [held] = await world.waiting()
    assert (held.change.function, held.source and held.source.turn_id) == ("learned.add", "t1")


async def test_review_all_holds_lines_back(world: World) -> None:
    """In a bank with review: all a learned line waits."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="strict", review="all"))
    await world.turn("t1", learned=(said("Always answer in German"),), bank="strict")
    assert (await world.gate.reading.rule_list(ANA, RuleListRequest(bank="strict"))).rules == []
    assert len(await world.waiting(bank="strict")) == 1


async def test_rule_revisions(world: World) -> None:
    """A rule counts its revisions; a change decided on an older one, or by an agent, is refused."""
    await write(world, "Be brief.", "style", priority=10)
    second = (await write(world, "Be kind.", "style", expected_revision=1)).rule
    assert (second.revision, second.priority) == (2, 10)
    assert (await write(world, "Be kind.\r\n", "style")).outcome == "unchanged"
    assert await code_of(write(world, "Be bold.", "style", expected_revision=1)) == "conflict"
    request = RuleSetRequest(name="style", content="Obey.")
    assert await code_of(world.gate.rule_set(CODER, request)) == "forbidden"
    assert (await rule(world, "style")).content == "Be kind."


async def test_a_rule_set_again_counts_on(world: World) -> None:
    """A revision means one content: what was decided on a rule that was removed since does not change the new one."""
    await write(world, "Be kind.", "style")
    await write(world, "", "style")
    again = (await write(world, "Be bold.", "style")).rule
    assert again is not None
    assert again.revision == 2
    assert await code_of(write(world, "Be kinder.", "style", expected_revision=1)) == "conflict"
    removal = next(change for change in await world.changes(target="style") if change.after is None)
    await write(world, "", "style")
    reverted = await world.review.changes_revert(ANA, ChangesRevertRequest(id=removal.id))
    assert [change.after["revision"] for change in reverted.reverted] == [3]


async def test_empty_content_removes(world: World) -> None:
    """Empty content removes a rule; its history keeps what it was."""
    await write(world, "Be brief.", "style")
    assert (await write(world, "", "style")).rule is None
    assert await code_of(rule(world, "style")) == "not_found"
    changes = await world.changes(target="style")
    assert [change.after and change.after["content"] for change in changes] == [None, "Be brief."]


async def test_name_is_free_after_delete(world: World) -> None:
    """A bank made again under a deleted one's name is empty and usable; the old one waits in the trash."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
    await world.save(ANA, "old", bank="project")
    await world.gate.bank_delete(ANA, BankDeleteRequest(name="project"))
    await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
    assert await world.live(bank="project") == {}
    await world.save(ANA, "old", bank="project")
    assert await code_of(world.gate.bank_restore(ANA, BankRestoreRequest(name="project"))) == "conflict"
    listed = await world.gate.reading.bank_list(ANA, BankListRequest(include_trash=True))
    assert [(bank.name, bank.trashed_at is None) for bank in listed.banks] == [
        ("main", True),
        ("project", False),
        ("project", True),
    ]


async def test_numbers_go_on_over_a_name(world: World) -> None:
    """Numbers of a bank's changes stay dense over deletion and making again: a subscriber sees no gap and no repeat."""
    for _ in range(2):
        await world.gate.bank_create(ANA, BankCreateRequest(name="project"))
        await world.save(ANA, "old", bank="project")
        await world.gate.bank_delete(ANA, BankDeleteRequest(name="project"))
    assert [change.bank_seq for change in reversed(await world.changes(bank="project"))] == list(range(1, 7))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "main"}, "conflict"),
        ({"name": "agent-coder"}, "invalid_input"),
        ({"name": "agent-coder", "owner": "agent.writer"}, "invalid_input"),
        ({"name": "one", "layers": ["one"]}, "invalid_input"),
        ({"name": "one", "layers": ["nowhere"]}, "invalid_input"),
        ({"name": "one", "layers": ["secret"]}, "invalid_input"),
    ],
)
async def test_banks_that_cannot_be(world: World, fields: dict[str, Any], code: str) -> None:
    """A taken name, another's private name, and layers that are missing or hidden are refused."""
    await world.gate.bank_create(ANA, BankCreateRequest(name="secret", owner="agent.coder"))
    assert await code_of(world.gate.bank_create(ANA, BankCreateRequest(**fields))) == code


async def test_missing_bank(world: World) -> None:
    """A request never makes a bank: one that does not exist is not found."""
    assert await code_of(world.save(ANA, "x", bank="nowhere")) == "not_found"
