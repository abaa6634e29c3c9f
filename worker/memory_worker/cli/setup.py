"""Commands that set things up: config, credentials, admin."""

import asyncio
import os

import click
import msgspec

from memory_contracts.connection import Bus, BusError
from memory_contracts.credentials import Credentials, CredentialsError, load_credentials
from memory_contracts.errors import FunctionError, invalid
from memory_contracts.subjects import Subjects
from memory_worker.bus.accounts import Duty, Layout, LayoutKind, Role
from memory_worker.bus.credentials import BusFiles, add_credentials, ensure_defaults, read_registry
from memory_worker.bus.server import ServerError, reload_server, url_of
from memory_worker.bus.streams import StreamDrift, create_streams, verify_streams
from memory_worker.cli import render
from memory_worker.cli.command import Group, pass_session
from memory_worker.cli.session import CREDENTIALS_ENV, EXIT_FAILING, Session
from memory_worker.settings_source import describe, shown

ACCEPTED_S = 5.0
"""Longest wait for a running server to let a new identity in."""


@click.group("config", cls=Group)
def config() -> None:
    """Check and show the settings: file, then environment, then flags."""


@config.command("check")
@pass_session
def config_check(session: Session) -> None:
    """Read the settings and name everything that is wrong with them; exit code 2 if anything is."""
    loaded = session.loaded()
    warnings = [render.clean(warning) for warning in loaded.warnings]
    if session.as_json:
        click.echo(msgspec.json.encode({"ok": True, "warnings": warnings}).decode())
    else:
        click.echo("\n".join([*(f"warning: {warning}" for warning in warnings), "the settings are fine"]))


@config.command("show")
@click.option("--changed", is_flag=True, help="Only what is not the default.")
@pass_session
def config_show(session: Session, changed: bool) -> None:
    """Show every setting with where it came from; secrets are masked."""
    loaded = session.loaded()
    values = shown(loaded.settings)
    rows = [
        (key, value, loaded.origins.get(key, "default"))
        for key, value in values.items()
        if not changed or key in loaded.origins
    ]
    if session.as_json:
        found = {key: {"value": value, "source": source} for key, value, source in rows}
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(render.table(("setting", "value", "from"), rows))


@config.command("table")
def config_table() -> None:
    """Print the documentation of every setting as a markdown table."""
    click.echo(markdown_table())


def markdown_table() -> str:
    """Document every setting, from the struct itself."""
    lines = ["| setting | default | unit, bounds | takes effect | what it does |", "|---|---|---|---|---|"]
    for doc in describe():
        bounds = ", ".join(part for part in (doc.unit, doc.bounds) if part) or doc.type
        when = "reload" if doc.reload else "restart"
        default = f"`{doc.default}`" if doc.default else "–"
        lines.append(f"| `{doc.key}` | {default} | {bounds} | {when} | {doc.description} |")
    return "\n".join(lines)


@click.group("credentials", cls=Group)
def credentials() -> None:
    """Make and list the identities that may use the bus."""


@credentials.command("init")
@click.option("--url", required=True, help="Where the bus will be, e.g. nats://nats:4222.")
@click.option(
    "--layout",
    "kind",
    type=click.Choice(["accounts", "single"]),
    default="accounts",
    show_default=True,
    help="One account per tenant, or one account with permissions alone.",
)
@pass_session
def credentials_init(session: Session, url: str, kind: LayoutKind) -> None:
    """Make what a server of your own needs: its include file, and the first identities of every tenant."""
    settings = session.settings()
    tenants = tuple(name for name in settings.tenants if name != "*")
    if not tenants:
        session.fail(invalid("name the tenants in the setting `tenants`", "tenants"))
    layout = Layout(
        kind=kind,
        tenants=tenants,
        prefix=settings.prefix,
        turn_prefix=settings.turn_prefix,
        turn_stream=settings.turn_stream,
        session_subjects=(settings.session_get_subject, settings.session_messages_subject),
        router_subjects=(
            settings.router_complete_subject,
            settings.router_embed_subject,
            settings.router_models_subject,
        ),
    )
    registry = ensure_defaults(settings.data_dir, url, layout)
    files = BusFiles(settings.data_dir)
    if session.as_json:
        line = {
            "include": str(files.accounts_conf),
            "credentials": str(files.credentials),
            "users": len(registry.users),
        }
        click.echo(msgspec.json.encode(line).decode())
    else:
        click.echo(f"include in the server's configuration: {files.accounts_conf}")
        click.echo(f"credentials of {len(registry.users)} identities: {files.credentials}")


@credentials.command("add")
@click.option("--route", required=True, type=click.Choice(["human", "agent", "observer", "system", "ui"]))
@click.option("--principal", required=True, metavar="NAME", help="Who it is, e.g. coder.")
@click.option("--tenant", default="local", show_default=True)
@click.option("--durable", "durables", multiple=True, metavar="NAME", help="A durable consumer it may own.")
@click.option(
    "--duty",
    "duties",
    multiple=True,
    type=click.Choice(["turns", "session", "router", "consolidate"]),
    help="What a system identity may do besides; may be repeated.",
)
@click.option("--url", help="Where the bus is.  [default: where the others are]")
@pass_session
def credentials_add(
    session: Session,
    route: Role,
    principal: str,
    tenant: str,
    durables: tuple[str, ...],
    duties: tuple[Duty, ...],
    url: str | None,
) -> None:
    """Make one identity: its credentials file, and its user in the server's configuration."""
    settings = session.settings()
    files = BusFiles(settings.data_dir)
    try:
        path = add_credentials(
            settings.data_dir,
            route=route,
            principal=principal,
            url=url or _known_url(files) or settings.nats_url or url_of(settings.port),
            tenant=tenant,
            durables=durables,
            duties=duties,
        )
    except ValueError as error:
        session.fail(FunctionError("invalid_input", str(error)))
    try:
        reloaded = reload_server(files)
    except ServerError as error:
        session.fail(FunctionError("unavailable", str(error)))
    told = reloaded and session.guard(lambda: _accepted(load_credentials(path)))
    if session.as_json:
        click.echo(msgspec.json.encode({"path": str(path), "server_reloaded": told}).decode())
        return
    click.echo(str(path))
    hint = (
        "the running server has read it" if told else f"a server of your own includes {files.accounts_conf}: reload it"
    )
    click.echo(render.dim(hint), err=True)


async def _accepted(made: Credentials) -> bool:
    """Wait until the server lets the new identity in; it reads its users a moment after it was told to."""
    deadline = asyncio.get_running_loop().time() + ACCEPTED_S
    while True:
        try:
            await (await Bus.connect(made, name="memory-credentials", wait=0)).close()
            return True
        except BusError:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.05)


def _known_url(files: BusFiles) -> str | None:
    """Where the worker's own credentials point."""
    try:
        return load_credentials(files.credentials_of("worker")).url
    except CredentialsError:
        return None


@credentials.command("list")
@pass_session
def credentials_list(session: Session) -> None:
    """List the identities; passwords are not shown."""
    files = BusFiles(session.settings().data_dir)
    registry = read_registry(files)
    users = registry.users if registry else ()
    rows = [
        (user.tenant or "", user.role, user.principal, ", ".join(user.duties), ", ".join(user.durables))
        for user in sorted(users, key=lambda user: (user.tenant or "", user.role, user.principal))
    ]
    if session.as_json:
        keys = ("tenant", "route", "principal", "duties", "durables")
        for row in rows:
            click.echo(msgspec.json.encode(dict(zip(keys, row, strict=True))).decode())
    else:
        click.echo(render.table(("tenant", "route", "principal", "duties", "durables"), rows))


@click.group("admin", cls=Group)
def admin() -> None:
    """Prepare a bus of your own for the worker."""


@admin.command("streams")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True)
@click.option("--check", is_flag=True, help="Only say what differs; exit code 11 if anything does.")
@pass_session
def admin_streams(session: Session, replicas: int, check: bool) -> None:
    """Make the streams and the intake consumer, or correct what differs; needs the admin's credentials."""
    settings = session.settings()
    who = _admin(session)
    tenants = [name for name in settings.tenants if name != "*"]
    if not tenants:
        session.fail(invalid("name the tenants in the setting `tenants`", "tenants"))
    subjects = Subjects(settings.prefix, settings.turn_prefix, settings.turn_stream)

    async def prepare() -> str:
        bus = await Bus.connect(who, name="memory-admin")
        try:
            if not check:
                await create_streams(bus, subjects, tenants, replicas=replicas)
            await verify_streams(bus, subjects, tenants)
        except StreamDrift as error:
            return str(error)
        finally:
            await bus.close()
        return ""

    differs = session.guard(prepare)
    if session.as_json:
        click.echo(msgspec.json.encode({"ok": not differs, "differs": differs}).decode())
    else:
        click.echo(differs or f"streams and consumer are as they should be for {', '.join(tenants)}")
    if differs:
        raise SystemExit(EXIT_FAILING)


def _admin(session: Session) -> Credentials:
    named = session.speaks_as or (None if os.environ.get(CREDENTIALS_ENV) else "admin")
    return session.credentials(named)


COMMANDS: list[click.Command] = [config, credentials, admin]
