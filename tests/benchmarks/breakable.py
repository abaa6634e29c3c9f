"""Runs `memory` in a process whose clock and stores another process can break, by lines written to a pipe.

`clock SECONDS` puts the clock that far from the machine's, `readonly` and `writable` are what a file system does that
was mounted read-only under a running worker, and was mended.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from memory_worker import app
from memory_worker.cli import memory
from memory_worker.clock import SystemClock
from memory_worker.store import writer

CONTROL_ENV = "BREAK_CONTROL"
"""Names the pipe that is read."""


class _State:
    offset = 0.0
    readonly = False


class BrokenClock(SystemClock):
    """The machine's clock, moved by what the pipe last said."""

    def now(self) -> float:
        return super().now() + _State.offset


def obey(pipe: Path) -> None:
    """On a thread: do what is written to the pipe, for ever."""
    while True:
        with pipe.open() as lines:
            for line in lines:
                match line.split():
                    case ["clock", seconds]:
                        _State.offset = float(seconds)
                    case ["readonly"]:
                        _State.readonly = True
                    case ["writable"]:
                        _State.readonly = False


def main() -> None:
    """Listen to the pipe and run the command."""
    run_group = writer.Writer._run_group

    def broken(self: Any, group: Any) -> None:
        self._connection.execute(f"PRAGMA query_only={'ON' if _State.readonly else 'OFF'}")
        run_group(self, group)

    writer.Writer._run_group = broken  # type: ignore[method-assign]
    app.SystemClock = BrokenClock  # type: ignore[misc,attr-defined]
    threading.Thread(target=obey, args=(Path(os.environ[CONTROL_ENV]),), daemon=True).start()
    memory(sys.argv[1:])


if __name__ == "__main__":
    main()
