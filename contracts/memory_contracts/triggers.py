"""Bindings to the change triggers: a plain live subscription, or a durable consumer that misses nothing."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from typing import Generic, Literal, Self, TypeVar

import msgspec

from memory_contracts import jetstream
from memory_contracts.connection import Bus, BusError, Message, Subscription
from memory_contracts.events import BankChanged, ItemChanged
from memory_contracts.jetstream import JetStreamError, Pulled, Puller

E = TypeVar("E", ItemChanged, BankChanged)

LIVE_QUEUE = 10_000
"""Events a live subscription may fall behind before it says so."""
SEEN_IDS = 10_000
"""Newest event ids that are remembered to drop repeats."""
ACK_WAIT_S = 30
"""Seconds a durable waits for the acknowledgement of an event before it sends it again."""
DURABLE_BATCH = 64
"""Events a durable takes at a time; also the most that are sent again after a crash of the reader."""

_CONSUMER_NOT_FOUND = 10014


class FellBehind(BusError):
    """A live subscription could not keep up and has a hole: read `changes.list` from the last `seq` seen."""


class Triggers(Generic[E]):
    """Events in order of arrival, repeats dropped. Use as `async with … as events: async for event in events`.

    With a durable, an event is acknowledged when the next one is asked for, that is, after the loop's body is done
    with it; leave the loop in the middle of an event and it comes again. Delivery is at least once across restarts.
    """

    def __init__(
        self,
        bus: Bus,
        kind: type[E],
        filter_subject: str,
        *,
        stream: str,
        durable: str | None,
        start: Literal["all", "new"],
    ) -> None:
        self.skipped = 0
        self._bus = bus
        self._filter = filter_subject
        self._stream = stream
        self._durable = durable
        self._start = start
        self._decoder: msgspec.json.Decoder[E] = msgspec.json.Decoder(kind)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._queue: deque[Message] = deque()
        self._news = asyncio.Event()
        self._behind = False
        self._sub: Subscription | None = None
        self._puller: Puller | None = None
        self._group: deque[Pulled] = deque()
        self._taken: Pulled | None = None

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, exception: type[BaseException] | None, *_: object) -> None:
        if self._puller is not None:
            if exception is None:
                await self._ack()
            await self._puller.stop()
        if self._sub is not None:
            await self._sub.stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        """Wait for the next event. Raises FellBehind, ConsumerGone, BusClosed."""
        if self._sub is None and self._puller is None:
            await self._open()
        await self._ack()
        while True:
            data = await (self._next_live() if self._puller is None else self._next_durable())
            try:
                event = self._decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError):
                # A message of a later version or of nobody we know: it must not stop the reader.
                self.skipped += 1
                await self._ack()
                continue
            if event.id in self._seen:
                await self._ack()
                continue
            self._seen[event.id] = None
            if len(self._seen) > SEEN_IDS:
                self._seen.popitem(last=False)
            return event

    async def _open(self) -> None:
        if self._durable is None:
            self._sub = await self._bus.subscribe(self._filter, self._take)
            await self._sub.confirmed()
            self._bus.on_close(self._news.set)
            return
        await self._bind(self._durable)
        self._puller = Puller(self._bus, self._stream, self._durable, batch=DURABLE_BATCH)
        await self._puller.start()

    async def _bind(self, durable: str) -> None:
        """Make the durable, or make an existing one read what is asked for now."""
        config: dict[str, object] = {
            "name": durable,
            "durable_name": durable,
            "deliver_policy": self._start,
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_S * 1_000_000_000,
            "max_ack_pending": DURABLE_BATCH * 2,
            "filter_subject": self._filter,
        }
        with contextlib.suppress(JetStreamError):
            info = await jetstream.call(self._bus, f"CONSUMER.INFO.{self._stream}.{durable}")
            if info["config"].get("filter_subject") == self._filter:
                return
            config |= {"deliver_policy": info["config"]["deliver_policy"]}
        await jetstream.call(
            self._bus,
            # The filter is part of the subject, so that a credential can be held to its own events.
            f"CONSUMER.CREATE.{self._stream}.{durable}.{self._filter}",
            {"stream_name": self._stream, "config": config},
        )

    async def _next_live(self) -> bytes:
        while not self._queue:
            if self._behind:
                self._behind = False
                raise FellBehind(f"more than {LIVE_QUEUE} events waited unread")
            if self._bus.closed.is_set():
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._queue.popleft().data

    async def _next_durable(self) -> bytes:
        assert self._puller is not None
        while not self._group:
            self._group.extend(await self._puller.group())
            if not self._group and self._bus.closed.is_set():
                raise StopAsyncIteration
        self._taken = self._group.popleft()
        return self._taken.data

    async def _ack(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None and self._puller is not None:
            with contextlib.suppress(BusError):  # a lost ack brings the event again, and it is dropped then
                await self._puller.ack(taken)

    def _take(self, message: Message) -> None:
        if len(self._queue) >= LIVE_QUEUE:
            self._behind = True
        elif not self._behind:
            self._queue.append(message)
        self._news.set()
