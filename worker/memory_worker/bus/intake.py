"""Moves finished turns from the stream into the inbox: pull, hand over, acknowledge, erase.

Intake only: nothing here reads a turn. A turn is acknowledged after its inbox row is on disk, and then securely
deleted from our own stream in the background, since a turn's text is dropped as soon as it has been read.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec
import structlog

from memory_contracts import jetstream
from memory_contracts.connection import Bus, BusClosed, BusError
from memory_contracts.jetstream import ConsumerGone, Pulled, Puller
from memory_contracts.subjects import TURN_CONSUMER, Subjects
from memory_worker.bus.erasing import Eraser
from memory_worker.bus.streams import ACK_WAIT_S
from memory_worker.clock import Clock

FETCH_MAX = 256
"""Turns pulled at a time."""
FULL_RETRY_S = 0.5
"""Seconds before a full inbox is asked again; nothing is pulled meanwhile."""
ERROR_RETRY_S = 1.0
"""Seconds before a sink that failed is asked again with the same turns."""
SWEEP_MAX = 100_000
"""Most acknowledged turns the sweep at the start looks for."""

_CONSUMER_GONE_S = 2.0

log = structlog.get_logger(__name__)


class RawTurn(msgspec.Struct, frozen=True):
    """A turn event as it lies on the stream; nothing of it is checked but the subject."""

    tenant: str
    session_id: str
    subject: str
    body: bytes
    stream_seq: int
    received_at: float


Outcome = Literal["accepted", "full"]
"""`accepted` = its row is on disk (new, known already, or parked); `full` = no room now, offer it again."""


class TurnSink(Protocol):
    """Takes turns into the inbox."""

    async def accept(self, turns: Sequence[RawTurn]) -> Sequence[Outcome]:
        """Take turns in, one outcome each, in order, after the commit. Malformed ones are parked, not refused."""
        ...


class Intake:
    """Runs until it is stopped. One consumer for all tenants; waiting happens in the inbox, never here."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        sink: TurnSink,
        clock: Clock,
        *,
        stream: str | None = None,
        consumer: str = TURN_CONSUMER,
        fetch: int = FETCH_MAX,
        erase: bool = True,
    ) -> None:
        """`stream` is the subjects' turn stream unless it is named; `erase` is false for one of somebody else."""
        stream = stream or subjects.turn_stream
        self.taken = 0
        self.redelivered = 0
        self.dropped = 0
        self.full = False
        self.pending = 0
        self.erasing: Eraser | None = Eraser(bus, stream) if erase else None
        self._bus = bus
        self._subjects = subjects
        self._sink = sink
        self._clock = clock
        self._stream = stream
        self._consumer = consumer
        self._puller = Puller(bus, stream, consumer, batch=fetch)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to pull. Turns that were acknowledged but not erased before a crash are erased first."""
        await self._puller.start()
        if self.erasing is not None:
            self.erasing.start()
            with contextlib.suppress(BusError, KeyError):
                await self._sweep(self.erasing)
        self._task = asyncio.create_task(self._run(), name="turn intake")

    async def stop(self) -> None:
        """Stop pulling, hand over what was pulled, and erase what waits for it as far as a few seconds allow."""
        self._stopping.set()
        await self._puller.stop()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=5.0)
            self._task.cancel()
        if self.erasing is not None:
            await self.erasing.stop()

    @property
    def failed(self) -> bool:
        """Whether intake ended without having been stopped."""
        return self._task is not None and self._task.done() and not self._stopping.is_set()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                group = await self._puller.group()
            except ConsumerGone as error:
                # The worker may not make consumers; an admin has to, and then pulling goes on by itself.
                log.error("intake.no_consumer", error=str(error))
                await self._rest(_CONSUMER_GONE_S)
                continue
            except BusClosed:
                return
            if group:
                await self._hand_over(group)

    async def _hand_over(self, group: list[Pulled]) -> None:
        turns: deque[tuple[Pulled, RawTurn]] = deque()
        for pulled in group:
            self.pending = pulled.pending
            self.redelivered += pulled.delivered > 1
            turn = None if is_echo(pulled) else self._raw(pulled)
            if turn is None:
                log.warning("intake.no_turn", stream_seq=pulled.stream_seq)
                self.dropped += 1
                await self._settle(pulled)
            else:
                turns.append((pulled, turn))
        held_since = self._clock.now()
        while turns:
            outcomes = await self._offer([turn for _, turn in turns])
            if outcomes is None:
                if self._stopping.is_set():
                    return
                held_since = await self._hold(turns, held_since, ERROR_RETRY_S)
                continue
            left = deque(item for item, outcome in zip(turns, outcomes, strict=True) if outcome == "full")
            for (pulled, _), outcome in zip(turns, outcomes, strict=True):
                if outcome == "accepted":
                    self.taken += 1
                    await self._settle(pulled)
            turns = left
            self.full = bool(turns)
            if turns:
                if self._stopping.is_set():
                    return
                held_since = await self._hold(turns, held_since, FULL_RETRY_S)

    async def _offer(self, turns: list[RawTurn]) -> Sequence[Outcome] | None:
        try:
            return await self._sink.accept(turns)
        except (
            Exception
        ) as error:  # whatever it is (disk full, closing): the turns stay unacknowledged and are offered again
            log.error("intake.sink_failed", turns=len(turns), error=type(error).__name__)
            return None

    async def _hold(self, turns: deque[tuple[Pulled, RawTurn]], held_since: float, seconds: float) -> float:
        """Wait with turns in hand, telling the bus in time that they are being worked on."""
        await self._rest(seconds)
        now = self._clock.now()
        if now - held_since < ACK_WAIT_S / 3:
            return held_since
        for pulled, _ in turns:
            with contextlib.suppress(BusError):
                await self._puller.in_progress(pulled)
        return now

    async def _settle(self, pulled: Pulled) -> None:
        with contextlib.suppress(BusError):  # a lost acknowledgement brings the turn again, and the inbox knows it
            await self._puller.ack(pulled)
        if self.erasing is not None:
            self.erasing.add(pulled.stream_seq)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _raw(self, pulled: Pulled) -> RawTurn | None:
        address = self._subjects.parse_turn(pulled.subject)
        if address is None:
            return None
        return RawTurn(
            address.tenant, address.session_id, pulled.subject, pulled.data, pulled.stream_seq, self._clock.now()
        )

    async def _sweep(self, eraser: Eraser) -> None:
        """Queue for erasure what an earlier run acknowledged and did not get to erase."""
        info = await jetstream.call(self._bus, f"CONSUMER.INFO.{self._stream}.{self._consumer}")
        state = await jetstream.call(self._bus, f"STREAM.INFO.{self._stream}")
        floor = int(info["ack_floor"]["stream_seq"])
        first = max(1, int(state["state"]["first_seq"]))  # an empty stream says 0
        for sequence in range(first, min(floor, first + SWEEP_MAX - 1) + 1):
            eraser.add(sequence)


class _Echo(msgspec.Struct):
    type: str = ""
    event_type: str = ""
    bank_seq: int | None = None
    turn_id: msgspec.Raw | None = None


def is_echo(pulled: Pulled) -> bool:
    """Tell whether this is an answer of JetStream, or a trigger, that somebody directed onto a turn subject.

    Where one account holds everybody, whoever may pull a trigger chooses where it is sent. No harness made it.
    """
    if "Status" in pulled.headers:
        return True
    if b"io.nats.jetstream." not in pulled.data and b'"bank_seq"' not in pulled.data:
        return False
    try:
        echo = msgspec.json.decode(pulled.data, type=_Echo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return echo.turn_id is None and (
        echo.type.startswith("io.nats.jetstream.") or (echo.event_type != "" and echo.bank_seq is not None)
    )
