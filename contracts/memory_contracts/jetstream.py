"""The part of JetStream that is used here: acknowledged publishing, atomic batches and pulling from a durable consumer.

nats-py's own JetStream client is not used: its fetch hides a deleted consumer for a whole timeout, a cancelled fetch
leaves a pull behind that swallows the next message, and it has no atomic batches.
"""

import asyncio
import contextlib
import random
import secrets
from collections import deque
from typing import Any

import msgspec

from memory_contracts.connection import Bus, BusAway, BusError, BusTimeout, Message, NoResponders

API_TIMEOUT_S = 5.0
"""Seconds one JetStream call may take. A busy disk takes its time, and a lost connection is noticed without this."""
PUBLISH_ATTEMPTS = 3
"""Times a publish is tried with the same id before it is given up."""
PULL_BATCH = 256
"""Messages asked for at a time."""
PULL_EXPIRES_S = 2.0
"""Seconds a pull waits at the server; also the longest a lost pull can delay the next message."""
PULL_GRACE_S = 1.0
"""Seconds after its expiry at which a pull that said nothing counts as lost."""
BATCH_MAX = 500
"""Messages in one atomic batch; the server takes 1,000."""

DUPLICATE_IN_BATCH = 10201
"""The server's error code for an atomic batch that holds an id it knows already."""


class JetStreamError(BusError):
    """JetStream refused the call. `err_code` is the server's number for the reason."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description


class ConsumerGone(BusError):
    """The stream or the durable consumer does not exist (any more)."""


class PubAck(msgspec.Struct, frozen=True):
    """The server's word that a message is stored. `duplicate` = its id was known already."""

    stream: str
    seq: int
    duplicate: bool = False
    count: int = 0


class Outgoing(msgspec.Struct, frozen=True):
    """A message to be stored; `msg_id` makes sending it twice harmless within the stream's window."""

    subject: str
    data: bytes
    msg_id: str


class Pulled(msgspec.Struct, frozen=True):
    """A message of a durable consumer. `ack` is the subject on which it is acknowledged."""

    subject: str
    data: bytes
    headers: dict[str, str]
    ack: str
    stream_seq: int
    delivered: int
    pending: int


async def call(
    bus: Bus, subject: str, body: dict[str, Any] | None = None, *, within: float = API_TIMEOUT_S, attempts: int = 1
) -> Any:
    """Ask the JetStream API, e.g. `STREAM.INFO.TURNS`. Raises JetStreamError with the server's reason.

    More than one of `attempts` is for calls that may be repeated: one that meets a server which is reading its
    configuration again is never answered.
    """
    data = msgspec.json.encode(body) if body is not None else b""
    for attempt in range(attempts):
        try:
            return _checked(await bus.request(f"{bus.credentials.js_prefix}.{subject}", data, within=within))
        except (BusTimeout, BusAway):
            if attempt == attempts - 1:
                raise
    raise AssertionError("unreachable")


async def publish(bus: Bus, message: Outgoing, within: float = API_TIMEOUT_S) -> PubAck:
    """Store one message and wait for the server's word, trying again with the same id when none comes."""
    for attempt in range(PUBLISH_ATTEMPTS):
        try:
            reply = await bus.request(
                message.subject, message.data, within=within, headers={"Nats-Msg-Id": message.msg_id}
            )
            return msgspec.convert(_checked(reply), PubAck)
        except (BusTimeout, BusAway):
            if attempt == PUBLISH_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


async def publish_batch(bus: Bus, messages: list[Outgoing], within: float = API_TIMEOUT_S) -> PubAck:
    """Store all messages or none (NATS ADR-50); they must go to one stream. Needs a server of 2.12 or newer.

    Raises JetStreamError `DUPLICATE_IN_BATCH` when one of the ids is known: then nothing of the batch is stored.
    """
    if not 0 < len(messages) <= BATCH_MAX:
        raise ValueError(f"a batch holds 1 to {BATCH_MAX} messages, not {len(messages)}")
    batch_id = secrets.token_hex(16)
    for number, message in enumerate(messages, 1):
        headers = {"Nats-Msg-Id": message.msg_id, "Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
        if number < len(messages):
            await bus.publish(message.subject, message.data, headers=headers)
            continue
        headers["Nats-Batch-Commit"] = "1"
        reply = await bus.request(message.subject, message.data, within=within, headers=headers)
        return msgspec.convert(_checked(reply), PubAck)
    raise AssertionError("unreachable")


def takes_batches(server_version: str) -> bool:
    """Tell whether the server knows atomic batches; an older one would store their messages one by one."""
    parts = server_version.split(".")
    return len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit() and (int(parts[0]), int(parts[1])) >= (2, 12)


class Puller:
    """Takes messages from a durable consumer in groups; at most one pull waits at the server.

    A pull is never cancelled: it ends by its own expiry, or when `stop` takes the interest away.
    """

    def __init__(
        self, bus: Bus, stream: str, durable: str, *, batch: int = PULL_BATCH, expires: float = PULL_EXPIRES_S
    ) -> None:
        self._bus = bus
        self._api = f"{bus.credentials.js_prefix}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._what = f"{stream}/{durable}"
        self._batch = batch
        self._expires = expires
        self._arrived: deque[Pulled] = deque()
        self._news = asyncio.Event()
        self._open = 0
        self._lost_at = 0.0
        self._gone = False
        self._stopped = False
        self._pause = 0.0
        self._sub: Any = None
        self._inbox = ""

    async def start(self) -> None:
        """Listen for what the pulls bring."""
        self._inbox = self._bus.new_inbox()
        self._sub = await self._bus.subscribe(self._inbox, self._take)
        self._bus.on_reconnect(self._reconnected)

    async def group(self) -> list[Pulled]:
        """Wait for messages and take all that are there, at most one batch. Empty when none came for one expiry.
        After `stop` it gives what is left at once.

        Raises ConsumerGone when the server has no such consumer, BusClosed when the connection is closed for good.
        """
        if not self._arrived and not self._stopped:
            await self._wait()
        taken = [self._arrived.popleft() for _ in range(min(len(self._arrived), self._batch))]
        if not taken and self._gone:
            self._gone = False
            raise ConsumerGone(f"no consumer {self._what}")
        return taken

    async def ack(self, message: Pulled) -> None:
        """Say that the message is dealt with. It may be lost; the message then comes again."""
        await self._bus.publish(message.ack)

    async def in_progress(self, message: Pulled) -> None:
        """Say that the message is still worked on, so that it is not sent again."""
        await self._bus.publish(message.ack, b"+WPI")

    async def stop(self) -> list[Pulled]:
        """Stop pulling and give what arrived but was not taken."""
        self._stopped = True
        self._news.set()
        if self._sub is not None:
            await self._sub.stop()
        left = list(self._arrived)
        self._arrived.clear()
        return left

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        if self._pause:
            # Every error is followed by a jittered rest: a refused pull comes back at once and would spin.
            pause, self._pause = self._pause, 0.0
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
        if self._open <= 0 or loop.time() >= self._lost_at:
            await self._pull()
        self._news.clear()
        if self._arrived or self._stopped:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._lost_at - loop.time())):
                await self._news.wait()

    async def _pull(self) -> None:
        request = {"batch": self._batch, "expires": int(self._expires * 1e9)}
        self._open = self._batch
        self._lost_at = asyncio.get_running_loop().time() + self._expires + PULL_GRACE_S
        try:
            await self._bus.publish(self._api, msgspec.json.encode(request), reply=self._inbox)
        except BusAway:
            self._open, self._pause = 0, 0.5
            await self._bus.wait_connected(self._expires)

    def _take(self, message: Message) -> None:
        status = message.headers.get("Status")
        if status is None:
            pulled = _pulled(message)
            if pulled is not None:
                self._open -= 1
                self._arrived.append(pulled)
        else:
            self._open = 0
            description = message.headers.get("Description", "").lower()
            if status == "503" or "consumer deleted" in description or "consumer not found" in description:
                self._gone, self._pause = True, 0.5
            elif status not in ("404", "408") and "batch completed" not in description:
                self._pause = 0.2
        self._news.set()

    def _reconnected(self) -> None:
        self._open = 0
        self._news.set()


def _pulled(message: Message) -> Pulled | None:
    """Read the acknowledgement subject: `$JS.ACK.<stream>.<consumer>.…`, or with domain and account hash before."""
    parts = message.reply.split(".")
    if len(parts) >= 11:
        parts = parts[:2] + parts[4:]
    if len(parts) < 9 or parts[:2] != ["$JS", "ACK"]:
        return None
    try:
        delivered, stream_seq, pending = int(parts[4]), int(parts[5]), int(parts[8])
    except ValueError:
        return None
    return Pulled(
        subject=message.subject,
        data=message.data,
        headers=dict(message.headers),
        ack=message.reply,
        stream_seq=stream_seq,
        delivered=delivered,
        pending=pending,
    )


def _checked(message: Message) -> Any:
    try:
        body = msgspec.json.decode(message.data)
    except msgspec.DecodeError:
        raise JetStreamError(500, 0, "unreadable answer of JetStream") from None
    error = body.get("error") if isinstance(body, dict) else None
    if error:
        raise JetStreamError(
            int(error.get("code", 500)), int(error.get("err_code", 0)), str(error.get("description", ""))
        )
    return body


__all__ = [
    "API_TIMEOUT_S",
    "BATCH_MAX",
    "DUPLICATE_IN_BATCH",
    "ConsumerGone",
    "JetStreamError",
    "NoResponders",
    "Outgoing",
    "PubAck",
    "Pulled",
    "Puller",
    "call",
    "publish",
    "publish_batch",
    "takes_batches",
]
