"""Drives load against a bus from a process of its own: N callers on one connection, latencies and rate."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
import nats
import nats.aio.msg
import uvloop

from memory_contracts.client import MemoryClient
from memory_contracts.functions.memories import SaveRequest
from memory_contracts.functions.recalling import ContextRequest, RecallRequest

ECHO = "bench.echo"
WARM_UP_CALLS = 50

QUESTIONS = (
    "which locker holds the blue box",
    "what does the team drink on Fridays",
    "port of the staging database",
    "when is the quarterly review",
    "where did the printer move",
)


class Latencies(msgspec.Struct):
    """One cell of the table: milliseconds and calls a second."""

    p50: float
    p95: float
    p99: float
    rate: float


Call = Callable[[int], Awaitable[object]]


def call_of(kind: str, client: MemoryClient, run: str) -> Call:
    """What one caller does, by kind."""
    if kind == "save":
        return lambda n: client.call("save", SaveRequest(text=f"Locker {run}-{n} holds the blue box number {n}"))
    if kind == "recall":
        return lambda n: client.call("recall", RecallRequest(query=QUESTIONS[n % len(QUESTIONS)]))
    if kind == "context":
        return lambda n: client.call(
            "context",
            ContextRequest(session_id=f"{run}-{n % 200}", message=QUESTIONS[n % len(QUESTIONS)], turn_id=f"{run}-{n}"),
        )
    raise ValueError(kind)


async def drive(credentials: str, kind: str, callers: int, seconds: float) -> Latencies:
    """Call for `seconds` from `callers` tasks at once."""
    client = await MemoryClient.connect(credentials)
    run = f"{kind}{callers}-{time.time_ns() % 10**9}"
    call = call_of(kind, client, run)
    count = 0
    times: list[float] = []

    async def caller(until: float, keep: bool) -> None:
        nonlocal count
        while time.perf_counter() < until:
            count += 1
            began = time.perf_counter()
            await call(count)
            if keep:
                times.append(time.perf_counter() - began)

    for _ in range(WARM_UP_CALLS):
        count += 1
        await call(count)
    began = time.perf_counter()
    await asyncio.gather(*(caller(began + seconds, True) for _ in range(callers)))
    took = time.perf_counter() - began
    await client.close()
    return summed(times, took)


def summed(times: list[float], took: float) -> Latencies:
    """Sum up latencies, in seconds, of calls that took `took` seconds in all."""
    times.sort()

    def at(share: float) -> float:
        return round(times[min(len(times) - 1, int(len(times) * share))] * 1_000, 2)

    return Latencies(at(0.50), at(0.95), at(0.99), round(len(times) / took, 1))


async def drive_echo(url: str, callers: int, seconds: float) -> Latencies:
    """The floor: plain nats-py requests to an echo, nothing of ours in between."""
    client = await nats.connect(url)
    body = b"x" * 64
    times: list[float] = []

    async def caller(until: float) -> None:
        while time.perf_counter() < until:
            began = time.perf_counter()
            await client.request(ECHO, body, timeout=10)
            times.append(time.perf_counter() - began)

    for _ in range(WARM_UP_CALLS):
        await client.request(ECHO, body, timeout=10)
    began = time.perf_counter()
    await asyncio.gather(*(caller(began + seconds) for _ in range(callers)))
    took = time.perf_counter() - began
    await client.close()
    return summed(times, took)


async def serve_echo(url: str) -> None:
    """Answer every request with its body."""
    client = await nats.connect(url)

    async def answer(message: nats.aio.msg.Msg) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe(ECHO, "echo", cb=answer)
    await client.flush()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Run one cell and print it as JSON, or serve the echo."""
    parser = argparse.ArgumentParser()
    parser.add_argument("credentials", help="credentials file; the bus address for the echo")
    parser.add_argument("kind")
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.5)
    asked = parser.parse_args()
    if asked.kind == "serve-echo":
        uvloop.run(serve_echo(asked.credentials))
        return
    if asked.kind == "echo":
        cell = uvloop.run(drive_echo(asked.credentials, asked.callers, asked.seconds))
    else:
        cell = uvloop.run(drive(asked.credentials, asked.kind, asked.callers, asked.seconds))
    sys.stdout.write(json.dumps(msgspec.to_builtins(cell)) + "\n")


if __name__ == "__main__":
    main()
