"""Files read back as what was written to them."""

import string
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from memory_contracts.names import TEXT_MAX_CHARS
from memory_contracts.records import Bank, Claim, Memory, Rule, Source
from memory_worker.files.changes import difference, frozen
from memory_worker.files.format import (
    fold,
    parse_bank,
    parse_memory,
    parse_rule,
    render_bank,
    render_memory,
    render_rule,
)
from memory_worker.files.frontmatter import Unreadable, dump, quote
from memory_worker.files.naming import (
    SLUG_MAX_BYTES,
    SLUG_MAX_CHARS,
    memory_names,
    name_of_component,
    safe_component,
    slug,
)

AT = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=60).filter(str.strip)
TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
LABELS = st.lists(ANY_TEXT, max_size=4).map(tuple)

MEMORIES = st.builds(
    Memory,
    id=st.text(string.ascii_uppercase + string.digits, min_size=26, max_size=26).map("mem_{}".format),
    bank=st.just("main"),
    text=ANY_TEXT.map(fold).filter(bool),
    kind=st.sampled_from(["fact", "preference", "person", "observation"]),
    tier=st.sampled_from(["stated", "observed", "inferred"]),
    source=st.builds(
        Source,
        route=st.sampled_from(["human", "agent"]),
        principal=st.just("me"),
        session_id=st.none() | ANY_TEXT,
        message_ids=LABELS,
        quote=st.none() | ANY_TEXT,
    ),
    created_at=TIMES,
    updated_at=TIMES,
    last_seen_at=TIMES,
    subject=st.none() | ANY_TEXT,
    entities=LABELS,
    tags=LABELS,
    about=LABELS,
    claim=st.none() | st.builds(Claim, entity=ANY_TEXT, property=ANY_TEXT, value=ANY_TEXT),
    confidence=st.sampled_from(["low", "normal", "high"]),
    pinned=st.booleans(),
    occurred_at=st.none() | TIMES,
    expires_at=st.none() | TIMES,
    revision=st.integers(min_value=1, max_value=10**6),
)


def refusal(parse: Callable[[bytes], object], data: bytes) -> str:
    """Give the reason for which a file is refused, `read` where it is not."""
    try:
        parse(data)
    except Unreadable as refused:
        return str(refused)
    return "read"


@given(MEMORIES, st.booleans())
def test_a_memorys_file_reads_back_as_the_memory(memory: Memory, full: bool) -> None:
    """Rendering and reading change no field, whatever is in it."""
    file = parse_memory(render_memory(memory, full=full))
    assert difference(file, memory) == {}
    assert frozen(file, memory) == []
    assert (file.id, file.revision) == (memory.id, memory.revision)


@given(st.text(max_size=400).filter(lambda text: text.strip() and "\x00" not in text), st.integers(0, 1_000))
def test_a_rules_file_reads_back_as_the_rule(content: str, priority: int) -> None:
    """A rule's markdown comes back as it was, but for white space around it and the kind of its line ends."""
    source = Source(route="human", principal="me")
    content = content.replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    rule = Rule(bank="main", name="x", content=content, priority=priority, revision=3, updated_at=AT, source=source)
    file = parse_rule(render_rule(rule))
    assert (file.content, file.priority, file.revision) == (content, priority, 3)


@given(ANY_TEXT, st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,5}", fullmatch=True), max_size=4))
def test_a_banks_file_reads_back_as_the_bank(description: str, layers: list[str]) -> None:
    """Settings come back as they were."""
    bank = Bank(name="work", created_at=AT, updated_at=AT, description=description, layers=tuple(layers), mirror=False)
    file = parse_bank(render_bank(bank))
    assert (file.name, file.description, file.layers or [], file.mirror) == ("work", description, layers, False)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.text(max_size=12)
    | st.from_regex(r"[A-Za-z][A-Za-z0-9_ -]{0,8}", fullmatch=True)
    | st.sampled_from(["yes", "No", "ON", "null", "true", "~", "1e3", "0x1F", "12:30", "e1", "nan", "y"])
    | st.integers()
    | st.booleans(),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["id", "kind", "tags", "claim"]), VALUES | TIMES, min_size=1))
def test_what_is_written_plainly_is_what_pyyaml_writes(values: dict[str, Any]) -> None:
    """The short way of writing front matter gives the very bytes of the library's."""
    kept = {key: value for key, value in values.items() if value != []}
    assert dump(values) == (quote(kept) if kept else "")


@given(st.binary(max_size=200))
@example(b"---\n&a [*a]\n---\nx")
@example(b"---\n? [a, b]\n: c\n---\nx")
@example(b"---\n!!binary x: y\n---\nx")
@example(b"---\n<<: {a: b}\n---\nx")
@example(b"---\n--- \n...\n---\nx")
@example(b"---\n%YAML 1.1\n---\n---\nx")
def test_any_bytes_read_or_are_refused_with_a_reason(data: bytes) -> None:
    """No content makes the reader fail in any other way, and no reason repeats more than a field's name."""
    for parse in (parse_memory, parse_rule, parse_bank):
        reason = refusal(parse, data)
        assert 0 < len(reason) < 400
        assert "\n" not in reason


@given(st.text(max_size=120))
@example("---\nid: x\n---\ntext")
@example("kind: [")
def test_any_front_matter_reads_or_is_refused_with_a_reason(front: str) -> None:
    """The same between fences, where YAML is read."""
    assert "\n" not in refusal(parse_memory, f"---\n{front}\n---\nA fact.\n".encode("utf-8", "replace"))


def test_text_of_the_greatest_length_is_read() -> None:
    """2,000 characters are a memory, however many bytes they have."""
    text = "\U0001f600" * TEXT_MAX_CHARS
    assert parse_memory(text.encode()).text == text


@given(st.text(max_size=300), st.none() | st.text(min_size=1, max_size=50))
def test_names_are_short_plain_and_unique_to_the_id(text: str, subject: str | None) -> None:
    """A name has a readable part within its bounds, no separator or control character, and the id's end."""
    names = list(memory_names("mem_01JABCDEFGHJKMNPQRSTVWXYZ0", subject, text))
    assert names[-1].endswith("-01jabcdefghjkmnpqrstvwxyz0.md")
    for name in names:
        assert len(name.encode()) <= 160
        assert not set(name) & set('/\\:*?"<>|\0\n\r\t ')
        assert not name.startswith((".", "-", "~"))


@given(st.text(max_size=300))
def test_a_slug_is_the_same_in_every_normal_form(text: str) -> None:
    """Readable parts are lower case and composed, so that no file system finds two names where one was written."""
    made = slug(text)
    assert 0 < len(made) <= SLUG_MAX_CHARS
    assert len(made.encode()) <= SLUG_MAX_BYTES
    assert made == slug(made)


@given(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True) | st.sampled_from(["con", "nul", "com1", "lpt9"]))
def test_a_folder_name_leads_back_to_its_bank(name: str) -> None:
    """Reserved or not, a bank's folder says which bank it is."""
    assert name_of_component(safe_component(name)) == name


def test_front_matter_is_yaml_to_others() -> None:
    """Any YAML reader sees the same values, with their types."""
    values = {"id": "x", "tags": ["no", "1.10"], "pinned": True, "learned": AT, "revision": 3}
    assert yaml.safe_load(dump(values)) == values


def test_a_source_keeps_its_fields() -> None:
    """Where a text came from survives the file."""
    source = Source(route="agent", principal="coder", session_id="s: 1", message_ids=("a", "b"), quote='he said "no"')
    memory = Memory(
        id="mem_X", bank="main", text="x", kind="fact", tier="inferred", source=source, created_at=AT, updated_at=AT,
        last_seen_at=AT,
    )  # fmt: skip
    front = parse_memory(render_memory(memory)).front
    assert front is not None
    assert front.source is not None
    assert msgspec.convert(front.source, Source) == source
