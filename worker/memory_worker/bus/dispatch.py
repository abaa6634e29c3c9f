"""Turns requests on the bus into calls of handlers, and what they give into replies.

One queue subscription for every tenant, route and function. The subject is read once into a `Caller`; handlers get
nothing else to go by. Each request is a task of its own, bounded per function: a slow one never delays another.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import NamedTuple

import structlog

from memory_contracts.connection import Bus, BusError, Message, Subscription
from memory_contracts.errors import IDEMPOTENCY_HEADER, FunctionError, forbidden, invalid
from memory_contracts.functions import FUNCTIONS, Function
from memory_contracts.functions.base import Reply
from memory_contracts.names import ID_MAX_CHARS
from memory_contracts.subjects import RpcAddress, Subjects
from memory_contracts.wire import decode_request, encode, error_headers
from memory_worker.bus.accounts import QUEUE
from memory_worker.bus.calls import CallInfo, Finished, Handler, Observer
from memory_worker.bus.micro import Service
from memory_worker.store import Caller

CONCURRENCY = 256
"""Requests of one function that are worked on at a time; one more is refused at once."""
DEADLINE_S = 30.0
"""Seconds a request may take."""
LONG_DEADLINE_S = 120.0
"""Seconds a request may take whose function reads or rewrites everything."""
LONG_FUNCTIONS = frozenset({"bank.wipe", "doctor", "erase", "export", "import", "reload", "suggestion.decide"})
REFUSALS_AT_A_TIME = 1_024
"""Refusals being sent at a time; beyond, a request gets no answer at all."""
DEADLINE_TICK_S = 0.1
"""How often running requests are compared with their deadlines, in seconds: a timer of its own for each costs more."""
STOP_S = 10.0
"""Seconds that queued and running requests get to be answered at a stop."""

log = structlog.get_logger(__name__)


class Limits(NamedTuple):
    """Bounds of the dispatch layer."""

    concurrency: int = CONCURRENCY
    deadline_s: float = DEADLINE_S
    long_deadline_s: float = LONG_DEADLINE_S


class Dispatcher:
    """Serves the functions that have a handler."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        handlers: Mapping[str, Handler],
        service: Service,
        *,
        limits: Limits | None = None,
        require_own_inbox: bool = False,
        serves: Callable[[str], bool] = lambda tenant: True,
        observer: Observer = lambda finished: None,
    ) -> None:
        """`require_own_inbox` must be set where one account holds callers and worker; `serves` tells known tenants."""
        unknown = [name for name in handlers if name not in FUNCTIONS]
        if unknown:
            raise ValueError(f"handlers for functions that the contract does not have: {', '.join(unknown)}")
        self.refused_replies = 0
        self._bus = bus
        self._subjects = subjects
        self._handlers = handlers
        self.limits = limits or Limits()
        self._require_own_inbox = require_own_inbox
        self._serves = serves
        self._observer = observer
        self._service = service
        for name, function in FUNCTIONS.items():
            if function.answered_by == "memory":
                service.add(name, subjects.rpc("*", "*", "*", name))
        self._busy = dict.fromkeys(FUNCTIONS, 0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadlines: dict[asyncio.Task[None], float] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.TimerHandle | None = None
        self._refusals = 0
        self._sub: Subscription | None = None

    async def start(self) -> None:
        """Begin to serve."""
        self._sub = await self._bus.subscribe(self._subjects.rpc_all(), self.take, queue=QUEUE)
        await self._service.start()
        await self._bus.flushed()

    async def stop(self) -> None:
        """Take nothing new, and answer what is queued and running; at most `STOP_S` seconds."""
        await self._service.stop()
        if self._sub is not None:
            await self._sub.drain(STOP_S)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=STOP_S)
            for task in late:
                task.cancel()
        if self._ticking is not None:
            self._ticking.cancel()

    @property
    def running(self) -> int:
        """Requests being worked on now."""
        return len(self._tasks)

    def take(self, message: Message) -> None:
        """Take one message off the bus; never blocks and never raises."""
        arrived = time.perf_counter()
        address = self._subjects.parse_rpc(message.subject)
        # Answers of JetStream that somebody directed here carry a status, no reply, or an acknowledgement as reply:
        # they are nobody's request.
        if address is None or not message.reply or message.reply[0] == "$" or "Status" in message.headers:
            return
        if self._require_own_inbox and not message.reply.startswith(_own_inbox(address)):
            # Answering would make the worker speak where the caller may not.
            self.refused_replies += 1
            log.warning("request.foreign_reply", tenant=address.tenant, route=address.route)
            return
        function = FUNCTIONS.get(address.function)
        if function is not None and function.answered_by != "memory":
            return
        refusal = self._refusal(address, function)
        if refusal is None:
            assert function is not None
            self._busy[function.name] += 1
            self._spawn(self._work(message, address, function, arrived))
        elif self._refusals < REFUSALS_AT_A_TIME:
            self._refusals += 1
            self._spawn(self._refuse(message, address, refusal, arrived))

    def _refusal(self, address: RpcAddress, function: Function | None) -> FunctionError | None:
        """Tell why the request goes no further, from its address alone."""
        if function is None:
            return FunctionError("not_found", f"no function {address.function}", field="function")
        if address.route not in function.routes:
            routes = " and ".join(function.routes)
            return forbidden(f"{function.name} is for the route {routes}, not {address.route}")
        if not self._serves(address.tenant):
            return FunctionError("not_found", f"no tenant {address.tenant} here", field="tenant")
        if function.name not in self._handlers:
            return FunctionError("unavailable", f"{function.name} is not available in this build or setting")
        if self._busy[function.name] >= self.limits.concurrency:
            return FunctionError("unavailable", f"{self.limits.concurrency} {function.name} requests run already")
        return None

    async def _work(self, message: Message, address: RpcAddress, function: Function, arrived: float) -> None:
        outcome, sent = "internal", 0
        request_id = f"req_{secrets.token_hex(10)}"
        try:
            try:
                body = encode(await self._answer(message, address, function, request_id))
                if len(body) > self._bus.max_payload:
                    raise FunctionError(
                        "too_large",
                        f"the reply is {len(body)} bytes, the bus takes {self._bus.max_payload}",
                        hint="ask for less: a smaller limit, or a filter",
                    )
                outcome, sent = "ok", await self._send(message.reply, body, None)
            except FunctionError as error:
                outcome, sent = error.code, await self._send_error(message.reply, error)
        finally:
            self._busy[function.name] -= 1
            self._finished(address, function.name, outcome, arrived, len(message.data), sent, request_id)

    async def _answer(self, message: Message, address: RpcAddress, function: Function, request_id: str) -> Reply:
        request = decode_request(function, message.data)
        info = CallInfo(_idempotency_key(message), request_id)
        caller = Caller(address.tenant, address.route, address.principal)
        seconds = self.limits.long_deadline_s if function.name in LONG_FUNCTIONS else self.limits.deadline_s
        task = self._limit(seconds)
        try:
            return await self._handlers[function.name](caller, request, info)
        except FunctionError:
            raise
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            message_ = f"{function.name} took longer than {seconds:g} s; whether it had an effect is unknown"
            raise FunctionError("unavailable", message_) from None
        except Exception as error:
            # The text of an exception may hold what somebody stored: only its type is logged, nothing is sent.
            log.error(
                "request.failed",
                function=function.name,
                tenant=address.tenant,
                request_id=request_id,
                error=type(error).__name__,
                where=_where(error),
            )
            raise FunctionError("internal", f"the request failed; the worker's log has it as {request_id}") from None
        finally:
            self._deadlines.pop(task, None)
            self._late.discard(task)

    def _limit(self, seconds: float) -> "asyncio.Task[None]":
        """Have the running task cancelled once `seconds` are over; gives the task."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._deadlines[task] = loop.time() + seconds
        if self._ticking is None:
            self._ticking = loop.call_later(min(DEADLINE_TICK_S, seconds), self._tick)
        return task

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task, deadline in list(self._deadlines.items()):
            if deadline <= now:
                del self._deadlines[task]
                self._late.add(task)
                task.cancel()
        self._ticking = loop.call_later(DEADLINE_TICK_S, self._tick) if self._deadlines else None

    async def _refuse(self, message: Message, address: RpcAddress, error: FunctionError, arrived: float) -> None:
        try:
            sent = await self._send_error(message.reply, error)
        finally:
            self._refusals -= 1
        name = address.function if address.function in FUNCTIONS else "unknown"
        self._finished(address, name, error.code, arrived, len(message.data), sent, None)

    async def _send_error(self, reply: str, error: FunctionError) -> int:
        return await self._send(reply, encode(error.body()), error_headers(error))

    async def _send(self, reply: str, body: bytes, headers: dict[str, str] | None) -> int:
        try:
            # The request's own headers never go back: they are the caller's words.
            await self._bus.publish(reply, body, headers=headers)
        except BusError as error:
            log.warning("request.reply_lost", error=type(error).__name__)
            return 0
        return len(body)

    def _finished(
        self, address: RpcAddress, name: str, outcome: str, arrived: float, read: int, sent: int, request_id: str | None
    ) -> None:
        seconds = time.perf_counter() - arrived
        endpoint = self._service.endpoints.get(name)
        if endpoint is not None:
            endpoint.count(outcome, seconds)
        self._observer(Finished(name, outcome, seconds, address.route))
        log.info(
            "request",
            function=name,
            route=address.route,
            tenant=address.tenant,
            outcome=outcome,
            ms=round(seconds * 1000, 2),
            bytes_in=read,
            bytes_out=sent,
            request_id=request_id,
        )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _own_inbox(address: RpcAddress) -> str:
    return f"_INBOX.{address.tenant}.{address.route}.{address.principal}."


def _idempotency_key(message: Message) -> str | None:
    key = message.headers.get(IDEMPOTENCY_HEADER)
    if key is not None and not (0 < len(key) <= ID_MAX_CHARS and key.isprintable()):
        raise invalid(f"the key must be 1 to {ID_MAX_CHARS} printable characters", IDEMPOTENCY_HEADER)
    return key


def _where(error: BaseException) -> str:
    """Name the innermost place an exception came from, without its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
