"""The streams and the intake consumer: what they must look like. An admin makes them; the worker only verifies."""

from collections.abc import Sequence
from typing import Any

import msgspec

from memory_contracts import jetstream
from memory_contracts.connection import Bus, BusError
from memory_contracts.jetstream import JetStreamError
from memory_contracts.subjects import (
    TURN_CONSUMER,
    Subjects,
    consolidate_bucket,
    event_stream,
    private_stream,
)

DUPLICATE_WINDOW_S = 120
"""Seconds for which a stream drops a message with an id it knows. Consumers drop later repeats themselves."""
ACK_WAIT_S = 10
"""Seconds until an unacknowledged turn comes again; the server does not notice a lost connection earlier."""
MAX_ACK_PENDING = 256
"""Turns that may be unacknowledged at a time: bounds what comes again after a crash."""
TURN_BYTES = 256 * 1024 * 1024
"""Bytes of turns that may wait; beyond, publishing is refused, so that no turn is dropped for a newer one."""
EVENT_BYTES = 256 * 1024 * 1024
"""Bytes of triggers kept in one stream, about 250,000; when full, the worker erases the oldest first."""
BUCKET_BYTES = 64 * 1024 * 1024
"""Bytes of one tenant's consolidate bucket."""
BUCKET_VALUE_BYTES = 256 * 1024
"""Bytes of one value in it."""
ADMIN_ATTEMPTS = 3
"""Times a call that makes or looks at a stream is tried."""
BACKSTOP_AGE_S = 90 * 24 * 3600
"""Seconds after which the server itself drops a message. Far above the worker's retention, since what a limit removes
leaves its bytes on disk."""

_NS = 1_000_000_000


class StreamDrift(BusError):
    """A stream or the consumer is missing or not as it must be; the message names every difference."""


def stream_configs(subjects: Subjects, tenants: Sequence[str], *, replicas: int = 1) -> list[dict[str, Any]]:
    """Give the configuration of every stream of ours. `replicas` is 1 on one server, 3 on a cluster."""
    common: dict[str, Any] = {
        "storage": "file",
        "retention": "limits",
        # Full means refused, never a silent loss of the oldest.
        "discard": "new",
        "num_replicas": replicas,
        "max_age": BACKSTOP_AGE_S * _NS,
        "duplicate_window": DUPLICATE_WINDOW_S * _NS,
        # Deleting a message stays possible: it is how a value is erased.
        "deny_purge": True,
        # Batches are written with one sync. The server offers no batches on streams that persist asynchronously.
        "allow_atomic": True,
        # Publishers' headers must not delete or expire what others published.
        "allow_rollup_hdrs": False,
        "allow_msg_ttl": False,
        "allow_direct": False,
    }
    turns = {"name": subjects.turn_stream, "subjects": [subjects.turns_all()], "max_bytes": TURN_BYTES, **common}
    configs = [turns] if subjects.owns_turns else []
    for tenant in tenants:
        configs += [
            {"name": event_stream(tenant), "subjects": [subjects.events(tenant)], "max_bytes": EVENT_BYTES, **common},
            {
                "name": private_stream(tenant),
                "subjects": [subjects.private_events(tenant)],
                "max_bytes": EVENT_BYTES,
                **common,
            },
        ]
    return configs


def intake_config(subjects: Subjects) -> dict[str, Any]:
    """Give the configuration of the intake consumer."""
    return {
        "name": TURN_CONSUMER,
        "durable_name": TURN_CONSUMER,
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "ack_wait": ACK_WAIT_S * _NS,
        # Waiting and failing turns live in the inbox, never on the consumer: every delivery ends in an inbox row.
        "max_deliver": -1,
        "max_ack_pending": MAX_ACK_PENDING,
        "filter_subject": subjects.turns_all(),
    }


def bucket_config(tenant: str, *, replicas: int = 1) -> dict[str, Any]:
    """Give the configuration of the bucket in which a tenant's consolidate worker keeps its schedule."""
    bucket = consolidate_bucket(tenant)
    return {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "max_msg_size": BUCKET_VALUE_BYTES,
        "max_bytes": BUCKET_BYTES,
        "allow_rollup_hdrs": False,
    }


async def create_streams(admin: Bus, subjects: Subjects, tenants: Sequence[str], *, replicas: int = 1) -> None:
    """Make what is missing and correct what differs; needs the admin's credentials."""
    buckets = [bucket_config(tenant, replicas=replicas) for tenant in tenants]
    for config in [*stream_configs(subjects, tenants, replicas=replicas), *buckets]:
        config = config if jetstream.takes_batches(admin.server_version) else _without_batches(config)
        name = config["name"]
        found = await _found(admin, f"STREAM.INFO.{name}")
        if found is None:
            await jetstream.call(admin, f"STREAM.CREATE.{name}", config, attempts=ADMIN_ATTEMPTS)
        elif _differences(config, found["config"]):
            await jetstream.call(admin, f"STREAM.UPDATE.{name}", {**found["config"], **config}, attempts=ADMIN_ATTEMPTS)
    consumer = intake_config(subjects)
    stream = subjects.turn_stream
    found = await _found(admin, f"CONSUMER.INFO.{stream}.{TURN_CONSUMER}")
    if found is None or _differences(consumer, found["config"]):
        await jetstream.call(
            admin,
            f"CONSUMER.CREATE.{stream}.{TURN_CONSUMER}.{subjects.turns_all()}",
            {"stream_name": stream, "config": {**(found["config"] if found else {}), **consumer}},
            attempts=ADMIN_ATTEMPTS,
        )


async def verify_streams(worker: Bus, subjects: Subjects, tenants: Sequence[str]) -> None:
    """Check every stream and the consumer. Raises StreamDrift with all differences: somebody changed what is ours."""
    problems: list[str] = []
    for config in stream_configs(subjects, tenants):
        config = config if jetstream.takes_batches(worker.server_version) else _without_batches(config)
        # How many replicas there are is the operator's choice.
        wanted = {key: value for key, value in config.items() if key != "num_replicas"}
        problems += await _problems(worker, f"stream {config['name']}", f"STREAM.INFO.{config['name']}", wanted)
    stream = subjects.turn_stream
    what = f"consumer {stream}/{TURN_CONSUMER}"
    problems += await _problems(worker, what, f"CONSUMER.INFO.{stream}.{TURN_CONSUMER}", intake_config(subjects))
    if problems:
        raise StreamDrift("; ".join(problems))


class StreamState(msgspec.Struct, frozen=True):
    """What tells one life of a stream from another: when it was made, and how far it has come."""

    created: str
    first_seq: int
    last_seq: int
    messages: int
    first_at: str


async def stream_state(bus: Bus, name: str) -> StreamState:
    """Look at a stream. Raises JetStreamError when there is none."""
    info = await jetstream.call(bus, f"STREAM.INFO.{name}")
    state = info["state"]
    return StreamState(info["created"], state["first_seq"], state["last_seq"], state["messages"], state["first_ts"])


async def _problems(bus: Bus, what: str, call: str, wanted: dict[str, Any]) -> list[str]:
    found = await _found(bus, call)
    if found is None:
        return [f"{what} is missing"]
    differences = _differences(wanted, found["config"])
    return [f"{what} has {key} {is_now!r}, needs {needed!r}" for key, needed, is_now in differences]


async def _found(bus: Bus, call: str) -> Any:
    try:
        return await jetstream.call(bus, call, attempts=ADMIN_ATTEMPTS)
    except JetStreamError as error:
        if error.code == 404:
            return None
        raise


def _differences(wanted: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    # The server leaves out fields that are false.
    return [
        (key, value, found.get(key, False)) for key, value in sorted(wanted.items()) if found.get(key, False) != value
    ]


def _without_batches(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "allow_atomic"}
