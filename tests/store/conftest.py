"""Fixtures of the store's tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_worker.clock import SystemClock
from memory_worker.store import TenantStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[TenantStore]:
    """An empty store."""
    opened = TenantStore("local", tmp_path / "local", SystemClock())
    await opened.open()
    yield opened
    await opened.close()
