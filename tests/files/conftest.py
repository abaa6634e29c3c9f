"""Fixtures of the file room's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.files.world import World, opened


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A tenant with an empty store and an open file room."""
    async with opened(tmp_path / "local") as made:
        yield made
