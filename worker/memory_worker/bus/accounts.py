"""Who may use which subject: the permissions of every kind of user, and the server configuration made of them.

Two layouts. `accounts`: the worker and its streams have an account, every tenant has one that imports only its own
subjects (the server checks the tenant's name in the subject against the importing account). `single`: one account,
permissions alone; there the worker also requires that a reply lies under the caller's own inbox.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from memory_contracts.credentials import JS_API
from memory_contracts.names import ROUTES
from memory_contracts.subjects import (
    TURN_CONSUMER,
    TURN_STREAM,
    Subjects,
    consolidate_bucket,
    event_stream,
    private_stream,
)

Role = Literal["human", "agent", "observer", "system", "ui", "worker", "admin"]
Duty = Literal["turns", "session", "router", "consolidate"]
LayoutKind = Literal["accounts", "single"]

WORKER_ACCOUNT = "MEMORY"
"""The worker's account. Upper case: a tenant's account bears the tenant's name, which is lower case."""
SYSTEM_ACCOUNT = "SYS"
TENANT_JS_PREFIX = "memory.js"
"""Where a tenant's account reaches the JetStream calls it may make; `$JS.API` there is the account's own."""
QUEUE = "memory"
"""Queue group of the workers."""
CONSOLIDATE_QUEUE = "memory-consolidate"
"""Queue group of the consolidate workers."""
DISCOVERY = "$SRV.INFO.memory"
"""Where workers ask each other which store they serve."""
USER_INFO = "$SYS.REQ.USER.INFO"
"""Where a user asks the server for its own permissions."""

DUTY_OF: dict[str, Duty] = {"harness": "turns", "session": "session", "router": "router", "consolidate": "consolidate"}
"""What a system principal of this name is for, unless it is told otherwise."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What the server is laid out for."""

    kind: LayoutKind = "accounts"
    tenants: tuple[str, ...] = ("local",)
    prefix: str = "memory.v1"
    turn_prefix: str = "turn.v1"
    turn_stream: str = TURN_STREAM
    session_subjects: tuple[str, ...] = ("session.v1.{tenant}.get", "session.v1.{tenant}.messages")
    router_subjects: tuple[str, ...] = (
        "router.v1.{tenant}.complete",
        "router.v1.{tenant}.embed",
        "router.v1.{tenant}.models",
    )

    @property
    def subjects(self) -> Subjects:
        """The subjects under this layout's prefixes."""
        return Subjects(self.prefix, self.turn_prefix, self.turn_stream)

    @property
    def js_prefix(self) -> str:
        """Where tenants' users find the JetStream calls they may make."""
        return TENANT_JS_PREFIX if self.kind == "accounts" else JS_API

    def siblings(self, tenant: str, duty: Duty | None = None) -> list[str]:
        """Subjects that the worker asks of a tenant's siblings, all or those of one duty."""
        session = self.session_subjects if duty in (None, "session") else ()
        router = self.router_subjects if duty in (None, "router") else ()
        return [template.format(tenant=tenant) for template in (*session, *router)]


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the bus. `password_hash` is bcrypt, or `$NAME` for an environment variable that holds it."""

    role: Role
    principal: str
    inbox_prefix: str
    password_hash: str
    tenant: str | None = None
    durables: tuple[str, ...] = ()
    duties: tuple[Duty, ...] = ()

    @property
    def name(self) -> str:
        """The user's name at the server."""
        own = self.role if self.role == self.principal else f"{self.role}-{self.principal}"
        return own if self.tenant is None else f"{self.tenant}.{own}"


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects a user may publish on and subscribe to; everything else is refused."""

    publish: list[str]
    subscribe: list[str]
    publish_deny: list[str] = []


def permissions(layout: Layout, user: User) -> Permissions:
    """Give exactly what a user needs, nothing more."""
    if user.role == "worker":
        return worker_permissions(layout, user.inbox_prefix)
    if user.role == "admin":
        return Permissions(publish=[f"{JS_API}.>", "$SRV.>"], subscribe=[f"{user.inbox_prefix}.>"])
    if user.tenant is None:
        raise ValueError(f"a user of the role {user.role} belongs to a tenant")
    return _tenant_permissions(layout, user, user.tenant)


def worker_permissions(layout: Layout, inbox_prefix: str) -> Permissions:
    """What the worker needs: answer, publish triggers, take turns, and erase from its own streams by sequence."""
    subjects = layout.subjects
    own_streams = [layout.turn_stream]
    for tenant in layout.tenants:
        own_streams += [event_stream(tenant), private_stream(tenant)]
    publish = [
        # Across accounts replies go to `_R_`; inside one account to the callers' inboxes.
        *(["_R_.>", "_INBOX.memory.>"] if layout.kind == "accounts" else ["_INBOX.>"]),
        f"{layout.prefix}.event.>",
        f"{layout.prefix}.private-event.>",
        USER_INFO,
        DISCOVERY,
        f"{JS_API}.CONSUMER.MSG.NEXT.{layout.turn_stream}.{TURN_CONSUMER}",
        f"{JS_API}.CONSUMER.INFO.{layout.turn_stream}.{TURN_CONSUMER}",
        *_acks(layout.turn_stream, TURN_CONSUMER),
    ]
    for stream in own_streams:
        publish += [f"{JS_API}.STREAM.{call}.{stream}" for call in ("INFO", "MSG.GET", "MSG.DELETE")]
    for tenant in layout.tenants:
        publish += layout.siblings(tenant)
    return Permissions(
        publish=publish,
        subscribe=[f"{subjects.rpc_all()} {QUEUE}", f"{inbox_prefix}.>", "$SRV.>"],
        # Whatever is ever added above: the worker never speaks as a caller and never invents a turn.
        publish_deny=[f"{layout.prefix}.rpc.>", f"{layout.turn_prefix}.>"],
    )


def _tenant_permissions(layout: Layout, user: User, tenant: str) -> Permissions:
    subjects = layout.subjects
    publish: list[str] = []
    subscribe = [f"{user.inbox_prefix}.>", subjects.events(tenant)]
    own_private = None
    if user.role in ROUTES:
        own_private = subjects.private_events(tenant, f"{user.role}.{user.principal}")
        publish.append(subjects.rpc_of(tenant, user.role, user.principal))
        subscribe.append(own_private)
    for durable in user.durables:
        publish += _durable(layout, event_stream(tenant), durable, subjects.events(tenant))
        if own_private:
            publish += _durable(layout, private_stream(tenant), durable, own_private)
    for duty in user.duties:
        if duty == "turns":
            publish.append(subjects.turns_of(tenant))
            continue
        if duty == "consolidate":
            # It answers callers of its own tenant, who reach it inside their account.
            subscribe.append(f"{layout.prefix}.rpc.{tenant}.*.*.consolidate.* {CONSOLIDATE_QUEUE}")
            publish.append(f"_INBOX.{tenant}.>")
            bucket = consolidate_bucket(tenant)
            publish += [f"$KV.{bucket}.>", f"{layout.js_prefix}.STREAM.MSG.GET.KV_{bucket}"]
            publish += layout.siblings(tenant, "router")[:1]  # the judge, where it is switched on
            continue
        subscribe += [f"{subject} {duty}" for subject in layout.siblings(tenant, duty)]
        answers = "_R_.>" if layout.kind == "accounts" else "_INBOX.memory.worker.>"
        if answers not in publish:
            publish.append(answers)
        if duty == "router":
            publish.append(f"_INBOX.{tenant}.system.consolidate.>")
    return Permissions(publish=publish, subscribe=subscribe)


def _durable(layout: Layout, stream: str, durable: str, filter_subject: str) -> list[str]:
    """One durable consumer, by exact name and filter: make it, look at it, pull from it, acknowledge."""
    api = layout.js_prefix
    return [
        f"{api}.CONSUMER.CREATE.{stream}.{durable}.{filter_subject}",
        f"{api}.CONSUMER.INFO.{stream}.{durable}",
        f"{api}.CONSUMER.MSG.NEXT.{stream}.{durable}",
        *_acks(stream, durable),
    ]


def _acks(stream: str, consumer: str) -> list[str]:
    # Servers may write the acknowledgement subject with domain and account hash before the stream.
    return [f"$JS.ACK.{stream}.{consumer}.>", f"$JS.ACK.*.*.{stream}.{consumer}.>"]


def render(layout: Layout, users: Sequence[User]) -> str:
    """Write the accounts block of a server's configuration."""
    lines = [f"system_account: {SYSTEM_ACCOUNT}", "accounts {", f"  {SYSTEM_ACCOUNT} {{ users: [] }}"]
    lines += _worker_account(layout, users)
    if layout.kind == "accounts":
        for tenant in layout.tenants:
            lines += _tenant_account(layout, tenant, users)
    return "\n".join([*lines, "}", ""])


def _worker_account(layout: Layout, users: Sequence[User]) -> list[str]:
    inside = [user for user in users if layout.kind == "single" or user.tenant is None]
    lines = [f"  {WORKER_ACCOUNT} {{", "    jetstream: enabled", *_users(layout, inside)]
    if layout.kind == "accounts":
        lines += ["    exports: ["]
        for kind, subject, position in _positioned(layout):
            lines += [f'      {{ {kind}: "{subject}", account_token_position: {position} }}']
        for tenant in layout.tenants:
            for subject, streaming in _js_services(tenant):
                response = ", response_type: Stream" if streaming else ""
                lines += [f'      {{ service: "{subject}", accounts: ["{tenant}"]{response} }}']
        lines += ["    ]", "    imports: ["]
        for tenant in layout.tenants:
            for subject in layout.siblings(tenant):
                lines += [f'      {{ service: {{ account: "{tenant}", subject: "{subject}" }} }}']
        lines += ["    ]"]
    return [*lines, "  }"]


def _tenant_account(layout: Layout, tenant: str, users: Sequence[User]) -> list[str]:
    inside = [user for user in users if user.tenant == tenant]
    lines = [f'  "{tenant}" {{', *_users(layout, inside), "    exports: ["]
    for subject in layout.siblings(tenant):
        lines += [f'      {{ service: "{subject}", accounts: ["{WORKER_ACCOUNT}"] }}']
    lines += ["    ]", "    imports: ["]
    for kind, subject, _ in _positioned(layout):
        own = subject.replace("*", tenant, 1)
        lines += [f'      {{ {kind}: {{ account: "{WORKER_ACCOUNT}", subject: "{own}" }} }}']
    for subject, _ in _js_services(tenant):
        to = subject.replace(JS_API, TENANT_JS_PREFIX, 1)
        # Without the mapping the account's own JetStream would take the call.
        mapped = f', to: "{to}"' if to != subject else ""
        lines += [f'      {{ service: {{ account: "{WORKER_ACCOUNT}", subject: "{subject}" }}{mapped} }}']
    return [*lines, "    ]", "  }"]


def _positioned(layout: Layout) -> list[tuple[str, str, int]]:
    """Exports whose subject carries the tenant: kind, subject, and the tenant's place in it, counted from 1."""
    after_prefix = layout.prefix.count(".") + 3
    return [
        ("service", f"{layout.prefix}.rpc.*.>", after_prefix),
        ("service", f"{layout.turn_prefix}.*.completed.*", layout.turn_prefix.count(".") + 2),
        ("stream", f"{layout.prefix}.event.*.>", after_prefix),
        ("stream", f"{layout.prefix}.private-event.*.>", after_prefix),
    ]


def _js_services(tenant: str) -> list[tuple[str, bool]]:
    """JetStream calls of one tenant on its own event streams, and whether they answer with many messages."""
    services: list[tuple[str, bool]] = []
    for stream in (event_stream(tenant), private_stream(tenant)):
        services += [
            (f"{JS_API}.CONSUMER.CREATE.{stream}.>", False),
            (f"{JS_API}.CONSUMER.INFO.{stream}.*", False),
            (f"{JS_API}.CONSUMER.MSG.NEXT.{stream}.*", True),
            (f"$JS.ACK.{stream}.>", False),
            (f"$JS.ACK.*.*.{stream}.>", False),
        ]
    bucket = consolidate_bucket(tenant)
    return [*services, (f"{JS_API}.STREAM.MSG.GET.KV_{bucket}", False), (f"$KV.{bucket}.>", False)]


def _users(layout: Layout, users: Sequence[User]) -> list[str]:
    lines = ["    users: ["]
    for user in users:
        granted = permissions(layout, user)
        password = user.password_hash if user.password_hash.startswith("$NATS_") else f'"{user.password_hash}"'
        lines += [
            "      {",
            f'        user: "{user.name}", password: {password}',
            "        permissions {",
            f"          publish {{ allow: {_list(granted.publish)}, deny: {_list(granted.publish_deny)} }}"
            if granted.publish_deny
            else f"          publish {{ allow: {_list(granted.publish)} }}",
            f"          subscribe {{ allow: {_list(granted.subscribe)} }}",
            "        }",
            "      }",
        ]
    return [*lines, "    ]"]


def _list(values: list[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
