"""Front matter: YAML between two lines of `---`, read strictly and without constructing anything."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import msgspec
import yaml

from memory_worker.clock import EARLIEST, LATEST

FRONT_MAX_BYTES = 32 * 1024
"""Longest front matter that is read, in bytes: sixteen of every label at full length fit twice."""
DEPTH_MAX = 4
"""Deepest nesting of front matter that is read; ours has 3."""
FENCE = "---"
"""The line before and after front matter."""

_FRONT = re.compile(r"---[ \t]*\n(?:(.*?)\n)??---[ \t]*(?:\n|\Z)", re.DOTALL)
_TIMES = frozenset({"learned", "occurred", "expires", "updated", "seen"})

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[ -][A-Za-z0-9_]+)*")
"""Text that YAML takes as it stands, unless it is a word of another type."""
_OTHER_TYPES = frozenset({"yes", "no", "true", "false", "on", "off", "null"})
"""Words that YAML 1.1 takes for a truth value or for nothing."""

S = TypeVar("S", bound=msgspec.Struct)


class Unreadable(Exception):
    """A file is not in the form that can be read; the message says what is wrong and holds none of its text."""


class _Dumper(yaml.CSafeDumper):
    """The safe dumper, with times in RFC 3339 and every value written out where it stands."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Lines(dict[str, Any]):
    """Front matter as a whole: one field a line, whatever is in them."""


def _represent_lines(dumper: yaml.representer.BaseRepresenter, value: _Lines) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", list(value.items()), flow_style=False)


def _represent_time(dumper: yaml.representer.BaseRepresenter, value: datetime) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:timestamp", _rfc3339(value))


def _rfc3339(value: datetime) -> str:
    return f"{value.astimezone(UTC).isoformat()[:-6]}Z"


_Dumper.add_representer(datetime, _represent_time)
_Dumper.add_representer(_Lines, _represent_lines)


def dump(values: dict[str, Any]) -> str:
    """Write the values that are there as YAML, one field a line, in the order given.

    Raises OverflowError for a time that the calendar does not show in UTC; only old records hold such.

    PyYAML writes whatever could need quoting; words, numbers and times, which are nine tenths of it, are written
    without, as PyYAML would write them.
    """
    lines: list[str] = []
    for key, value in values.items():
        if value is None or value == []:
            continue
        plain = _plain(value)
        lines.append(f"{key}: {plain}\n" if plain is not None else quote({key: value}))
    return "".join(lines)


def quote(values: dict[str, Any]) -> str:
    """Write values as YAML, by PyYAML."""
    dumped: str = yaml.dump(
        _Lines(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=1_000_000
    )
    return dumped


def _plain(value: Any) -> str | None:
    """Write a value that needs no quotes; None where it may need some."""
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and value.lower() not in _OTHER_TYPES else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return _rfc3339(value)
    if isinstance(value, list):
        parts = [_plain(item) for item in value]
        return None if None in parts else f"[{', '.join(part for part in parts if part is not None)}]"
    if isinstance(value, dict):
        written = {key: _plain(item) for key, item in value.items()}
        return (
            None if None in written.values() else f"{{{', '.join(f'{key}: {part}' for key, part in written.items())}}}"
        )
    return None


def decode(data: bytes) -> str:
    """Read a file's bytes as text: UTF-8, a byte order mark dropped, every line ending as `\\n`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 text (byte {error.start})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split(text: str) -> tuple[str | None, str]:
    """Part a file into its front matter (None where there is none) and its body."""
    if not text.startswith(FENCE):
        return None, text
    match = _FRONT.match(text)
    if match is None:
        first = text.split("\n", 1)[0]
        if first.rstrip() == FENCE and "\n" in text:
            raise Unreadable("the front matter has no closing line of ---")
        return None, text
    front = match.group(1) or ""
    if len(front.encode()) > FRONT_MAX_BYTES:
        raise Unreadable(f"the front matter is larger than {FRONT_MAX_BYTES:,} bytes")
    return front, text[match.end() :]


def mapping(front: str) -> dict[str, Any]:
    """Read YAML as text, lists and mappings only: `no` stays the word it is, and nothing is ever constructed."""
    try:
        _inspect(yaml.parse(front, Loader=yaml.CBaseLoader))
        values = yaml.load(front, Loader=yaml.CBaseLoader)  # noqa: S506 - constructs nothing but str, list and dict
    except yaml.YAMLError as error:
        raise Unreadable(_yaml_problem(error)) from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise Unreadable("the front matter is not a list of `field: value` lines")
    return {str(key): value for key, value in values.items()}


def _inspect(events: Iterable[yaml.Event]) -> None:
    """Refuse what YAML can do and front matter need not: references, types, depth, a field given twice."""
    keys: list[set[str] | None] = []
    expects_key: list[bool] = []
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise Unreadable("references (& and *) are not read")
        if getattr(event, "tag", None) is not None:
            raise Unreadable("YAML types (!) are not read")
        if isinstance(event, yaml.ScalarEvent) and keys and keys[-1] is not None and expects_key[-1]:
            if event.value in keys[-1]:
                raise Unreadable(f"the field {quoted([event.value])} is given twice")
            keys[-1].add(event.value)
            expects_key[-1] = False
        elif isinstance(event, yaml.CollectionStartEvent):
            if expects_key and expects_key[-1]:
                raise Unreadable("a field's name is one word")
            keys.append(set() if isinstance(event, yaml.MappingStartEvent) else None)
            expects_key.append(isinstance(event, yaml.MappingStartEvent))
            if len(keys) > DEPTH_MAX:
                raise Unreadable(f"the front matter is nested more than {DEPTH_MAX} deep")
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionEndEvent):
            if isinstance(event, yaml.CollectionEndEvent):
                keys.pop()
                expects_key.pop()
            if keys:
                expects_key[-1] = keys[-1] is not None


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = "" if mark is None else f" in line {mark.line + 2}"
    return f"the front matter is not valid YAML{where}: {getattr(error, 'problem', None) or 'cannot be read'}"


def fields(front: str, kind: type[S]) -> S:
    """Read front matter into a struct; raises `Unreadable` naming the field. An empty value is an absent one."""
    values = {key: value for key, value in _prepared(mapping(front)) if value != ""}
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Unreadable(_field_problem(str(error))) from error


def _prepared(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if key in _TIMES and isinstance(value, str) and value:
            yield key, _time(key, value)
        elif isinstance(value, dict):
            yield key, {inner: item for inner, item in value.items() if item != ""}
        else:
            yield key, value


def _time(field: str, value: str) -> datetime:
    try:
        at = datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise Unreadable(f"{field} is a time such as 2026-11-30 or 2026-11-30T03:51:42Z") from error
    if at.tzinfo is None:
        try:
            date.fromisoformat(value.strip())  # a plain day is exact enough: it begins at midnight UTC
        except ValueError as error:
            raise Unreadable(f"{field} needs its offset from UTC, such as 2026-11-30T03:51:42Z") from error
        at = at.replace(tzinfo=UTC)
    if not EARLIEST <= at <= LATEST:
        raise Unreadable(f"{field} lies outside {EARLIEST.date()} to {LATEST.date()}")
    return at.astimezone(UTC)


def _field_problem(message: str) -> str:
    """Turn msgspec's account into one that names the field and repeats nothing of the text."""
    what, _, path = message.partition(" - at `$")
    field = path.rstrip("`").strip(".")
    what = re.sub(r"Invalid enum value '.*'", "is not one of the words it may have", what, flags=re.DOTALL)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what, flags=re.DOTALL)
    if unknown:
        return f"the field {quoted([unknown.group(1)])} is not known{f' in {field}' if field else ''}"
    return f"{field or 'front matter'}: {what}"


def whole(values: dict[str, Any], field: str, least: int, most: int | None) -> int | None:
    """Read a whole number within bounds, None where it is absent."""
    value = values.get(field, "")
    if value == "":
        return None
    if not isinstance(value, str) or re.fullmatch(r"\d{1,9}", value) is None:
        raise Unreadable(f"{field} is a whole number")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise Unreadable(f"{field} is at least {least}" + (f" and at most {most}" if most is not None else ""))
    return number


def quoted(words: list[str]) -> str:
    """Name fields in a message, each bounded and on one line."""
    shown = [repr(word[:40]) for word in words[:5]]
    return ", ".join(shown) + (" and more" if len(words) > 5 else "")
