"""The worker's Prometheus metrics, and the observer methods that other rooms report through.

Labels are closed sets: functions, routes, outcomes, arms, siblings, readers. A principal, a session, a tenant or a
bank is never a label, so a scrape tells nothing about who uses the worker or for what.
"""

import platform
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memory_contracts.functions import FUNCTIONS
from memory_contracts.names import ROUTES
from memory_worker.store.library import LIBRARY_VERSION

REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds in seconds: from a cached read to the request deadline."""
GROUP_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds of writes per commit."""
OUTCOMES = frozenset(
    {
        "ok", "awaiting_review", "invalid_input", "too_large", "not_found", "conflict", "forbidden", "pinned",
        "unavailable", "storage_full", "internal",
    }
)  # fmt: skip
GAUGES: dict[str, str] = {
    "inbox_turns": "Turns waiting in the inbox.",
    "inbox_bytes": "Bytes of turns waiting in the inbox.",
    "inbox_oldest_seconds": "Age of the oldest waiting turn.",
    "inbox_in_work": "Turns being read now.",
    "parked_turns": "Turns that could not be read and wait for a person.",
    "unpublished_rows": "Changes not yet published as triggers.",
    "unpublished_oldest_seconds": "Age of the oldest change not yet published.",
    "tenants_open": "Tenant stores that are open.",
    "wal_bytes": "Size of the write-ahead logs.",
    "database_bytes": "Size of the databases.",
    "index_bytes": "Memory held by recall indexes.",
    "bus_connected": "Whether the bus answered its last ping (1 or 0).",
    "bus_rtt_seconds": "Time of the last ping to the bus.",
    "disk_free_bytes": "Free space where the data lies.",
    "file_problems": "Files that cannot be read.",
    "tasks": "Tasks on the event loop.",
    "loop_lag_seconds": "How late the event loop ran its last timer.",
}
"""Gauges that are read when they are scraped, by name (without the prefix) and meaning."""


class _Sampled(Collector):
    """Reads gauges at scrape time, so that nothing has to push them."""

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], float]] = {}
        self.readers: Callable[[], Mapping[str, float]] | None = None

    def collect(self) -> Iterable[Metric]:
        for name, read in self.gauges.items():
            yield GaugeMetricFamily(f"memory_{name}", GAUGES[name], value=read())
        if self.readers is not None:
            lag = GaugeMetricFamily(
                "memory_reader_lag_rows", "Journal rows a reader has not handled yet.", labels=["reader"]
            )
            for reader, rows in self.readers().items():
                lag.add_metric([reader], rows)
            yield lag


class Metrics:
    """Counts what the rooms report; one object per process."""

    def __init__(self, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a start time per label set doubles the scrape and says nothing
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._sampled = _Sampled()
        self.registry.register(self._sampled)
        build = Info("memory_build", "What runs.", registry=self.registry)
        build.info({"version": version, "python": platform.python_version(), "sqlite": LIBRARY_VERSION})
        self._requests = self._counter("requests", "Requests answered.", "function", "route", "outcome")
        self._request_time = self._histogram("request_seconds", "Time from arrival to reply.", "function")
        self._ran: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._answered: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self._group = Histogram(
            "memory_commit_group_size", "Writes per commit.", buckets=GROUP_BUCKETS, registry=self.registry
        )
        self._commit_time = self._histogram("commit_seconds", "Time of one commit, synced to disk.")
        self._turns = self._counter("turns", "Turn events by what became of them.", "outcome")
        self._turn_time = self._histogram("turn_seconds", "Time to read one turn.")
        self._kept = self._counter("extracted", "What reading turns led to.", "outcome")
        self._refused = self._counter("extraction_refused", "Items refused while reading turns.", "reason")
        self._published = self._counter("triggers_published", "Triggers the bus acknowledged.")
        self._erased = self._counter("messages_erased", "Messages securely deleted from our streams.", "stream")
        self._arms = self._counter("recall_arms", "Recall arms by how they ended.", "arm", "state")
        self._arm_time = self._histogram("recall_arm_seconds", "Time of one recall arm.", "arm")
        self._cut = self._counter("answers_cut", "Answers that were shortened, by function.", "function")
        self._siblings = self._counter("sibling_requests", "Questions to siblings.", "sibling", "outcome")
        self._sibling_time = self._histogram("sibling_seconds", "Time a sibling took to answer.", "sibling")
        self._bus = self._counter("bus_events", "What befell the connection to the bus.", "event")
        self._expired = self._counter("expired", "Memories that lapsed.")

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"memory_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, *labels: str) -> Histogram:
        return Histogram(f"memory_{name}", about, labels, buckets=REQUEST_BUCKETS_S, registry=self.registry)

    # What the rooms call

    def request(self, function: str, route: str, outcome: str, seconds: float) -> None:
        """Count one answered request; unknown functions, routes and outcomes share one label."""
        function = function if function in FUNCTIONS else "unknown"
        route = route if route in ROUTES else "unknown"
        outcome = outcome if outcome in OUTCOMES else "internal"
        labels = (function, route, outcome)
        counted = self._answered.get(labels)
        if counted is None:  # looking a labelled metric up costs more than counting
            counted = self._requests.labels(*labels), self._request_time.labels(function)
            self._answered[labels] = counted
        counted[0].inc()
        counted[1].observe(seconds)

    def committed(self, functions: int, seconds: float) -> None:
        """Count one commit that `functions` writes shared; called on the writer's thread."""
        self._group.observe(functions)
        self._commit_time.observe(seconds)

    def turn(self, outcome: str, count: int = 1) -> None:
        """Count turn events as they come in: `received`, `duplicate`, `malformed`."""
        self._turns.labels(outcome).inc(count)

    def worked(self, outcome: str, seconds: float) -> None:
        """Count a turn taken to work: `read`, `skipped`, `waiting`, `retried`, `parked`; reading one is timed."""
        self._turns.labels(outcome).inc()
        if outcome == "read":
            self._turn_time.observe(seconds)

    def extracted(self, outcome: str, count: int = 1) -> None:
        """Count what a turn's items became: `created`, `reinforced`, `replaced`, `awaiting_review`, `learned`."""
        self._kept.labels(outcome).inc(count)

    def refused(self, reason: str, count: int = 1) -> None:
        """Count items refused while reading turns, by the reason's code."""
        self._refused.labels(reason).inc(count)

    def published(self, count: int = 1) -> None:
        """Count triggers the bus acknowledged."""
        self._published.inc(count)

    def erased(self, stream: str, count: int = 1) -> None:
        """Count messages securely deleted: `turns`, `events` or `private`."""
        self._erased.labels(stream).inc(count)

    def arm(self, arm: str, state: str, seconds: float) -> None:
        """Count one recall arm."""
        ran = self._ran.get((arm, state))
        if ran is None:
            ran = self._ran[(arm, state)] = self._arms.labels(arm, state), self._arm_time.labels(arm)
        ran[0].inc()
        ran[1].observe(seconds)

    def cut(self, function: str) -> None:
        """Count an answer that was shortened."""
        self._cut.labels(function if function in FUNCTIONS else "unknown").inc()

    def sibling(self, sibling: str, outcome: str, seconds: float) -> None:
        """Count one question to the `session_manager` or the `router`: `ok`, `away`, or the code of its refusal."""
        self._siblings.labels(sibling, outcome).inc()
        self._sibling_time.labels(sibling).observe(seconds)

    def bus(self, event: str) -> None:
        """Count `disconnected`, `reconnected`, `zombie_recovered`, `rewound` or `error`."""
        self._bus.labels(event).inc()

    def expired(self, count: int = 1) -> None:
        """Count memories that lapsed."""
        self._expired.inc(count)

    # What the application connects

    def sample(self, name: str, read: Callable[[], float]) -> None:
        """Read gauge `name` (one of `GAUGES`) with `read` at each scrape."""
        if name not in GAUGES:
            raise KeyError(name)
        self._sampled.gauges[name] = read

    def sample_readers(self, read: Callable[[], Mapping[str, float]]) -> None:
        """Read the lag of every journal reader, by reader name, at each scrape."""
        self._sampled.readers = read

    def exposition(self) -> bytes:
        """Give the scrape in Prometheus's text format."""
        return generate_latest(self.registry)
