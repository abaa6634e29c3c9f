"""Health, metrics and the doctor."""

from memory_worker.health import checks
from memory_worker.health.doctor import DoctorService, Examine, Roundtrip, RoundtripError, roundtrip
from memory_worker.health.metrics import GAUGES, Metrics
from memory_worker.health.probes import (
    Health,
    Probe,
    Verdict,
    as_configured,
    bus_answers,
    commits,
    disk_has_room,
    readers_follow,
)
from memory_worker.health.server import HealthServer
from memory_worker.health.watchdog import Systemd

__all__ = [
    "GAUGES",
    "DoctorService",
    "Examine",
    "Health",
    "HealthServer",
    "Metrics",
    "Probe",
    "Roundtrip",
    "RoundtripError",
    "Systemd",
    "Verdict",
    "as_configured",
    "bus_answers",
    "checks",
    "commits",
    "disk_has_room",
    "readers_follow",
    "roundtrip",
]
