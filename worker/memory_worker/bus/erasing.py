"""Overwrites messages of our own streams: for retention, for turns that were taken, and for a forgetting.

Purging, work-queue acknowledgement and stream limits all leave the bytes on disk; only the secure delete by sequence
does not.
"""

import asyncio
import contextlib
from collections import deque
from datetime import datetime

import msgspec
import structlog

from memory_contracts import jetstream
from memory_contracts.connection import Bus, BusClosed, BusError
from memory_contracts.jetstream import JetStreamError

ERASE_AT_A_TIME = 16
"""Erasures in flight."""
ERASE_QUEUE = 100_000
"""Sequences that may wait to be erased; beyond, the sweep at the next start finds them."""
ERASE_ATTEMPTS = 5
"""Times an erasure is tried before it is left to the sweep."""

NO_MESSAGE = 10037
"""JetStream's error for no message at or after a sequence."""
_NOT_FOUND = 10043
_DELETE_FAILED = 10057

log = structlog.get_logger(__name__)


class Eraser:
    """Securely deletes messages of one stream in the background: their bytes are overwritten."""

    def __init__(self, bus: Bus, stream: str, *, at_a_time: int = ERASE_AT_A_TIME) -> None:
        self.erased = 0
        self.given_up = 0
        self._bus = bus
        self._stream = stream
        self._waiting: deque[int] = deque(maxlen=ERASE_QUEUE)
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._at_a_time = at_a_time
        self._busy = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def waiting(self) -> int:
        """Messages still to be erased."""
        return len(self._waiting) + self._busy

    def start(self) -> None:
        """Begin to erase."""
        self._tasks = [asyncio.create_task(self._run(), name="eraser") for _ in range(self._at_a_time)]

    def add(self, sequence: int) -> None:
        """Have a message erased soon."""
        self._waiting.append(sequence)
        self._idle.clear()
        self._news.set()

    async def settled(self) -> None:
        """Wait until nothing waits to be erased."""
        await self._idle.wait()

    async def stop(self, within: float = 3.0) -> None:
        """Erase what waits, for at most `within` seconds; the sweep at the next start finds the rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            sequence = self._waiting.popleft()
            self._busy += 1
            try:
                await self._erase(sequence)
            finally:
                self._busy -= 1
                if not self._waiting and not self._busy:
                    self._idle.set()

    async def _erase(self, sequence: int) -> None:
        for attempt in range(ERASE_ATTEMPTS):
            try:
                await secure_delete(self._bus, self._stream, sequence)
                self.erased += 1
                return
            except BusClosed:
                return
            except BusError:
                await asyncio.sleep(0.1 * 2**attempt)
        self.given_up += 1
        log.warning("bus.erase_given_up", stream=self._stream, stream_seq=sequence)


async def secure_delete(bus: Bus, stream: str, sequence: int) -> bool:
    """Overwrite one message; False when it was not there. Raises BusError when the server did not do it."""
    try:
        await jetstream.call(bus, f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": False})
    except JetStreamError as error:
        # The server has one number for a refused delete and for a sequence outside the stream; only the words differ.
        outside = error.err_code == _DELETE_FAILED and error.description.endswith(("EOF", "no message found"))
        if error.err_code == _NOT_FOUND or outside:
            return False
        raise
    return True


class Found(msgspec.Struct, frozen=True):
    """A message of a stream: where it lies, and when it was stored (RFC 3339)."""

    seq: int
    subject: str
    time: str


async def next_message(bus: Bus, stream: str, subject: str, sequence: int) -> Found | None:
    """Find the first message on `subject` (wildcards allowed) at or after `sequence`."""
    try:
        got = await jetstream.call(bus, f"STREAM.MSG.GET.{stream}", {"seq": max(1, sequence), "next_by_subj": subject})
    except JetStreamError as error:
        if error.err_code == NO_MESSAGE:
            return None
        raise
    return msgspec.convert(got["message"], Found, strict=False)


async def erase_subject(
    bus: Bus, stream: str, subject: str, *, before: datetime | None = None, most: int | None = None
) -> int:
    """Securely delete the messages on `subject`, oldest first; gives how many. Safe to repeat.

    `before` keeps what was stored at or after that time; `most` bounds how many are deleted.

    For a forgetting: the subject of one memory's triggers, `…item-changed.*.<id>`.
    """
    erased, sequence = 0, 1
    while most is None or erased < most:
        found = await next_message(bus, stream, subject, sequence)
        if found is None or (before is not None and datetime.fromisoformat(found.time) >= before):
            break
        erased += await secure_delete(bus, stream, found.seq)
        sequence = found.seq + 1
    return erased


async def erase_oldest(bus: Bus, stream: str, count: int) -> int:
    """Securely delete the oldest messages of a stream."""
    return await erase_subject(bus, stream, ">", most=count)
