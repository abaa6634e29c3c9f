"""Fixtures of the context tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.context.room import Room, room


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Room]:
    """A room of its own."""
    async with room(tmp_path / "local") as opened:
        yield opened
