"""Commands on memories: save, recall, list, get, history, update, delete, pin, tags, why, preview."""

import sys
from datetime import UTC, datetime
from typing import Any, get_args

import click

from memory_contracts.errors import invalid
from memory_contracts.names import Confidence, Kind, MemoryState, Tier
from memory_contracts.records import Memory
from memory_worker.cli import render
from memory_worker.cli.command import Command, pass_session
from memory_worker.cli.session import NULL, Session

KINDS = click.Choice(list(get_args(Kind)))
TIERS = click.Choice(list(get_args(Tier)))
STATES = click.Choice(list(get_args(MemoryState)))
CONFIDENCES = click.Choice(list(get_args(Confidence)))
BANK = click.option("--bank", metavar="NAME", help="The bank.  [default: main]")
REVISION = click.option("--if-revision", type=click.IntRange(min=1), help="Only if this is still the revision.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")


class When(click.ParamType[str]):
    """A point in time: RFC 3339, or a plain date or minute, which then means UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Give RFC 3339 with an offset."""
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no date or time; write 2026-11-30 or 2026-11-30T09:00Z", param, ctx)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()


WHEN = When()


def text_of(text: str) -> str:
    """Give the text, or what stands on standard input for `-`."""
    return sys.stdin.read().strip() if text == "-" else text


def claim_of(text: str | None) -> dict[str, str] | None:
    """Read `entity.property=value`."""
    if text is None:
        return None
    left, is_claim, value = text.partition("=")
    entity, has_property, name = left.rpartition(".")
    if not (is_claim and has_property and entity and name and value):
        raise invalid("a claim is written entity.property=value", "claim")
    return {"entity": entity.strip(), "property": name.strip(), "value": value.strip()}


def outcome(record: Memory | None, word: str, waiting: Any) -> str:
    """Say what a write led to."""
    if record is not None:
        return f"{word}\n{render.memory(record)}"
    return (
        f"waits for a person: `memory decide {waiting.id} approve`\n{render.suggestion(waiting)}" if waiting else word
    )


@click.command(cls=Command)
@click.argument("text")
@BANK
@click.option("--kind", type=KINDS, help="A filing aid.  [default: fact]")
@click.option("--subject", help="Short key: writing to it again replaces what it said.")
@click.option("--slot", help="Observer only: a key that is rewritten in place.")
@click.option("--entity", "entities", multiple=True, help="Whom or what it is about; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="May be repeated.")
@click.option("--about", multiple=True, help="Context handle such as repo:api; may be repeated.")
@click.option("--claim", metavar="ENTITY.PROPERTY=VALUE", help="The typed part.")
@click.option("--confidence", type=CONFIDENCES)
@click.option("--pin", is_flag=True, help="Never expires; no automatic path touches it.")
@click.option("--protect", is_flag=True, help="Keep the text encrypted; shown as •••.")
@click.option("--occurred", type=WHEN, help="When it happened.")
@click.option("--expires", type=WHEN, help="When it lapses.")
@click.option("--key", help="Idempotency key: the same key has one effect for 24 hours.")
@pass_session
def save(
    session: Session,
    text: str,
    bank: str | None,
    kind: str | None,
    subject: str | None,
    slot: str | None,
    entities: tuple[str, ...],
    tags: tuple[str, ...],
    about: tuple[str, ...],
    claim: str | None,
    confidence: str | None,
    pin: bool,
    protect: bool,
    occurred: str | None,
    expires: str | None,
    key: str | None,
) -> None:
    """Keep one statement (TEXT, or - for standard input)."""
    reply = session.call(
        "save",
        key,
        text=text_of(text),
        bank=bank,
        kind=kind,
        subject=subject,
        slot=slot,
        entities=entities or None,
        tags=tags or None,
        about=about or None,
        claim=session.checked(claim_of, claim),
        confidence=confidence,
        pinned=pin or None,
        protected=protect or None,
        occurred_at=occurred,
        expires_at=expires,
    )
    session.emit(reply, lambda: outcome(reply.memory, reply.outcome, reply.suggestion))


@click.command(cls=Command)
@click.argument("query")
@BANK
@click.option("--limit", type=int, help="Most memories.  [default: 8]")
@click.option("--tag")
@click.option("--kind", type=KINDS)
@click.option("--tier", type=TIERS)
@click.option("--entity")
@click.option("--about", multiple=True, help="Context handle; may be repeated.")
@click.option("--session", "session_id", metavar="ID", help="Only what this session taught.")
@click.option("--since", type=WHEN)
@click.option("--until", type=WHEN)
@click.option("--superseded", is_flag=True, help="Also what was replaced.")
@click.option("--explain", is_flag=True, help="Show how each score came about.")
@pass_session
def recall(
    session: Session,
    query: str,
    bank: str | None,
    limit: int | None,
    tag: str | None,
    kind: str | None,
    tier: str | None,
    entity: str | None,
    about: tuple[str, ...],
    session_id: str | None,
    since: str | None,
    until: str | None,
    superseded: bool,
    explain: bool,
) -> None:
    """Find the memories relevant to QUERY."""
    reply = session.call(
        "recall",
        query=query,
        bank=bank,
        limit=limit,
        tag=tag,
        kind=kind,
        tier=tier,
        entity=entity,
        about=about or None,
        session_id=session_id,
        since=since,
        until=until,
        include_superseded=superseded or None,
        explain=explain or None,
    )

    def text() -> str:
        found = [render.recalled(item) for item in reply.memories] or ["nothing relevant"]
        return "\n".join([*found, render.arm_line(reply.mode, reply.arms, reply.cut)])

    session.emit(reply, text)


@click.command("list", cls=Command)
@BANK
@click.option("--tag")
@click.option("--kind", type=KINDS)
@click.option("--tier", type=TIERS)
@click.option("--entity")
@click.option("--session", "session_id", metavar="ID", help="Only what this session taught.")
@click.option("--state", type=STATES, help="[default: live]")
@click.option("--superseded", is_flag=True, help="Also what was replaced.")
@click.option("--order", type=click.Choice(["newest", "oldest", "updated"]), help="[default: newest]")
@click.option(
    "--protected-value", "value", metavar="VALUE", help="Only memories whose protected value is exactly this."
)
@click.option("--limit", type=int, help="Memories on a page.  [default: 50]")
@click.option("--cursor", help="Where the last page ended.")
@click.option("--all", "every", is_flag=True, help="All pages.")
@click.option("--read", "aloud", is_flag=True, help="As text to be read out, grouped.")
@pass_session
def list_(
    session: Session,
    bank: str | None,
    tag: str | None,
    kind: str | None,
    tier: str | None,
    entity: str | None,
    session_id: str | None,
    state: str | None,
    superseded: bool,
    order: str | None,
    value: str | None,
    limit: int | None,
    cursor: str | None,
    every: bool,
    aloud: bool,
) -> None:
    """Page through a bank."""
    fields: dict[str, Any] = {
        "bank": bank,
        "tag": tag,
        "kind": kind,
        "tier": tier,
        "entity": entity,
        "session_id": session_id,
        "state": state,
        "include_superseded": superseded or None,
        "order": order,
        "protected_value": value,
        "limit": limit or (200 if every else None),
        "render": aloud or None,
    }

    async def read(client: Any) -> None:
        at = cursor
        while True:
            reply = await session.ask(client, "list", **fields, cursor=at)
            session.emit(reply, lambda reply=reply: _page(reply, aloud, more=not every))  # type: ignore[misc]
            at = reply.cursor
            if not every or at is None:
                return

    session.run(read)


def _page(reply: Any, aloud: bool, *, more: bool) -> str:
    if aloud:
        lines = [render.clean(reply.text or "", keep_lines=True)]
    else:
        lines = [render.memory(record) for record in reply.memories] or ["nothing here yet"]
    if reply.total > len(reply.memories):
        lines.append(render.dim(f"{len(reply.memories)} of {reply.total}"))
    if more and reply.cursor:
        lines.append(render.dim(f"more: --cursor {reply.cursor}"))
    return "\n".join(lines)


@click.command(cls=Command)
@click.argument("id")
@pass_session
def get(session: Session, id: str) -> None:
    """Show one memory with everything known about it."""
    reply = session.call("get", id=id)
    session.emit(reply, lambda: render.memory_page(reply.memory))


@click.command(cls=Command)
@click.argument("id")
@click.option("--limit", type=int)
@click.option("--cursor")
@pass_session
def history(session: Session, id: str, limit: int | None, cursor: str | None) -> None:
    """Show every revision of a memory, oldest first."""
    reply = session.call("history", id=id, limit=limit, cursor=cursor)
    session.emit(
        reply, lambda: "\n".join([*map(render.revision, reply.revisions), *_more(reply.cursor)]) or "no revisions"
    )


def _more(cursor: str | None) -> list[str]:
    return [render.dim(f"more: --cursor {cursor}")] if cursor else []


@click.command(cls=Command)
@click.argument("id")
@click.option("--text", help="The corrected statement; - reads standard input.")
@click.option("--kind", type=KINDS)
@click.option("--subject", help="Empty removes it.")
@click.option("--entity", "entities", multiple=True, help="Replaces all; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Replaces all; may be repeated; one empty removes all.")
@click.option("--about", multiple=True, help="Replaces all; may be repeated.")
@click.option("--claim", metavar="ENTITY.PROPERTY=VALUE", help="Empty removes it.")
@click.option("--confidence", type=CONFIDENCES)
@click.option("--expires", type=WHEN)
@click.option("--never-expires", is_flag=True)
@REVISION
@pass_session
def update(
    session: Session,
    id: str,
    text: str | None,
    kind: str | None,
    subject: str | None,
    entities: tuple[str, ...],
    tags: tuple[str, ...],
    about: tuple[str, ...],
    claim: str | None,
    confidence: str | None,
    expires: str | None,
    never_expires: bool,
    if_revision: int | None,
) -> None:
    """Correct a memory; only what is given changes."""
    fields: dict[str, Any] = {}
    if text is not None:
        fields["text"] = text_of(text)
    if subject is not None:
        fields["subject"] = subject or NULL
    for name, values in (("entities", entities), ("tags", tags), ("about", about)):
        if values:
            fields[name] = [value for value in values if value]
    if claim is not None:
        fields["claim"] = session.checked(claim_of, claim) if claim else NULL
    if never_expires:
        fields["expires_at"] = NULL
    elif expires is not None:
        fields["expires_at"] = expires
    reply = session.call("update", id=id, expected_revision=if_revision, kind=kind, confidence=confidence, **fields)
    session.emit(reply, lambda: outcome(reply.memory, reply.outcome, reply.suggestion))


@click.command(cls=Command)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@REVISION
@pass_session
def delete(session: Session, ids: tuple[str, ...], if_revision: int | None) -> None:
    """Delete memories; each leaves a tombstone and can be brought back with `memory revert`."""

    async def each(client: Any) -> None:
        for id in ids:
            reply = await session.ask(client, "delete", id=id, expected_revision=if_revision)
            session.emit(reply, lambda reply=reply: outcome(reply.memory, "deleted", reply.suggestion))  # type: ignore[misc]

    session.run(each)


@click.command(cls=Command)
@click.argument("id")
@click.option("--off", is_flag=True, help="Un-pin.")
@REVISION
@pass_session
def pin(session: Session, id: str, off: bool, if_revision: int | None) -> None:
    """Pin a memory: it never expires, and no automatic path touches it."""
    reply = session.call("pin", id=id, pinned=not off, expected_revision=if_revision)
    session.emit(reply, lambda: outcome(reply.memory, "un-pinned" if off else "pinned", reply.suggestion))


@click.command(cls=Command)
@BANK
@pass_session
def tags(session: Session, bank: str | None) -> None:
    """Count the tags of a bank."""
    reply = session.call("tags", bank=bank)
    session.emit(reply, lambda: render.table(("tag", "memories"), [(tag.tag, tag.count) for tag in reply.tags]))


@click.command(cls=Command)
@click.argument("id")
@click.option("--limit", type=int)
@click.option("--cursor")
@pass_session
def why(session: Session, id: str, limit: int | None, cursor: str | None) -> None:
    """Show what a turn was given, or which turns a memory (mem_…) was given to."""
    field = "memory_id" if id.startswith("mem_") else "turn_id"
    reply = session.call("why", limit=limit, cursor=cursor, **{field: id})
    session.emit(
        reply, lambda: "\n".join([*map(render.use, reply.uses), *_more(reply.cursor)]) or "not given to any turn"
    )


@click.command(cls=Command)
@click.argument("message")
@BANK
@click.option("--session", "session_id", metavar="ID", help="As this session would be given it.")
@click.option("--agent", help="Layer this agent's private bank in.")
@click.option("--about", multiple=True, help="Context handle; may be repeated.")
@pass_session
def preview(
    session: Session, message: str, bank: str | None, session_id: str | None, agent: str | None, about: tuple[str, ...]
) -> None:
    """Show what a turn with MESSAGE would be given, and what not; records nothing."""
    reply = session.call("preview", message=message, bank=bank, session_id=session_id, agent=agent, about=about or None)

    def text() -> str:
        parts = [render.dim("— system —"), render.clean(reply.system, keep_lines=True) or "(no rules)"]
        parts += [render.dim("— memories —"), render.clean(reply.memories, keep_lines=True) or "(none)"]
        if reply.left_out:
            parts.append(render.dim("— left out —"))
            parts += [f"{item.score:.2f}  {item.id}  {item.reason}" for item in reply.left_out]
        parts += [render.clean(f"told: {notice.text}") for notice in reply.notices]
        if reply.truncated:
            parts.append("shortened: " + render.clean(", ".join(reply.truncated)))
        if reply.reason:
            parts.append(render.clean(reply.reason))
        parts.append(render.arm_line(reply.mode, reply.arms, None))
        return "\n".join(parts)

    session.emit(reply, text)


COMMANDS: list[click.Command] = [save, recall, list_, get, history, update, delete, pin, tags, why, preview]
