"""The journal reader that keeps every bank's folder as its records are."""

import asyncio
from collections.abc import Sequence

import msgspec

from memory_contracts.records import Bank, Memory, Rule, Suggestion
from memory_worker.files import layout
from memory_worker.files.disk import Disk
from memory_worker.files.ports import Feed, FilesSettings, Ledger, Snapshot
from memory_worker.files.writer import Wanted, Writer
from memory_worker.store.journal import JournalRow
from memory_worker.store.ledger import FileEntry, FileKind, FolderMove, LedgerChange

_memory = msgspec.json.Decoder(Memory).decode
_rule = msgspec.json.Decoder(Rule).decode
_bank = msgspec.json.Decoder(Bank).decode
_suggestion = msgspec.json.Decoder(Suggestion).decode

_Key = tuple[str, FileKind, str]


class Mirror:
    """Reads the journal and writes files; everything it does can be done again.

    Not safe for use by two tasks at once: its owner holds one lock over it and over the reading of hand edits.
    """

    def __init__(
        self, disk: Disk, writer: Writer, feed: Feed, snapshot: Snapshot, ledger: Ledger, settings: FilesSettings
    ) -> None:
        self._disk = disk
        self._writer = writer
        self._feed = feed
        self._snapshot = snapshot
        self._ledger = ledger
        self._settings = settings
        self.banks: dict[str, Bank] = {}
        """The banks that are not in the trash, by name."""
        self.written = 0
        """Files written or removed since the start."""

    async def open(self) -> None:
        """Learn the banks. The folders must be prepared."""
        self.banks = {bank.name: bank for bank in await self._snapshot.banks()}

    def mirrored(self, bank: str) -> bool:
        """Whether a bank's files are written and new ones read."""
        known = self.banks.get(bank)
        return known is not None and known.mirror

    async def catch_up(self) -> int:
        """Mirror every row up to the journal's head; gives how many there were.

        A journal that was never read is not replayed: the folders are written from the records as they are.
        """
        if self._feed.cursor() == 0 and self._feed.head() > self._settings.batch_rows:
            head = self._feed.head()
            await self.rebuild()
            self._feed.move(head)
        count = 0
        while self._feed.cursor() < self._feed.head():
            rows = await self._feed.rows(self._feed.cursor(), self._settings.batch_rows)
            if not rows:
                break
            await self._mirror(rows)
            self._feed.move(rows[-1].seq)
            count += len(rows)
        return count

    async def rebuild(self, bank: str | None = None) -> int:
        """Write the files of one bank, or of all, from the records; gives the number of files written or removed.

        What a person changed is left alone; what vanished is written again; files of records that are gone go.
        """
        touched = 0
        for one in await self._snapshot.banks():
            self.banks[one.name] = one
            if bank is None or one.name == bank:
                touched += await (self._write_bank(one) if one.mirror else self._clear(one.name))
        self.written += touched
        return touched

    async def rewrite(self, entries: Sequence[FileEntry], *, anew: bool = True) -> None:
        """Write the files of those entries again from the records as they are now; `anew` also where they vanished."""
        memories = await self._snapshot.of_ids([entry.target for entry in entries if entry.kind == "memory"])
        wanted: list[Wanted] = []
        for entry in entries:
            place = layout.place_of(entry.path)
            if place is None or place.bank is None:
                continue
            record: Memory | Rule | Bank | None = None
            if self.mirrored(place.bank):
                if entry.kind == "memory":
                    memory = memories.get(entry.target)
                    record = memory if memory is not None and memory.state == "live" else None
                elif entry.kind == "rule":
                    rules = {rule.name: rule for rule in await self._snapshot.rules(place.bank)}
                    record = rules.get(entry.target)
                else:
                    record = self.banks.get(place.bank)
            wanted.append(
                Wanted(folder=entry.folder, kind=entry.kind, target=entry.target, record=record, replaced=True)
            )
        if wanted:
            self.written += await self._writer.write(wanted, anew=anew)

    async def retry(self) -> None:
        """Try again what could not be written."""
        failed = [failure.entry for failure in self._writer.failures.values()]
        self._writer.failures.clear()
        await self.rewrite(failed)

    async def heal(self) -> None:
        """Write what the journal's cursor has passed and a crash kept from the folder."""
        await self.rewrite(await self._ledger.behind(), anew=False)

    # The journal

    async def _mirror(self, rows: Sequence[JournalRow]) -> None:
        wanted: dict[_Key, Wanted] = {}
        for row in rows:
            if row.type.startswith("memory."):
                await self._see_memory(row, wanted)
            elif row.type == "rule.set":
                folder = layout.bank_folder(row.bank)
                if await self._known_and_mirrored(row.bank):
                    rule = None if row.after is None else _rule(row.after)
                    _want(wanted, Wanted(folder=folder, kind="rule", target=row.target, record=rule))
            elif row.type == "suggestion.decided" and row.after is not None:
                await self._flush(wanted)
                await self._release(_suggestion(row.after))
            elif row.type.startswith("bank."):
                await self._flush(wanted)
                await self._see_bank(row)
        await self._flush(wanted)

    async def _see_memory(self, row: JournalRow, wanted: dict[_Key, Wanted]) -> None:
        memory = None if row.after is None else _memory(row.after)
        gone = memory is None or memory.state != "live"
        if gone or await self._known_and_mirrored(row.bank):
            _want(
                wanted,
                Wanted(
                    folder=layout.bank_folder(row.bank),
                    kind="memory",
                    target=row.target,
                    record=None if gone else memory,
                    erase=row.type == "memory.forgotten",
                ),
            )

    async def _known_and_mirrored(self, bank: str) -> bool:
        if bank not in self.banks:
            await self.open()  # made before the journal told of it, or trashed since
        return self.mirrored(bank)

    async def _flush(self, wanted: dict[_Key, Wanted]) -> None:
        if wanted:
            self.written += await self._writer.write(list(wanted.values()))
            wanted.clear()

    async def _release(self, suggestion: Suggestion) -> None:
        """A person decided about files that vanished together: what still lives is written again."""
        held = await self._ledger.of_held(suggestion.id)
        if held:
            await self.rewrite(held)

    # Banks

    async def _see_bank(self, row: JournalRow) -> None:
        before = None if row.before is None else _bank(row.before)
        after = None if row.after is None else _bank(row.after)
        if row.type == "bank.trashed" and after is not None:
            self.banks.pop(row.bank, None)
            await self._move(layout.bank_folder(after.name), layout.trash_folder(after))
        elif row.type == "bank.restored" and before is not None and after is not None:
            self.banks[after.name] = after
            await self._move(layout.trash_folder(before), layout.bank_folder(after.name))
            await self.rebuild(after.name)
        elif row.type == "bank.wiped":
            await self._wiped(before or after, row.bank)
        elif after is not None:
            known = self.banks.get(after.name)
            if known is not None and known.revision > after.revision:
                return  # what is known is newer than this row
            self.banks[after.name] = after
            if before is None:
                # What a person put into the folder before there was a bank is read now.
                files = await asyncio.to_thread(lambda: list(self._disk.files(layout.bank_folder(after.name))))
                self._writer.suspects.update(files)
            if before is not None and before.mirror != after.mirror:
                await self.rebuild(after.name)
            elif after.mirror:
                folder = layout.bank_folder(after.name)
                self.written += await self._writer.write(
                    [Wanted(folder=folder, kind="bank", target=after.name, record=after, replaced=True)]
                )

    async def _move(self, folder: str, to: str) -> None:
        await asyncio.to_thread(self._disk.move_folder, folder, to)
        await self._ledger.record(LedgerChange(moved=FolderMove(folder, to)))

    async def _wiped(self, bank: Bank | None, name: str) -> None:
        """Everything a bank held was destroyed, so every file of it goes, changed or not."""
        trashed = bank is not None and bank.trashed_at is not None
        folder = layout.trash_folder(bank) if bank is not None and trashed else layout.bank_folder(name)
        entries = await self._ledger.of_folder(folder)
        await self._ledger.record(LedgerChange(dropped=[entry.path for entry in entries]))
        await asyncio.to_thread(self._disk.remove_tree, folder)
        if not trashed and name in self.banks:
            await self.rebuild(name)

    async def _write_bank(self, bank: Bank) -> int:
        folder = layout.bank_folder(bank.name)
        touched = await self._write(Wanted(folder=folder, kind="bank", target=bank.name, record=bank, replaced=True))
        left = {(entry.kind, entry.target) for entry in await self._ledger.of_folder(folder)}
        left.discard(("bank", bank.name))
        rules = await self._snapshot.rules(bank.name)
        for rule in rules:
            touched += await self._write(
                Wanted(folder=folder, kind="rule", target=rule.name, record=rule, replaced=True)
            )
            left.discard(("rule", rule.name))
        after: str | None = ""
        while after is not None:
            page, after = await self._snapshot.memories(bank.name, after, self._settings.batch_rows)
            touched += await self._write(
                *[Wanted(folder=folder, kind="memory", target=memory.id, record=memory) for memory in page]
            )
            left.difference_update(("memory", memory.id) for memory in page)
        return touched + await self._write(
            *[Wanted(folder=folder, kind=kind, target=target, record=None) for kind, target in sorted(left)]
        )

    async def _write(self, *wanted: Wanted) -> int:
        return await self._writer.write(wanted, anew=True)

    async def _clear(self, bank: str) -> int:
        """Remove the files of a bank that is not mirrored; what a person changed is read first, then removed."""
        folder = layout.bank_folder(bank)
        entries = await self._ledger.of_folder(folder)
        touched = await self._write(
            *[Wanted(folder=folder, kind=entry.kind, target=entry.target, record=None) for entry in entries]
        )
        await asyncio.to_thread(self._disk.remove_empty, folder)
        return touched


def _want(wanted: dict[_Key, Wanted], one: Wanted) -> None:
    """Keep the newest wish for a file; one that was removed on the way does not compare revisions."""
    key: _Key = (one.folder, one.kind, one.target)
    earlier = wanted.get(key)
    if earlier is not None:
        replaced = earlier.replaced or (earlier.record is None and one.record is not None)
        one = msgspec.structs.replace(one, replaced=one.replaced or replaced, erase=one.erase or earlier.erase)
    wanted[key] = one
