"""Writes archives that are whole as of one journal row, while writes go on."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from memory_contracts.errors import FunctionError, not_found
from memory_contracts.functions.operations import ExportReply
from memory_contracts.records import Bank, Memory, Rule
from memory_worker.clock import Clock, to_datetime
from memory_worker.files import layout
from memory_worker.files.archive import (
    FORMAT,
    JOURNAL,
    LEARNED,
    SUFFIX,
    ArchiveWriter,
    Manifest,
    Progress,
    json_line,
    no_progress,
)
from memory_worker.files.format import render_bank, render_memory, render_rule
from memory_worker.files.naming import memory_names
from memory_worker.files.ports import Feed, Snapshot
from memory_worker.store.journal import JournalRow, change_of

PAGE = 500
"""Memories or journal rows read at once."""

Reveal = Callable[[str], Awaitable[str]]
"""Gives the protected value of a reference."""

_memory = msgspec.json.Decoder(Memory).decode
_rule = msgspec.json.Decoder(Rule).decode
_bank = msgspec.json.Decoder(Bank).decode


class _State:
    """The records of the chosen banks; about 1 KB of memory per memory while an archive is written."""

    def __init__(self) -> None:
        self.banks: dict[str, Bank] = {}
        self.rules: dict[tuple[str, str], Rule] = {}
        self.memories: dict[str, tuple[str, bytes]] = {}

    def put(self, memory: Memory) -> None:
        self.memories[memory.id] = (memory.bank, msgspec.json.encode(memory))

    def drop_lapsed(self, now: datetime) -> None:
        """Let go of what is over by now, whether a sweep has written it or not."""
        found = {key: _memory(record).expires_at for key, (_, record) in self.memories.items()}
        for key in [key for key, expires in found.items() if expires is not None and expires <= now]:
            del self.memories[key]

    def drop_bank(self, name: str) -> None:
        self.banks.pop(name, None)
        self.rules = {key: rule for key, rule in self.rules.items() if key[0] != name}
        self.memories = {key: kept for key, kept in self.memories.items() if kept[0] != name}


class Exporter:
    """Makes the archives of one tenant in its folder of exports."""

    def __init__(self, root: Path, tenant: str, version: str, feed: Feed, snapshot: Snapshot, clock: Clock) -> None:
        self._folder = root / layout.EXPORTS
        self._tenant = tenant
        self._version = version
        self._feed = feed
        self._snapshot = snapshot
        self._clock = clock

    async def export(
        self,
        visible: Callable[[Bank], bool],
        bank: str | None = None,
        *,
        reveal: Reveal | None = None,
        progress: Progress = no_progress,
    ) -> ExportReply:
        """Write one archive of a bank, or of every bank that is `visible`; protected values are in it only by `reveal`.

        Raises `not_found` for a bank that is not there or not visible, and `conflict` where its name is taken.
        """

        def wanted(one: Bank) -> bool:
            return visible(one) and bank in (None, one.name)

        state, seq = await self._collect(wanted)
        if bank is not None and bank not in state.banks:
            raise not_found(f"no bank {bank}", "bank")
        at = to_datetime(self._clock.now())
        state.drop_lapsed(at)
        values = {} if reveal is None else await _values(state, reveal)
        name = f"memory-{bank or 'all'}-{at:%Y%m%dT%H%M%S}.{at.microsecond:06d}Z{SUFFIX}"
        try:
            writer = await asyncio.to_thread(ArchiveWriter, self._folder / name)
        except FileExistsError as error:
            raise _taken() from error
        try:
            counts = await self._write(writer, state, values, progress)
            counts["journal"] = await self._write_journal(writer, state, seq)
            manifest = Manifest(
                format=FORMAT,
                worker=self._version,
                tenant=self._tenant,
                created_at=at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
                seq=seq,
                banks=tuple(sorted(state.banks)),
                protected=reveal is not None,
                counts=counts,
                files=dict(sorted(writer.files.items())),
            )
            size, digest = await asyncio.to_thread(writer.finish, manifest)
        except FileExistsError as error:
            writer.abandon()
            raise _taken() from error
        except BaseException:
            writer.abandon()
            raise
        return ExportReply(path=str(writer.path), bytes=size, sha256=digest, counts=counts)

    async def _collect(self, wanted: Callable[[Bank], bool]) -> tuple[_State, int]:
        """Read every record, then what changed meanwhile, until nothing has: the state at that row, and its number."""
        state = _State()
        seq = self._feed.head()
        for bank in await self._snapshot.banks():
            if wanted(bank):
                await self._read_bank(state, bank)
        while seq < self._feed.head():
            rows = await self._feed.rows(seq, PAGE)
            for row in rows:
                await self._replay(state, row, wanted)
                seq = row.seq
        return state, seq

    async def _read_bank(self, state: _State, bank: Bank) -> None:
        state.banks[bank.name] = bank
        for rule in await self._snapshot.rules(bank.name):
            state.rules[bank.name, rule.name] = rule
        after: str | None = ""
        while after is not None:
            page, after = await self._snapshot.memories(bank.name, after, PAGE)
            for memory in page:
                state.put(memory)

    async def _replay(self, state: _State, row: JournalRow, wanted: Callable[[Bank], bool]) -> None:
        if row.type in ("bank.trashed", "bank.wiped"):
            state.drop_bank(row.bank)
        elif row.type.startswith("bank.") and row.after is not None:
            bank = _bank(row.after)
            if wanted(bank):
                state.banks[bank.name] = bank
                if row.type == "bank.restored":
                    await self._read_bank(state, bank)
        if row.bank not in state.banks:
            return
        if row.type.startswith("memory."):
            memory = None if row.after is None else _memory(row.after)
            if memory is not None and memory.state == "live":
                state.put(memory)
            else:
                state.memories.pop(row.target, None)
        elif row.type == "rule.set":
            if row.after is None:
                state.rules.pop((row.bank, row.target), None)
            else:
                state.rules[row.bank, row.target] = _rule(row.after)

    async def _write(
        self, writer: ArchiveWriter, state: _State, values: dict[str, str], progress: Progress
    ) -> dict[str, int]:
        """Write banks by name, each with its settings, lines, memories and rules, so that an import reads in order."""
        counts = {"banks": len(state.banks), "memories": 0, "rules": len(state.rules), "protected_left_out": 0}
        unwritable = 0
        total = len(state.memories)
        progress(0, total)
        for name in sorted(state.banks):
            folder = layout.bank_folder(name)
            await asyncio.to_thread(self._write_bank, writer, state, name)
            ids = sorted(key for key, (bank, _) in state.memories.items() if bank == name)
            taken: set[str] = set()
            for start in range(0, len(ids), PAGE):
                records = [state.memories[key][1] for key in ids[start : start + PAGE]]
                kept, failed = await asyncio.to_thread(_write_memories, writer, folder, records, taken, values)
                counts["memories"] += kept
                counts["protected_left_out"] += len(records) - kept - failed
                unwritable += failed
                progress(counts["memories"] + counts["protected_left_out"] + unwritable, total)
        return counts | ({"unwritable_left_out": unwritable} if unwritable else {})

    def _write_bank(self, writer: ArchiveWriter, state: _State, name: str) -> None:
        folder = layout.bank_folder(name)
        writer.add(layout.bank_file(folder), render_bank(state.banks[name]))
        rules = [rule for (bank, _), rule in sorted(state.rules.items()) if bank == name]
        lines = [line for rule in rules for line in rule.lines]
        if lines:
            writer.add(f"{folder}/{LEARNED}", b"".join(json_line(line) for line in lines))
        for rule in rules:
            writer.add(layout.rule_file(folder, rule.name), render_rule(rule))

    async def _write_journal(self, writer: ArchiveWriter, state: _State, seq: int) -> int:
        """Write the changes under the archived banks' names, but none of a private bank that had the name before."""
        count = 0
        at = 0
        with tempfile.TemporaryFile(dir=self._folder) as spool:
            while at < seq:
                rows = [row for row in await self._feed.rows(at, PAGE) if row.seq <= seq]
                if not rows:
                    break
                at = rows[-1].seq
                kept = [row for row in rows if row.bank in state.banks and row.owner == state.banks[row.bank].owner]
                count += len(kept)
                lines = b"".join(json_line(change_of(row)) for row in kept)
                await asyncio.to_thread(spool.write, lines)
            await asyncio.to_thread(writer.add_stream, JOURNAL, spool)
        return count


def _taken() -> FunctionError:
    return FunctionError("conflict", "an archive was made at this very moment", hint="ask again")


async def _values(state: _State, reveal: Reveal) -> dict[str, str]:
    """Reveal the protected values of the chosen banks, by reference; one that was erased meanwhile is left out."""

    async def one(ref: str) -> str | None:
        try:
            return await reveal(ref)
        except FunctionError as error:
            if error.code != "not_found":
                raise
            return None

    decoded = (_memory(record).protected for _, record in state.memories.values())
    refs = [ref for ref in decoded if ref is not None]
    values: dict[str, str] = {}
    # Each value is a transaction of its own; those of a page share their commits.
    for start in range(0, len(refs), PAGE):
        page = refs[start : start + PAGE]
        found = await asyncio.gather(*(one(ref) for ref in page))
        values |= {ref: value for ref, value in zip(page, found, strict=True) if value is not None}
    return values


def _write_memories(
    writer: ArchiveWriter, folder: str, records: Sequence[bytes], taken: set[str], values: dict[str, str]
) -> tuple[int, int]:
    """On a thread: add memories; gives how many, and how many an old release kept with a time that no file can say.

    A protected one without its value is left out.
    """
    kept = failed = 0
    for record in records:
        memory = _memory(record)
        if memory.protected is not None:
            if memory.protected not in values:
                continue
            memory = msgspec.structs.replace(memory, text=values[memory.protected])
        try:
            data = render_memory(memory, full=True)
        except OverflowError:
            failed += 1
            continue
        # A name made of a protected value would repeat it outside the file.
        text = memory.text if memory.protected is None else ""
        names = memory_names(memory.id, memory.subject, text)
        name = next((one for one in names if one not in taken), f"{memory.id}.md")
        taken.add(name)
        writer.add(f"{layout.memories_folder(folder)}/{name}", data)
        kept += 1
    return kept, failed
