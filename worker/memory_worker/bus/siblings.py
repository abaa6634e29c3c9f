"""Asks the siblings: the session manager and the model router. Both are optional; a sibling that is away is a value."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import structlog

from memory_contracts.connection import BodyTooLarge, Bus, BusError
from memory_contracts.errors import FunctionError
from memory_contracts.siblings import (
    CompleteReply,
    CompleteRequest,
    EmbedReply,
    EmbedRequest,
    ModelsReply,
    ModelsRequest,
    SessionGetReply,
    SessionGetRequest,
    SessionMessagesReply,
    SessionMessagesRequest,
)
from memory_contracts.wire import decode_as, encode, error_of
from memory_worker.extraction import SiblingAway

R = TypeVar("R")

SESSION_DEADLINE_S = 2.0
COMPLETE_DEADLINE_S = 60.0
EMBED_DEADLINE_S = 5.0

SiblingObserver = Callable[[str, str, float], None]
"""Is told the sibling, the outcome (`ok`, `away` or an error's code) and the seconds of every request."""

log = structlog.get_logger(__name__)


class _Sibling:
    """Asks one kind of sibling of one tenant. Its errors are FunctionErrors, its absence is `SiblingAway`."""

    def __init__(self, bus: Bus, tenant: str, name: str, observer: SiblingObserver) -> None:
        self._bus = bus
        self._tenant = tenant
        self._name = name
        self._observer = observer

    async def ask(self, subject: str, request: msgspec.Struct, reply: type[R], within: float) -> R:
        """Ask on a subject template. Raises SiblingAway, or the sibling's own refusal as FunctionError."""
        began = time.monotonic()
        outcome = "away"
        try:
            message = await self._bus.request(subject.format(tenant=self._tenant), encode(request), within=within)
            refused = error_of(message.headers, message.data)
            if refused is not None:
                outcome = refused.code
                if refused.code == "unavailable":
                    raise SiblingAway(self._name)
                raise refused
            answer = decode_as(reply, message.data)
            outcome = "ok"
            return answer
        except BodyTooLarge as error:
            outcome = "too_large"
            raise FunctionError("too_large", str(error)) from None
        except BusError:
            # Nobody there, no answer in time, or the bus itself away: it may come back.
            raise SiblingAway(self._name) from None
        finally:
            self._observer(self._name, outcome, time.monotonic() - began)


class SessionManager:
    """The session manager of one tenant."""

    def __init__(
        self,
        bus: Bus,
        tenant: str,
        *,
        get_subject: str = "session.v1.{tenant}.get",
        messages_subject: str = "session.v1.{tenant}.messages",
        deadline_s: float = SESSION_DEADLINE_S,
        observer: SiblingObserver = lambda sibling, outcome, seconds: None,
    ) -> None:
        self._sibling = _Sibling(bus, tenant, "session_manager", observer)
        self._get_subject = get_subject
        self._messages_subject = messages_subject
        self.deadline_s = deadline_s

    async def get(self, session_id: str) -> SessionGetReply | None:
        """Give a session, or None when the manager does not know it. Raises SiblingAway."""
        try:
            request = SessionGetRequest(session_id=session_id)
            session = await self._sibling.ask(self._get_subject, request, SessionGetReply, self.deadline_s)
            if session.session_id != session_id:
                # Its metadata would choose another session's bank for this one.
                raise FunctionError("invalid_input", "the reply names another session", field="session_id")
            return session
        except FunctionError as error:
            if error.code == "not_found":
                return None
            # An answer that cannot be used decides no bank: the turn waits, as if nobody had answered.
            log.warning("sibling.unusable", sibling="session_manager", code=error.code)
            raise SiblingAway("session_manager") from None

    async def metadata(self, session_id: str) -> Mapping[str, Any] | None:
        """Give a session's metadata, or None when the manager does not know it. Raises SiblingAway."""
        session = await self.get(session_id)
        return None if session is None else session.metadata

    async def messages(self, session_id: str, after: str | None, limit: int) -> SessionMessagesReply:
        """Give a page of messages after the id `after`, oldest first. Raises SiblingAway."""
        request = SessionMessagesRequest(session_id=session_id, limit=limit, after=after)
        try:
            return await self._sibling.ask(self._messages_subject, request, SessionMessagesReply, self.deadline_s)
        except FunctionError as error:
            if error.code == "not_found":
                return SessionMessagesReply(messages=[])
            log.warning("sibling.unusable", sibling="session_manager", code=error.code)
            raise SiblingAway("session_manager") from None


class Router:
    """The model router of one tenant."""

    def __init__(
        self,
        bus: Bus,
        tenant: str,
        *,
        complete_subject: str = "router.v1.{tenant}.complete",
        embed_subject: str = "router.v1.{tenant}.embed",
        models_subject: str = "router.v1.{tenant}.models",
        complete_deadline_s: float = COMPLETE_DEADLINE_S,
        embed_deadline_s: float = EMBED_DEADLINE_S,
        observer: SiblingObserver = lambda sibling, outcome, seconds: None,
    ) -> None:
        self._sibling = _Sibling(bus, tenant, "router", observer)
        self._complete_subject = complete_subject
        self._embed_subject = embed_subject
        self._models_subject = models_subject
        self.complete_deadline_s = complete_deadline_s
        self.embed_deadline_s = embed_deadline_s

    async def complete(self, request: CompleteRequest) -> CompleteReply:
        """Give a completion. Raises SiblingAway, or FunctionError when the router refuses the request."""
        return await self._sibling.ask(self._complete_subject, request, CompleteReply, self.complete_deadline_s)

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """Give one vector per input text. Raises SiblingAway; FunctionError when refused or of another length."""
        reply = await self._sibling.ask(self._embed_subject, request, EmbedReply, self.embed_deadline_s)
        if len(reply.embeddings) != len(request.input):
            raise FunctionError(
                "internal", f"the router gave {len(reply.embeddings)} vectors for {len(request.input)} texts"
            )
        return reply

    async def models(self) -> ModelsReply:
        """Give the router's models. Raises SiblingAway."""
        return await self._sibling.ask(self._models_subject, ModelsRequest(), ModelsReply, self.embed_deadline_s)
