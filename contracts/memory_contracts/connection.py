"""The guarded connection to the bus: nats-py with its known faults fenced off, behind plain types.

Every guard here answers a fault that was reproduced against nats-py 2.16; tests/contracts/test_connection_guards.py
has one test for each, so that an upgrade of the library tells which guards are still needed.
"""

import asyncio
import contextlib
import random
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import nats.errors
from nats.aio.client import Client as NatsClient
from nats.aio.client import Server as NatsServer
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from memory_contracts.bus_types import (
    BodyTooLarge,
    BusAway,
    BusClosed,
    BusError,
    BusTimeout,
    Message,
    NoResponders,
    NotPermitted,
)
from memory_contracts.credentials import Credentials

__all__ = [
    "BodyTooLarge",
    "Bus",
    "BusAway",
    "BusClosed",
    "BusError",
    "BusTimeout",
    "Message",
    "NoResponders",
    "NotPermitted",
    "Subscription",
]

CONNECT_TIMEOUT_S = 2
"""Seconds one attempt to connect may take."""
FIRST_CONNECT_S = 5.0
"""Seconds the first connect is retried before it is given up."""
RECONNECT_WAIT_S = 0.5
"""Mean seconds between attempts to reconnect; jittered by half, so that many clients do not come back as one."""
PING_INTERVAL_S = 5
"""Seconds between the library's own pings; with two outstanding, a dead peer is seen after 15 s at the latest."""
PROBE_INTERVAL_S = 5.0
"""Seconds between round trips of the watchdog: a dead read loop shows in nothing else."""
PROBE_TIMEOUT_S = 1.0
"""Seconds a round trip may take before it counts as missed."""
PROBE_MISSES = 2
"""Missed round trips in a row after which the connection is made anew."""
PENDING_BYTES = 2 * 1024 * 1024
"""Bytes that may wait unsent."""
ERRORS_KEPT = 100
"""Newest asynchronous errors that are kept for reports."""
SUBSCRIPTION_MESSAGES = 65_536
"""Messages one subscription may hold unread."""
SUBSCRIPTION_BYTES = 128 * 1024 * 1024
"""Bytes one subscription may hold unread."""
DRAIN_S = 5.0
"""Seconds an orderly close may take."""

_ROUND_TRIP_S = 3_600
# The library's own limit on a round trip; ours are shorter and do not cancel it.

_VIOLATION = re.compile(r"permissions violation for publish to \"(.+)\"", re.IGNORECASE)
_UNHEARD = re.compile(r"permissions violation for subscription to \"([^\"]+)\"", re.IGNORECASE)


_NO_HEADERS: Mapping[str, str] = {}


class Subscription:
    """Interest in a subject. Its handler is a plain function and must not block."""

    def __init__(self, bus: "Bus", sub: NatsSubscription) -> None:
        self._bus = bus
        self._sub = sub

    async def confirmed(self) -> None:
        """Wait until the server has it. Raises NotPermitted when it refused: nothing would ever arrive."""
        await self._bus.flushed()
        if self._bus.refuses(self._sub.subject):
            await self.stop()
            group = f" in the queue group {self._sub.queue}" if self._sub.queue else ""
            raise NotPermitted(f"the bus refused to let {self._bus.who()} subscribe to {self._sub.subject}{group}")

    async def drain(self, within: float = DRAIN_S) -> None:
        """Take no more messages, and hand over those that already arrived."""
        await self._bus.finish(self._sub.drain(), within)  # type: ignore[no-untyped-call]

    async def stop(self) -> None:
        """Take no more messages; what already arrived and was not handed over is dropped."""
        with contextlib.suppress(nats.errors.Error):
            await self._sub.unsubscribe()


class Bus:
    """One connection. Reconnects for ever; `closed` is set when it never will, and the process should then exit."""

    def __init__(self, credentials: Credentials, *, on_reconnect: Callable[[], None] | None = None) -> None:
        self.credentials = credentials
        self.closed = asyncio.Event()
        self.errors: deque[str] = deque(maxlen=ERRORS_KEPT)
        self.disconnects = 0
        self.reconnects = 0
        self.error_count = 0
        self.zombie_recoveries = 0
        self.slow_consumer_drops = 0
        self.rtt_s: float | None = None
        self.last_answer = 0.0
        """Monotonic seconds at which the server last answered a round trip."""
        self._on_reconnect = [on_reconnect] if on_reconnect else []
        self._on_close: list[Callable[[], None]] = []
        self._nc = NatsClient()
        self._connected = asyncio.Event()
        self._closing = False
        self._mux = f"{credentials.inbox_prefix}.{secrets.token_urlsafe(16)}"
        self._waiting: dict[str, tuple[asyncio.Future[Message], str]] = {}
        self._next_token = 0
        self._unheard: set[str] = set()
        self._watchdog: asyncio.Task[None] | None = None
        self._strays: set[asyncio.Future[Any]] = set()

    @classmethod
    async def connect(
        cls,
        credentials: Credentials,
        *,
        name: str,
        wait: float = FIRST_CONNECT_S,
        on_reconnect: Callable[[], None] | None = None,
    ) -> "Bus":
        """Connect, trying again until `wait` seconds are over.

        Raises BusClosed when the server refuses the credentials, BusAway when it cannot be reached.
        """
        bus = cls(credentials, on_reconnect=on_reconnect)
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            try:
                await bus._open(name)
                return bus
            except (OSError, nats.errors.Error, TimeoutError) as error:
                await bus._abandon()
                if isinstance(error, nats.errors.AuthorizationError) or "authorization" in str(error).lower():
                    raise BusClosed(f"{credentials.url} refused the credentials of {credentials.principal}") from None
                if asyncio.get_running_loop().time() >= deadline:
                    raise BusAway(f"no bus at {credentials.url}: {error or type(error).__name__}") from None
                await asyncio.sleep(RECONNECT_WAIT_S * random.uniform(0.1, 0.5))  # noqa: S311 - jitter, not a secret

    async def _open(self, name: str) -> None:
        creds = self.credentials
        self._nc = NatsClient()
        options: dict[str, Any] = {"user": creds.user, "password": creds.password} if creds.user else {}
        if creds.nkey_seed:
            options["nkeys_seed_str"] = creds.nkey_seed
        # The first connect must not fall into the library's endless retry: `allow_reconnect` is switched on after it.
        await self._nc.connect(
            creds.url,
            name=name,
            error_cb=self._error_cb,
            disconnected_cb=self._disconnected_cb,
            reconnected_cb=self._reconnected_cb,
            closed_cb=self._closed_cb,
            allow_reconnect=False,
            connect_timeout=CONNECT_TIMEOUT_S,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,  # pauses are ours: `wait` above, `_jittered` later
            ping_interval=PING_INTERVAL_S,
            max_outstanding_pings=2,
            drain_timeout=int(DRAIN_S),
            pending_size=PENDING_BYTES,
            inbox_prefix=creds.inbox_prefix,
            reconnect_to_server_handler=_jittered,
            **options,
        )
        self._nc.options["allow_reconnect"] = True
        self._nc.options["max_reconnect_attempts"] = -1
        await self._nc.subscribe(f"{self._mux}.*", cb=self._reply_cb)
        self._connected.set()
        self.last_answer = time.monotonic()
        self._watchdog = asyncio.create_task(self._watch(), name="bus watchdog")

    async def _abandon(self) -> None:
        """Let go of a connection that did not come about; the library leaves its socket open."""
        transport = self._nc._transport
        if transport is not None:
            transport.close()  # type: ignore[no-untyped-call]
            with contextlib.suppress(Exception):
                await transport.wait_closed()  # type: ignore[no-untyped-call]

    # What the bus is like now

    @property
    def connected(self) -> bool:
        """Whether the connection is up, as far as the last round trip knows."""
        return self._connected.is_set() and not self.closed.is_set()

    @property
    def max_payload(self) -> int:
        """Largest body the server takes, in bytes."""
        return int(self._nc.max_payload)

    @property
    def server_version(self) -> str:
        """The server's version."""
        return str(self._nc._server_info.get("version", ""))

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` after every reconnect."""
        self._on_reconnect.append(callback)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection is closed for good."""
        self._on_close.append(callback)

    async def wait_connected(self, within: float) -> bool:
        """Wait until the connection is up; False when it is not within that many seconds."""
        if self.connected:
            return True
        try:
            async with asyncio.timeout(within):
                await self._connected.wait()
        except TimeoutError:
            return False
        return self.connected

    # Sending

    async def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send without waiting for anything. Raises BodyTooLarge, BusAway, BusClosed."""
        self._check(data)
        try:
            await self._nc.publish(subject, data, reply=reply, headers=headers)
        except nats.errors.MaxPayloadError:
            raise BodyTooLarge(len(data), self.max_payload) from None
        except nats.errors.ConnectionClosedError:
            raise BusClosed("the connection is closed") from None
        except (nats.errors.OutboundBufferLimitError, nats.errors.ConnectionDrainingError, OSError) as error:
            raise BusAway(f"not sent: {error}") from None

    async def request(
        self, subject: str, data: bytes, *, within: float, headers: dict[str, str] | None = None
    ) -> Message:
        """Send and wait for the one answer, at most `within` seconds in all.

        Raises NotPermitted as soon as the server refuses the subject, BusAway when the connection is lost meanwhile
        (the library would let both wait out the timeout), BusTimeout, NoResponders, BodyTooLarge, BusClosed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        if not self.connected and not await self.wait_connected(within):
            self._check(data)
            raise BusAway("the bus is not connected")
        self._next_token += 1
        token = f"{self._next_token:x}"
        future: asyncio.Future[Message] = loop.create_future()
        self._waiting[token] = (future, subject)
        timer = loop.call_at(deadline, _expire, future)
        try:
            await self.publish(subject, data, reply=f"{self._mux}.{token}", headers=headers)
            message = await future
        finally:
            timer.cancel()
            self._waiting.pop(token, None)
            if future.done() and not future.cancelled():
                future.exception()  # seen, also when publishing failed first
        if message.headers.get("Status") == "503":
            raise NoResponders(f"nobody answers on {subject}")
        return message

    async def subscribe(self, subject: str, handler: Callable[[Message], None], *, queue: str = "") -> Subscription:
        """Call `handler` for every message on `subject`; with `queue`, share them with that group."""

        async def deliver(msg: Msg) -> None:
            handler(_message(msg))

        if self.closed.is_set():
            raise BusClosed("the connection is closed")
        self._unheard.discard(subject.lower())
        sub = await self._nc.subscribe(
            subject,
            queue=queue,
            cb=deliver,
            pending_msgs_limit=SUBSCRIPTION_MESSAGES,
            pending_bytes_limit=SUBSCRIPTION_BYTES,
        )
        return Subscription(self, sub)

    def refuses(self, subject: str) -> bool:
        """Whether the server refused the newest subscription to `subject`, as far as it has answered."""
        return subject.lower() in self._unheard

    def new_inbox(self) -> str:
        """Give a subject under this identity's own inbox that nobody can guess."""
        return f"{self.credentials.inbox_prefix}.{secrets.token_urlsafe(16)}"

    async def flushed(self, within: float = PROBE_TIMEOUT_S) -> bool:
        """Tell whether the server has seen everything sent so far, by a round trip."""
        return await self.finish(self._nc.rtt(timeout=_ROUND_TRIP_S), within)

    async def close(self) -> None:
        """Send what is queued and close; never raises, takes at most `DRAIN_S` seconds."""
        self._closing = True
        if self._watchdog:
            self._watchdog.cancel()
        if self._nc.is_connected:
            await self.flushed()
        # nats-py's `drain` hangs on unread pull inboxes and `close` may raise with the server away: neither decides.
        await self.finish(self._nc.close(), DRAIN_S)
        for stray in self._strays:
            stray.cancel()
        self._ended()

    async def __aenter__(self) -> "Bus":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Callbacks of the library. They run inside its read loop: they must neither wait nor raise.

    async def _error_cb(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        self.errors.append(text)
        self.error_count += 1
        if isinstance(error, nats.errors.SlowConsumerError):
            self.slow_consumer_drops += 1
        found = _VIOLATION.search(text)
        unheard = _UNHEARD.search(text)
        if unheard:
            self._unheard.add(unheard.group(1).lower())
        if found:
            refused = found.group(1).lower()
            for future, subject in list(self._waiting.values()):
                if subject.lower() == refused and not future.done():
                    future.set_exception(NotPermitted(f"the bus refused to let {self.who()} publish on {subject}"))

    async def _disconnected_cb(self) -> None:
        self.disconnects += 1
        self._connected.clear()
        self._lost(BusAway("the connection was lost before the answer came"))

    async def _reconnected_cb(self) -> None:
        self.reconnects += 1
        self._connected.set()
        for callback in self._on_reconnect:
            callback()

    async def _closed_cb(self) -> None:
        if not self._closing:
            self.errors.append(f"closed by the server: {self._nc.last_error or 'unknown reason'}")
        self._ended()

    async def _reply_cb(self, msg: Msg) -> None:
        waiting = self._waiting.get(msg.subject[len(self._mux) + 1 :])
        if waiting and not waiting[0].done():
            waiting[0].set_result(_message(msg))

    # Watching

    async def _watch(self) -> None:
        """Probe with a round trip: on a dead read loop `is_connected` stays true and `flush` succeeds."""
        misses = 0
        probe: asyncio.Task[float] | None = None
        while True:
            await asyncio.sleep(PROBE_INTERVAL_S)
            if not self._nc.is_connected:
                misses, probe = 0, None
                continue
            if probe is None or probe.done():
                # The probe is never cancelled while its pong may come: a pong for a cancelled future ends the
                # library's read loop.
                probe = asyncio.create_task(self._nc.rtt(timeout=_ROUND_TRIP_S))
                self._keep(probe)
            await asyncio.wait({probe}, timeout=PROBE_TIMEOUT_S)
            if probe.done():
                misses = 0
                if not probe.cancelled() and probe.exception() is None:
                    self.rtt_s, self.last_answer = probe.result(), time.monotonic()
                continue
            misses += 1
            if misses >= PROBE_MISSES:
                misses = 0
                self.zombie_recoveries += 1
                await self._nc.force_reconnect()
                probe.cancel()
                probe = None

    async def finish(self, coroutine: Coroutine[Any, Any, Any], within: float) -> bool:
        """Run something of the library for at most `within` seconds without cancelling it; False when it failed.

        The library swallows cancellation in places, and leaves cancelled futures where its read loop trips over them.
        """
        task = asyncio.ensure_future(coroutine)
        self._keep(task)
        await asyncio.wait({task}, timeout=within)
        return task.done() and not task.cancelled() and task.exception() is None

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        self._strays.add(task)
        task.add_done_callback(self._strays.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _check(self, data: bytes) -> None:
        if self.closed.is_set():
            raise BusClosed("the connection is closed")
        if len(data) > self.max_payload:
            raise BodyTooLarge(len(data), self.max_payload)

    def _lost(self, error: BusError) -> None:
        for future, _ in list(self._waiting.values()):
            if not future.done():
                future.set_exception(error)

    def _ended(self) -> None:
        self._connected.clear()
        if not self.closed.is_set():
            self.closed.set()
            self._lost(BusClosed("the connection is closed"))
            for callback in self._on_close:
                callback()

    def who(self) -> str:
        """Name this identity, for messages."""
        creds = self.credentials
        return f"{creds.tenant}.{creds.route}.{creds.principal}"


def _message(msg: Msg) -> Message:
    return Message(msg.subject, msg.reply or "", msg.data, msg.headers or _NO_HEADERS)


def _expire(future: "asyncio.Future[Message]") -> None:
    if not future.done():
        future.set_exception(BusTimeout("no answer in time"))


def _jittered(servers: list[NatsServer], _: dict[str, Any]) -> tuple[NatsServer, float]:
    # Jitter needs no cryptographic randomness.
    return random.choice(servers), RECONNECT_WAIT_S * random.uniform(0.5, 1.5)  # noqa: S311
