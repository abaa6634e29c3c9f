"""Commands around turns: publish one or many, watch what changes, see how reading goes."""

import asyncio
import functools
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from ulid import ULID

from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError, invalid
from memory_contracts.events import BankChanged, ItemChanged
from memory_contracts.functions.operations import ExtractionStatusReply
from memory_contracts.names import DEFAULT_BANK
from memory_contracts.turns import TurnCompleted, TurnMessage
from memory_worker.cli import render
from memory_worker.cli.command import Command, Group, pass_session
from memory_worker.cli.memories import BANK, text_of
from memory_worker.cli.session import EXIT_UNAVAILABLE, Session

HARNESS = "system-harness"
"""The identity that may publish turns."""
POLL_S = 0.1
"""Pause between looks at the backlog while waiting."""
QUIET_S = 3.0
"""An empty backlog that did not move this long is drained: the rest were turns read before."""
PUBLISH_BATCH = 500
"""Turns handed to the bus at once."""


@click.command(cls=Command)
@click.argument("text")
@click.option("--session", "session_id", default="terminal", show_default=True, help="The session it belongs to.")
@click.option("--assistant", help="What the assistant answered.")
@BANK
@click.option("--wait/--no-wait", default=True, help="Wait until it is read and show what was kept.  [default: wait]")
@pass_session
def turn(session: Session, text: str, session_id: str, assistant: str | None, bank: str | None, wait: bool) -> None:
    """Publish one finished turn in which the user said TEXT (or -)."""
    now = datetime.now(UTC)
    turn_id = f"turn-{ULID()}"
    messages = [TurnMessage(id=f"{turn_id}-u", role="user", text=text_of(text), at=now)]
    if assistant is not None:
        messages.append(TurnMessage(id=f"{turn_id}-a", role="assistant", text=assistant, at=now))
    event = TurnCompleted(
        turn_id=turn_id,
        session_id=session_id,
        status="completed",
        completed_at=now,
        metadata={"memory_bank": bank} if bank else None,
        messages=messages,
    )

    async def publish(client: MemoryClient) -> Any:
        before = await session.ask(client, "extraction.status") if wait else None
        await client.publish_turn(event)
        if before is None:
            return None
        await drained(session, client, before, 1, lambda _: None)
        return await session.ask(client, "changes.list", cause=turn_id, limit=200)

    found = session.run(publish, name=session.speaks_as or HARNESS)
    if session.as_json:
        kept = [row.target for row in found.changes] if found else None
        click.echo(msgspec.json.encode({"turn_id": turn_id, "session_id": session_id, "changed": kept}).decode())
        return
    click.echo(render.dim(f"turn {turn_id} of session {session_id}"))
    if found is not None:
        rows = [render.change(row) for row in found.changes]
        texts = [_told(row.after) for row in found.changes]
        lines = [f"{line}\n{told}" if told else line for line, told in zip(rows, texts, strict=True)]
        click.echo("\n".join(lines) or "nothing to keep in it")


def _told(after: Any) -> str:
    text = after.get("text") if isinstance(after, dict) else None
    return render.paragraph(text, "    ") if isinstance(text, str) else ""


async def drained(
    session: Session, client: MemoryClient, before: ExtractionStatusReply, stored: int, progress: Any
) -> ExtractionStatusReply:
    """Wait until `stored` more turns are read or parked; `progress` is told how many are."""
    loop = asyncio.get_running_loop()
    moved_at = loop.time()
    last = None
    while True:
        status: ExtractionStatusReply = await session.ask(client, "extraction.status")
        finished = status.done + status.parked_total - before.done - before.parked_total
        progress(min(finished, stored))
        if finished >= stored:
            return status
        seen = (status.backlog, status.in_work, finished)
        if seen != last:
            last, moved_at = seen, loop.time()
        if status.backlog + status.in_work == 0 and loop.time() - moved_at > QUIET_S:
            return status
        if session.timeout_s is not None and loop.time() - moved_at > session.timeout_s:
            raise FunctionError(
                "unavailable",
                f"{stored - finished} turns are still waiting and nothing moves",
                hint="`memory extraction` says what they wait for; they are not lost",
            )
        await asyncio.sleep(POLL_S)


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--bank", metavar="NAME", help="Use this bank instead of the one each turn names.")
@click.option("--wait/--no-wait", default=True, help="Wait until all are read.  [default: wait]")
@pass_session
def replay(session: Session, file: Path, bank: str | None, wait: bool) -> None:
    """Publish the turn events of FILE (JSON lines), wait until they are read, and count what came of it."""
    turns = session.checked(lambda path: list(read_turns(path, bank)), file)
    if not turns:
        session.fail(invalid(f"{file} holds no turns", "FILE"))
    banks = Counter((one.metadata or {}).get("memory_bank", DEFAULT_BANK) for one in turns)
    quiet = session.as_json or not sys.stderr.isatty()

    async def run(client: MemoryClient) -> tuple[int, ExtractionStatusReply | None, ExtractionStatusReply | None]:
        before = await session.ask(client, "extraction.status") if wait else None
        stored = 0
        with click.progressbar(length=len(turns), label="publishing", file=sys.stderr, hidden=quiet) as bar:
            for start in range(0, len(turns), PUBLISH_BATCH):
                part = turns[start : start + PUBLISH_BATCH]
                stored += await client.publish_turns(part)
                bar.update(len(part))
        if before is None:
            return stored, None, None
        with click.progressbar(length=stored or 1, label="reading   ", file=sys.stderr, hidden=quiet) as bar:
            after = await drained(session, client, before, stored, lambda done: bar.update(done - bar.pos))
            bar.update((stored or 1) - bar.pos)
        return stored, before, after

    started = datetime.now(UTC)
    stored, before, after = session.run(run, name=session.speaks_as or HARNESS)
    report: dict[str, Any] = {
        "turns": len(turns),
        "new": stored,
        "sessions": len({one.session_id for one in turns}),
        "banks": dict(banks),
        "seconds": round((datetime.now(UTC) - started).total_seconds(), 2),
    }
    if before is not None and after is not None:
        report |= {
            "kept": after.kept - before.kept,
            "parked": after.parked_total - before.parked_total,
            "backlog": after.backlog + after.in_work,
        }
    if session.as_json:
        click.echo(msgspec.json.encode(report).decode())
    else:
        click.echo(_report(report))
    if report.get("backlog"):
        sys.exit(EXIT_UNAVAILABLE)


def _report(report: dict[str, Any]) -> str:
    used = ", ".join(f"{render.clean(str(name))} ({count} turns)" for name, count in report["banks"].items())
    lines = [
        f"{report['turns']} turns of {report['sessions']} sessions, {report['new']} new, in {report['seconds']} s",
        f"bank: {used}",
    ]
    if "kept" in report:
        lines.append(f"kept {report['kept']} memories; parked {report['parked']}; waiting {report['backlog']}")
    first = next(iter(report["banks"]))
    lines.append(render.dim(f"memory list --bank {render.clean(str(first))}"))
    return "\n".join(lines)


def read_turns(file: Path, bank: str | None) -> Iterator[TurnCompleted]:
    """Read turn events, one a line; the first that does not fit is refused with its line number."""
    stream = sys.stdin.buffer if str(file) == "-" else file.open("rb")
    with stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                event = msgspec.json.decode(line, type=TurnCompleted)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise invalid(f"{file} line {number} is no turn event: {error}", "FILE") from None
            if bank is not None:
                event.metadata = {**(event.metadata or {}), "memory_bank": bank}
            yield event


@click.command(cls=Command)
@click.option("--bank", metavar="NAME", help="Only this bank.  [default: all shared banks]")
@click.option("--owner", metavar="ROUTE.NAME", help="The private bank of this owner.")
@click.option("--durable", metavar="NAME", help="Miss nothing between runs; a name of your credentials' durables.")
@click.option("--count", type=click.IntRange(min=1), help="Leave after this many.")
@pass_session
def watch(session: Session, bank: str | None, owner: str | None, durable: str | None, count: int | None) -> None:
    """Show changes as they happen (Ctrl-C ends it)."""

    async def run(client: MemoryClient) -> None:
        shown = 0

        async def follow(triggers: Any) -> None:
            nonlocal shown
            async with triggers as events:
                async for event in events:
                    session.emit(event, functools.partial(_event, event))
                    shown += 1
                    if count is not None and shown >= count:
                        raise _Enough

        sources = [client.on_item_changed(bank=bank, owner=owner, durable=durable)]
        if durable is None:
            sources.append(client.on_bank_changed(bank=bank, owner=owner))  # type: ignore[arg-type]
        try:
            async with asyncio.TaskGroup() as group:
                for triggers in sources:
                    group.create_task(follow(triggers))
                if not session.as_json:
                    click.echo(render.dim("watching; Ctrl-C ends it"), err=True)
        except* _Enough:
            pass

    session.run(run)


class _Enough(Exception):
    """As many events as were asked for have been shown."""


def _event(event: ItemChanged | BankChanged) -> str:
    who = f"{event.actor.route}.{event.actor.principal}"
    head = f"{render.moment(event.at)}  {event.event_type}"
    if isinstance(event, BankChanged):
        what = f"bank {event.bank}" + (f" rule {event.rule}" if event.rule else "")
        return f"{render.clean(f'{head}  {what}')}  {render.dim(render.clean(f'{who} · {event.bank_seq}'))}"
    note = render.dim(render.clean(f"{who} · {event.bank} {event.bank_seq} · {event.memory_id}"))
    text = "\n" + render.paragraph(event.memory.text, "    ") if event.memory else ""
    return f"{render.clean(head)}  {note}{text}"


@click.group("extraction", cls=Group, invoke_without_command=True)
@click.pass_context
def extraction(context: click.Context) -> None:
    """Show how reading turns goes: backlog, parked turns, what was refused."""
    if context.invoked_subcommand is None:
        _status(context.ensure_object(Session))


def _status(session: Session) -> None:
    reply = session.call("extraction.status")
    session.emit(reply, lambda: render.extraction(reply))


@extraction.command("status")
@pass_session
def extraction_status(session: Session) -> None:
    """Show how reading turns goes."""
    _status(session)


@extraction.command("retry")
@click.argument("ids", nargs=-1, metavar="TURN_ID...")
@click.option("--all", "every", is_flag=True, help="All parked turns.")
@pass_session
def extraction_retry(session: Session, ids: tuple[str, ...], every: bool) -> None:
    """Read parked turns again."""
    if bool(ids) == every:
        raise click.UsageError("give turn ids, or --all")
    reply = session.call("extraction.retry", ids=list(ids) or None, all=every or None)
    session.emit(reply, lambda: f"{reply.retried} put back to work")


COMMANDS: list[click.Command] = [turn, replay, watch, extraction]
