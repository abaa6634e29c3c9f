"""Reads settings from a TOML file, the environment and flags, and reports every problem at once."""

import base64
import binascii
import difflib
import ipaddress
import os
import string
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from memory_worker.config import Settings

ENV_PREFIX = "MEMORY_"
CONFIG_ENV = "MEMORY_CONFIG"
"""Names the TOML file when `--config` does not."""
OTHER_ENV = frozenset({CONFIG_ENV, "MEMORY_AS"})
"""Variables with our prefix that are read elsewhere."""
VAULT_KEY_BYTES = 32
MASK = "********"


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with one key; `source` says where the value came from."""

    key: str
    source: str
    message: str

    def __str__(self) -> str:
        return f"{self.key} ({self.source}): {self.message}"


class SettingsError(Exception):
    """The settings cannot be used; `problems` lists everything that is wrong."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class Loaded(msgspec.Struct, frozen=True):
    """Settings with the source of every key that is not a default, and what looks odd but does no harm."""

    settings: Settings
    origins: dict[str, str]
    warnings: list[str]


class SettingDoc(msgspec.Struct, frozen=True):
    """What is documented about one key."""

    key: str
    env: str
    type: str
    default: str
    unit: str
    bounds: str
    description: str
    reload: bool
    secret: bool


class _Field(msgspec.Struct, frozen=True):
    key: str
    type: Any
    meta: Meta
    default: Any

    @property
    def env(self) -> str:
        return ENV_PREFIX + self.key.upper().replace(".", "_")

    @property
    def extra(self) -> dict[str, Any]:
        return self.meta.extra or {}


def _fields(struct: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[_Field]:
    """Every leaf setting, sections flattened to dotted keys."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        annotated = hints[field.name]
        base, *notes = get_args(annotated)
        if isinstance(base, type) and issubclass(base, msgspec.Struct):
            yield from _fields(base, f"{field.name}.")
            continue
        meta = next(note for note in notes if isinstance(note, Meta) and note.extra is not None)
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        yield _Field(prefix + field.name, annotated, meta, default)


_FIELDS: dict[str, _Field] = {field.key: field for field in _fields()}


def load(
    *, file: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Loaded:
    """Read the settings; `flags` maps keys to values and skips those that are None.

    Raises:
        SettingsError: with every problem of every source.
    """
    environ = os.environ if environ is None else environ
    problems: list[Problem] = []
    warnings: list[str] = []
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}

    def take(key: str, raw: Any, source: str, *, text: bool) -> None:
        field = _FIELDS.get(key)
        if field is None:
            near = difflib.get_close_matches(key, _FIELDS, n=1)
            problems.append(Problem(key, source, "no such setting" + (f"; did you mean {near[0]}?" if near else "")))
            return
        try:
            values[key] = _convert(raw, field, text=text)
        except (msgspec.ValidationError, ValueError) as error:
            values.pop(key, None)
            problems.append(Problem(key, source, _say(error, field)))
            return
        origins[key] = source

    if file is None and (named := environ.get(CONFIG_ENV)):
        file = Path(named)
    if file is not None:
        for key, raw in _read_file(file, problems):
            take(key, raw, str(file), text=False)
    if environ.get("NATS_URL"):
        take("nats_url", environ["NATS_URL"], "NATS_URL", text=True)
    by_env = {field.env: key for key, field in _FIELDS.items()}
    for name in sorted(environ):
        if name in by_env:
            take(by_env[name], environ[name], name, text=True)
        elif name.startswith(ENV_PREFIX) and name not in OTHER_ENV:
            near = difflib.get_close_matches(name, by_env, n=1, cutoff=0.8)
            if near:
                warnings.append(f"{name} is not a setting; did you mean {near[0]}?")
    for key, raw in (flags or {}).items():
        if raw is not None:
            take(key, raw, "--" + key.replace("_", "-"), text=isinstance(raw, str))

    settings = _with(Settings(), values)
    failed = {problem.key for problem in problems}
    for key, message in _cross_check(settings):
        if key not in failed:
            problems.append(Problem(key, origins.get(key, "default"), message))
    if problems:
        raise SettingsError(problems)
    if not _is_loopback(settings.http_host):
        warnings.append(f"http_host {settings.http_host} is reachable from outside; health and metrics ask no password")
    return Loaded(settings, origins, warnings)


def describe() -> list[SettingDoc]:
    """Give the documentation of every setting, in the order of the struct."""
    return [
        SettingDoc(
            key=field.key,
            env=field.env,
            type=_type_name(field.type),
            default=_show(field.default),
            unit=field.extra["unit"],
            bounds=_bounds(field.meta),
            description=field.meta.description or "",
            reload=field.extra["reload"],
            secret=field.extra["secret"],
        )
        for field in _FIELDS.values()
    ]


def shown(settings: Settings) -> dict[str, str]:
    """Give every value as text by key, secrets masked."""
    return {
        key: MASK if field.extra["secret"] and _value(settings, key) else _show(_value(settings, key))
        for key, field in _FIELDS.items()
    }


class Adopted(msgspec.Struct, frozen=True):
    """Settings after a reload: the keys that were taken over, and those that wait for a restart."""

    settings: Settings
    taken: list[str]
    needs_restart: list[str]


def adopt(old: Settings, new: Settings) -> Adopted:
    """Take over from `new` what may change while running.

    What would contradict a setting that stays as it was (`extractor` without its router) waits for the restart.
    """
    changed = [key for key in _FIELDS if _value(old, key) != _value(new, key)]
    taken = [key for key in changed if _FIELDS[key].extra["reload"]]
    while True:
        settings = _with(old, {key: _value(new, key) for key in taken})
        refused = {key for key, _ in _cross_check(settings)} & set(taken)
        if not refused:
            return Adopted(settings, taken, [key for key in changed if key not in taken])
        taken = [key for key in taken if key not in refused]


def _with(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Give the settings with other values for some keys."""
    top = {key: value for key, value in values.items() if "." not in key}
    sections: dict[str, dict[str, Any]] = {}
    for key in values.keys() - top.keys():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = values[key]
    nested = {name: msgspec.structs.replace(getattr(settings, name), **found) for name, found in sections.items()}
    return msgspec.structs.replace(settings, **top, **nested)


def _read_file(file: Path, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(Problem("config", str(file), f"cannot be read: {error.strerror}"))
        return
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(Problem("config", str(file), f"is not TOML: {error}"))
        return
    for key, raw in document.items():
        if isinstance(raw, dict):
            for name, value in raw.items():
                yield f"{key}.{name}", value
        else:
            yield key, raw


def _convert(raw: Any, field: _Field, *, text: bool) -> Any:
    """Turn a raw value into the field's type; text (environment, flags) is read leniently."""
    if text and get_origin(_strip(field.type)) is tuple:
        raw = [part.strip() for part in str(raw).split(",") if part.strip()]
    if isinstance(raw, Path):
        raw = str(raw)
    if text and _strip(field.type) is bool and str(raw).lower() in {"yes", "on", "no", "off"}:
        raw = str(raw).lower() in {"yes", "on"}
    return msgspec.convert(raw, field.type, strict=not text, dec_hook=_path)


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        if not isinstance(value, str) or not value:
            raise ValueError("Expected a path")
        return Path(value).expanduser()
    raise NotImplementedError(f"no decoder for {kind}")


def _cross_check(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.extractor == "model" and settings.router == "none":
        yield "extractor", "`model` needs router = required"
    if settings.embedding_model == "router" and settings.router == "none":
        yield "embedding_model", "`router` needs router = required"
    if settings.context_max_pinned > settings.context_max_items:
        yield "context_max_pinned", "may not exceed context_max_items"
    if settings.extraction_backoff_s > settings.extraction_backoff_max_s:
        yield "extraction_backoff_s", "may not exceed extraction_backoff_max_s"
    if settings.disk_free_min_mb > settings.disk_free_warn_mb:
        yield "disk_free_min_mb", "may not exceed disk_free_warn_mb"
    if settings.vault_key:
        try:
            size = len(base64.b64decode(settings.vault_key, validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if size != VAULT_KEY_BYTES:
            yield "vault_key", f"must be base64 of {VAULT_KEY_BYTES} bytes"
    many = settings.tenants != (settings.tenants[0],) or settings.tenants == ("*",)
    for key in _FIELDS:
        if not key.endswith("_subject"):
            continue
        try:
            names = {name for _, name, _, _ in string.Formatter().parse(_value(settings, key)) if name is not None}
        except ValueError:
            names = {"?"}
        if names - {"tenant"}:
            yield key, "only {tenant} may be filled in"
        elif many and not names:
            yield key, "must contain {tenant} when several tenants are served"


def _value(settings: Settings, key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _strip(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    if isinstance(value, Path) and value.is_relative_to(Path.home()):
        return f"~/{value.relative_to(Path.home())}"
    return str(value)


def _type_name(kind: Any) -> str:
    schema = msgspec.json.schema(kind, schema_hook=lambda _: {"type": "path"})
    if "enum" in schema:
        return " \\| ".join(f"`{option}`" for option in schema["enum"])
    if "anyOf" in schema:
        schema = next(option for option in schema["anyOf"] if option["type"] != "null")
    names = {"array": "list", "integer": "int", "number": "float", "string": "text", "boolean": "bool"}
    schema_type: str = schema["type"]
    return names.get(schema_type, schema_type)


def _bounds(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f"{meta.ge:,}–{meta.le:,}"
    return f"≥ {meta.ge:,}" if meta.ge is not None else ""


def _say(error: Exception, field: _Field) -> str:
    """Say what was expected, never the value: it may be a secret."""
    text = str(error)
    if field.meta.pattern is not None or "pattern" in text or "regex" in text:
        return "has characters that are not allowed"
    return text.replace("Expected", "expected").replace("`", "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
