"""Fixtures of the context tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.context.room import Room, room

# How long an example takes is the machine's matter, not the rule's.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Room]:
    """A room of its own."""
    async with room(tmp_path / "local") as opened:
        yield opened
