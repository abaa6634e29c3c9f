"""Remembers for a few seconds what the session manager said of a session, or that it did not answer."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

KNOWN_S = 5.0
"""Seconds for which a session's metadata is taken as it was: one turn's context and extraction see the same."""
AWAY_S = 2.0
"""Seconds for which a session manager that did not answer is not asked again by a turn that waits for its context."""
SESSIONS_MAX = 4_096
"""Most sessions remembered; the least used is dropped beyond it."""


class SessionManager(Protocol):
    """The session manager, asked over the bus."""

    async def metadata(self, session_id: str) -> Mapping[str, Any] | None:
        """Give a session's metadata, None for a session it does not know; raises any exception when it is away."""
        ...


class SessionManagerAway(Exception):
    """The session manager did not answer; the turn waits rather than going to another bank."""


class _Answer(msgspec.Struct):
    metadata: Mapping[str, Any] | None
    """None = it was away."""
    until: float


class SessionCache:
    """Asks the session manager once per session and few seconds, however many turns want to know."""

    def __init__(self, manager: SessionManager, monotonic: Callable[[], float]) -> None:
        self._manager = manager
        self._monotonic = monotonic
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._asking: dict[str, asyncio.Task[_Answer]] = {}

    async def metadata(self, session_id: str, within_s: float, *, ask_again: bool = False) -> Mapping[str, Any]:
        """Give a session's metadata within `within_s` seconds; a session that the manager does not know has none.

        `ask_again` passes over the memory of a manager that was away, for callers that can wait. Raises
        `SessionManagerAway`.
        """
        answer = self._answers.get(session_id)
        if answer is None or answer.until <= self._monotonic() or (ask_again and answer.metadata is None):
            task = self._asking.get(session_id)
            if task is None:
                task = self._asking[session_id] = asyncio.get_running_loop().create_task(self._ask(session_id))
            try:
                # The question goes on when this caller's time is up: its answer serves the next turn.
                answer = await asyncio.wait_for(asyncio.shield(task), within_s)
            except TimeoutError:
                answer = self._keep(session_id, None, AWAY_S)
        if answer.metadata is None:
            raise SessionManagerAway
        return answer.metadata

    async def _ask(self, session_id: str) -> _Answer:
        try:
            metadata = await self._manager.metadata(session_id)
            return self._keep(session_id, metadata or {}, KNOWN_S)
        except Exception:  # whatever kept it from answering, the turn waits; the sibling's own probe reports why
            return self._keep(session_id, None, AWAY_S)
        finally:
            self._asking.pop(session_id, None)

    def _keep(self, session_id: str, metadata: Mapping[str, Any] | None, seconds: float) -> _Answer:
        answer = self._answers[session_id] = _Answer(metadata, self._monotonic() + seconds)
        self._answers.move_to_end(session_id)
        while len(self._answers) > SESSIONS_MAX:
            self._answers.popitem(last=False)
        return answer

    async def close(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
