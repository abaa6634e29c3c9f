"""Commands on the consolidate worker: run it, and have it run a bank, tell its schedule and its reports."""

import sys
from typing import Any

import click
import msgspec

from memory_worker.cli import render
from memory_worker.cli.command import Group, pass_session
from memory_worker.cli.memories import BANK
from memory_worker.cli.process import run_helper
from memory_worker.cli.session import CONSOLIDATE, EXIT_FAILING, Session


@click.group("consolidate", cls=Group, invoke_without_command=True)
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="End when standard input does.")
@click.pass_context
def consolidate(context: click.Context, stop_on_eof: bool) -> None:
    """Run the consolidate worker, or ask a running one."""
    if context.invoked_subcommand is not None:
        return
    from memory_consolidate import ConsolidateSettings, serve  # only here: the other commands need none of it

    session = context.ensure_object(Session)
    credentials = session.credentials(session.speaks_as or CONSOLIDATE)
    chosen = ConsolidateSettings(**msgspec.structs.asdict(session.settings().consolidate))
    run_helper(session, serve(credentials, chosen), stop_on_eof=stop_on_eof)


HEAD = ("bank", "state", "read", "found", "superseded", "suggested", "known", "carried", "skipped", "seconds", "run")


def _row(report: Any) -> tuple[object, ...]:
    found = sum(report.found.values())
    skipped = ", ".join(f"{reason} {count}" for reason, count in sorted(report.skipped.items()))
    seconds = (report.finished_at - report.started_at).total_seconds()
    state = f"{report.state}, dry run" if report.dry_run else report.state
    return (
        *(report.bank, state, report.memories, found, report.superseded, report.suggested, report.known),
        *(report.carried, skipped, f"{seconds:.1f}", report.run_id),
    )


def _reports(session: Session, reply: Any, busy: tuple[str, ...] = ()) -> None:
    def text() -> str:
        lines = [render.table(HEAD, map(_row, reply.reports))] if reply.reports else ["no reports"]
        lines += [f"{bank} is being worked on already" for bank in busy]
        lines += [click.style(f"{one.bank}: {render.clean(one.error)}", fg="red") for one in reply.reports if one.error]
        return "\n".join(lines)

    session.emit(reply, text)


@consolidate.command("run")
@BANK
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@pass_session
def run(session: Session, bank: str | None, dry_run: bool) -> None:
    """Look for duplicates in one bank, or in all, now; shifts no schedule."""
    reply = session.call("consolidate.run", bank=bank, dry_run=dry_run or None)
    _reports(session, reply, reply.busy)
    if any(report.state == "failed" for report in reply.reports):
        sys.exit(EXIT_FAILING)


@consolidate.command("status")
@pass_session
def status(session: Session) -> None:
    """Show which banks changed and when each runs next."""
    reply = session.call("consolidate.status")
    rows = [
        (
            one.bank,
            "running" if one.running else "changed" if one.dirty else "clean",
            render.moment(one.last_run_at),
            render.moment(one.next_at),
            one.carried,
        )
        for one in reply.banks
    ]
    session.emit(reply, lambda: render.table(("bank", "state", "last run", "next run", "carried"), rows))


@consolidate.command("report")
@BANK
@click.option("--limit", type=click.IntRange(1, 50), help="Reports.  [default: 10]")
@pass_session
def report(session: Session, bank: str | None, limit: int | None) -> None:
    """Show the last runs: found, done, suggested, skipped."""
    _reports(session, session.call("consolidate.report", bank=bank, limit=limit))


COMMANDS: list[click.Command] = [consolidate]
