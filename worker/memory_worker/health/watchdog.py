"""Tells systemd that the worker is ready, stopping, and still really working (the sd_notify protocol)."""

import asyncio
import os
import socket
import time
from collections.abc import Mapping

from memory_worker.health.probes import Health


class Systemd:
    """Speaks to the notify socket of the service manager; without one every call does nothing."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        meant_for = environ.get("WATCHDOG_PID")
        ours = meant_for is None or meant_for == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 1e6 if ours and usec.isdigit() and int(usec) > 0 else None

    def ready(self, status: str) -> None:
        """Start-up is over."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Settings are being read again; call `ready` afterwards."""
        # Type=notify-reload wants the time the reload began, in microseconds of the monotonic clock.
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1_000}")

    def stopping(self) -> None:
        """An orderly stop has begun."""
        self._send("STOPPING=1")

    async def keep_alive(self, health: Health) -> None:
        """Ping the watchdog for ever, only while the worker is alive by its own probes."""
        if self.watchdog_s is None:
            return
        while True:
            if (await health.alive()).ok:
                self._send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_s / 3)

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            try:
                channel.connect(self._address)
                channel.sendall(text.encode())
            except OSError:
                pass  # the service manager went away; the worker's work does not depend on it
