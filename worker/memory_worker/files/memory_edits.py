"""Reads one memory file that a person made, changed, copied or renamed, and does what it asks."""

import asyncio
from typing import Any

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import PinRequest
from memory_contracts.normal import normalise
from memory_contracts.records import Memory, ProposedChange
from memory_worker.files import changes, layout
from memory_worker.files.disk import Disk, Look
from memory_worker.files.format import MemoryFile, parse_memory
from memory_worker.files.frontmatter import Unreadable
from memory_worker.files.outcome import Later, Refused, cause_of, refusal, stale
from memory_worker.files.ports import Commands, Ledger, Snapshot
from memory_worker.files.problems import Problems
from memory_worker.files.removals import Removals
from memory_worker.files.writer import Wanted, Writer
from memory_worker.store.ledger import FileEntry, FileKind, LedgerChange


class Edit(msgspec.Struct, frozen=True):
    """A file as it was met: its place, what stands there, and what was recorded at its path."""

    path: str
    bank: str
    folder: str
    look: Look
    entry: FileEntry | None
    keep: bool
    """Whether the bank is mirrored, so that the file stays when it was read."""

    @property
    def cause(self) -> str:
        """What the journal names as the cause of what comes of it."""
        return cause_of(self.path, self.look.digest)

    def standing(self, target: str, revision: int, kind: FileKind = "memory") -> FileEntry:
        """Give the entry of this file as it stands, for a record at a revision."""
        return FileEntry(self.path, self.folder, kind, target, revision, self.look.digest)


class MemoryEdits:
    """Turns memory files into requests; over an edit of an older revision the store wins, and a suggestion is made."""

    def __init__(
        self,
        disk: Disk,
        writer: Writer,
        snapshot: Snapshot,
        ledger: Ledger,
        commands: Commands,
        problems: Problems,
        removals: Removals,
    ) -> None:
        self._disk = disk
        self._writer = writer
        self._snapshot = snapshot
        self._ledger = ledger
        self._commands = commands
        self._problems = problems
        self._removals = removals

    async def read(self, edit: Edit) -> bool:
        """Read a file and do what it asks; tells whether that changed anything in the store.

        Raises `Refused` and `Unreadable` for what a person has to correct, and `Later`.
        """
        file = parse_memory(edit.look.data)
        try:
            return await self._read(edit, file)
        except FunctionError as error:
            raise refusal(error) from error

    async def _read(self, edit: Edit, file: MemoryFile) -> bool:
        claimed = file.id
        if edit.entry is not None and claimed in (None, edit.entry.target):
            return await self._changed(edit, file, edit.entry.target, edit.entry)
        other = None
        if claimed is not None:
            other = (await self._ledger.of_targets(edit.folder, "memory", [claimed])).get(claimed)
        if other is not None and other.path != edit.path and not await self._holds(other):
            # Its own file is gone, so this is that file under another name.
            self._removals.found(other)
            if edit.entry is not None and edit.entry.target != other.target:
                self._removals.suspect(edit.entry, displaced=True)
            return await self._renamed(edit, file, other)
        if edit.entry is not None:
            return await self._changed(edit, file, edit.entry.target, edit.entry)
        if claimed is None:
            return await self._new(edit, file)
        known = (await self._snapshot.of_ids([claimed])).get(claimed)
        if known is None or known.bank != edit.bank:
            return await self._new(edit, file)
        if other is not None:
            return await self._copied(edit, file, known, other)
        return await self._changed(edit, file, claimed, None)

    async def _holds(self, entry: FileEntry) -> bool:
        """Whether a recorded file still stands where it was: as it was written, or as something that names its memory.

        A file that cannot be read holds its place too: nobody can tell what it is.
        """
        look = await asyncio.to_thread(self._disk.look, entry.path)
        if look.state == "missing" or not await asyncio.to_thread(self._disk.stands, entry.path):
            return False
        if look.state == "refused" or look.digest == entry.digest:
            return True
        try:
            return parse_memory(look.data).id in (None, entry.target)
        except Unreadable:
            return True

    async def _renamed(self, edit: Edit, file: MemoryFile, entry: FileEntry) -> bool:
        moved = msgspec.structs.replace(entry, path=edit.path, held=None)
        if edit.look.digest != entry.digest:
            return await self._changed(edit, file, entry.target, moved)
        await self._settle(edit, entry.target, (await self._snapshot.of_ids([entry.target])).get(entry.target))
        return False

    # New memories

    async def _copied(self, edit: Edit, file: MemoryFile, original: Memory, entry: FileEntry) -> bool:
        if original.state == "live" and normalise(original.text) == normalise(file.text):
            raise Refused(f"it is a copy of {layout.printable(entry.path)}: change its text, or remove it")
        return await self._new(edit, file, original)

    async def _new(self, edit: Edit, file: MemoryFile, original: Memory | None = None) -> bool:
        if not edit.keep:
            return False
        # A copy keeps no subject of its original's, which it would replace on a person's route.
        request = changes.save_of(file, edit.bank, without_subject=original.subject if original else None)
        reply = await self._commands.save(request, edit.cause)
        if reply.memory is None:
            raise Refused("it waits for a person's decision among the suggestions")
        memory = reply.memory
        recorded = (await self._ledger.of_targets(edit.folder, "memory", [memory.id])).get(memory.id)
        if recorded is not None and recorded.path != edit.path and await self._holds(recorded):
            raise Refused(f"{layout.printable(recorded.path)} says the same already: change its text, or remove it")
        if original is None:
            await self._remark(edit, file, memory)
        await self._settle(edit, memory.id, memory)
        return True

    # Changes

    async def _changed(self, edit: Edit, file: MemoryFile, memory_id: str, entry: FileEntry | None) -> bool:
        for _ in range(2):  # once more when the store moves between reading and writing
            memory = (await self._snapshot.of_ids([memory_id])).get(memory_id)
            if memory is None or memory.state != "live" or memory.bank != edit.bank:
                return await self._orphaned(edit, file, memory_id, memory)
            lineage = changes.Lineage(list(await self._snapshot.history(memory_id)))
            changed = changes.difference(file, memory)
            base = _base(file, memory, entry)
            if "expires_at" in changed and lineage.had_expiry(base, changed["expires_at"]):
                del changed["expires_at"]  # being said again has put it off; the person did not touch it
            if not changed:
                return await self._unchanged(edit, file, memory, lineage.memory_at(base), entry)
            if base < memory.revision and not lineage.by_hand_since(base):
                return await self._stale(edit, file, memory, lineage, base, entry, changed)
            try:
                return await self._apply(edit, file, memory, lineage.memory_at(base), changed)
            except FunctionError as error:
                if not stale(error):
                    raise
        raise Later("the memory changes all the time")

    async def _apply(
        self, edit: Edit, file: MemoryFile, memory: Memory, before: Memory | None, changed: dict[str, Any]
    ) -> bool:
        """Make the changes; un-pinning comes first and pinning last, since a pinned memory takes no expiry."""
        seen = memory
        pinned = changed.get("pinned")
        if pinned is False:
            memory = await self._pin(edit, memory, False)
        request = changes.update_of(memory.id, memory.revision, changed)
        if request is not None:
            reply = await self._commands.update(request, edit.cause)
            memory = reply.memory or memory
        if pinned is True:
            memory = await self._pin(edit, memory, True)
        await self._remark(edit, file, seen, before)
        await self._settle(edit, memory.id, memory)
        return True

    async def _pin(self, edit: Edit, memory: Memory, pinned: bool) -> Memory:
        request = PinRequest(id=memory.id, pinned=pinned, expected_revision=memory.revision)
        reply = await self._commands.pin(request, edit.cause)
        return reply.memory or memory

    async def _unchanged(
        self, edit: Edit, file: MemoryFile, memory: Memory, before: Memory | None, entry: FileEntry | None
    ) -> bool:
        """The file says what the store knows: how it is laid out is the person's, as long as it names its memory."""
        await self._remark(edit, file, memory, before)
        agrees = file.id == memory.id and file.revision == memory.revision and not changes.frozen(file, memory)
        if agrees and not changes.difference(file, memory) and entry is not None and edit.keep:
            await self._ledger.record(LedgerChange(entries=[edit.standing(memory.id, memory.revision)]))
        else:
            await self._settle(edit, memory.id, memory)
        return False

    async def _stale(
        self,
        edit: Edit,
        file: MemoryFile,
        memory: Memory,
        lineage: changes.Lineage,
        base: int,
        entry: FileEntry | None,
        changed: dict[str, Any],
    ) -> bool:
        """An edit of an older revision: the store wins, what the person wrote becomes a suggestion."""
        claimed = file.revision
        before = lineage.memory_at(base)
        if before is not None:
            intended = changes.difference(file, before)
            if "expires_at" in intended and lineage.had_expiry(base, intended["expires_at"]):
                del intended["expires_at"]
            ours = entry is None or (claimed is not None and claimed > entry.revision)
            if not intended and ours:
                # Not an edit at all: the mirror wrote it and a crash came before it was recorded.
                await self._settle(edit, memory.id, memory)
                return False
            changed = intended or changed
        reason = f"a file was edited at revision {base} while the memory is at revision {memory.revision}"
        request = changes.update_of(memory.id, None, changed)
        if request is not None:
            await self._suggest(edit, "update", msgspec.to_builtins(request), reason)
        if "pinned" in changed:
            await self._suggest(edit, "pin", {"id": memory.id, "pinned": changed["pinned"]}, reason)
        await self._remark(edit, file, memory, before)
        await self._settle(edit, memory.id, memory)
        return True

    async def _orphaned(self, edit: Edit, file: MemoryFile, memory_id: str, memory: Memory | None) -> bool:
        """The file's memory is gone: what a person wrote since becomes a suggestion, and the file goes."""
        changed = memory is None or bool(changes.difference(file, memory).keys() - {"expires_at", "pinned"})
        if changed:
            state = "gone" if memory is None else memory.state
            request = changes.save_of(file, edit.bank)
            await self._suggest(
                edit, "save", msgspec.to_builtins(request), f"a file was edited whose memory is {state}"
            )
        await self._settle(edit, memory_id, None)
        return changed

    async def _suggest(self, edit: Edit, function: str, args: dict[str, Any], reason: str) -> None:
        change = ProposedChange(function=function, args=args)
        await self._commands.suggest(edit.bank, change, reason, edit.cause)

    # Afterwards

    async def _remark(self, edit: Edit, file: MemoryFile, *seen: Memory | None) -> None:
        """Tell which frozen fields say something that none of the revisions says which the person can have seen."""
        ignored = [changes.frozen(file, memory) for memory in seen if memory is not None]
        kept = [name for name in ignored[0] if all(name in other for other in ignored)]
        if kept:
            await self._problems.remark(edit.path, edit.bank, kept)

    async def _settle(self, edit: Edit, memory_id: str, memory: Memory | None) -> None:
        """Write the file that was read as the store has its memory, and record it; without a live one it goes."""
        record = memory if memory is not None and memory.state == "live" and edit.keep else None
        standing = edit.standing(memory_id, memory.revision if memory is not None else 0)
        wanted = Wanted(folder=edit.folder, kind="memory", target=memory_id, record=record, standing=standing)
        await self._writer.write([wanted])


def _base(file: MemoryFile, memory: Memory, entry: FileEntry | None) -> int:
    """Give the revision a person saw when editing: what the file says, but none later than was written to it.

    An editor may still show an older file than the one on disk, so the recorded revision alone does not tell.
    """
    recorded = entry.revision if entry is not None else memory.revision
    claimed = file.revision if file.revision is not None else recorded
    if entry is not None and claimed > entry.revision:
        # Either a change by hand, which is ignored, or a write of ours that a crash left unrecorded.
        recorded = claimed if claimed <= memory.revision else recorded
    return max(1, min(claimed, recorded, memory.revision))
