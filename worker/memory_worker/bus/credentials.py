"""Makes users: the server's include file, and one credentials file per identity, both readable by the owner alone."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bcrypt
import msgspec

from memory_contracts.credentials import Credentials, load_credentials
from memory_contracts.names import DEFAULT_TENANT, ROUTES, is_name
from memory_worker.bus.accounts import DUTY_OF, Duty, Layout, Role, User, render

PASSWORD_BYTES = 32
"""Random bytes of a password. With that much entropy the cost of the hash protects nothing, so it is the lowest."""
BCRYPT_COST = 4
INBOX_BYTES = 12
"""Random bytes in an identity's inbox prefix: nobody else can name it."""

DEFAULTS: tuple[tuple[Role, str], ...] = (
    ("human", "me"),
    ("agent", "default"),
    ("observer", "default"),
    ("system", "harness"),
    ("system", "session"),
    ("system", "router"),
    ("system", "consolidate"),
)
"""The identities every tenant begins with."""


class Registry(msgspec.Struct, frozen=True, kw_only=True):
    """All users of one server and its layout; kept beside the server's configuration."""

    layout: Layout
    users: tuple[User, ...] = ()


class BusFiles:
    """Where the bus keeps its files under a data directory."""

    def __init__(self, data_dir: str | os.PathLike[str]) -> None:
        self.data_dir = Path(data_dir)
        self.nats = self.data_dir / "nats"
        self.credentials = self.data_dir / "credentials"
        self.registry = self.nats / "users.json"
        self.accounts_conf = self.nats / "accounts.conf"
        self.server_conf = self.nats / "server.conf"
        self.pid = self.nats / "server.pid"
        self.log = self.nats / "server.log"
        self.store = self.nats / "store"

    def credentials_of(self, name: str) -> Path:
        """Path of the credentials file `<route>-<principal>`, `worker` or `admin`."""
        return self.credentials / f"{name}.json"

    def make(self) -> None:
        """Make the directories, closed to other users."""
        for directory in (self.nats, self.credentials):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)


def ensure_defaults(data_dir: str | os.PathLike[str], url: str, layout: Layout | None = None) -> Registry:
    """Make the worker, the admin and every tenant's default identities where they are missing.

    Writes what the server reads. All credentials files are brought to `url`: the port may have changed.
    """
    files = BusFiles(data_dir)
    files.make()
    with _exclusive(files):
        known = read_registry(files)
        wanted = layout or (known.layout if known else Layout())
        if known is not None:
            tenants = tuple(dict.fromkeys((*known.layout.tenants, *wanted.tenants)))
            wanted = msgspec.structs.replace(wanted, tenants=tenants)
        registry = Registry(layout=wanted, users=known.users if known else ())
        for role in ("worker", "admin"):
            registry = _with_user(files, registry, url, role=role, principal=role, tenant=None)
        for tenant in wanted.tenants:
            for role, principal in DEFAULTS:
                registry = _with_user(files, registry, url, role=role, principal=principal, tenant=tenant)
        _write_registry(files, registry)
        _repoint(files, url, registry.layout)
        return registry


def add_credentials(
    data_dir: str | os.PathLike[str],
    *,
    route: Role,
    principal: str,
    url: str,
    tenant: str = DEFAULT_TENANT,
    durables: Sequence[str] = (),
    duties: Sequence[Duty] = (),
) -> Path:
    """Make one identity and give the path of its credentials file; the server must then read its configuration again.

    A new tenant gets its default identities as well. Raises ValueError for a bad name or one that is taken.
    """
    if route not in (*ROUTES, "ui"):
        raise ValueError(f"the route is one of {', '.join(ROUTES)}, or ui for one that only reads events")
    for what, name in (("tenant", tenant), ("principal", principal), *(("durable", name) for name in durables)):
        if not is_name(name):
            raise ValueError(f"{what} {name!r} must be lower-case letters, digits, _ or -, at most 64")
    files = BusFiles(data_dir)
    files.make()
    with _exclusive(files):
        registry = read_registry(files) or Registry(layout=Layout())
        if _find(registry, route, principal, tenant):
            raise ValueError(f"there are credentials for {tenant} {route} {principal} already")
        taken = {name for user in registry.users if user.tenant == tenant for name in user.durables}
        clash = taken.intersection(durables)
        if clash:
            raise ValueError(f"another identity has the durable {', '.join(sorted(clash))} already")
        if tenant not in registry.layout.tenants:
            layout = msgspec.structs.replace(registry.layout, tenants=(*registry.layout.tenants, tenant))
            registry = msgspec.structs.replace(registry, layout=layout)
            for role, default in DEFAULTS:
                if (role, default) != (route, principal):
                    registry = _with_user(files, registry, url, role=role, principal=default, tenant=tenant)
        registry = _with_user(
            files, registry, url, role=route, principal=principal, tenant=tenant, durables=durables, duties=duties
        )
        _write_registry(files, registry)
        return files.credentials_of(file_name(registry.users[-1]))


def read_registry(files: BusFiles) -> Registry | None:
    """Read the users, or None when there are none yet."""
    try:
        return msgspec.json.decode(files.registry.read_bytes(), type=Registry)
    except FileNotFoundError:
        return None


def file_name(user: User) -> str:
    """Name of a user's credentials file, without its ending. The tenant `local` is never named."""
    own = user.role if user.role == user.principal else f"{user.role}-{user.principal}"
    return own if user.tenant in (None, DEFAULT_TENANT) else f"{user.tenant}.{own}"


def write_private(path: Path, data: bytes) -> None:
    """Replace a file at once, readable and writable by its owner alone."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _with_user(
    files: BusFiles,
    registry: Registry,
    url: str,
    *,
    role: Any,
    principal: str,
    tenant: str | None,
    durables: Sequence[str] = (),
    duties: Sequence[Duty] = (),
) -> Registry:
    known = _find(registry, role, principal, tenant)
    if known is not None and files.credentials_of(file_name(known)).exists():
        return registry
    # A user whose credentials file is gone gets a new password: the old one is nowhere.
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    if role == "system" and not duties and principal in DUTY_OF:
        duties = (DUTY_OF[principal],)
    if not durables and (role in ("human", "agent", "ui") or "consolidate" in duties):
        # Two, since a durable reads one kind of trigger.
        durables = (f"{role}-{principal}", f"{role}-{principal}-banks")
    user = User(
        role=role,
        principal=principal,
        tenant=tenant,
        inbox_prefix=f"_INBOX.{tenant or 'memory'}.{role}.{principal}.{secrets.token_hex(INBOX_BYTES)}",
        password_hash=bcrypt.hashpw(password.encode(), bcrypt.gensalt(BCRYPT_COST, b"2a")).decode(),
        durables=tuple(durables),
        duties=tuple(duties),
    )
    if user.tenant is None:
        user = msgspec.structs.replace(
            user, inbox_prefix=f"_INBOX.memory.{role}.{secrets.token_hex(INBOX_BYTES)}", durables=()
        )
    layout = registry.layout
    credentials = Credentials(
        url=url,
        tenant=tenant or DEFAULT_TENANT,
        route=role,
        principal=principal,
        user=user.name,
        password=password,
        inbox_prefix=user.inbox_prefix,
        js_prefix=layout.js_prefix if tenant else "$JS.API",
        durables=user.durables,
        prefix=layout.prefix,
        turn_prefix=layout.turn_prefix,
    )
    write_private(files.credentials_of(file_name(user)), _pretty(credentials))
    others = tuple(other for other in registry.users if other != known)
    return msgspec.structs.replace(registry, users=(*others, user))


def _find(registry: Registry, role: str, principal: str, tenant: str | None) -> User | None:
    return next(
        (user for user in registry.users if (user.role, user.principal, user.tenant) == (role, principal, tenant)),
        None,
    )


def _write_registry(files: BusFiles, registry: Registry) -> None:
    write_private(files.registry, _pretty(registry))
    write_private(files.accounts_conf, render(registry.layout, registry.users).encode())


def _repoint(files: BusFiles, url: str, layout: Layout) -> None:
    for path in files.credentials.glob("*.json"):
        credentials = load_credentials(path)
        js_prefix = "$JS.API" if credentials.route in ("worker", "admin") else layout.js_prefix
        now = msgspec.structs.replace(credentials, url=url, js_prefix=js_prefix)
        if now != credentials:
            write_private(path, _pretty(now))


def _pretty(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


@contextlib.contextmanager
def _exclusive(files: BusFiles) -> Iterator[None]:
    """Keep two commands from writing the users at the same time."""
    with open(files.nats / ".users.lock", "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
