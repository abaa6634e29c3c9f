"""What lies in the trash stays there, or goes after the time the setting says."""

from memory_worker.files import Trash
from memory_worker.store.banks import BankRow
from tests.files.world import World

DAY_S = 86_400.0


def trash(world: World, days: float) -> tuple[Trash, list[str]]:
    """Give a trash of that retention, and the names of the banks it destroys."""
    destroyed: list[str] = []

    async def destroy(row: BankRow) -> None:
        destroyed.append(row.bank.name)

    return Trash(world.store, days, destroy), destroyed


async def test_by_default_the_trash_keeps_everything(world: World) -> None:
    """Retention 0 keeps a trashed bank until a person wipes it."""
    await world.make_bank("work")
    await world.save("The standup is at nine.", bank="work")
    await world.trash("work")
    world.moved.pass_(10_000 * DAY_S)
    kept, destroyed = trash(world, 0)
    assert await kept.empty() == 0
    assert destroyed == []


async def test_a_bank_goes_when_its_time_is_over(world: World) -> None:
    """A trashed bank is destroyed after so many days, to the second; banks in use are not looked at."""
    for name in ("old", "new", "used"):
        await world.make_bank(name)
        await world.save("The standup is at nine.", bank=name)
    await world.trash("old")
    world.moved.pass_(DAY_S)
    await world.trash("new")
    world.moved.pass_(29 * DAY_S)
    due, destroyed = trash(world, 30)
    assert await due.empty() == 1
    assert destroyed == ["old"]


async def test_an_emptied_bank_is_not_destroyed_twice(world: World) -> None:
    """A trashed bank that holds nothing is left as a name that once was."""
    await world.make_bank("work")
    await world.trash("work")
    world.moved.pass_(31 * DAY_S)
    due, destroyed = trash(world, 30)
    assert await due.empty() == 0
    assert destroyed == []
