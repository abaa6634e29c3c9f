"""A small pool of aiosqlite connections that read beside the writer."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite

READERS = 3
"""Connections in the pool: with two cores more only add contention."""


class Readers:
    """Gives read access. A read begun after an acknowledged write sees it."""

    def __init__(self, path: Path, size: int = READERS) -> None:
        self._path = path
        self._size = size
        self._free: asyncio.Queue[aiosqlite.Connection] = asyncio.Queue()
        self._all: list[aiosqlite.Connection] = []
        self._gate = asyncio.Lock()

    async def open(self) -> None:
        """Open the connections."""
        for _ in range(self._size):
            connection = await aiosqlite.connect(f"file:{self._path}?mode=ro", uri=True, isolation_level=None)
            await connection.execute("PRAGMA query_only=ON")
            await connection.execute("PRAGMA temp_store=MEMORY")
            self._all.append(connection)
            self._free.put_nowait(connection)

    async def close(self) -> None:
        """Close every connection after the reads that run on it; without this the process would not end."""
        for _ in range(len(self._all)):
            await self._free.get()
        for connection in self._all:
            await connection.close()
        self._all.clear()

    @asynccontextmanager
    async def drained(self) -> AsyncIterator[None]:
        """Hold every connection closed for the block, so that no reader keeps old pages alive."""
        async with self._gate:
            await self.close()
            try:
                yield
            finally:
                await self.open()

    async def all(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> Sequence[tuple[Any, ...]]:
        """Give every row."""
        connection = await self._free.get()
        try:
            return list(await connection.execute_fetchall(sql, values))  # type: ignore[arg-type]
        finally:
            self._free.put_nowait(connection)

    async def one(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> tuple[Any, ...] | None:
        """Give the first row, or None."""
        rows = await self.all(sql, values)
        return rows[0] if rows else None
