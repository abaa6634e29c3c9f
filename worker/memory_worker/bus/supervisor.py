"""Runs one nats-server and ends it with its parent, however the parent ends.

Started as a script with nothing but the standard library. Two nets: a pipe on standard input that breaks when the
parent is gone (every system), and the parent-death signal (Linux), which also covers this process being killed.
"""

import ctypes
import os
import select
import signal
import sys
import time

STOP_S = 10.0
"""Seconds the server gets to stop by itself."""
_PR_SET_PDEATHSIG = 1


def die_with_parent(number: int) -> None:
    """Ask the kernel to signal this process when its parent ends; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def main(command: list[str]) -> int:
    """Run `command` until it ends or standard input does; give its exit status."""
    parent = os.getppid()
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    die_with_parent(signal.SIGTERM)
    me = os.getpid()
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(signal.SIGTERM)
        # A terminal's Ctrl-C goes to its whole group: the server must stop when it is told to, not before the worker.
        os.setpgid(0, 0)
        if os.getppid() != me:
            os._exit(1)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    stopping_since: float | None = None
    while True:
        if os.getppid() != parent and stopping_since is None:
            os.kill(child, signal.SIGTERM)
            stopping_since = time.monotonic()
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if stopping_since is not None and time.monotonic() - stopping_since > STOP_S:
            os.kill(child, signal.SIGKILL)
        watched = [wake_read] if stopping_since is not None else [wake_read, sys.stdin.fileno()]
        ready, _, _ = select.select(watched, [], [], 1.0)
        received = os.read(wake_read, 64) if wake_read in ready else b""
        if signal.SIGHUP in received:
            os.kill(child, signal.SIGHUP)
        gone = sys.stdin.fileno() in ready and os.read(0, 64) == b""
        if stopping_since is None and (gone or signal.SIGTERM in received or signal.SIGINT in received):
            os.kill(child, signal.SIGTERM)
            stopping_since = time.monotonic()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
