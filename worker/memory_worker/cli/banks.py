"""Commands on banks and rules."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from memory_contracts.errors import FunctionError
from memory_worker.cli import render
from memory_worker.cli.command import Group, pass_session
from memory_worker.cli.memories import BANK, REVISION, YES
from memory_worker.cli.session import Session

REVIEW = click.option("--review", type=click.Choice(["auto", "all"]), help="Whether every change waits for a person.")
EXPIRY = click.option("--expiry", type=click.Choice(["month", "quarter", "year", "never"]), help="When memories lapse.")
LAYERS = click.option("--layer", "layers", multiple=True, help="Bank read below this one; may be repeated.")
MANAGERS = click.option(
    "--manager", "managers", multiple=True, metavar="ROUTE.NAME", help="Who may read a private bank."
)


@click.group("banks", cls=Group, invoke_without_command=True)
@click.option("--trash", is_flag=True, help="Also what is in the trash.")
@click.pass_context
def banks(context: click.Context, trash: bool) -> None:
    """List banks, or make, change, delete, restore and wipe one."""
    if context.invoked_subcommand is None:
        session = context.ensure_object(Session)
        reply = session.call("bank.list", include_trash=trash or None)
        session.emit(reply, lambda: render.table(render.BANK_HEAD, map(render.bank, reply.banks)))


def _show(session: Session, reply: Any, word: str) -> None:
    session.emit(reply, lambda: f"{word}\n{render.table(render.BANK_HEAD, [render.bank(reply.bank)])}")


@banks.command("create")
@click.argument("name")
@click.option("--description")
@click.option("--owner", metavar="ROUTE.NAME", help="Makes it private to this caller.")
@MANAGERS
@LAYERS
@REVIEW
@EXPIRY
@click.option("--mirror/--no-mirror", default=None, help="Whether it is kept as markdown files too.")
@pass_session
def create(session: Session, /, name: str, managers: tuple[str, ...], layers: tuple[str, ...], **fields: Any) -> None:
    """Make a bank."""
    reply = session.call("bank.create", name=name, managers=managers or None, layers=layers or None, **fields)
    _show(session, reply, "created")


@banks.command("update")
@click.argument("name")
@click.option("--description")
@MANAGERS
@LAYERS
@REVIEW
@EXPIRY
@click.option("--mirror/--no-mirror", default=None, help="Whether it is kept as markdown files too.")
@pass_session
def update(session: Session, /, name: str, managers: tuple[str, ...], layers: tuple[str, ...], **fields: Any) -> None:
    """Change a bank's settings; a list that is given replaces the old one."""
    reply = session.call("bank.update", name=name, managers=managers or None, layers=layers or None, **fields)
    _show(session, reply, "updated")


@banks.command("delete")
@click.argument("name")
@YES
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Move a bank to the trash; its name is free at once, `banks restore` brings it back."""
    session.confirm(f"Move the bank {name} to the trash?", yes)
    _show(session, session.call("bank.delete", name=name), "in the trash")


@banks.command("restore")
@click.argument("name")
@click.option("--trash-id", help="Which one, when several of that name are in the trash.")
@pass_session
def restore(session: Session, name: str, trash_id: str | None) -> None:
    """Bring a bank back from the trash."""
    _show(session, session.call("bank.restore", name=name, trash_id=trash_id), "restored")


@banks.command("wipe")
@click.argument("name")
@click.option("--confirm-name", help="The name again, instead of typing it.")
@pass_session
def wipe(session: Session, name: str, confirm_name: str | None) -> None:
    """Destroy everything a bank holds, in every place. Nothing brings it back."""
    listed = session.call("bank.list", include_trash=True)
    held = next((bank.counts for bank in listed.banks if bank.name == name), None)
    if held is not None and not session.as_json:
        click.echo(
            f"{name} holds {held.live} live memories, {held.superseded} superseded, {held.deleted} deleted,"
            f" {held.expired} expired, {held.rules} rules. All of it will be destroyed."
        )
    typed = confirm_name or session.typed_again(f"Type {name} to destroy all of it", "--confirm-name")
    reply = session.call("bank.wipe", name=name, confirm_name=typed)
    session.emit(reply, lambda: render.receipt(reply.receipt))


@click.group("rules", cls=Group, invoke_without_command=True)
@BANK
@click.pass_context
def rules(context: click.Context, bank: str | None) -> None:
    """Show a bank's rules, or show, write, edit and remove one."""
    if context.invoked_subcommand is None:
        session = context.ensure_object(Session)
        reply = session.call("rule.list", bank=bank)
        while reply.cursor is not None:
            more = session.call("rule.list", bank=bank, cursor=reply.cursor)
            reply = msgspec.structs.replace(more, rules=[*reply.rules, *more.rules])
        session.emit(reply, lambda: "\n\n".join(map(render.rule, reply.rules)) or "no rules")


@rules.command("show")
@click.argument("name")
@BANK
@pass_session
def show(session: Session, name: str, bank: str | None) -> None:
    """Show one rule."""
    reply = session.call("rule.get", name=name, bank=bank)
    session.emit(reply, lambda: render.rule(reply.rule) if reply.rule else "removed")


@rules.command("set")
@click.argument("name")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False), required=False)
@click.option("--content", help="The text itself, instead of a file.")
@BANK
@click.option("--priority", type=int, help="Lower comes first.")
@REVISION
@pass_session
def set_(
    session: Session,
    name: str,
    file: str | None,
    content: str | None,
    bank: str | None,
    priority: int | None,
    if_revision: int | None,
) -> None:
    """Write a rule from FILE (- for standard input) or --content."""
    if (file is None) == (content is None):
        raise click.UsageError("give either FILE or --content")
    if file == "-":
        content = sys.stdin.read()
    elif file is not None:
        try:
            content = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.BadParameter(f"cannot be read as text: {error}", param_hint="FILE") from None
    reply = session.call(
        "rule.set", name=name, content=content, bank=bank, priority=priority, expected_revision=if_revision
    )
    _written(session, reply)


@rules.command("edit")
@click.argument("name")
@BANK
@pass_session
def edit(session: Session, name: str, bank: str | None) -> None:
    """Open a rule in $EDITOR; a change someone else made meanwhile is not overwritten."""

    async def read(client: Any) -> Any:
        try:
            return (await session.ask(client, "rule.get", name=name, bank=bank)).rule
        except FunctionError as error:
            if error.code != "not_found":
                raise
            return None

    old = session.run(read)
    before = old.content if old else ""
    after = click.edit(before, extension=".md")
    if after is None or after == before:
        click.echo("unchanged")
        return
    revision = old.revision if old else None
    _written(session, session.call("rule.set", name=name, content=after, bank=bank, expected_revision=revision))


@rules.command("remove")
@click.argument("name")
@BANK
@pass_session
def remove(session: Session, name: str, bank: str | None) -> None:
    """Remove a rule; its history stays, `memory revert` brings it back."""
    _written(session, session.call("rule.set", name=name, content="", bank=bank))


def _written(session: Session, reply: Any) -> None:
    def text() -> str:
        if reply.suggestion is not None:
            return f"waits for a person: `memory decide {reply.suggestion.id} approve`"
        return render.rule(reply.rule) if reply.rule else "removed"

    session.emit(reply, text)


COMMANDS: list[click.Command] = [banks, rules]
