"""Logs: JSON for machines, and nothing stored ever in them."""

import io
import json
import logging
from typing import Any

import pytest

from memory_worker import logs


@pytest.fixture
def lines() -> Any:
    """Configure JSON logging into memory and give a reader of its lines."""
    stream = io.StringIO()
    logs.configure("info", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logs.configure("info")


def test_a_line_is_one_json_object_with_time_and_level(lines: Any) -> None:
    """Machines read one object a line, times in UTC."""
    logs.get_logger(room="x").info("request", function="save", ms=1.5)
    (line,) = lines()
    assert line["at"].endswith("Z")
    del line["at"]
    assert line == {"event": "request", "level": "info", "room": "x", "function": "save", "ms": 1.5}


def test_keys_that_would_carry_stored_text_are_replaced_by_their_size(lines: Any) -> None:
    """A careless log call gives away no memory, quote, query or secret."""
    logs.get_logger().info("x", text="my sister", query="where", messages=["a", "b"], password="p", id="mem_1")
    (line,) = lines()
    assert (line["text"], line["query"]) == ("<9 characters not logged>", "<5 characters not logged>")
    assert (line["messages"], line["password"]) == ("<2 items not logged>", "<1 characters not logged>")
    assert line["id"] == "mem_1"


def test_an_exception_is_told_by_type_and_place_not_by_its_words(lines: Any) -> None:
    """Exception texts quote values; the type and the line suffice to find the fault."""
    try:
        raise ValueError("my sister lives in Porto")
    except ValueError:
        logs.get_logger().exception("broke")
    (line,) = lines()
    assert line["exception"] == "ValueError"
    assert "test_logs.py" in line["raised_at"]
    assert "Porto" not in json.dumps(line)


def test_libraries_log_without_their_words(lines: Any) -> None:
    """A library's message may quote a payload; that it spoke, and where, is kept."""
    logging.getLogger("asyncio").error("task %s", "my sister lives in Porto")
    logging.getLogger("nats").info("nothing to see")
    (line,) = lines()
    assert (line["event"], line["logger"], line["level"]) == ("library", "asyncio", "error")
    assert "Porto" not in json.dumps(line)


def test_the_level_changes_while_running(lines: Any) -> None:
    """A reload can turn debug lines on and off."""
    log = logs.get_logger()
    log.debug("no")
    logs.set_level("debug")
    log.debug("yes")
    logs.set_level("error")
    log.warning("no")
    assert [line["event"] for line in lines()] == ["yes"]


def test_a_long_value_is_cut(lines: Any) -> None:
    """No single value can flood the log."""
    logs.get_logger().info("x", id="a" * 10_000)
    assert len(lines()[0]["id"]) == 301


def test_a_log_that_cannot_be_written_breaks_nothing() -> None:
    """A full disk under the log, or a reader of it that is gone, costs lines and never work."""

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    logs.configure("info", stream=Full())
    try:
        logs.get_logger().error("relay.waiting")
    finally:
        logs.configure("info")


def test_at_a_terminal_lines_are_for_people() -> None:
    """Without JSON the event is readable text."""
    stream = io.StringIO()
    logs.configure("info", stream=stream, json=False)
    logs.get_logger().info("request", function="save")
    logs.configure("info")
    assert "request" in stream.getvalue()
    assert "function=save" in stream.getvalue()
    assert "{" not in stream.getvalue()
