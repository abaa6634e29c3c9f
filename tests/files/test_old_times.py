"""A record that an older release kept with a time beyond the calendar keeps no other record from its file."""

from datetime import datetime

import pytest

from memory_contracts.functions.operations import ExportRequest
from memory_contracts.records import Memory, Source
from memory_worker.clock import to_datetime
from memory_worker.gate import drafts, importing
from memory_worker.store import Origin
from tests.files.test_archives import archives
from tests.files.world import World

BEYOND = ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00"]
FIELDS = ["created_at", "occurred_at"]
"""The times that a file shows."""


async def planted(world: World, monkeypatch: pytest.MonkeyPatch, field: str, time: str) -> None:
    """Take in a memory as a release without bounds on times did, with one before and one after it."""
    await world.save("The one before.")
    now = to_datetime(world.clock.now())
    times = {"created_at": now, "updated_at": now, "last_seen_at": now, field: datetime.fromisoformat(time)}
    source = Source(route="human", principal="me")
    odd = Memory(id="mem_odd", bank="main", text="The odd one.", kind="fact", tier="stated", source=source, **times)  # type: ignore[arg-type]
    with monkeypatch.context() as older:
        for module in (importing, drafts):
            older.setattr(module, "clean_instant", lambda at, field: at)
        origin = Origin.of(world.person, "archive")
        [done] = await world.store.write(
            lambda tx: importing.import_memories(
                world.gate.act(tx, world.person, origin), "main", [odd], True, world.vault
            )
        )
    assert done.outcome == "created"
    await world.save("The one after.")


@pytest.mark.parametrize("time", BEYOND)
@pytest.mark.parametrize("field", FIELDS)
async def test_the_mirror_passes_over_it_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, field: str, time: str
) -> None:
    """From the journal, from the records and at every later look: its file is named as not written, the others are."""
    await planted(world, monkeypatch, field, time)
    for look in ("drain", "reload", "restart", "sync", "rebuild"):
        await (world.restart() if look == "restart" else getattr(world.room, look)())
        assert sorted(text.rpartition("---\n")[2].strip() for text in world.files().values()) == [
            "The one after.",
            "The one before.",
        ]
        status = await world.room.status()
        assert status.error is None
    assert list((await world.room.status()).failures.values()) == ["a time of its record lies outside the calendar"]


@pytest.mark.parametrize("time", BEYOND)
async def test_an_export_leaves_it_out_and_counts_it(world: World, monkeypatch: pytest.MonkeyPatch, time: str) -> None:
    """An archive is made of everything else, and its counts say what is not in it."""
    await planted(world, monkeypatch, "occurred_at", time)
    reply = await archives(world).export(world.person, ExportRequest())
    assert (reply.counts["memories"], reply.counts["unwritable_left_out"]) == (2, 1)
