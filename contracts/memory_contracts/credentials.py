"""What a credentials file holds: where the bus is, who the caller is, and which inbox is the caller's own."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from memory_contracts.names import ROUTES, is_name

JS_API = "$JS.API"
"""Where the bus answers JetStream calls inside the account that owns the streams."""


class CredentialsError(ValueError):
    """The credentials cannot be read; the message names the file and the field."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """One identity on the bus.

    `route` is `human`, `agent`, `observer` or `system` for callers; `worker`, `admin` and `ui` name the
    credentials that call no function. `durables` are the durable consumers this identity may own, by exact name.
    """

    url: str
    route: str
    principal: str
    inbox_prefix: str
    tenant: str
    user: str | None = None
    password: str | None = None
    nkey_seed: str | None = None
    js_prefix: str = JS_API
    durables: tuple[str, ...] = ()
    prefix: str = "memory.v1"
    turn_prefix: str = "turn.v1"

    @property
    def calls_functions(self) -> bool:
        """Whether this identity has a route on which functions are called."""
        return self.route in ROUTES

    def __repr__(self) -> str:
        return f"Credentials({self.tenant}.{self.route}.{self.principal} at {self.url})"


def load_credentials(source: str | os.PathLike[str] | dict[str, Any] | Credentials) -> Credentials:
    """Read credentials from a JSON file, a dict of its fields, or pass them through.

    Raises CredentialsError when the file is missing, readable by others, or does not fit.
    """
    if isinstance(source, Credentials):
        return source
    if isinstance(source, dict):
        return _checked(json.dumps(source).encode(), "credentials")
    path = Path(source)
    try:
        mode = path.stat().st_mode
        raw = path.read_bytes()
    except OSError as error:
        raise CredentialsError(f"cannot read credentials {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsError(f"credentials {path} are readable by other users: chmod 600 {path}")
    return _checked(raw, str(path))


def _checked(raw: bytes, where: str) -> Credentials:
    try:
        credentials = msgspec.json.decode(raw, type=Credentials)
    except msgspec.DecodeError as error:
        raise CredentialsError(f"{where}: {error}") from None
    for field in ("tenant", "principal"):
        if not is_name(getattr(credentials, field)):
            raise CredentialsError(f"{where}: {field} must be a lower-case name of at most 64 characters")
    return credentials
