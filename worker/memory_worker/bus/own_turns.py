"""Looks through our own turn stream for turns that must be overwritten before anybody reads them."""

import base64
from collections.abc import Callable

import msgspec

from memory_contracts import jetstream
from memory_contracts.connection import Bus
from memory_contracts.jetstream import JetStreamError
from memory_contracts.subjects import TURN_STREAM, Subjects
from memory_worker.bus.erasing import NO_MESSAGE, secure_delete


class _Stored(msgspec.Struct):
    seq: int
    data: str = ""


class OwnTurns:
    """What still lies in the turn stream of one tenant."""

    def __init__(self, bus: Bus, subjects: Subjects, tenant: str, stream: str = TURN_STREAM) -> None:
        self._bus = bus
        self._subject = subjects.turns_of(tenant)
        self._stream = stream

    async def erase_turns(self, holds: Callable[[bytes], bool]) -> int:
        """Overwrite turns of this tenant whose bytes `holds` something; gives how many. Raises BusError."""
        erased, sequence = 0, 1
        while True:
            try:
                got = await jetstream.call(
                    self._bus,
                    f"STREAM.MSG.GET.{self._stream}",
                    {"seq": sequence, "next_by_subj": self._subject},
                )
            except JetStreamError as error:
                if error.err_code == NO_MESSAGE:
                    return erased
                raise
            found = msgspec.convert(got["message"], _Stored, strict=False)
            if holds(base64.b64decode(found.data)):
                erased += await secure_delete(self._bus, self._stream, found.seq)
            sequence = found.seq + 1
