"""Every metric that the README names is exposed, and moves when what it counts happens."""

import asyncio
import re
import signal
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from memory_contracts import jetstream
from memory_contracts.client import MemoryClient
from memory_contracts.connection import Bus
from memory_contracts.credentials import load_credentials
from tests.cli.conftest import Running, Start, until
from tests.cli.test_degradation import server

README = Path(__file__).parents[2] / "README.md"
MOMENTARY = {"memory_inbox_in_work", "memory_loop_lag_seconds"}
"""True for moments only: no run makes sure that a scrape meets one."""


def named_in_the_readme() -> set[str]:
    """The metrics that the README lists, braces of gauges unfolded."""
    section = README.read_text().split("### Metrics")[1].split("###")[0]
    code = re.sub(r"\s+", "", section)
    names = set(re.findall(r"`(memory_[a-z_]+)(?:\{[a-z_,]*\})?`", code))
    for inner in re.findall(r"`memory_\{([a-z_,]+)\}`", code):
        names |= {f"memory_{name}" for name in inner.split(",")}
    return names


def scrape(running: Running) -> dict[str, float]:
    """Every metric of ours by the name the README gives it, summed over its labels; histograms by their count."""
    url = f"http://127.0.0.1:{running.ready['http_port']}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("memory_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            name = f"{name}_info" if family.type == "info" else name
            counted = [one for one in family.samples if not one.name.endswith(("_bucket", "_sum"))]
            found[name] = sum(one.value for one in counted)
    return found


def test_the_readme_lists_exactly_what_is_exposed(running: Running) -> None:
    """Who builds a dashboard from the README finds every metric, and there is none that it does not name."""
    assert scrape(running).keys() == named_in_the_readme()


def test_arms_are_counted_for_what_turns_are_given(running: Running) -> None:
    """What a turn is given is most of what recall does, so its arms count like those of a recall."""
    running.json("save", "The walnut lies in the drawer")

    async def given() -> None:
        credentials = running.data_dir / "credentials" / "system-harness.json"
        async with await MemoryClient.connect(credentials) as harness:
            await harness.context(session_id="counted", message="Where is the walnut?")

    for ask in (lambda: asyncio.run(given()), lambda: running.json("recall", "walnut")):
        before = scrape(running)["memory_recall_arms_total"]
        ask()
        assert scrape(running)["memory_recall_arms_total"] == before + 3


def test_every_metric_moves(start: Start, tmp_path: Path) -> None:
    """In one life with turns, refusals, lapses, siblings that are away and a frozen bus, each metric is above zero."""
    running = start(
        tmp_path / "data",
        "--no-consolidate",
        MEMORY_SESSION_MANAGER="required",
        MEMORY_ROUTER="required",
        MEMORY_EXTRACTOR="rules",
        MEMORY_EXPIRY_INTERVAL_S="0.2",
    )
    moved: set[str] = set()

    def note() -> set[str]:
        moved.update(name for name, value in scrape(running).items() if value > 0)
        return moved

    until(lambda: "memory_requests_total" in note() or running.json("tags"))
    running.as_person("rules", "set", "long", "-", stdin="Say it short. " * 1_100)
    running.as_person("rules", "set", "longer", "-", stdin="Say it shorter. " * 1_100)
    running.json("preview", "a question")  # two rules that do not fit together
    soon = datetime.now(UTC) + timedelta(seconds=2)
    running.as_person("save", "This lapses soon", "--expires", soon.isoformat())
    erased = running.as_person("save", "This is erased")["memory"]["id"]
    running.json("turn", "My sister Ana lives in Porto. My password is hunter2-Blue9.", "--bank", "main")
    running.json("turn", "Nobody knows the bank of this session.", "--no-wait")
    asyncio.run(_publish_malformed(running))
    folder = running.data_dir / "local" / "banks" / "main" / "memories"
    until(folder.is_dir)
    (folder / "broken.md").write_bytes(b"\xff\xfe\x00")
    running.as_person("erase", erased, "--yes")
    running.json("doctor", code=(0, 10, 11))  # asks both siblings
    late = {"memory_unpublished_rows", "memory_unpublished_oldest_seconds", "memory_bus_events_total"}
    wanted = named_in_the_readme() - MOMENTARY
    until(lambda: wanted - late <= note(), 40)

    frozen = server(running)
    frozen.send_signal(signal.SIGSTOP)
    try:
        (folder / "by-hand.md").write_text("Written while the bus is away.\n")
        until(lambda: late - {"memory_bus_events_total"} <= note(), 40)
    finally:
        frozen.kill()
    until(lambda: wanted <= note(), 40)


async def _publish_malformed(running: Running) -> None:
    credentials = load_credentials(running.data_dir / "credentials" / "system-harness.json")
    async with await Bus.connect(credentials, name="test") as bus:
        await jetstream.publish(bus, jetstream.Outgoing("turn.v1.local.completed.s1", b'{"turn_id": 5}', "malformed"))
