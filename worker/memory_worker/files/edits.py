"""Reads what people changed in the folders: by content, never by time, and only where something differs."""

import asyncio
from collections.abc import Collection, Iterable, Sequence

import msgspec
import structlog

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import RuleSetRequest
from memory_contracts.records import Bank, ProposedChange, Rule
from memory_worker.clock import Clock
from memory_worker.files import changes, layout
from memory_worker.files.disk import Disk, Look
from memory_worker.files.format import RuleFile, parse_bank, parse_rule
from memory_worker.files.frontmatter import Unreadable
from memory_worker.files.layout import Place
from memory_worker.files.memory_edits import Edit, MemoryEdits
from memory_worker.files.mirror import Mirror
from memory_worker.files.naming import is_noise
from memory_worker.files.outcome import Later, Refused, refusal, stale
from memory_worker.files.ports import Commands, FilesSettings, Ledger, Snapshot
from memory_worker.files.problems import Found, Problems
from memory_worker.files.removals import Removals
from memory_worker.files.writer import Wanted, Writer
from memory_worker.store.ledger import FileEntry, LedgerChange

log = structlog.get_logger(__name__)

_rule = msgspec.json.Decoder(Rule).decode

PRIVATE = "the bank is private: its files are written for reading, and changes by hand are not taken"


class Read(msgspec.Struct):
    """What a reading came to: files looked at, files that changed something, paths to read again later."""

    looked: int = 0
    changed: int = 0
    later: set[str] = msgspec.field(default_factory=set)


class Edits:
    """Compares files with the ledger and turns differences into requests.

    Not safe for use by two tasks at once, nor beside the mirror: their owner holds one lock over both.
    """

    def __init__(
        self,
        disk: Disk,
        writer: Writer,
        mirror: Mirror,
        snapshot: Snapshot,
        ledger: Ledger,
        commands: Commands,
        problems: Problems,
        clock: Clock,
        settings: FilesSettings,
    ) -> None:
        self._disk = disk
        self._writer = writer
        self._mirror = mirror
        self._snapshot = snapshot
        self._ledger = ledger
        self._commands = commands
        self._problems = problems
        self._settings = settings
        self.removals = Removals(disk, mirror, ledger, commands, problems, clock, settings)
        self._memories = MemoryEdits(disk, writer, snapshot, ledger, commands, problems, self.removals)

    # What to look at

    async def scan(self, bank: str | None = None, *, thorough: bool = False) -> Read:
        """Look at every file of one bank, or of all; `thorough` reads unreadable files again that have not changed."""
        read = Read()
        folders = await asyncio.to_thread(self._bank_folders)
        recorded = [folder for folder, _ in await self._ledger.folders() if folder.startswith(f"{layout.BANKS}/")]
        wanted = None if bank is None else layout.bank_folder(bank)
        standing: set[str] = set()
        for folder in sorted({*folders, *recorded}):
            if wanted is not None and folder != wanted:
                continue
            entries = {entry.path: entry for entry in await self._ledger.of_folder(folder)}
            seen, differing = await asyncio.to_thread(self._compare, folder, entries, thorough)
            read.looked += len(seen)
            standing.update(seen)
            part = await self.read(differing)
            read.changed += part.changed
            read.later |= part.later
        known = [problem.path for problem in self._problems.all() if wanted in (None, problem.folder)]
        gone = [path for path in known if path not in standing]
        await self._problems.clear(await asyncio.to_thread(self._vanished, gone))
        return read

    def _bank_folders(self) -> list[str]:
        """On a thread: what lies where banks' folders lie, links included, so that they can be reported."""
        return [f"{layout.BANKS}/{name}" for name, _ in self._disk.entries(layout.BANKS) if not is_noise(name)]

    def _compare(self, folder: str, entries: dict[str, FileEntry], thorough: bool) -> tuple[set[str], list[str]]:
        """On a thread: hash every file of a folder; gives all, by printable path, and the paths that differ."""
        differing: list[str] = []
        seen: set[str] = set()
        if self._disk.folder(folder) == "other":
            return set(), [folder]
        known: dict[str, bool] = {}
        for path in self._disk.files(folder):
            seen.add(path)
            entry = entries.get(path)
            look = self._disk.look(path, known)
            if entry is not None and entry.digest == look.digest and entry.held is None:
                if self._problems.knows(path):
                    differing.append(path)
            elif thorough or not self._problems.knows(path, look.digest):
                differing.append(path)
        differing += [path for path, entry in entries.items() if path not in seen and entry.held is None]
        return {layout.printable(path) for path in seen}, differing

    def _vanished(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if self._disk.look(path).state == "missing"]

    async def differing(self, paths: Collection[str]) -> list[str]:
        """Leave out the files that are as they were recorded: mostly echoes of our own writes. Needs no lock."""
        ordered = sorted(path for path in paths if _storable(path))
        kept = [path for path in paths if not _storable(path)]
        for start in range(0, len(ordered), self._settings.batch_rows):
            part = ordered[start : start + self._settings.batch_rows]
            entries = await self._ledger.of_paths(part)
            looks = await asyncio.to_thread(self._disk.look_many, part)
            for path, look in zip(part, looks, strict=True):
                entry = entries.get(path)
                same = entry is not None and entry.digest == look.digest and entry.held is None
                if not same or self._problems.knows(path) or self.removals.waiting():
                    kept.append(path)
        return kept

    # Reading

    async def read(self, paths: Collection[str], *, rewrite: bool = False) -> Read:
        """Look at files and do what they ask. Files that vanished are noted; `removals.settle` decides about them.

        With `rewrite` a file that is as it was recorded is written as the store has it: the mirror had passed it over.
        """
        read = Read()
        ordered = sorted(path for path in paths if not is_noise(path.rpartition("/")[2]))
        for start in range(0, len(ordered), self._settings.batch_rows):
            await self._read_batch(ordered[start : start + self._settings.batch_rows], read, rewrite)
        return read

    async def _read_batch(self, paths: Sequence[str], read: Read, rewrite: bool) -> None:
        entries = await self._ledger.of_paths([path for path in paths if _storable(path)])
        looks = await asyncio.to_thread(self._disk.look_many, paths)
        found: list[Found] = []
        solved: list[str] = []
        for path, look in zip(paths, looks, strict=True):
            read.looked += 1
            entry = entries.get(path)
            if look.state == "missing":
                if entry is not None:
                    self.removals.suspect(entry)
                solved.append(path)
                continue
            try:
                place = self._readable_place(path, look)
                if place is None:
                    continue
                if entry is not None and entry.digest == look.digest:
                    await self._clean(path, entry, rewrite)
                else:
                    # Asked again: a file read before this one may have taken over what was recorded here.
                    entry = (await self._ledger.of_paths([path])).get(path)
                    read.changed += await self._dispatch(path, place, look, entry)
                solved.append(path)
            except (Unreadable, Refused) as error:
                found.append(Found(path, look.digest, str(error)))
            except Later:
                read.later.add(path)
        await self._problems.clear(solved)
        if found:
            await self._problems.report(found, self._mirror.banks.keys())

    def _readable_place(self, path: str, look: Look) -> Place | None:
        """Give what a path stands for, None where it is not the mirror's business; raises `Refused`."""
        place = layout.place_of(path)
        if place is None:
            if path.count("/") == 1 and self._disk.folder(path) == "other":
                raise Refused("a bank's folder must be a folder of its own: links are not followed")
            return None
        if place.area == "stray":
            return None
        if not _storable(path):
            raise Refused("its name is not UTF-8 text")
        if look.state == "refused":
            raise Refused(look.reason)
        if place.bank is None or place.bank not in self._mirror.banks:
            raise Refused(f"there is no bank for the folder {layout.printable(place.folder)}: make the bank first")
        if place.area == "rule" and place.name is None:
            raise Refused("a rule is named by lower-case letters, digits, - and _, at most 64 of them")
        return place

    async def _clean(self, path: str, entry: FileEntry, rewrite: bool) -> None:
        """The file is as it was recorded; where it had been away or unreadable, what was held back is written now."""
        was_missing = self.removals.found(entry)
        if entry.held is not None:
            await self._ledger.record(LedgerChange(entries=[msgspec.structs.replace(entry, held=None)]))
        if was_missing or rewrite or entry.held is not None or self._problems.knows(path):
            await self._mirror.rewrite([entry])

    async def _dispatch(self, path: str, place: Place, look: Look, entry: FileEntry | None) -> bool:
        assert place.bank is not None
        bank = self._mirror.banks[place.bank]
        keep = bank.mirror
        if not keep and entry is None:
            return False
        if bank.owner is not None:
            raise Refused(PRIVATE)
        if entry is not None:
            self.removals.found(entry)
        edit = Edit(path, bank.name, place.folder, look, entry, keep)
        if place.area == "memory":
            return await self._memories.read(edit)
        try:
            if place.area == "rule":
                assert place.name is not None
                return await self._read_rule(edit, place.name)
            return await self._read_bank(edit, bank)
        except FunctionError as error:
            raise refusal(error) from error

    # Rules

    async def _read_rule(self, edit: Edit, name: str) -> bool:
        file = parse_rule(edit.look.data)
        for _ in range(2):  # once more when the store moves between reading and writing
            rule = {rule.name: rule for rule in await self._snapshot.rules(edit.bank)}.get(name)
            if rule is not None and _same_rule(file, rule):
                agrees = file.revision == rule.revision and file.priority == rule.priority
                if agrees and edit.entry is not None and edit.keep:
                    await self._ledger.record(LedgerChange(entries=[edit.standing(name, rule.revision, "rule")]))
                else:
                    await self._settle(edit, name, rule)
                return False
            if await self._rule_is_stale(edit, file, name, rule):
                return await self._suggest_rule(edit, file, name, rule)
            request = RuleSetRequest(
                name=name,
                content=file.content,
                bank=edit.bank,
                priority=file.priority,
                expected_revision=rule.revision if rule is not None else 0,
            )
            try:
                reply = await self._commands.rule_set(request, edit.cause)
            except FunctionError as error:
                if not stale(error):
                    raise
                continue
            if reply.rule is None:
                raise Refused("it waits for a person's decision among the suggestions")
            await self._settle(edit, name, reply.rule)
            return True
        raise Later("the rule changes all the time")

    async def _rule_is_stale(self, edit: Edit, file: RuleFile, name: str, rule: Rule | None) -> bool:
        if edit.entry is None:
            # A new file beside a rule that is there already replaces nothing unless it was written from that rule.
            return rule is not None and file.revision != rule.revision
        if rule is None:
            return True
        base = min(file.revision or edit.entry.revision, edit.entry.revision)
        if base >= rule.revision:
            return False
        lineage = changes.Lineage([row for row in await self._snapshot.history(name) if row.bank == edit.bank])
        return not lineage.by_hand_since(base)

    async def _suggest_rule(self, edit: Edit, file: RuleFile, name: str, rule: Rule | None) -> bool:
        state = "was removed" if rule is None else f"is at revision {rule.revision}"
        base = file.revision if file.revision is not None else "none"
        args = {"name": name, "bank": edit.bank, "content": file.content}
        change = ProposedChange(
            function="rule.set", args=args if file.priority is None else {**args, "priority": file.priority}
        )
        reason = f"a file was edited at revision {base} while the rule {state}"
        await self._commands.suggest(edit.bank, change, reason, edit.cause)
        await self._settle(edit, name, rule)
        return True

    async def _settle(self, edit: Edit, name: str, rule: Rule | None) -> None:
        """Write the file that was read as the store has its rule, and record it; without one it goes."""
        standing = edit.standing(name, rule.revision if rule is not None else 0, "rule")
        record = rule if edit.keep else None
        wanted = Wanted(folder=edit.folder, kind="rule", target=name, record=record, replaced=True, standing=standing)
        await self._writer.write([wanted])

    # Settings of a bank

    async def _read_bank(self, edit: Edit, bank: Bank) -> bool:
        file = parse_bank(edit.look.data)
        ignored = changes.frozen_of_bank(file, bank)
        if ignored:
            await self._problems.remark(edit.path, bank.name, ignored)
        request = changes.bank_update_of(file, bank)
        if request is not None:
            bank = (await self._commands.bank_update(request, edit.cause)).bank
        standing = edit.standing(bank.name, bank.revision, "bank")
        record = bank if bank.mirror else None
        wanted = Wanted(
            folder=edit.folder, kind="bank", target=bank.name, record=record, replaced=True, standing=standing
        )
        await self._writer.write([wanted])
        return request is not None


def _same_rule(file: RuleFile, rule: Rule) -> bool:
    same_priority = file.priority is None or file.priority == rule.priority
    return same_priority and file.content.rstrip() == rule.content.strip("\n").rstrip()


def _storable(path: str) -> bool:
    """Whether a path is text; a name that is not UTF-8 comes from the system with surrogates in it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
