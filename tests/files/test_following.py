"""While the worker runs, changes on either side reach the other without being asked for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from memory_worker.clock import SystemClock
from memory_worker.files import FilesSettings
from tests.files.world import World, opened

DEADLINE_S = 20.0
QUICK = FilesSettings(coalesce_s=0.01, settle_s=0.05, vanish_settle_s=0.2)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds; fails at the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not await holds():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.02)


async def test_a_save_reaches_the_folder_and_an_edit_the_store(tmp_path: Path) -> None:
    """A saved memory becomes a file, an edited file a revision, a removed file a deletion, all by themselves."""
    async with opened(tmp_path / "local", settings=QUICK, clock=SystemClock()) as world:
        world.room.start()
        memory = await world.save("The standup is at nine.")

        async def written() -> bool:
            return len(world.files()) == 1

        await until(written)

        async def watched() -> bool:
            return (await world.room.status()).watching

        await until(watched)
        path = world.edit(memory, "at nine", "at ten")

        async def taken() -> bool:
            return (await world.memory(memory.id)).text == "The standup is at ten."

        await until(taken)

        async def shown() -> bool:
            return "revision: 2\n" in path.read_text()

        await until(shown)
        path.unlink()

        async def deleted() -> bool:
            return (await world.memory(memory.id)).state == "deleted"

        await until(deleted)

        async def in_step() -> bool:
            return (await world.room.status()).lag_rows == 0

        await until(in_step)


async def test_an_editors_safe_save_is_one_change(tmp_path: Path) -> None:
    """Writing a copy and renaming it over the file, by way of a backup, never looks like a removal."""
    async with opened(tmp_path / "local", settings=QUICK, clock=SystemClock()) as world:
        memory = await world.save("The standup is at nine.")
        await world.room.drain()
        world.room.start()
        path = world.path_of(memory)
        text = path.read_text()
        for minute in range(10, 15):
            path.rename(path.with_name(path.name + "~"))
            path.with_name(".save.swp").write_text(text.replace("at nine", f"at nine {minute}"))
            path.with_name(".save.swp").rename(path)

        async def taken() -> bool:
            return (await world.memory(memory.id)).text == "The standup is at nine 14."

        await until(taken)
        assert (await world.memory(memory.id)).state == "live"
        assert await world.suggestions() == []


async def test_a_new_folder_is_watched_at_once(tmp_path: Path) -> None:
    """What is put into a folder that did not exist a moment ago is found."""
    async with opened(tmp_path / "local", settings=QUICK, clock=SystemClock()) as world:
        world.room.start()
        world.folder().mkdir(parents=True, exist_ok=True)
        (world.folder() / "sub").mkdir()
        (world.folder() / "sub" / "x.md").write_text("A fact.")

        async def taken() -> bool:
            return await world.texts() == ["A fact."]

        await until(taken)


async def test_a_disk_that_refuses_is_tried_again(tmp_path: Path) -> None:
    """While the folder cannot be written saves go on; once it can, the mirror catches up."""
    settings = FilesSettings(coalesce_s=0.01, settle_s=0.05, retry_s=0.02)
    async with opened(tmp_path / "local", settings=settings, clock=SystemClock()) as world:
        staging = world.root / ".staging"
        staging.rmdir()
        staging.write_text("in the way")
        world.room.start()
        await world.save("The standup is at nine.")

        async def refused() -> bool:
            status = await world.room.status()
            return bool(status.failures) or status.error is not None

        await until(refused)
        staging.unlink()
        staging.mkdir()
        await world.save("Another fact.")

        async def written() -> bool:
            return len(world.files()) == 2

        await until(written)


async def test_the_status_tells_how_far_the_files_are(world: World) -> None:
    """Lag, the last sync, problems and what was ignored are told."""
    await world.save("The standup is at nine.")
    before = await world.room.status()
    assert before.lag_rows == 1
    world.moved.pass_(10)
    await world.room.drain()
    after = await world.room.status()
    assert (after.lag_rows, after.files, after.problems_total, after.error) == (0, 2, 0, None)
    assert after.last_sync_at == world.clock.now()
