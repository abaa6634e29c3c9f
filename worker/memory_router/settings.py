"""Settings of the bridge, read from the environment: where the endpoint is, which models, how long, how often."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

PREFIX = "MEMORY_ROUTER_"
"""What every setting's environment variable starts with: `MEMORY_ROUTER_URL` and so on."""
KEY_MAX_BYTES = 16_384
"""Largest key file that is read, in bytes."""

Seconds = Annotated[float, Meta(ge=0.1, le=3_600)]


class SettingsError(Exception):
    """The settings of the bridge cannot be used; the message names each variable."""


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that may be set. The defaults suit Ollama on this machine."""

    url: Annotated[str, Meta(pattern=r"^https?://\S+$")] = "http://127.0.0.1:11434/v1"
    """Base URL of the endpoint, with its version: what `/chat/completions` is appended to."""
    model: str = ""
    """Model for completions; empty = the first one the endpoint lists that is not for embeddings."""
    embed_model: str = ""
    """Model for embeddings; empty = the first one the endpoint lists that is."""
    api_key: str = ""
    """Key of the endpoint; empty where it needs none."""
    api_key_file: str = ""
    """File that holds the key, read at the start; wins over `api_key`."""
    subject: Annotated[str, Meta(min_length=1, max_length=200)] = "router.v1.{tenant}"
    """Leading part of the subjects that are answered; `.complete`, `.embed` and `.models` follow."""
    concurrency: Annotated[int, Meta(ge=1, le=1_024)] = 4
    """Requests of one kind at work at once; more are refused as `unavailable`, and asked again."""
    timeout_s: Seconds = 45.0
    """Time one attempt at a completion may take, in seconds."""
    deadline_s: Seconds = 58.0
    """Time a completion may take with its retries, in seconds; just under the worker's own `router_deadline_ms`."""
    embed_deadline_s: Seconds = 4.8
    """Time an embedding may take with its retries, in seconds; just under `router_embed_deadline_ms`."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    """How often a request is tried again after 408, 409, 429, 5xx or a lost connection; `Retry-After` is obeyed."""
    embed_batch: Annotated[int, Meta(ge=1, le=2_048)] = 128
    """Texts embedded in one HTTP request."""

    def __repr__(self) -> str:
        return f"RouterSettings(url={self.url!r}, model={self.model!r}, embed_model={self.embed_model!r})"


def read_settings(environ: Mapping[str, str] | None = None) -> RouterSettings:
    """Read the settings from `MEMORY_ROUTER_…` variables; raises `SettingsError` naming all that is wrong."""
    source = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    problems: list[str] = []
    known = {field.name: field.type for field in msgspec.structs.fields(RouterSettings)}
    for variable, text in source.items():
        if not variable.startswith(PREFIX) or not text:
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in known:
            problems.append(f"{variable}: no such setting")
            continue
        try:
            values[name] = msgspec.convert(text, known[name], strict=False)
        except msgspec.ValidationError as error:
            problems.append(f"{variable}: {error}")
    if problems:
        raise SettingsError("; ".join(problems))
    settings = RouterSettings(**values)
    return msgspec.structs.replace(settings, api_key=_key(settings))


def _key(settings: RouterSettings) -> str:
    if not settings.api_key_file:
        return settings.api_key
    path = Path(settings.api_key_file)
    try:
        with path.open("rb") as file:
            return file.read(KEY_MAX_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{PREFIX}API_KEY_FILE: {path} cannot be read: {type(error).__name__}") from None
