"""Commands that destroy or uncover values: forget, erase, reveal."""

from typing import Any

import click

from memory_contracts.errors import FunctionError
from memory_worker.cli import render
from memory_worker.cli.command import Command, pass_session
from memory_worker.cli.memories import YES
from memory_worker.cli.review import decided
from memory_worker.cli.session import Session

MENTIONS_SHOWN = 200
"""Mentions printed at a terminal; `--json` has all."""


@click.command(cls=Command)
@click.argument("name")
@click.option("--confirm-name", metavar="NAME", help="The name again, instead of typing it.")
@click.option("--keep", multiple=True, metavar="ID", help="A mention that is not about this person; may be repeated.")
@click.option("--never-again", is_flag=True, help="Also learn nothing new about this person.")
@YES
@pass_session
def forget(
    session: Session, name: str, confirm_name: str | None, keep: tuple[str, ...], never_again: bool, yes: bool
) -> None:
    """Forget a person: destroy every value about NAME, everywhere.

    Shows every text that mentions the name or an alias, and asks. Without --yes and without a terminal it only
    makes the suggestion that `memory decide` approves.
    """
    typed = confirm_name or session.typed_again(f"Type {name} again to go on", "--confirm-name")
    fields: dict[str, Any] = {"never_again": never_again or None, "keep": list(keep) or None}
    reply = session.call("person.forget", entity=name, confirm_name=typed, **fields)
    if session.as_json and not yes:
        session.emit(reply, str)
        return
    if not session.as_json:
        click.echo(_mentions(reply))
    if not yes and not session.at_terminal():
        click.echo(f"waits for a person: `memory decide {reply.suggestion.id} approve`")
        return
    try:
        session.confirm("Destroy these values for good?", yes)
    except SystemExit:
        click.echo(f"it waits as {reply.suggestion.id}; `memory decide {reply.suggestion.id} reject` drops it")
        raise
    done = session.call("suggestion.decide", ids=[reply.suggestion.id], decision="approve")
    session.emit(done, lambda: "\n".join(map(decided, done.decided)))
    if any(one.error for one in done.decided):
        session.fail(FunctionError("conflict", done.decided[0].error or "not done"))


def _mentions(reply: Any) -> str:
    shown = reply.mentions[:MENTIONS_SHOWN]
    rows = [(mention.kind, mention.bank, mention.id, mention.text) for mention in shown]
    lines = [render.table(("what", "bank", "id", "text"), rows)] if rows else ["no text mentions this name"]
    more = len(reply.mentions) - len(shown)
    if more > 0 or reply.cut:
        lines.append(render.dim(f"and {more or 'more'} others; --json shows more"))
    lines.append(f"{len(reply.mentions)} texts mention this name; --keep ID keeps one that is not about the person")
    return "\n".join(lines)


@click.command(cls=Command)
@click.argument("id")
@YES
@pass_session
def erase(session: Session, id: str, yes: bool) -> None:
    """Destroy one memory: every revision and copy of it. Nothing brings it back."""
    if not yes:
        seen = session.call("history", id=id, limit=200)
        count = f"{len(seen.revisions)}{'+' if seen.cursor else ''}"
        session.confirm(f"Destroy {id} with its {count} revisions and all events about it?", yes)
    reply = session.call("erase", id=id)
    session.emit(reply, lambda: render.receipt(reply.receipt))


@click.command(cls=Command)
@click.argument("ref")
@pass_session
def reveal(session: Session, ref: str) -> None:
    """Show one protected value, this once."""
    reply = session.call("value.reveal", ref=ref)
    session.emit(reply, lambda: render.clean(reply.value, keep_lines=True))


COMMANDS: list[click.Command] = [forget, erase, reveal]
