"""The functions `export` and `import` of one tenant."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import (
    ExportReply,
    ExportRequest,
    ImportReply,
    ImportRequest,
    ValueRevealReply,
    ValueRevealRequest,
)
from memory_worker.clock import Clock
from memory_worker.files.admitting import admitted
from memory_worker.files.exporting import Exporter
from memory_worker.files.importing import Importer, cause_of
from memory_worker.files.store_side import GateIntake, StoreFeed, StoreSnapshot
from memory_worker.gate import Gate, may_read
from memory_worker.store import Caller

Reveal = Callable[[Caller, ValueRevealRequest], Awaitable[ValueRevealReply]]
"""Gives one protected value to a caller who may see it, and journals that it did."""


class Running(msgspec.Struct):
    """How far an export or import is, in memories, and whose it is."""

    caller: Caller
    function: Literal["export", "import"]
    done: int = 0
    total: int = 0


class Archives:
    """Makes archives in the tenant's folder `exports`, and takes archives and markdown in.

    `root` is the tenant's folder, `data_dir` the worker's directory, of which an import reads nothing else.
    """

    def __init__(self, root: Path, gate: Gate, clock: Clock, version: str, reveal: Reveal, *, data_dir: Path) -> None:
        self._root = root
        self._data_dir = data_dir
        self._gate = gate
        self._clock = clock
        self._reveal = reveal
        store = gate.store
        self._exporter = Exporter(root, store.tenant, version, StoreFeed(store), StoreSnapshot(store), clock)
        self.running: list[Running] = []
        """What runs now."""

    async def export(self, caller: Caller, request: ExportRequest) -> ExportReply:
        """Write an archive of what the caller may read.

        With `include_protected` each protected value is revealed to the caller one by one, and journalled as any other
        reveal. Raises `not_found` for a bank that is not there, `forbidden` for protected values on a route that is not
        a person's, and `unavailable` where the tenant's key cannot open them.
        """
        if request.include_protected and caller.route != "human":
            raise FunctionError(
                "forbidden", "protected values are exported to a person only", field="include_protected"
            )

        async def reveal(ref: str) -> str:
            return (await self._reveal(caller, ValueRevealRequest(ref=ref))).value

        running = Running(caller, "export")
        self.running.append(running)
        try:
            return await self._exporter.export(
                lambda bank: may_read(caller, bank),
                request.bank,
                reveal=reveal if request.include_protected else None,
                progress=lambda done, total: _tell(running, done, total),
            )
        finally:
            self.running.remove(running)

    async def import_(self, caller: Caller, request: ImportRequest) -> ImportReply:
        """Take in an archive, a folder of facts or a rule file that lies on the worker's side.

        Raises `invalid_input` where there is nothing that an import takes, and for an archive that is damaged, and
        `forbidden` for what is the worker's own: then nothing came in.
        """
        path = await asyncio.to_thread(admitted, Path(request.path), self._root, self._data_dir)
        intake = GateIntake(
            self._gate, caller, cause_of(path, request.trust), trust=request.trust, dry_run=request.dry_run
        )
        running = Running(caller, "import")
        importer = Importer(
            intake,
            self._clock,
            dry_run=request.dry_run,
            visible=lambda bank: may_read(caller, bank),
            progress=lambda done, total: _tell(running, done, total),
        )
        self.running.append(running)
        try:
            return await importer.run(path, request.bank)
        finally:
            self.running.remove(running)


def _tell(running: Running, done: int, total: int) -> None:
    running.done, running.total = done, total
