"""Writes the server configurations of `deploy/nats/`: both layouts, two tenants, passwords from the environment.

Run as `python -m memory_worker.bus.examples`; a test fails when the files are stale or the server refuses them.
"""

import re
import sys
from pathlib import Path
from typing import get_args

from memory_worker.bus.accounts import DUTY_OF, Layout, LayoutKind, Role, User, render
from memory_worker.bus.credentials import DEFAULTS

TENANTS = ("local", "acme")
DIRECTORY = Path(__file__).resolve().parents[3] / "deploy" / "nats"

_HEAD = """# {title}
#
# Made by `python -m memory_worker.bus.examples`. `memory credentials init` and `memory credentials add` write the same
# accounts block with generated users; this file shows the whole of it for a server that is configured by hand.
#
# Every password is the value of an environment variable, a bcrypt hash in double quotes:
#   export NATS_WORKER='"$2a$04$…"'
# A client's inbox prefix must be the one its subscribe permission names.
{notes}
port: 4222
max_payload: 1MB
max_connections: 1024
max_subscriptions: 4096
jetstream {{
  store_dir: "/var/lib/nats"
  # An acknowledged turn must survive a power cut: sync before the acknowledgement.
  sync_interval: always
}}
"""

_OWN: tuple[Role, ...] = ("worker", "admin")
_TITLES: dict[LayoutKind, tuple[str, str]] = {
    "accounts": (
        "Layout (a): an account for the worker and its streams, one account per tenant",
        "#\n# A tenant's account imports only subjects that bear its own name; the server refuses any other import.\n",
    ),
    "single": (
        "Layout (b): one account, per-user permissions alone",
        "#\n# Start the worker with `require_own_inbox = true`: it then answers only into the caller's own inbox.\n",
    ),
}


def example(kind: LayoutKind) -> str:
    """Give the whole configuration of one layout."""
    title, notes = _TITLES[kind]
    return _HEAD.format(title=title, notes=notes) + render(Layout(kind=kind, tenants=TENANTS), _users())


def variables(text: str) -> list[str]:
    """Name the environment variables that a configuration reads."""
    return sorted(set(re.findall(r"password: \$(\w+)", text)))


def write(directory: Path = DIRECTORY) -> None:
    """Write both files."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in get_args(LayoutKind):
        (directory / f"{kind}.conf").write_text(example(kind), encoding="utf-8")


def _users() -> list[User]:
    users = [
        User(role=role, principal=role, inbox_prefix=f"_INBOX.memory.{role}", password_hash=f"$NATS_{role}".upper())
        for role in _OWN
    ]
    for tenant in TENANTS:
        for role, principal in (*DEFAULTS, ("ui", "dashboard")):
            duty = DUTY_OF.get(principal) if role == "system" else None
            durable = role in ("human", "agent", "ui") or duty == "consolidate"
            users.append(
                User(
                    role=role,
                    principal=principal,
                    tenant=tenant,
                    inbox_prefix=f"_INBOX.{tenant}.{role}.{principal}",
                    password_hash=f"$NATS_{tenant}_{role}_{principal}".upper(),
                    durables=(f"{role}-{principal}", f"{role}-{principal}-banks") if durable else (),
                    duties=(duty,) if duty else (),
                )
            )
    return users


if __name__ == "__main__":
    write()
    sys.stdout.write(f"written to {DIRECTORY}\n")
