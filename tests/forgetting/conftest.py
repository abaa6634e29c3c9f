"""A gate over a real store for what forgetting, the vault and expiry decide, without a bus."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_contracts.functions.review import EntityAliasRequest
from memory_contracts.records import Alias
from memory_worker.gate import Destroyed, GateSettings, KeyedVault, Plan, destroy
from memory_worker.store import Origin, entities
from tests.gate.conftest import ANA, MakeWorld, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A fresh tenant."""
    made = await World(tmp_path).open()
    yield made
    await made.close()


@pytest.fixture
async def make_world(tmp_path: Path) -> AsyncIterator[MakeWorld]:
    """Make tenants with settings of their own; every one is closed at the end."""
    made: list[World] = []

    async def make(settings: GateSettings | None = None, tenant: str = "local", under: str = "tenants") -> World:
        made.append(await World(tmp_path / under, settings, tenant).open())
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def know(world: World, name: str, *aliases: str) -> tuple[str, ...]:
    """Make somebody known under these names; gives them."""
    await world.save(ANA, f"{name} is a colleague", entities=[name], kind="person")
    for alias in aliases:
        await world.review.entity_alias(ANA, EntityAliasRequest(entity=name, alias=Alias(channel="name", value=alias)))
    return (name, *aliases)


async def carry_out(world: World, plan: Plan) -> Destroyed:
    """Destroy what a plan names in the store."""
    vault = world.gate.vault
    assert isinstance(vault, KeyedVault)
    origin = Origin.of(ANA, "fgt_1", "forget")
    return await world.store.write(lambda tx: destroy(world.gate.act(tx, ANA, origin), plan, vault))


async def forget(world: World, *names: str, never_again: bool = False) -> Destroyed:
    """Forget the person of these names."""
    person = await entities.read_named(world.store.readers, names[0])
    assert person is not None
    plan = Plan(kind="person", entity=person.id, names=names, never_again=never_again)
    return await carry_out(world, plan)
