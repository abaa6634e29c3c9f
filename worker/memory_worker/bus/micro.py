"""The worker as a NATS micro service (ADR-32): answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`."""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memory_contracts.connection import Bus, BusError, Message
from memory_worker.bus.accounts import DISCOVERY, QUEUE

SERVICE_NAME = "memory"
LOOK_AROUND_S = 0.25
"""Seconds given to workers already there to say which store they serve."""

_TYPE = "io.nats.micro.v1.{kind}_response"


class Endpoint(msgspec.Struct):
    """Counts of one function since start. Times in nanoseconds, as the protocol wants them."""

    name: str
    subject: str
    requests: int = 0
    errors: int = 0
    last_error: str = ""
    nanoseconds: int = 0

    def count(self, outcome: str, seconds: float) -> None:
        """Count one finished request; of an error only its code is kept."""
        self.requests += 1
        self.nanoseconds += int(seconds * 1e9)
        if outcome != "ok":
            self.errors += 1
            self.last_error = outcome


class Service:
    """What discovery is told. `store_id` names the store, so that a second one for the same tenants is noticed."""

    def __init__(self, bus: Bus, *, version: str, store_id: str, tenants: Sequence[str]) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self._bus = bus
        self._id = secrets.token_hex(8)
        self._version = version
        self._metadata = {"store": store_id, "tenants": ",".join(tenants)}
        self._started = datetime.now(UTC)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sub: Any = None

    def add(self, function: str, subject: str) -> Endpoint:
        """Make a function known."""
        self.endpoints[function] = Endpoint(function.replace(".", "-"), subject)
        return self.endpoints[function]

    async def start(self) -> None:
        """Answer discovery."""
        self._sub = await self._bus.subscribe("$SRV.>", self._take)

    async def stop(self) -> None:
        """Stop answering discovery."""
        if self._sub is not None:
            await self._sub.stop()

    async def others(self, within: float = LOOK_AROUND_S) -> list[dict[str, str]]:
        """Ask who else is here; gives the metadata of every other worker. To be called before `start`."""
        found: list[dict[str, str]] = []

        def heard(message: Message) -> None:
            try:
                info = msgspec.json.decode(message.data)
                if info["id"] != self._id and isinstance(info.get("metadata"), dict):
                    found.append(info["metadata"])
            except (msgspec.DecodeError, KeyError, TypeError):
                return

        inbox = self._bus.new_inbox()
        sub = await self._bus.subscribe(inbox, heard)
        try:
            await self._bus.publish(DISCOVERY, reply=inbox)
            await asyncio.sleep(within)
        finally:
            await sub.stop()
        return found

    def _take(self, message: Message) -> None:
        parts = message.subject.split(".")[1:]
        kind, rest = parts[0].lower(), parts[1:]
        if not message.reply or kind not in ("ping", "info", "stats"):
            return
        if rest and (rest[0] != SERVICE_NAME or (len(rest) > 1 and rest[1] != self._id) or len(rest) > 2):
            return
        task = asyncio.create_task(self._answer(message.reply, kind))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reply: str, kind: str) -> None:
        body: dict[str, Any] = {
            "type": _TYPE.format(kind=kind),
            "name": SERVICE_NAME,
            "id": self._id,
            "version": self._version,
            "metadata": self._metadata,
        }
        if kind == "info":
            body["description"] = "Durable memory for agents"
            body["endpoints"] = [
                {"name": point.name, "subject": point.subject, "queue_group": QUEUE, "metadata": None}
                for point in self.endpoints.values()
            ]
        elif kind == "stats":
            body["started"] = self._started.isoformat().replace("+00:00", "Z")
            body["endpoints"] = [
                {
                    "name": point.name,
                    "subject": point.subject,
                    "queue_group": QUEUE,
                    "num_requests": point.requests,
                    "num_errors": point.errors,
                    "last_error": point.last_error,
                    "processing_time": point.nanoseconds,
                    "average_processing_time": point.nanoseconds // point.requests if point.requests else 0,
                }
                for point in self.endpoints.values()
            ]
        try:
            await self._bus.publish(reply, msgspec.json.encode(body))
        except BusError:
            return  # whoever asked will ask again


class StoreConflict(BusError):
    """Another worker serves the same tenant from another store: memories would be split between the two."""


async def refuse_second_store(service: Service, store_id: str, tenants: Sequence[str]) -> None:
    """Raise StoreConflict when a worker with another store already serves one of `tenants`."""
    for metadata in await service.others():
        shared = set(metadata.get("tenants", "").split(",")) & set(tenants)
        if metadata.get("store") != store_id and shared:
            raise StoreConflict(
                f"another worker on this bus serves {', '.join(sorted(shared))} from another store: stop it first"
            )
