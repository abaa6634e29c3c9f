"""The entry point of the bridge process: connect, serve the router's subjects, stop cleanly."""

import asyncio
import os
from typing import Any, TypeVar

import msgspec

from memory_contracts.connection import Bus, Message
from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.errors import FunctionError
from memory_contracts.serving import Answer, Serving
from memory_contracts.serving import serve as serve_subject
from memory_contracts.siblings import CompleteReply, CompleteRequest, EmbedReply, EmbedRequest, ModelsReply
from memory_contracts.wire import decode_as, encode
from memory_router.bridge import Bridge
from memory_router.settings import RouterSettings, SettingsError, read_settings

FIRST_CONNECT_S = 30.0
"""Seconds the bus may take to come up before the process gives up."""
EXIT_BUS_CLOSED = 70
"""The connection was closed for good (refused credentials, a fatal error); a supervisor starts us again."""
QUEUE = "router"
"""Queue group, so that several bridges share the work. It is the one the bus lets `system-router` join."""

R = TypeVar("R", bound=msgspec.Struct)


async def serve(
    credentials: str | os.PathLike[str] | dict[str, Any] | Credentials, settings: RouterSettings | None = None
) -> int:
    """Answer the router's subjects of the credentials' tenant until cancelled; gives the exit code.

    Raises CredentialsError, BusError when the bus cannot be reached at the start, and FunctionError `invalid_input`
    when the settings in the environment cannot be used.
    """
    try:
        chosen = settings or read_settings()
    except SettingsError as error:
        raise FunctionError("invalid_input", str(error)) from None
    bridge = Bridge(chosen)
    try:
        async with await Bus.connect(load_credentials(credentials), name="memory-router", wait=FIRST_CONNECT_S) as bus:
            servings = await start(bus, bridge, chosen)
            try:
                await bus.closed.wait()
            finally:
                await asyncio.gather(*(serving.stop() for serving in servings))
            return EXIT_BUS_CLOSED
    finally:
        await bridge.close()


async def start(bus: Bus, bridge: Bridge, settings: RouterSettings) -> list[Serving]:
    """Begin to answer the three subjects of the connection's tenant."""
    base = settings.subject.format(tenant=bus.credentials.tenant)

    async def complete(message: Message) -> CompleteReply:
        return _fitting(bus, await bridge.complete(_request(CompleteRequest, message)))

    async def embed(message: Message) -> EmbedReply:
        return _fitting(bus, await bridge.embed(_request(EmbedRequest, message)))

    async def models(message: Message) -> ModelsReply:
        return _fitting(bus, await bridge.models())

    answers: dict[str, Answer] = {"complete": complete, "embed": embed, "models": models}
    return [
        await serve_subject(bus, f"{base}.{name}", answer, queue=QUEUE, concurrency=settings.concurrency)
        for name, answer in answers.items()
    ]


def _request(kind: type[R], message: Message) -> R:
    try:
        return decode_as(kind, message.data)
    except FunctionError as error:
        raise FunctionError("invalid_input", error.message) from None


def _fitting(bus: Bus, reply: R) -> R:
    """Give the reply if the bus carries it; a reply over `max_payload` is an error rather than silence."""
    size = len(encode(reply))
    if size > bus.max_payload:
        raise FunctionError("too_large", f"the reply has {size} bytes, the bus carries {bus.max_payload}")
    return reply
