"""Works the turn inbox: in order within a session, sessions side by side, nothing lost and nothing done twice."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby

import msgspec
import structlog

from memory_contracts.errors import FunctionError
from memory_contracts.turns import TurnCompleted, TurnMessage
from memory_worker.clock import Clock, to_datetime
from memory_worker.config import Settings
from memory_worker.extraction.breaker import Breaker
from memory_worker.extraction.items import Cursor, Extraction, ReadTurn, add_counts
from memory_worker.extraction.messages import read_messages
from memory_worker.extraction.model import UnreadableReply
from memory_worker.extraction.ports import (
    BankResolver,
    CommitTurn,
    Completer,
    HandedOut,
    Inbox,
    InboxTurn,
    Nearest,
    Off,
    ResolvedBank,
    SessionMessages,
    SiblingAway,
    TurnCommit,
    Wait,
)
from memory_worker.extraction.reader import TurnReader

IDLE_S = 5.0
"""Longest pause between looks at an inbox that nobody woke the worker for, in seconds."""
BLOCKED_MIN_S, BLOCKED_MAX_S = 0.01, 1.0
"""Shortest and longest pause, in seconds, while turns are due that stand behind others of their session."""
ERROR_PAUSE_S = 1.0
"""Pause after the inbox itself could not be read, in seconds."""
SIBLING_MESSAGES_MAX = 5_000
"""Most messages of a session that are fetched for one turn; the rest are read with the next."""
GRACE_S = 10.0
"""How long turns at work may go on after a stop, in seconds."""
JITTER = 0.2
"""Backoffs vary by this share either way, so that failed turns do not come back at once."""

TurnObserver = Callable[[str, float], None]
"""Is told what became of each turn at work (`read`, `skipped`, `waiting`, `retried`, `parked`) and the seconds."""

_log = structlog.get_logger(__name__)
_decoder = msgspec.json.Decoder(TurnCompleted)


_Fate = Callable[[], Awaitable[None]]
"""Tells the inbox what becomes of a turn."""


class WorkerStatus(msgspec.Struct, frozen=True):
    """What the worker did since it started: counts only. `router` is `none`, `ok` or `away`."""

    in_work: int
    kept: int
    refused: dict[str, int]
    ignored: dict[str, int]
    router: str
    extractor: str


class _Skip(Exception):
    """The turn is recorded, not extracted; the message is the reason it is counted under."""


class TurnWorker:
    """Reads the turns of one tenant. `run` works until `stop`; `wake` says that there may be something to do."""

    def __init__(
        self,
        inbox: Inbox,
        commit: CommitTurn,
        siblings: SessionMessages | None,
        router: Completer | None,
        context_memory: HandedOut,
        nearest: Nearest,
        settings: Settings,
        clock: Clock,
        *,
        banks: BankResolver,
        observer: TurnObserver = lambda outcome, seconds: None,
    ) -> None:
        self._inbox = inbox
        self._commit = commit
        self._siblings = siblings if settings.session_manager == "required" else None
        self._settings = settings
        self._clock = clock
        self._banks = banks
        self._observer = observer
        self._breaker = Breaker(settings.sibling_retry_s)
        self._router = router if settings.router == "required" else None
        self._reader = TurnReader(self._router, self._breaker, context_memory, nearest, settings, clock)
        self._wake = asyncio.Event()
        self._stopping = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._empty = 0
        self._kept = 0
        self._refused: dict[str, int] = {}
        self._ignored: dict[str, int] = {}

    def apply(self, settings: Settings) -> None:
        """Take over settings that may change while running, from the next turn on."""
        self._settings = settings
        self._breaker.pause_s = settings.sibling_retry_s
        self._reader.apply(settings)
        self._wake.set()

    def wake(self) -> None:
        """Say that a turn may have come in, or a parked one was put back."""
        self._wake.set()

    def status(self) -> WorkerStatus:
        """Give what is at work now and what was kept and refused since the start."""
        router = "none"
        if self._router is not None:
            router = "ok" if self._breaker.state(self._clock.now()) == "closed" else "away"
        return WorkerStatus(
            len(self._tasks),
            self._kept,
            dict(self._refused),
            dict(self._ignored),
            router,
            self._reader.extractor,
        )

    async def read_note(self, bank: ResolvedBank, text: str) -> Extraction:
        """Read a note as a turn is read: a user's message of now. Raises `SiblingAway`, `UnreadableReply`."""
        message = TurnMessage(id="note", role="user", text=text, at=to_datetime(self._clock.now()))
        extraction, _ = await self._reader.extract(read_messages([message]), bank, session_id=None)
        return extraction

    async def run(self) -> None:
        """Work the inbox until `stop`. Returns when what was at work is done."""
        try:
            while not self._stopping:
                self._wake.clear()
                pause = await self._round()
                if pause > 0 and not self._stopping:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), pause)
            await self._finish()
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Take no more turns and wait for those at work, at most `grace_s` seconds; then they go back to the inbox."""
        self._stopping = True
        self._wake.set()
        await self._finish(grace_s)

    async def _finish(self, grace_s: float | None = None) -> None:
        tasks = list(self._tasks.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE_S)

    async def _round(self) -> float:
        """Claim what there is room for; give the seconds until the next look."""
        try:
            claimed = await self._claim()
            return 0.0 if claimed and self._room() > 0 else await self._pause(claimed=claimed)
        except Exception as error:
            # The inbox is asked again: a loop that died here would leave turns unread without a word.
            _log.error("inbox_failed", error=type(error).__name__)
            return ERROR_PAUSE_S

    def _room(self) -> int:
        return self._settings.extraction_concurrency - len(self._tasks)

    async def _claim(self) -> bool:
        room = self._room()
        if room <= 0:
            return False
        turns = await self._inbox.claim(self._clock.now(), room, set(self._tasks))
        turns.sort(key=lambda turn: turn.session_id)  # stable: the order within a session stays
        for session_id, of_session in groupby(turns, key=lambda turn: turn.session_id):
            task = asyncio.create_task(self._session(list(of_session)), name=f"extract {session_id}")
            self._tasks[session_id] = task
            task.add_done_callback(partial(self._done, session_id))
        return bool(turns)

    def _done(self, session_id: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(session_id, None)
        self._wake.set()

    async def _pause(self, *, claimed: bool) -> float:
        if self._room() <= 0:
            return IDLE_S
        due = await self._inbox.next_due()
        if due is None:
            return IDLE_S
        # A due turn that could not be claimed stands behind another of its session: it is asked for less and less.
        self._empty = 0 if claimed else self._empty + 1
        return min(IDLE_S, max(due - self._clock.now(), min(BLOCKED_MAX_S, BLOCKED_MIN_S * (1 << min(self._empty, 8)))))

    async def _session(self, turns: Sequence[InboxTurn]) -> None:
        for turn in turns:
            began = time.monotonic()
            outcome, after = await self._turn(turn)
            self._observer(outcome, time.monotonic() - began)
            while after is not None:
                try:
                    await after()
                    break
                except Exception as error:
                    # A turn whose fate the inbox did not take down would stay at work for ever.
                    _log.error("inbox_failed", turn_id=turn.turn_id, error=type(error).__name__)
                    if self._stopping:
                        break
                    await asyncio.sleep(ERROR_PAUSE_S)

    async def _turn(self, turn: InboxTurn) -> tuple[str, _Fate | None]:
        """Work one turn; give what became of it, and what the inbox is to be told: `None` when it is committed."""
        settings, inbox = self._settings, self._inbox
        now = self._clock.now()
        try:
            read = await self._work(turn)
        except asyncio.CancelledError:
            await inbox.wait(turn.turn_id, now, "stopped")
            raise
        except SiblingAway as error:
            due = max(now + settings.sibling_retry_s, self._breaker.opens_at())
            return "waiting", partial(inbox.wait, turn.turn_id, due, str(error) or "sibling")
        except UnreadableReply as error:
            return "parked", partial(inbox.park, turn.turn_id, "unreadable_reply", error.raw)
        except msgspec.MsgspecError:
            return "parked", partial(inbox.park, turn.turn_id, "malformed", None)
        except FunctionError as error:
            if error.code in ("storage_full", "unavailable"):
                return "waiting", partial(inbox.wait, turn.turn_id, now + settings.sibling_retry_s, error.code)
            return self._failed(turn, error.code)
        except _Misplaced as error:
            return "parked", partial(inbox.park, turn.turn_id, f"bank: {error}", None)
        except _NoMessages:
            return "parked", partial(inbox.park, turn.turn_id, "no_messages", None)
        except Exception as error:
            # Any failure is counted, retried and in the end parked, visibly.
            _log.warning("turn_failed", turn_id=turn.turn_id, error=type(error).__name__, attempt=turn.attempts)
            return self._failed(turn, type(error).__name__)
        return ("read" if read else "skipped"), None

    def _failed(self, turn: InboxTurn, reason: str) -> tuple[str, _Fate]:
        settings = self._settings
        if turn.attempts >= settings.extraction_attempts:
            return "parked", partial(self._inbox.park, turn.turn_id, f"failed: {reason}", None)
        pause = min(settings.extraction_backoff_max_s, settings.extraction_backoff_s * 2 ** (turn.attempts - 1))
        pause *= 1 + random.uniform(-JITTER, JITTER)  # noqa: S311 - spreads load, guards nothing
        return "retried", partial(self._inbox.retry, turn.turn_id, self._clock.now() + pause, reason)

    async def _work(self, turn: InboxTurn) -> bool:
        """Read and commit one turn; tells whether it was read, not only recorded."""
        event = _decoder.decode(turn.payload)
        extraction, bank, extractor = Extraction(), None, "none"
        try:
            bank = await self._bank(event)
            read = await self._read(event, turn.cursor)
            extraction, extractor = await self._reader.extract(read, bank, event.session_id)
            extraction = msgspec.structs.replace(extraction, cursor=later(turn.cursor, read.cursor))
        except _Skip as skip:
            extraction = Extraction(ignored={str(skip): 1})
        await self._commit.commit_turn(
            TurnCommit(
                turn_id=turn.turn_id,
                session_id=turn.session_id,
                bank=bank.name if bank else None,
                extraction=extraction,
                agent=event.agent,
                extractor=extractor,
            )
        )
        self._kept += len(extraction.items) + len(extraction.learned) + len(extraction.suggested)
        self._refused = add_counts(self._refused, extraction.refused)
        self._ignored = add_counts(self._ignored, extraction.ignored)
        return extractor != "none"

    async def _bank(self, event: TurnCompleted) -> ResolvedBank:
        if event.status != "completed":
            raise _Skip("not_completed")
        if event.depth > 0 and not self._settings.sub_agent_turns:
            raise _Skip("sub_agent")
        resolved = await self._banks.resolve(event)
        if isinstance(resolved, Wait):
            raise SiblingAway(resolved.reason)
        if isinstance(resolved, Off):
            raise _Misplaced(resolved.reason) if resolved.park else _Skip(resolved.reason)
        return resolved

    async def _read(self, event: TurnCompleted, cursor: Cursor | None) -> ReadTurn:
        messages = event.messages
        if messages is None:
            if self._siblings is None:
                raise _NoMessages
            messages = await self._fetch(self._siblings, event.session_id, cursor)
        return read_messages(messages, cursor)

    async def _fetch(self, siblings: SessionMessages, session_id: str, cursor: Cursor | None) -> list[TurnMessage]:
        after = cursor.message_id if cursor else None
        out: list[TurnMessage] = []
        while len(out) < SIBLING_MESSAGES_MAX:
            page = await siblings.messages(session_id, after, self._settings.session_page)
            out.extend(TurnMessage(id=m.id, role=m.role, text=m.text, at=m.at) for m in page.messages)
            if not page.cursor or not page.messages:
                break
            after = page.cursor
        return out


class _Misplaced(Exception):
    """The turn's metadata names no bank that it may go to; a person should see it."""


class _NoMessages(Exception):
    """The turn came without messages, and there is no session manager to ask."""


def later(one: Cursor | None, other: Cursor | None) -> Cursor | None:
    """The later of two cursors, so that a late turn does not take a session back. Without times, the second."""
    if one is None or other is None:
        return other or one
    if one.at is not None and other.at is not None and other.at < one.at:
        return one
    return other
