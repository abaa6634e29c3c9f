"""Commands by which people review and undo: suggestions, decide, suggest, learn, entity, changes, revert, notices."""

import json
from typing import Any, get_args

import click

from memory_contracts.errors import invalid
from memory_contracts.records import CauseKind
from memory_worker.cli import render
from memory_worker.cli.command import Command, Group, pass_session
from memory_worker.cli.memories import BANK, YES, text_of
from memory_worker.cli.session import EXIT_REFUSED, Session

LIMIT = click.option("--limit", type=int, help="Entries on a page.  [default: 50]")
CURSOR = click.option("--cursor", help="Where the last page ended.")


def page(lines: list[str], cursor: str | None, empty: str) -> str:
    """Join a page and say how to see the next."""
    shown = lines or [empty]
    return "\n".join([*shown, render.dim(f"more: --cursor {cursor}")] if cursor else shown)


@click.command(cls=Command)
@BANK
@click.option(
    "--state", type=click.Choice(["open", "approved", "rejected", "stale", "expired"]), help="[default: open]"
)
@click.option("--target", metavar="ID", help="About this memory, entity or rule.")
@LIMIT
@CURSOR
@pass_session
def suggestions(
    session: Session, bank: str | None, state: str | None, target: str | None, limit: int | None, cursor: str | None
) -> None:
    """Show what waits for a person: what is believed now beside what is proposed."""
    reply = session.call("suggestion.list", bank=bank, state=state, target=target, limit=limit, cursor=cursor)

    def text() -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(reply.counts.items()) if count)
        lines = [render.suggestion(item) for item in reply.suggestions]
        return page(lines, reply.cursor, "nothing waits") + (f"\n{render.dim(counts)}" if counts else "")

    session.emit(reply, text)


@click.command(cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.argument("decision", type=click.Choice(["approve", "reject"]))
@click.option("--edit", metavar="JSON", help="Arguments that replace the proposed ones; one suggestion only.")
@YES
@pass_session
def decide(session: Session, ids: tuple[str, ...], decision: str, edit: str | None, yes: bool) -> None:
    """Approve or reject suggestions; a destructive one shows what will go and asks."""
    edited = session.checked(json_object, edit) if edit is not None else None
    if decision == "approve" and not yes:
        listed = session.run(lambda client: _open_ones(session, client, set(ids)))
        for item in listed:
            if item.destructive:
                click.echo(render.suggestion(item), err=True)
                session.confirm("This destroys values for good. Approve?", yes=False)
    reply = session.call("suggestion.decide", ids=list(ids), decision=decision, edit=edited)
    session.emit(reply, lambda: "\n".join(map(decided, reply.decided)))
    if any(one.error for one in reply.decided):
        raise SystemExit(EXIT_REFUSED)


async def _open_ones(session: Session, client: Any, ids: set[str]) -> list[Any]:
    """The open suggestions among `ids`."""
    found: list[Any] = []
    cursor = None
    while len(found) < len(ids):
        reply = await session.ask(client, "suggestion.list", limit=200, cursor=cursor)
        found += [item for item in reply.suggestions if item.id in ids]
        cursor = reply.cursor
        if cursor is None:
            break
    return found


def decided(one: Any) -> str:
    """What became of one suggestion."""
    lines = [f"{one.id} {one.state}" + (f": {render.clean(one.error)}" if one.error else "")]
    lines += [render.memory(one.memory)] if one.memory else []
    lines += [render.receipt(one.receipt)] if one.receipt else []
    return "\n".join(lines)


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object given on the command line."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise invalid(f"is not JSON: {error}", "edit") from None
    if not isinstance(value, dict):
        raise invalid("must be a JSON object", "edit")
    return value


def pairs(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Read `name=value` arguments; a value that is JSON is taken as such, anything else as text."""
    found: dict[str, Any] = {}
    for argument in arguments:
        name, is_pair, value = argument.partition("=")
        if not is_pair:
            raise invalid(f"{argument!r} is not written name=value", "args")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


@click.command(cls=Command)
@click.argument("function")
@click.argument("arguments", nargs=-1, metavar="NAME=VALUE...")
@click.option("--reason", required=True)
@BANK
@pass_session
def suggest(session: Session, function: str, arguments: tuple[str, ...], reason: str, bank: str | None) -> None:
    """Propose a change that a person decides, e.g. `suggest save text="…" --reason "said twice"`."""
    change = {"function": function, "args": session.checked(pairs, arguments)}
    reply = session.call("suggest", change=change, reason=reason, bank=bank)
    session.emit(
        reply, lambda: f"{reply.outcome}\n{render.suggestion(reply.suggestion)}" if reply.suggestion else reply.outcome
    )


@click.command(cls=Command)
@click.argument("text")
@click.option("--turn", "turn_id", metavar="ID", help="The turn it is about.")
@BANK
@pass_session
def learn(session: Session, text: str, turn_id: str | None, bank: str | None) -> None:
    """Read a correction or a note on a bad run (TEXT, or -); everything found is a suggestion."""
    reply = session.call("learn", text=text_of(text), turn_id=turn_id, bank=bank)
    session.emit(reply, lambda: "\n".join(map(render.suggestion, reply.suggestions)) or "nothing that would last")


@click.group("entity", cls=Group)
def entity() -> None:
    """Look up whom and what memories are about."""


@entity.command("list")
@click.argument("query", required=False)
@BANK
@LIMIT
@CURSOR
@pass_session
def entity_list(session: Session, query: str | None, bank: str | None, limit: int | None, cursor: str | None) -> None:
    """List entities, those whose name or alias matches QUERY."""
    reply = session.call("entity.list", query=query, bank=bank, limit=limit, cursor=cursor)
    session.emit(reply, lambda: page([render.entity(item) for item in reply.entities], reply.cursor, "no entities"))


@entity.command("show")
@click.argument("entity")
@BANK
@pass_session
def entity_show(session: Session, entity: str, bank: str | None) -> None:
    """Open the page of ENTITY (id, name or alias): facts, mentions, what waits."""
    reply = session.call("entity.get", entity=entity, bank=bank)

    def text() -> str:
        parts = [render.entity(reply.entity)]
        parts += [f"  {render.clean(link)}" for link in reply.entity.links]
        for fact in reply.facts:
            weak = "" if fact.current else click.style("  contradicted by a better one", fg="yellow")
            said = render.dim(f"{fact.memory.tier} {render.day(fact.memory.updated_at)} {fact.memory.id}")
            parts.append(f"  {render.clean(f'{fact.property}: {fact.value}')}  {said}{weak}")
        parts += [render.memory(record) for record in reply.mentions]
        parts += [render.suggestion(item) for item in reply.suggestions]
        if reply.cut:
            parts.append(render.dim(f"{len(reply.mentions)} of {reply.total}"))
        return "\n".join(parts)

    session.emit(reply, text)


def _entity_reply(session: Session, reply: Any) -> None:
    def text() -> str:
        if reply.suggestion is not None:
            return f"waits for a person: `memory decide {reply.suggestion.id} approve`"
        return f"{reply.outcome}\n{render.entity(reply.entity)}" if reply.entity else str(reply.outcome)

    session.emit(reply, text)


@entity.command("link")
@click.argument("entity")
@click.argument("ref")
@click.option("--off", is_flag=True, help="Remove the link.")
@pass_session
def entity_link(session: Session, entity: str, ref: str, off: bool) -> None:
    """Link ENTITY to a reference: a URL, a ticket, a file."""
    _entity_reply(session, session.call("entity.unlink" if off else "entity.link", entity=entity, ref=ref))


@entity.command("alias")
@click.argument("entity")
@click.argument("channel")
@click.argument("value")
@pass_session
def entity_alias(session: Session, entity: str, channel: str, value: str) -> None:
    """Give ENTITY another name (CHANNEL name) or a contact identity (CHANNEL email, github, …)."""
    _entity_reply(session, session.call("entity.alias", entity=entity, alias={"channel": channel, "value": value}))


@entity.command("merge")
@click.argument("entity")
@click.argument("into")
@click.option("--reason")
@pass_session
def entity_merge(session: Session, entity: str, into: str, reason: str | None) -> None:
    """Propose that ENTITY and INTO are one; INTO stays."""
    _entity_reply(session, session.call("entity.merge", entity=entity, into=into, reason=reason))


@entity.command("properties")
@pass_session
def properties(session: Session) -> None:
    """List the properties that claims use."""
    reply = session.call("property.list")
    head = ("property", "values", "protected")
    rows = [(item.name, item.cardinality, "yes" if item.protected else "") for item in reply.properties]
    session.emit(reply, lambda: render.table(head, rows))


@entity.command("propose")
@click.argument("name")
@click.option("--one", is_flag=True, help="Holds one value at a time.")
@click.option("--protect", is_flag=True, help="Its values are kept encrypted.")
@click.option("--reason")
@pass_session
def propose(session: Session, name: str, one: bool, protect: bool, reason: str | None) -> None:
    """Propose a property."""
    cardinality = "one" if one else "many"
    reply = session.call(
        "property.propose", name=name, cardinality=cardinality, protected=protect or None, reason=reason
    )
    waiting = reply.suggestion
    session.emit(
        reply, lambda: f"waits for a person: `memory decide {waiting.id} approve`" if waiting else reply.outcome
    )


@click.command(cls=Command)
@BANK
@click.option("--target", metavar="ID", help="Of this memory, rule or entity.")
@click.option("--actor", metavar="ROUTE.NAME")
@click.option("--cause", metavar="ID", help="Of this request, turn, run or suggestion.")
@click.option("--cause-kind", type=click.Choice(list(get_args(CauseKind))))
@click.option("--session", "session_id", metavar="ID", help="What this session taught.")
@click.option("--after-seq", type=int, help="Oldest first from here on.")
@LIMIT
@CURSOR
@pass_session
def changes(session: Session, /, **fields: Any) -> None:
    """Show what changed, newest first."""
    reply = session.call("changes.list", **fields)
    session.emit(reply, lambda: page([render.change(row) for row in reply.changes], reply.cursor, "no changes"))


@click.command(cls=Command)
@click.argument("id")
@pass_session
def revert(session: Session, id: str) -> None:
    """Undo a change (chg_…), or all that a turn, a session or a run did, by its id."""
    reply = session.call("changes.revert", id=id)

    def text() -> str:
        lines = [render.change(row) for row in reply.reverted]
        lines += [click.style(f"not undone {one.id}: {render.clean(one.reason)}", fg="yellow") for one in reply.refused]
        return "\n".join(lines) or "nothing to undo"

    session.emit(reply, text)
    if reply.refused:
        raise SystemExit(EXIT_REFUSED)


@click.group("notices", cls=Group, invoke_without_command=True)
@BANK
@click.option("--acked", is_flag=True, help="Also those told already.")
@LIMIT
@CURSOR
@click.pass_context
def notices(context: click.Context, bank: str | None, acked: bool, limit: int | None, cursor: str | None) -> None:
    """Show what a person should be told, or say that it was told."""
    if context.invoked_subcommand is None:
        session = context.ensure_object(Session)
        reply = session.call("notice.list", bank=bank, include_acked=acked or None, limit=limit, cursor=cursor)
        session.emit(reply, lambda: page([render.notice(item) for item in reply.notices], reply.cursor, "no notices"))


@notices.command("ack")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@pass_session
def ack(session: Session, ids: tuple[str, ...]) -> None:
    """Say that a person has been told."""
    reply = session.call("notice.ack", ids=list(ids))
    session.emit(reply, lambda: f"{reply.acked} acknowledged")


COMMANDS: list[click.Command] = [suggestions, decide, suggest, learn, entity, changes, revert, notices]
