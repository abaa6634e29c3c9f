"""Sets up logging: JSON lines on stderr for machines, readable lines at a terminal.

One canonical line per request and per turn carries ids, sizes, outcome and milliseconds. The text of memories,
quotes, queries and secrets never goes into a log call; `_drop_content` is the net below that rule.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from memory_worker.config import LogLevel

_LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
VALUE_MAX_CHARS = 300
"""Longest value of one key; ids and error names fit, texts do not."""
CONTENT_KEYS = frozenset(
    {
        "after", "args", "before", "body", "content", "message", "messages", "password", "payload", "query",
        "quote", "raw", "reply", "request", "secret", "seed", "text", "token", "value",
    }
)  # fmt: skip
"""Keys that would carry stored text or secrets; a value under one of them is replaced by its size."""
_OTHER_LIBRARIES = ("nats", "asyncio", "watchfiles", "aiosqlite", "openai", "httpx")

_level = _LEVELS["info"]


def configure(level: LogLevel = "info", *, stream: TextIO | None = None, json: bool | None = None) -> None:
    """Set logging up once per process; `json` defaults to whether `stream` (stderr) is not a terminal."""
    stream = sys.stderr if stream is None else stream
    json = not stream.isatty() if json is None else json
    set_level(level)
    processors: list[Processor] = [
        _filter_level,
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        _drop_content,
        _name_exception,
    ]
    if json:
        processors.append(structlog.processors.JSONRenderer(serializer=_to_json))
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=stream.isatty() and "NO_COLOR" not in os.environ))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS["debug"]),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Unfailing(stream))),
        cache_logger_on_first_use=True,
    )
    _route_standard_logging()


class _Unfailing:
    """Writes to a stream; a line that cannot be written (disk full, reader gone) is dropped and breaks nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def set_level(level: LogLevel) -> None:
    """Change the level while running (SIGHUP)."""
    global _level
    _level = _LEVELS[level]


def get_logger(**bound: Any) -> FilteringBoundLogger:
    """Give a logger with `bound` on every line."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger


def _filter_level(_: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if _LEVELS.get(method, 40) < _level:
        raise structlog.DropEvent
    return event


def _drop_content(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if key in CONTENT_KEYS:
            event[key] = f"<{_size(value)} not logged>"
        elif isinstance(value, str) and len(value) > VALUE_MAX_CHARS:
            event[key] = value[:VALUE_MAX_CHARS] + "…"
    return event


def _size(value: Any) -> str:
    return (
        f"{len(value)} items"
        if isinstance(value, Sequence | dict) and not isinstance(value, str)
        else (f"{len(value)} characters" if isinstance(value, str) else "value")
    )


def _name_exception(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace an exception by its type and where it was raised: its message may quote stored text."""
    info = event.pop("exc_info", None)
    if not info:
        return event
    error = info if isinstance(info, BaseException) else (info[1] if isinstance(info, tuple) else sys.exc_info()[1])
    if error is None:
        return event
    event["exception"] = type(error).__qualname__
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{os.path.basename(code.co_filename)}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    event["raised_at"] = " > ".join(frames[-6:])
    return event


def _to_json(event: EventDict, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=lambda value: type(value).__qualname__).decode()


class _ToStructlog(logging.Handler):
    """Passes warnings of libraries on as our own lines, by logger and level, without their text."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        log = get_logger()
        getattr(log, level)(
            "library", logger=record.name, at_line=f"{record.module}:{record.lineno}", exc_info=record.exc_info or None
        )


def _route_standard_logging() -> None:
    handler = _ToStructlog(logging.WARNING)
    for name in _OTHER_LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
