"""Commands that look after what is kept: doctor, reload, files, export, import, backup, restore."""

import asyncio
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import msgspec

from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import Check, DoctorReply, FilesStatusReply
from memory_worker.cli import render
from memory_worker.cli.backup import BackupError, Manifest, back_up
from memory_worker.cli.backup import restore as restore_archive
from memory_worker.cli.command import Command, Group, pass_session
from memory_worker.cli.memories import BANK
from memory_worker.cli.session import EXIT_DEGRADED, EXIT_FAILING, Session
from memory_worker.store import DataDirectoryInUse, DataDirectoryUnusable
from memory_worker.store.library import StoreError

POLL_S = 0.2
"""Pause between looks at how far an export or import is."""
UNKNOWN = 1_000_000_000
"""Length of a bar until the worker tells how much there is: it stands at nothing."""

_EXIT = {"ok": 0, "degraded": EXIT_DEGRADED, "failing": EXIT_FAILING}


@click.command(cls=Command)
@pass_session
def doctor(session: Session) -> None:
    """Try everything for real and say what is wrong and what to do.

    Exit code 0 = ok, 10 = degraded, 11 = failing.
    """

    async def examine(client: Any) -> DoctorReply:
        try:
            reply: DoctorReply = await session.ask(client, "doctor")
        except FunctionError as error:
            if error.code != "unavailable":
                raise
            hint = "start it with `memory up`, or see its log"
            line = Check(name="worker", state="failing", detail=f"does not answer: {error.message}", hint=hint)
            return DoctorReply(state="failing", checks=[line], version=metadata.version("memory-worker"))
        return reply

    reply = session.run(examine)
    session.emit(reply, lambda: render.doctor(reply))
    sys.exit(_EXIT[reply.state])


@click.command(cls=Command)
@BANK
@click.option("--rewrite", is_flag=True, help="Then write every file anew from the records.")
@pass_session
def reload(session: Session, bank: str | None, rewrite: bool) -> None:
    """Read every markdown file again."""
    reply = session.call("reload", bank=bank, rewrite=rewrite or None)

    def text() -> str:
        lines = [f"{reply.read} read, {reply.changed} changed" + (f", {reply.written} written" if rewrite else "")]
        return "\n".join([*lines, *(f"  not read: {render.clean(problem)}" for problem in reply.problems)])

    session.emit(reply, text)


@click.group("files", cls=Group)
def files() -> None:
    """Look at the markdown files that mirror the banks."""


@files.command("status")
@pass_session
def files_status(session: Session) -> None:
    """Show how far behind the files are, when they were last in step, and which cannot be read."""
    reply: FilesStatusReply = session.call("files.status")
    session.emit(reply, lambda: render.files(reply))


@click.command("export", cls=Command)
@BANK
@click.option("--include-protected", is_flag=True, help="With the protected values in plain text.")
@pass_session
def export(session: Session, bank: str | None, include_protected: bool) -> None:
    """Write one archive (files, journal, manifest) on the worker's side and say where it lies."""
    reply = _followed(session, "export", bank=bank, include_protected=include_protected or None)
    session.emit(
        reply,
        lambda: f"{render.clean(reply.path)}\n{reply.bytes:,} bytes, {_counts(reply.counts)}\nsha256 {reply.sha256}",
    )


@click.command("import", cls=Command)
@click.argument("path", type=click.Path(path_type=Path))
@BANK
@click.option("--trust", is_flag=True, help="Keep the archive's tiers; the journal records that you said so.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@pass_session
def import_(session: Session, path: Path, bank: str | None, trust: bool, dry_run: bool) -> None:
    """Read an archive, a folder of markdown facts, or a CLAUDE.md / AGENTS.md rule file."""
    reply = _followed(
        session, "import", path=str(path.absolute()), bank=bank, trust=trust or None, dry_run=dry_run or None
    )

    def text() -> str:
        head = f"{'would change' if reply.dry_run else 'done'}: {_counts(reply.counts)}"
        return "\n".join([head, *(f"  {render.clean(problem)}" for problem in reply.problems)])

    session.emit(reply, text)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {render.clean(name)}" for name, count in sorted(counts.items())) or "nothing"


def _followed(session: Session, function: str, **fields: Any) -> Any:
    """Call a long function and show meanwhile how far it is, on standard error and to people alone."""
    if session.as_json or not sys.stderr.isatty():
        return session.call(function, **fields)

    async def run(client: MemoryClient) -> Any:
        calling = asyncio.ensure_future(session.ask(client, function, **fields))
        with click.progressbar(length=UNKNOWN, label=f"{function}ing", file=sys.stderr) as bar:
            while not (await asyncio.wait([calling], timeout=POLL_S))[0]:
                await _advance(session, client, function, bar)
            if calling.exception() is None:
                bar.update((bar.length or 0) - bar.pos)
        return calling.result()

    return session.run(run)


async def _advance(session: Session, client: MemoryClient, function: str, bar: Any) -> None:
    """Move the bar to where the worker is; a question that is not answered leaves it where it stands."""
    try:
        status: FilesStatusReply = await session.ask(client, "files.status")
    except FunctionError:
        return
    for run in status.running:
        if run.function == function and run.total:
            bar.length = run.total
            bar.update(run.done - bar.pos)


@click.command(cls=Command)
@click.argument("archive", type=click.Path(dir_okay=False, path_type=Path), required=False)
@pass_session
def backup(session: Session, archive: Path | None) -> None:
    """Copy everything into ARCHIVE (tar.gz), also while the worker writes.

    Left out: the bus's own store, which the journal fills again, and credentials, which are made anew.
    """
    data_dir = session.settings().data_dir
    archive = archive or Path(f"memory-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    size = sum(path.stat().st_size for path in data_dir.glob("*/memory.db"))
    hidden = session.as_json or not sys.stderr.isatty()
    try:
        with click.progressbar(length=max(size, 1), label="copying", file=sys.stderr, hidden=hidden) as bar:
            manifest = back_up(data_dir, archive, bar.update)
    except BackupError as error:
        session.fail(FunctionError("conflict", str(error)))
    except (OSError, StoreError) as error:
        session.fail(FunctionError("storage_full", f"the backup was not made: {error}"))
    _show(session, archive, manifest)


@click.command(cls=Command)
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@pass_session
def restore(session: Session, archive: Path) -> None:
    """Unpack ARCHIVE into an empty --data-dir after checking every file and store in it."""
    data_dir = session.settings().data_dir
    hidden = session.as_json or not sys.stderr.isatty()
    try:
        with click.progressbar(length=1, label="checking", file=sys.stderr, hidden=hidden):
            manifest = restore_archive(archive, data_dir)
    except (BackupError, DataDirectoryInUse, DataDirectoryUnusable) as error:
        session.fail(FunctionError("conflict", str(error)))
    except OSError as error:
        session.fail(FunctionError("storage_full", f"nothing was restored: {error}"))
    _show(session, data_dir, manifest)


def _show(session: Session, where: Path, manifest: Manifest) -> None:
    total = sum(entry.bytes for entry in manifest.files)
    if session.as_json:
        line = {
            "path": str(where),
            "tenants": manifest.tenants,
            "files": len(manifest.files),
            "bytes": total,
            "made_at": manifest.made_at,
            "version": manifest.version,
        }
        click.echo(msgspec.json.encode(line).decode())
        return
    tenants = ", ".join(f"{name} (version {version})" for name, version in manifest.tenants.items())
    click.echo(f"{where}\n{len(manifest.files):,} files, {total:,} bytes, tenants: {tenants}")


COMMANDS: list[click.Command] = [doctor, reload, files, export, import_, backup, restore]
