"""Publishes the journal of one tenant as triggers, at least once and in order per bank.

The journal is the truth and the streams are a copy: when a stream turns out to be younger or shorter than what was
published to it (a wiped or restored bus), the relay goes back to a position it covers and publishes again.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from memory_contracts import jetstream
from memory_contracts.connection import BodyTooLarge, Bus, BusAway, BusClosed
from memory_contracts.jetstream import BATCH_MAX, JetStreamError, Outgoing
from memory_contracts.subjects import Subjects, event_stream, private_stream
from memory_worker.bus.erasing import erase_oldest, erase_subject
from memory_worker.bus.events import Trigger, trigger_of
from memory_worker.bus.streams import stream_state
from memory_worker.clock import Clock, to_datetime
from memory_worker.store import JournalRow

CURSOR = "relay"
"""Name of the relay's cursor in the journal."""
STATE_KEY = "relay.streams"
"""Where the relay keeps what it knows of its streams."""
ROWS = 500
"""Journal rows read at a time; also the largest batch."""
POLL_S = 1.0
"""Seconds after which the journal is looked at even if nobody rang."""
RETRY_S = 0.5
"""Mean seconds between attempts while the bus refuses or is away."""
SINGLES_AT_A_TIME = 64
"""Single publishes in flight, where batches cannot be used."""
STATE_EVERY_S = 5.0
"""Seconds between writes of what is known of the streams."""
CHECKPOINTS = 64
"""Positions kept to go back to; one is added with each write of the state."""
COMPARE_EVERY_S = 15.0
"""Seconds between comparisons of the streams with what was published to them, beside those at every connect."""
RETENTION_EVERY_S = 600.0
"""Seconds between looks for triggers that are past their retention."""
CAUGHT_UP_POLL_S = 0.02
"""Seconds between looks while somebody waits for the relay."""
STOP_S = 3.0
"""Seconds a stop gives the relay to publish what is committed."""
TRIM = 1_000
"""Oldest triggers erased when a stream is full."""

_STREAM_FULL = frozenset({10077, 10122, 10047, 10023})
_NO_BATCH = frozenset({10174, 10175, 10176, 10199, 10201, 10205, 10210})

log = structlog.get_logger(__name__)


class RelaySource(Protocol):
    """The journal of one tenant, as the relay reads it."""

    @property
    def head(self) -> int:
        """Sequence of the last committed row."""
        ...

    def subscribe(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call back with the new head after each commit; gives the way to stop."""
        ...

    async def journal_after(self, seq: int, limit: int) -> Sequence[JournalRow]:
        """Rows after `seq`, in order."""
        ...

    def cursor(self, reader: str) -> int:
        """How far a reader has come."""
        ...

    def move_cursor(self, reader: str, seq: int) -> None:
        """Say how far a reader has come; it rides in a later commit."""
        ...

    async def meta(self, key: str) -> str | None:
        """A value kept under a key."""
        ...

    async def set_meta(self, key: str, value: str) -> None:
        """Keep a value."""
        ...


class Checkpoint(msgspec.Struct, frozen=True):
    """A journal position, and how far each stream was when everything up to it was published."""

    cursor: int
    last_seqs: dict[str, int]


class StreamsKnown(msgspec.Struct):
    """What the relay knows of its streams: when each was made, and positions to go back to, oldest first."""

    created: dict[str, str] = {}
    last_seqs: dict[str, int] = {}
    checkpoints: list[Checkpoint] = []


class Relay:
    """Runs until it is stopped. Nothing waits for it: a bus that is down only makes it late."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        tenant: str,
        source: RelaySource,
        clock: Clock,
        *,
        retention_days: int = 7,
        include_memory: bool = True,
        failpoint: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.published = 0
        self.rewinds = 0
        self.erased = {"events": 0, "private": 0}
        self.last_error: str | None = None
        self._bus = bus
        self._subjects = subjects
        self._tenant = tenant
        self._source = source
        self._clock = clock
        self._retention_s = retention_days * 86_400.0
        self._include_memory = include_memory
        self._failpoint = failpoint
        self._streams = (event_stream(tenant), private_stream(tenant))
        self._known = StreamsKnown()
        self._cursor = source.cursor(CURSOR)
        self._compare = True
        self._state_due = 0.0
        self._compare_due = time.monotonic() + COMPARE_EVERY_S
        self._retention_due = 0.0
        self._wake = asyncio.Event()
        self._stopping = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def apply(self, retention_days: int, *, include_memory: bool) -> None:
        """Change how long triggers are kept and what they carry, from the next one on."""
        self._retention_s = retention_days * 86_400.0
        self._include_memory = include_memory

    async def oldest_at(self) -> float | None:
        """When the oldest row that is not published yet was committed, in unix seconds; None when there is none."""
        rows = await self._source.journal_after(self._cursor, 1) if self.lag else []
        return rows[0].at if rows else None

    @property
    def lag(self) -> int:
        """Journal rows that are committed and not relayed."""
        return max(0, self._source.head - self._cursor)

    @property
    def refused(self) -> bool:
        """Whether triggers wait because the bus did not take them when it was last asked."""
        return self.lag > 0 and self.last_error is not None

    async def start(self) -> None:
        """Begin to relay."""
        state = await self._source.meta(STATE_KEY)
        if state:
            with contextlib.suppress(msgspec.DecodeError):
                self._known = msgspec.json.decode(state, type=StreamsKnown)
        self._unsubscribe = self._source.subscribe(lambda _: self._wake.set())
        self._bus.on_reconnect(self._reconnected)
        self._task = asyncio.create_task(self._run(), name=f"relay {self._tenant}")

    async def stop(self) -> None:
        """Publish what is committed, for at most `STOP_S` seconds, and stop."""
        self._stopping = True
        self._unsubscribe()
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=STOP_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(Exception):  # an older state only makes the next start publish some rows again
            await self._save_state()

    def rewind(self, cursor: int) -> None:
        """Publish again from a position; consumers drop what they know by its id."""
        if cursor < self._cursor:
            self.rewinds += 1
            self._cursor = cursor
            self._source.move_cursor(CURSOR, cursor)
            self._wake.set()

    async def caught_up(self) -> None:
        """Wait until everything committed so far is published. Raises BusAway while the bus is not there."""
        head = self._source.head
        self._wake.set()
        while self._cursor < head:
            if not self._bus.connected or self.last_error is not None:
                raise BusAway("triggers wait for the bus")
            await asyncio.sleep(CAUGHT_UP_POLL_S)

    async def erase_memory(self, memory_id: str) -> int:
        """Overwrite every trigger of one memory in both streams, for a forgetting; gives how many there were."""
        erased = 0
        for stream, start in zip(self._streams, self._roots(), strict=True):
            erased += self._overwrote(
                stream, await erase_subject(self._bus, stream, f"{start}.item-changed.*.{memory_id}")
            )
        return erased

    async def erase_bank(self, bank: str) -> int:
        """Overwrite every trigger of one bank in both streams."""
        erased = 0
        for stream, start in zip(self._streams, self._roots(), strict=True):
            for subject in (f"{start}.item-changed.{bank}.*", f"{start}.bank-changed.{bank}"):
                erased += self._overwrote(stream, await erase_subject(self._bus, stream, subject))
        return erased

    def _overwrote(self, stream: str, count: int) -> int:
        self.erased["private" if stream == self._streams[1] else "events"] += count
        return count

    def _roots(self) -> tuple[str, str]:
        # A private subject has the owner's two tokens, route and principal, before the kind.
        prefix = self._subjects.prefix
        return f"{prefix}.event.{self._tenant}", f"{prefix}.private-event.{self._tenant}.*.*"

    def _reconnected(self) -> None:
        self._compare = True
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if self._compare:
                    await self._compare_streams()
                advanced = await self._publish_next()
                await self._housekeeping(idle=not advanced)
                if advanced:
                    continue
                if self._stopping:
                    return
            except BusClosed:
                return
            except Exception as error:  # a full disk under our own state too: nothing may end the relay for good
                self.last_error = str(error)
                self._compare = True  # a stream that is gone refuses too, and may be another one when it is back
                log.warning("relay.waiting", tenant=self._tenant, lag=self.lag, error=type(error).__name__)
                if self._stopping:
                    return
                await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                await self._bus.wait_connected(POLL_S)
                continue
            self.last_error = None
            self._wake.clear()
            if self._source.head > self._cursor or self._compare:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()

    async def _publish_next(self) -> bool:
        """Publish the next rows and move the cursor; False when there are none."""
        rows = await self._source.journal_after(self._cursor, ROWS)
        if not rows:
            return False
        triggers = [
            trigger
            for row in rows
            if (trigger := trigger_of(row, self._tenant, self._subjects, include_memory=self._include_memory))
        ]
        for stream in self._streams:
            await self._publish(stream, [trigger for trigger in triggers if trigger.stream == stream])
        self._failpoint("relay.published")
        if self._compare:
            # The connection was lost and came back meanwhile: first see whether the streams are still the same.
            return True
        self.published += len(triggers)
        self._cursor = rows[-1].seq
        self._source.move_cursor(CURSOR, self._cursor)
        return True

    async def _publish(self, stream: str, triggers: list[Trigger]) -> None:
        messages = [trigger.message for trigger in triggers]
        if not messages:
            return
        if len(messages) > 1 and jetstream.takes_batches(self._bus.server_version):
            try:
                for start in range(0, len(messages), BATCH_MAX):
                    ack = await jetstream.publish_batch(self._bus, messages[start : start + BATCH_MAX])
                    self._known.last_seqs[stream] = ack.seq
                return
            except BodyTooLarge:
                pass
            except JetStreamError as error:
                await self._make_room(error, stream)
                if error.err_code not in _NO_BATCH:
                    raise
                # One known id refuses the whole batch (also after a lost answer): one by one, the server drops it.
        for start in range(0, len(messages), SINGLES_AT_A_TIME):
            part = messages[start : start + SINGLES_AT_A_TIME]
            # One connection keeps their order; when one fails, all are sent again and the known ones dropped.
            await asyncio.gather(*(self._publish_one(stream, message) for message in part))

    async def _publish_one(self, stream: str, message: Outgoing) -> None:
        try:
            ack = await jetstream.publish(self._bus, message)
        except BodyTooLarge:
            log.warning("relay.trigger_too_large", tenant=self._tenant, trigger=message.msg_id)
            ack = await jetstream.publish(self._bus, _without_memory(message))
        except JetStreamError as error:
            await self._make_room(error, stream)
            raise
        self._known.last_seqs[stream] = max(ack.seq, self._known.last_seqs.get(stream, 0))

    async def _make_room(self, error: JetStreamError, stream: str) -> None:
        if error.err_code in _STREAM_FULL:
            # Erased by us, not dropped by a limit: what a limit removes leaves its bytes on disk.
            erased = self._overwrote(stream, await erase_oldest(self._bus, stream, TRIM))
            log.warning("relay.stream_full", tenant=self._tenant, stream=stream, erased=erased)

    async def _compare_streams(self) -> None:
        """Go back when a stream is not the one that was published to, or lost its end."""
        found = {stream: await stream_state(self._bus, stream) for stream in self._streams}
        remade = [name for name, state in found.items() if self._known.created.get(name) != state.created]
        shorter = [name for name, state in found.items() if state.last_seq < self._known.last_seqs.get(name, 0)]
        if (remade or shorter) and self._cursor > 0:
            target = await self._retention_start()
            if not remade:
                for point in reversed(self._known.checkpoints):
                    if all(found[name].last_seq >= seq for name, seq in point.last_seqs.items() if name in found):
                        target = max(target, point.cursor)
                        break
            log.warning("relay.rewound", tenant=self._tenant, remade=remade, shorter=shorter, cursor=target)
            self.rewind(target)
        self._known.created = {name: state.created for name, state in found.items()}
        self._known.last_seqs = {name: state.last_seq for name, state in found.items()}
        self._known.checkpoints = [
            point
            for point in self._known.checkpoints
            if not remade and all(found[name].last_seq >= seq for name, seq in point.last_seqs.items())
        ]
        # Cleared last: a failure above leaves the comparison to be done.
        self._compare = False

    async def _retention_start(self) -> int:
        """Find the journal position before the oldest row that is still within retention."""
        oldest = self._clock.now() - self._retention_s
        low, high = 0, self._cursor
        while low < high:
            middle = (low + high) // 2
            rows = await self._source.journal_after(middle, 1)
            if not rows or rows[0].at >= oldest:
                high = middle
            else:
                low = rows[0].seq
        return low

    async def _housekeeping(self, *, idle: bool) -> None:
        tick = time.monotonic()
        if tick >= self._state_due:
            await self._save_state()
            self._state_due = tick + STATE_EVERY_S
        if idle and tick >= self._compare_due and not self._stopping:
            # Somebody may delete and make a stream again under a connection that never broke.
            self._compare_due = tick + COMPARE_EVERY_S
            self._compare = True
        if idle and tick >= self._retention_due and not self._stopping:
            self._retention_due = tick + RETENTION_EVERY_S
            oldest = to_datetime(self._clock.now() - self._retention_s)
            for stream in self._streams:
                erased = self._overwrote(stream, await erase_subject(self._bus, stream, ">", before=oldest, most=TRIM))
                if erased >= TRIM:
                    self._retention_due = tick  # more to do at the next idle moment

    async def _save_state(self) -> None:
        point = Checkpoint(self._cursor, dict(self._known.last_seqs))
        points = self._known.checkpoints
        if points and points[-1] == point:
            return
        self._known.checkpoints = [*points, point][-CHECKPOINTS:]
        await self._source.set_meta(STATE_KEY, msgspec.json.encode(self._known).decode())


def _without_memory(message: Outgoing) -> Outgoing:
    body = msgspec.json.decode(message.data)
    body["memory"] = None
    return Outgoing(message.subject, msgspec.json.encode(body), message.msg_id)
