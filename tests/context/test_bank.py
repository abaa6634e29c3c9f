"""The one resolver: which bank a turn belongs to, what is read with it, and what stays private."""

import pytest

from memory_contracts.errors import FunctionError
from memory_worker.context import BankResolver, Off, ResolvedBank, Wait
from tests.context.room import Room, SessionsDouble, agent, caller, texts

CAT = "What is the name of the cat?"


async def resolve(resolver: BankResolver, session: str = "s1", agent: str | None = None, **said: object) -> object:
    """Resolve a turn's metadata."""
    return await resolver.resolve(session, said, agent, within_s=1.0)


async def test_without_a_word_the_bank_is_main(here: Room) -> None:
    """A turn that names no bank belongs to `main`."""
    assert await resolve(here.contexts.resolver) == ResolvedBank(bank="main", scope=("main",))


async def test_the_turn_is_asked_before_the_session_and_the_session_before_main(here: Room) -> None:
    """The nearest word on the bank counts."""
    contexts = here.service(SessionsDouble(s1={"memory_bank": "from-session"}, s2={}))
    for session, said, bank in (
        ("s1", {"memory_bank": "from-turn"}, "from-turn"),
        ("s1", {}, "from-session"),
        ("s2", {}, "main"),
        ("unknown", {}, "main"),
    ):
        found = await resolve(contexts.resolver, session, **said)
        assert isinstance(found, ResolvedBank)
        assert found.bank == bank
    await contexts.close()


async def test_a_session_manager_that_is_away_never_means_another_bank(here: Room) -> None:
    """Nothing is given and the turn waits; a turn that names its bank needs nobody."""
    sessions = SessionsDouble()
    sessions.away = True
    contexts = here.service(sessions)
    assert isinstance(await resolve(contexts.resolver, "s1"), Wait)
    found = await resolve(contexts.resolver, "s1", memory_bank="named")
    assert isinstance(found, ResolvedBank)
    assert found.bank == "named"
    await contexts.close()


async def test_an_away_session_manager_is_not_asked_by_every_turn(here: Room) -> None:
    """A negative answer is remembered for a moment, so that each context does not wait for it again."""
    sessions = SessionsDouble()
    sessions.away = True
    contexts = here.service(sessions)
    await resolve(contexts.resolver, "s1")
    await resolve(contexts.resolver, "s1")
    assert sessions.asked == 1
    await contexts.close()


async def test_a_valid_new_name_makes_the_bank_and_an_invalid_one_does_not(here: Room) -> None:
    """The first turn of a new bank makes it; a name that cannot be one leaves nothing and says why."""
    found = await resolve(here.contexts.resolver, memory_bank="new-bank")
    assert found == ResolvedBank(bank="new-bank", scope=("new-bank",), created=True)
    found = await resolve(here.contexts.resolver, memory_bank="new-bank")
    assert found == ResolvedBank(bank="new-bank", scope=("new-bank",))
    for wrong in ("New Bank", "../main", "x" * 65, 7):
        found = await resolve(here.contexts.resolver, memory_bank=wrong)
        assert isinstance(found, Off)
        assert found.park
    reply = await here.context("Hello", metadata={"memory_bank": "Not A Name"})
    assert (reply.bank, reply.system, reply.memories) == (None, "", "")
    assert reply.reason == "metadata `memory_bank` is not a valid bank name"


@pytest.mark.parametrize("metadata", [{"memory": "off"}, {"memory": "private"}, {"memory": False}, {"memory": "maybe"}])
async def test_memory_off_gives_nothing(here: Room, metadata: dict[str, object]) -> None:
    """Off, private without an owner, and a word nobody knows give nothing and say why."""
    await here.save("The cat is called Mio")
    await here.rule("style", "Answer briefly.")
    reply = await here.context(CAT, metadata=metadata)
    assert (reply.bank, reply.system, reply.memories, reply.mode) == (None, "", "", "off")
    assert reply.reason


async def test_a_session_that_is_off_stays_off_though_the_turn_names_a_bank(here: Room) -> None:
    """What the session manager says of `memory` counts where the turn does not say it."""
    contexts = here.service(SessionsDouble(s1={"memory": "off"}))
    assert isinstance(await resolve(contexts.resolver, "s1", memory_bank="work"), Off)
    await contexts.close()


async def test_a_private_turn_reads_only_its_owners_bank(here: Room) -> None:
    """Neither layers nor `main` are read, whatever else is named."""
    await here.save("The cat is called Mio")
    ana = caller("human", "ana")
    await here.bank("diary", owner="human.ana", by=ana)
    await here.save("The cat is called Secret", ana, bank="diary")
    private = {"memory": "private", "memory_owner": "human.ana"}
    assert texts(await here.context(CAT, metadata=private)) == ["The cat is called Secret"]
    named = {**private, "memory_bank": "main"}
    assert texts(await here.context(CAT, session_id="s2", metadata=named)) == ["The cat is called Secret"]
    other = {"memory": "private", "memory_owner": "human.ben"}
    assert texts(await here.context(CAT, session_id="s3", metadata=other)) == []


async def test_a_private_bank_is_made_for_its_owner(here: Room) -> None:
    """The first private turn of a person makes a bank that only they see."""
    found = await resolve(here.contexts.resolver, memory="private", memory_owner="human.ana")
    assert found == ResolvedBank(bank="private-ana", scope=("private-ana",), private=True, created=True)
    bank = (await here.contexts.resolver.scope_for_request("human.ana", "private-ana")).bank
    assert bank == "private-ana"
    with pytest.raises(FunctionError, match="no bank private-ana"):
        await here.contexts.resolver.scope_for_request("human.ben", "private-ana")


async def test_naming_a_private_bank_does_not_open_it(here: Room) -> None:
    """A turn gets at a private bank only by being its owner's."""
    ana = caller("human", "ana")
    await here.bank("diary", owner="human.ana", by=ana)
    await here.save("The cat is called Secret", ana, bank="diary")
    reply = await here.context(CAT, metadata={"memory_bank": "diary"})
    assert reply.reason == "bank diary is private, and the turn does not come from its owner"
    assert reply.memories == ""
    await here.save("Nobody else may read this", agent("coder"), bank="agent-coder")
    assert isinstance(await resolve(here.contexts.resolver, memory_bank="agent-coder"), Off)
    assert isinstance(await resolve(here.contexts.resolver, memory_bank="agent-new"), Off)


async def test_layers_are_read_below_and_the_nearer_rule_wins(here: Room) -> None:
    """A bank over `main`: rules of both, the near one of a name wins, memories of both."""
    await here.bank("project", layers=["main"])
    await here.rule("style", "House style.")
    await here.rule("safety", "Be careful.")
    await here.rule("style", "Project style.", bank="project")
    await here.save("The cat is called Mio")
    await here.save("The cat of the project is called Kitkat", bank="project")
    reply = await here.context(CAT, metadata={"memory_bank": "project"})
    assert [(rule.bank, rule.name) for rule in reply.rules] == [("main", "safety"), ("project", "style")]
    assert sorted(texts(reply)) == ["The cat is called Mio", "The cat of the project is called Kitkat"]
    assert reply.total == 2
    assert sorted(texts(await here.context(CAT, session_id="s2"))) == ["The cat is called Mio"]


async def test_the_named_agents_private_bank_is_layered_in(here: Room) -> None:
    """An agent has its own notes at hand; no other agent's turn has them."""
    await here.save("The cat is called Mio, says the coder", agent("coder"), bank="agent-coder")
    assert texts(await here.context(CAT, agent="coder")) == ["The cat is called Mio, says the coder"]
    assert texts(await here.context(CAT, session_id="s2", agent="writer")) == []
    assert texts(await here.context(CAT, session_id="s3")) == []


async def test_a_layer_that_became_private_is_not_read(here: Room) -> None:
    """A layer's name that somebody took for a private bank leaks nothing of it."""
    await here.bank("diary")
    await here.bank("shared", layers=["diary"])
    await here.drop_bank("diary")
    ana = caller("human", "ana")
    await here.bank("diary", owner="human.ana", by=ana)
    await here.save("The cat is called Secret", ana, bank="diary")
    assert texts(await here.context(CAT, metadata={"memory_bank": "shared"})) == []
    assert (await here.contexts.resolver.scope_for_request("human.ben", "shared")).scope == ("shared",)
    assert (await here.contexts.resolver.scope_for_request("human.ana", "shared")).scope == ("shared", "diary")


async def test_the_same_text_in_two_banks_stays_apart(here: Room) -> None:
    """A turn of one bank is given that bank's memory, not the other's twin."""
    await here.bank("work")
    mine = await here.save("The cat is called Mio")
    theirs = await here.save("The cat is called Mio", bank="work")
    assert [item.id for item in (await here.context(CAT)).items] == [mine.id]
    reply = await here.context(CAT, metadata={"memory_bank": "work"})
    assert [item.id for item in reply.items] == [theirs.id]


async def test_a_bank_deleted_and_made_again_is_empty(here: Room) -> None:
    """Old content does not come back under a name that is used again."""
    await here.bank("work")
    await here.save("The cat is called Mio", bank="work")
    await here.drop_bank("work")
    await here.bank("work")
    reply = await here.context(CAT, metadata={"memory_bank": "work"})
    assert (texts(reply), reply.total) == ([], 0)
