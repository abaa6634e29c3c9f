"""The key-value bucket that holds the worker's state: get, and put by compare-and-set.

The wire form is that of NATS key-value stores (ADR-8), so any client reads it. nats-py's own is not used: its watchers
are built on ordered push consumers, which end the read loop on an acknowledgement subject of the second form.
"""

import base64
import binascii
from typing import Any, NamedTuple

import msgspec

from memory_contracts.connection import Bus, BusAway, BusError, BusTimeout
from memory_contracts.jetstream import JetStreamError, call
from memory_contracts.subjects import consolidate_bucket, token

CALL_S = 2.0
"""Seconds one call may take."""
ATTEMPTS = 3
"""Times a call is tried before it is given up."""
VALUE_MAX_BYTES = 262_144
"""Largest value; the bucket refuses more."""

_NO_MESSAGE = 10037
_WRONG_SEQUENCE = (10071, 10164)
_DELETED = ("DEL", "PURGE")


class Changed(Exception):
    """Somebody else wrote the key since it was read."""


class Entry(NamedTuple):
    """A key's value and the revision that a write must name; revision 0 and no value = never written."""

    value: bytes | None
    revision: int


class Bucket:
    """One tenant's bucket."""

    def __init__(self, bus: Bus) -> None:
        name = consolidate_bucket(bus.credentials.tenant)
        self._bus = bus
        self._stream = f"KV_{name}"
        self._prefix = f"$KV.{name}"

    async def get(self, *key: str) -> Entry:
        """Read a key, made of `.`-joined parts. Raises BusError when the bus or the bucket is away."""
        request = {"last_by_subj": self._subject(key)}
        try:
            body = await call(self._bus, f"STREAM.MSG.GET.{self._stream}", request, within=CALL_S, attempts=ATTEMPTS)
        except JetStreamError as error:
            if error.err_code == _NO_MESSAGE:
                return Entry(None, 0)
            raise
        return _entry(body["message"])

    async def put(self, value: bytes, revision: int, *key: str) -> int:
        """Write a key that is at `revision`; gives the new revision.

        Raises Changed when the key is elsewhere by now. A write whose answer was lost is looked up: it counts as done
        when the key holds exactly this value.
        """
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        for _ in range(ATTEMPTS):
            try:
                message = await self._bus.request(self._subject(key), value, within=CALL_S, headers=headers)
            except (BusTimeout, BusAway):
                now = await self.get(*key)
                if now.value == value and now.revision > revision:
                    return now.revision
                if now.revision != revision:
                    raise Changed from None
                continue
            body: dict[str, Any] = msgspec.json.decode(message.data)
            if "error" not in body:
                return int(body["seq"])
            if body["error"].get("err_code") in _WRONG_SEQUENCE:
                raise Changed
            raise JetStreamError(
                body["error"].get("code", 500), body["error"].get("err_code", 0), body["error"].get("description", "")
            )
        raise BusTimeout("the bucket did not answer in time")

    def _subject(self, key: tuple[str, ...]) -> str:
        return ".".join((self._prefix, *map(token, key)))


def _entry(message: dict[str, Any]) -> Entry:
    revision = int(message["seq"])
    try:
        headers = base64.b64decode(message.get("hdrs", "")).decode("latin-1")
        value = base64.b64decode(message.get("data", ""))
    except binascii.Error as error:
        raise BusError("unreadable entry in the bucket") from error
    if any(f"KV-Operation: {operation}" in headers for operation in _DELETED):
        return Entry(None, revision)
    return Entry(value, revision)
