"""Answering requests: how a sibling serves functions or sibling subjects over the same guarded connection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from memory_contracts.connection import Bus, Message, Subscription
from memory_contracts.errors import IDEMPOTENCY_HEADER, FunctionError, forbidden
from memory_contracts.functions import FUNCTIONS
from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import Route
from memory_contracts.subjects import Subjects
from memory_contracts.wire import decode_request, encode, error_headers

CONCURRENCY = 32
"""Requests one subscription works on at a time; more are refused with `unavailable` at once."""

Answer = Callable[[Message], Awaitable[msgspec.Struct]]
"""Answers one message with a struct, or raises FunctionError."""


class FunctionCall(NamedTuple):
    """Who called, as the bus let them, and the key that makes repeating the call harmless."""

    tenant: str
    route: Route
    principal: str
    function: str
    idempotency_key: str | None


Accept = Callable[[Message], bool]
"""Whether a message is to be answered at all; what is not accepted gets no reply."""

FunctionAnswer = Callable[[FunctionCall, Request], Awaitable[Reply]]
"""Answers one function call."""


class Serving:
    """One served subject; `stop` takes nothing new and finishes what was begun."""

    def __init__(self, bus: Bus, answer: Answer, concurrency: int, accept: Accept | None = None) -> None:
        self._bus = bus
        self._answer = answer
        self._accept = accept
        self._concurrency = concurrency
        self._tasks: set[asyncio.Task[None]] = set()
        self._sub: Subscription | None = None

    async def start(self, subject: str, queue: str) -> None:
        """Begin to answer. Raises NotPermitted when these credentials may not, or not in this queue group."""
        self._sub = await self._bus.subscribe(subject, self._take, queue=queue)
        await self._sub.confirmed()

    async def stop(self) -> None:
        """Stop taking requests and answer those that were taken."""
        if self._sub is not None:
            await self._sub.drain()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, message: Message) -> None:
        if not message.reply or "Status" in message.headers:
            return
        if self._accept is not None and not self._accept(message):
            return
        work = self._work(message)
        if len(self._tasks) >= self._concurrency:
            work.close()
            work = self._send(message, FunctionError("unavailable", "too many requests at a time, try again"))
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, message: Message) -> None:
        try:
            result: msgspec.Struct | FunctionError = await self._answer(message)
        except FunctionError as error:
            result = error
        except Exception:  # a fault of the answerer must reach the caller as an error, without its text
            result = FunctionError("internal", "the request failed")
        await self._send(message, result)

    async def _send(self, message: Message, result: msgspec.Struct | FunctionError) -> None:
        if isinstance(result, FunctionError):
            # The request's own headers are never sent back: they are the caller's words.
            await self._bus.publish(message.reply, encode(result.body()), headers=error_headers(result))
        else:
            await self._bus.publish(message.reply, encode(result))


async def serve(
    bus: Bus,
    subject: str,
    answer: Answer,
    *,
    queue: str,
    concurrency: int = CONCURRENCY,
    accept: Accept | None = None,
) -> Serving:
    """Answer every request on `subject` that `accept` lets in, shared with others in `queue`."""
    serving = Serving(bus, answer, concurrency, accept)
    await serving.start(subject, queue)
    return serving


async def serve_functions(
    bus: Bus, answers: dict[str, FunctionAnswer], *, queue: str, concurrency: int = CONCURRENCY
) -> list[Serving]:
    """Answer functions of the contract for this identity's tenant, on every route that may call them.

    A request whose reply does not lie under the caller's own inbox gets no answer: the caller chooses that subject, and
    an answer sent elsewhere would speak there in this identity's name.
    """
    credentials = bus.credentials
    subjects = Subjects(credentials.prefix, credentials.turn_prefix)

    def accept(message: Message) -> bool:
        address = subjects.parse_rpc(message.subject)
        return address is not None and message.reply.startswith(
            f"_INBOX.{address.tenant}.{address.route}.{address.principal}."
        )

    async def answer(message: Message) -> Reply:
        address = subjects.parse_rpc(message.subject)
        if address is None or address.tenant != credentials.tenant:
            raise FunctionError("not_found", "no such function")
        function = FUNCTIONS[address.function]
        if address.route not in function.routes:
            raise forbidden(f"{address.function} is not for the route {address.route}")
        request = decode_request(function, message.data)
        key = message.headers.get(IDEMPOTENCY_HEADER)
        call = FunctionCall(address.tenant, address.route, address.principal, address.function, key)
        return await answers[address.function](call, request)

    return [
        await serve(
            bus,
            f"{credentials.prefix}.rpc.{credentials.tenant}.*.*.{name}",
            answer,
            queue=queue,
            concurrency=concurrency,
            accept=accept,
        )
        for name in answers
    ]
