"""Brings files to the state their records want, and records what was written."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from memory_contracts.records import Bank, Memory, Rule
from memory_worker.files import layout
from memory_worker.files.disk import Disk, Done, Put, Remove
from memory_worker.files.format import parse_memory, render_bank, render_memory, render_rule
from memory_worker.files.frontmatter import Unreadable
from memory_worker.files.naming import TAIL_CHARS, memory_names
from memory_worker.files.ports import Ledger
from memory_worker.store.ledger import FileEntry, FileKind, LedgerChange

ROUNDS_MAX = len(TAIL_CHARS) + 2
"""Most attempts at one wish: every name a memory may have, and one more for a file that appears or vanishes."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The state one file should have. `record` is None where there should be no file.

    `replaced` says that the record was removed and made again since the file was written, so that its revision does
    not compare. `erase` removes the file even if a person changed it. `standing` is the file as it was just read, in
    place of what is recorded: it is overwritten and recorded in one step, so that a crash between the two leaves
    either the person's file unrecorded, to be read again, or ours, which says whose it is.
    """

    folder: str
    kind: FileKind
    target: str
    record: Memory | Rule | Bank | None
    replaced: bool = False
    erase: bool = False
    standing: FileEntry | None = None


class Failure(msgspec.Struct, frozen=True):
    """A file that could not be written: why, and whose it is."""

    reason: str
    entry: FileEntry


class _Task(msgspec.Struct):
    """A wish on its way: the entry it started from, the name it tries, and what the disk expects there."""

    wanted: Wanted
    entry: FileEntry | None
    names: list[str]
    expected: bytes | None
    data: bytes = b""

    @property
    def path(self) -> str:
        return self.names[0]


class Writer:
    """Writes files. What it finds changed it leaves alone and names in `suspects`, for the reading of hand edits."""

    def __init__(self, disk: Disk, ledger: Ledger) -> None:
        self._disk = disk
        self._ledger = ledger
        self.suspects: set[str] = set()
        """Paths where something stood that the mirror had not written."""
        self.failures: dict[str, Failure] = {}
        """Files that could not be written, by path, to be tried again."""

    async def write(self, wanted: Sequence[Wanted], *, anew: bool = False) -> int:
        """Bring files to the wanted state; gives the number of files that were written or removed.

        `anew` writes files that vanished as well. Raises OSError when the disk as a whole refuses.
        """
        tasks = await self._tasks(wanted, anew)
        entries: list[FileEntry] = []
        dropped: list[str] = []
        touched = 0
        for _ in range(ROUNDS_MAX):
            if not tasks:
                break
            done = await asyncio.to_thread(self._apply, tasks)
            again: list[_Task] = []
            for task, answer in zip(tasks, done, strict=True):
                touched += answer.state in ("written", "removed")
                if answer.state in ("written", "same", "removed"):
                    self.failures.pop(answer.path, None)
                if answer.state == "removed":
                    dropped.append(answer.path)
                elif answer.state in ("written", "same"):
                    entries.append(_entry(task, answer))
                elif not await self._left(task, answer, anew):
                    again.append(task)
            tasks = again
        for task in tasks:
            self._fail(task, task.path, "something else stands there")
        if entries or dropped:
            await self._ledger.record(LedgerChange(dropped=dropped, entries=entries))
        return touched

    async def _tasks(self, wanted: Sequence[Wanted], anew: bool) -> list[_Task]:
        known = await self._known(wanted)
        tasks: list[_Task] = []
        fresh: list[_Task] = []
        for one in wanted:
            entry = one.standing or known.get((one.folder, one.kind, one.target))
            if entry is None:
                if one.record is not None:
                    fresh.append(_Task(one, None, _names(one), None))
            elif one.record is None:
                tasks.append(_Task(one, entry, [entry.path], None if one.erase else entry.digest))
            elif not one.replaced and one.record.revision < entry.revision:
                continue  # a hand edit was recorded ahead of the journal
            elif entry.held is None:
                tasks.append(_Task(one, entry, [entry.path], entry.digest))
            elif anew or one.record.revision > entry.revision:
                tasks.append(_Task(one, entry, [entry.path], None))
        return tasks + await self._with_free_names(fresh)

    async def _known(self, wanted: Iterable[Wanted]) -> dict[tuple[str, str, str], FileEntry]:
        groups: dict[tuple[str, FileKind], list[str]] = {}
        for one in wanted:
            if one.standing is None:
                groups.setdefault((one.folder, one.kind), []).append(one.target)
        known: dict[tuple[str, str, str], FileEntry] = {}
        for (folder, kind), targets in groups.items():
            for target, entry in (await self._ledger.of_targets(folder, kind, targets)).items():
                known[folder, kind, target] = entry
        return known

    async def _with_free_names(self, tasks: list[_Task]) -> list[_Task]:
        """Pass over names that other records have, in the ledger or in this batch; the last name is never taken."""
        taken: set[str] = set()
        unsettled = tasks
        while unsettled:
            recorded = await self._ledger.of_paths([task.path for task in unsettled])
            clashing: list[_Task] = []
            for task in unsettled:
                if len(task.names) > 1 and (task.path in taken or task.path in recorded):
                    task.names.pop(0)
                    clashing.append(task)
                else:
                    taken.add(task.path)
            unsettled = clashing
        return tasks

    def _apply(self, tasks: Sequence[_Task]) -> list[Done]:
        """On a thread: render and write."""
        wishes: dict[int, Put | Remove] = {}
        failed: dict[int, Done] = {}
        for number, task in enumerate(tasks):
            record = task.wanted.record
            if record is None:
                wishes[number] = Remove(task.path, task.expected)
                continue
            try:
                task.data = task.data or _render(record)
            except OverflowError:
                # One record that an older release took in must not keep all others from their files.
                failed[number] = Done(task.path, "failed", reason="a time of its record lies outside the calendar")
            else:
                wishes[number] = Put(task.path, task.data, task.expected)
        done = dict(zip(wishes, self._disk.apply(list(wishes.values())), strict=True)) | failed
        return [done[number] for number in range(len(tasks))]

    async def _left(self, task: _Task, answer: Done, anew: bool) -> bool:
        """Deal with a wish the disk did not meet; False when it is to be tried again in another way."""
        if answer.state == "failed":
            self._fail(task, answer.path, answer.reason)
            return True
        if answer.state == "missing":
            if anew:
                task.expected = None
                return False
            self.suspects.add(answer.path)
            return True
        if task.entry is not None or len(task.names) == 1 or await asyncio.to_thread(self._claims, task):
            self.suspects.add(answer.path)
            return True
        task.names.pop(0)
        return False

    def _fail(self, task: _Task, path: str, reason: str) -> None:
        wanted = task.wanted
        entry = task.entry or FileEntry(path, wanted.folder, wanted.kind, wanted.target, 0, b"")
        self.failures[path] = Failure(reason, entry)

    def _claims(self, task: _Task) -> bool:
        """On a thread: whether the file that stands in the way says that it is this record's."""
        look = self._disk.look(task.path)
        if task.wanted.kind != "memory" or look.state != "found":
            return task.wanted.kind != "memory"
        try:
            return parse_memory(look.data).id == task.wanted.target
        except Unreadable:
            return False


def _names(wanted: Wanted) -> list[str]:
    """Give the paths a record's new file may have, the best first."""
    if isinstance(wanted.record, Memory):
        folder = layout.memories_folder(wanted.folder)
        memory = wanted.record
        return [f"{folder}/{name}" for name in memory_names(memory.id, memory.subject, memory.text)]
    if wanted.kind == "rule":
        return [layout.rule_file(wanted.folder, wanted.target)]
    return [layout.bank_file(wanted.folder)]


def _render(record: Memory | Rule | Bank) -> bytes:
    if isinstance(record, Memory):
        return render_memory(record)
    return render_rule(record) if isinstance(record, Rule) else render_bank(record)


def _entry(task: _Task, answer: Done) -> FileEntry:
    record = task.wanted.record
    assert record is not None
    return FileEntry(
        answer.path, task.wanted.folder, task.wanted.kind, task.wanted.target, record.revision, answer.digest
    )
