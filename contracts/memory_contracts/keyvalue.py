"""A small key-value bucket on the bus, for a sibling's own state: read one key, write it if nobody else did."""

import base64
from typing import NamedTuple

import msgspec

from memory_contracts import jetstream
from memory_contracts.connection import Bus, BusError
from memory_contracts.jetstream import API_TIMEOUT_S, JetStreamError

_NO_MESSAGE = 10037
_WRONG_LAST_SEQUENCE = 10071


class Entry(NamedTuple):
    """A key's value, and the revision that a write may expect."""

    value: bytes
    revision: int


class WrittenMeanwhile(BusError):
    """The key has another revision than was expected: read it again."""


class Bucket:
    """One bucket. It is made by the admin, as the streams are."""

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus = bus
        self._name = name

    async def get(self, key: str) -> Entry | None:
        """Read a key, None when it was never written."""
        try:
            got = await jetstream.call(
                self._bus, f"STREAM.MSG.GET.KV_{self._name}", {"last_by_subj": self._subject(key)}
            )
        except JetStreamError as error:
            if error.err_code == _NO_MESSAGE:
                return None
            raise
        message = got["message"]
        return Entry(base64.b64decode(message.get("data", "")), int(message["seq"]))

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int:
        """Write a key and give its new revision; with `expected` only if that is still its revision (0 = none yet).

        Raises WrittenMeanwhile.
        """
        headers = {"Nats-Expected-Last-Subject-Sequence": str(expected)} if expected is not None else None
        reply = await self._bus.request(self._subject(key), value, within=API_TIMEOUT_S, headers=headers)
        body = msgspec.json.decode(reply.data)
        error = body.get("error")
        if error:
            if error.get("err_code") == _WRONG_LAST_SEQUENCE:
                raise WrittenMeanwhile(f"{key} was written meanwhile")
            raise JetStreamError(error.get("code", 500), error.get("err_code", 0), error.get("description", ""))
        return int(body["seq"])

    def _subject(self, key: str) -> str:
        return f"$KV.{self._name}.{key}"
