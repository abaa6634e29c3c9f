"""The doctor's roundtrip through a running tenant: a private scratch bank, one memory, and nothing of it left."""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memory_contracts import jetstream
from memory_contracts.errors import FunctionError
from memory_contracts.functions import FUNCTIONS
from memory_contracts.jetstream import JetStreamError
from memory_contracts.subjects import Subjects, private_stream
from memory_worker.bus import Bus, CallInfo, Handler
from memory_worker.health import Roundtrip, RoundtripError
from memory_worker.store import Caller, Readers, memories, new_id
from memory_worker.tenant import Tenant

BANK = "doctor"
"""The scratch bank; private to the doctor, so that nobody is shown it."""
PRINCIPAL = "doctor"
OWNER = f"human.{PRINCIPAL}"
WAIT_S = 5.0
"""Longest wait for the trigger and for the file."""
LOOK_S = 0.02
"""Pause between looks."""


def roundtrip_of(tenant: Tenant, table: dict[str, Handler], bus: Bus, subjects: Subjects, *, files: bool) -> Roundtrip:
    """Give the steps, each through the same handlers as a caller's request."""
    caller = Caller(tenant.name, "human", PRINCIPAL)
    saved: list[str] = []

    async def call(function: str, **fields: Any) -> Any:
        request = FUNCTIONS[function].request(**fields)
        return await table[function](caller, request, CallInfo(None, new_id("req")))

    async def save(text: str) -> str:
        with contextlib.suppress(FunctionError):  # it is there from the last time
            await call("bank.create", name=BANK, owner=OWNER, description="The doctor's scratch bank.", expiry="month")
        memory_id: str = (await call("save", text=text, bank=BANK)).memory.id
        saved.append(memory_id)
        return memory_id

    async def committed(memory_id: str) -> None:
        readers = Readers(tenant.store.path, size=1)
        await readers.open()
        try:
            if await memories.read(readers, memory_id) is None:
                raise RoundtripError("a fresh connection does not find the record")
        finally:
            await readers.close()

    async def recall(memory_id: str, text: str) -> None:
        found = await call("recall", query=text, bank=BANK)
        if memory_id not in {item.memory.id for item in found.memories}:
            raise RoundtripError("not among the results")

    async def trigger(memory_id: str) -> None:
        subject = subjects.item_changed(tenant.name, BANK, memory_id, OWNER)

        async def published() -> bool:
            stream = private_stream(tenant.name)
            try:
                found = await jetstream.call(bus, f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
            except JetStreamError:
                return False
            return memory_id.encode() in base64.b64decode(found["message"]["data"])

        await _until(published, "not published")

    async def file(memory_id: str) -> None:
        folder = tenant.directory / "banks" / BANK / "memories"

        async def written() -> bool:
            return await asyncio.to_thread(_mentions, folder, memory_id)

        await _until(written, "not written")

    async def erase() -> None:
        for memory_id in saved:
            await call("erase", id=memory_id)

    return Roundtrip(
        save=save, committed=committed, recall=recall, trigger=trigger, file=file if files else None, erase=erase
    )


async def _until(condition: Callable[[], Awaitable[bool]], problem: str) -> None:
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while not await condition():
        if asyncio.get_running_loop().time() > deadline:
            raise RoundtripError(f"{problem} within {WAIT_S:.0f} s")
        await asyncio.sleep(LOOK_S)


def _mentions(folder: Path, memory_id: str) -> bool:
    """Whether a file of the folder is about this memory."""
    with contextlib.suppress(OSError):
        return any(memory_id in path.read_text("utf-8") for path in folder.glob("*.md"))
    return False
