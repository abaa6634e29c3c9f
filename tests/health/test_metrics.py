"""Metrics: what is counted, and that nothing about anybody is a label."""

from prometheus_client.parser import text_string_to_metric_families

from memory_worker.health import GAUGES, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Scrape and give every sample."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def test_requests_are_counted_by_function_route_and_outcome() -> None:
    """A scrape tells how often each function ended how."""
    metrics = Metrics("0.1.0")
    metrics.request("save", "agent", "ok", 0.004)
    metrics.request("save", "agent", "ok", 0.2)
    metrics.request("save", "human", "storage_full", 0.001)
    found = samples(metrics)
    ok = (("function", "save"), ("outcome", "ok"), ("route", "agent"))
    assert found["memory_requests_total", ok] == 2
    assert found["memory_request_seconds_bucket", (("function", "save"), ("le", "0.005"))] == 2
    assert found["memory_request_seconds_count", (("function", "save"),)] == 3


def test_labels_are_closed_sets() -> None:
    """A caller cannot make a label, so a scrape neither grows without bound nor tells who called."""
    metrics = Metrics("0.1.0")
    for number in range(100):
        metrics.request(f"fn{number}", f"route{number}", f"outcome{number}", 0.1)
    found = [labels for name, labels in samples(metrics) if name == "memory_requests_total"]
    assert found == [(("function", "unknown"), ("outcome", "internal"), ("route", "unknown"))]


def test_no_label_names_a_principal_a_session_a_tenant_or_a_bank() -> None:
    """Whose memory it is cannot be read off a scrape."""
    metrics = Metrics("0.1.0")
    for name in GAUGES:
        metrics.sample(name, lambda: 1.0)
    metrics.sample_readers(lambda: {"relay": 3})
    metrics.committed(8, 0.01)
    metrics.turn("received")
    metrics.worked("read", 0.1)
    metrics.extracted("created", 2)
    metrics.refused("secret")
    metrics.published(5)
    metrics.erased("turns")
    metrics.arm("lexical", "ok", 0.001)
    metrics.cut("recall")
    metrics.sibling("session", "ok", 0.1)
    metrics.bus("reconnected")
    metrics.expired(4)
    found = samples(metrics)
    labels = {name for _, pairs in found for name, _ in pairs}
    assert labels.isdisjoint({"tenant", "bank", "principal", "session", "session_id", "turn", "owner"})
    assert found["memory_reader_lag_rows", (("reader", "relay"),)] == 3
    assert found["memory_commit_group_size_sum", ()] == 8
    assert found["memory_expired_total", ()] == 4
    assert {f"memory_{name}" for name in GAUGES} <= {name for name, _ in found}


def test_the_version_is_told() -> None:
    """A scrape says which release runs."""
    names = {name: dict(labels) for name, labels in samples(Metrics("0.1.0"))}
    assert names["memory_build_info"]["version"] == "0.1.0"
