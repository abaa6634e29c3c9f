"""Files that vanished: a removed file is a deletion, many at once are a question to a person."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

import msgspec
import structlog

from memory_contracts.errors import FunctionError
from memory_contracts.functions.banks import RuleSetRequest
from memory_contracts.functions.memories import DeleteRequest
from memory_contracts.records import ProposedChange
from memory_worker.clock import Clock
from memory_worker.files import layout
from memory_worker.files.disk import Disk
from memory_worker.files.mirror import Mirror
from memory_worker.files.outcome import LATER
from memory_worker.files.ports import Commands, FilesSettings, Ledger
from memory_worker.files.problems import VANISHED_KIND, Problems
from memory_worker.store.ledger import FileEntry, LedgerChange

log = structlog.get_logger(__name__)


class _Gone(msgspec.Struct, frozen=True):
    """A recorded file that vanished, and when. `displaced`: another record's file was moved over it."""

    entry: FileEntry
    since: float
    displaced: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.entry.folder, self.entry.kind, self.entry.target


class Removals:
    """Waits until no more files vanish, then deletes what they recorded, or asks."""

    def __init__(
        self,
        disk: Disk,
        mirror: Mirror,
        ledger: Ledger,
        commands: Commands,
        problems: Problems,
        clock: Clock,
        settings: FilesSettings,
    ) -> None:
        self._disk = disk
        self._mirror = mirror
        self._ledger = ledger
        self._commands = commands
        self._problems = problems
        self._clock = clock
        self._settings = settings
        self._missing: dict[tuple[str, str, str], _Gone] = {}
        self._returned: set[str] = set()
        self._recent: defaultdict[str, deque[float]] = defaultdict(deque)

    def suspect(self, entry: FileEntry, *, displaced: bool = False) -> None:
        """Note that a recorded file is not where it was, or that another record's file was moved over it."""
        if entry.held is None:
            gone = _Gone(entry, self._clock.now(), displaced)
            self._missing.setdefault(gone.key, gone)

    def found(self, entry: FileEntry) -> bool:
        """Note that a record has a file; tells whether it had been missing."""
        if entry.held is not None:
            self._returned.add(entry.held)
        return self._missing.pop((entry.folder, entry.kind, entry.target), None) is not None

    def waiting(self) -> bool:
        """Whether some files have vanished and nothing was decided yet."""
        return bool(self._missing)

    async def settle(self, *, at_once: bool = False) -> int:
        """Decide about each bank whose files have stopped vanishing (`at_once`: about every bank); gives the files."""
        now = self._clock.now()
        folders: defaultdict[str, list[_Gone]] = defaultdict(list)
        for gone in self._missing.values():
            folders[gone.entry.folder].append(gone)
        count = 0
        for folder, vanished in folders.items():
            if at_once or now - max(gone.since for gone in vanished) >= self._settings.vanish_settle_s:
                for gone in vanished:
                    del self._missing[gone.key]
                count += await self._decide(folder, await self._still_missing(vanished))
        await self._end_questions()
        return count

    async def _end_questions(self) -> None:
        """Take back questions about files that have come back; one that still misses a file stays."""
        while self._returned:
            suggestion = self._returned.pop()
            try:
                await self._commands.end_removal(suggestion)
            except FunctionError as error:
                log.warning("files.question_failed", code=error.code)
                self._returned.add(suggestion)
                return

    async def _still_missing(self, vanished: Sequence[_Gone]) -> list[_Gone]:
        """Keep those whose record has no file now."""
        looks = await asyncio.to_thread(lambda: [self._disk.look(gone.entry.path).state for gone in vanished])
        kept: list[_Gone] = []
        for gone, state in zip(vanished, looks, strict=True):
            recorded = await self._ledger.of_targets(gone.entry.folder, gone.entry.kind, [gone.entry.target])
            now = recorded.get(gone.entry.target)
            if now is None and gone.displaced:
                kept.append(gone)
            elif now is not None and now.path == gone.entry.path and now.held is None and state == "missing":
                kept.append(_Gone(now, gone.since))
        return kept

    async def _decide(self, folder: str, vanished: list[_Gone]) -> int:
        settings = [gone.entry for gone in vanished if gone.entry.kind == "bank"]
        if settings:
            await self._mirror.rewrite(settings)  # a bank is deleted by bank.delete, not by removing its settings
        vanished = [gone for gone in vanished if gone.entry.kind != "bank"]
        place = layout.place_of(layout.bank_file(folder))
        if not vanished or place is None or place.bank is None or not self._mirror.mirrored(place.bank):
            return 0
        now = self._clock.now()
        recent = self._recent[folder]
        while recent and now - recent[0] > self._settings.vanish_window_s:
            recent.popleft()
        total = len(await self._ledger.of_folder(folder)) + len(recent)
        most = max(self._settings.vanish_min, int(self._settings.vanish_share * total))
        if len(vanished) + len(recent) > most or await asyncio.to_thread(self._folder_gone, folder, vanished):
            await self._hold(place.bank, vanished)
        else:
            await self._delete(place.bank, vanished)
            recent.extend([now] * len(vanished))
        return len(vanished)

    def _folder_gone(self, folder: str, vanished: Iterable[_Gone]) -> bool:
        """On a thread: whether not single files but the folder of files was taken away."""
        folders = {gone.entry.path.rpartition("/")[0] for gone in vanished if not gone.displaced} | {folder}
        return any(self._disk.folder(one) != "folder" for one in folders)

    async def _hold(self, bank: str, vanished: Sequence[_Gone]) -> None:
        entries = [gone.entry for gone in vanished]
        ids = [entry.target for entry in entries if entry.kind == "memory"]
        rules = [entry.target for entry in entries if entry.kind == "rule"]
        reason = f"{len(entries):,} files of the bank {bank} vanished at once; nothing was deleted"
        try:
            suggestion = await self._commands.suggest_removal(bank, ids, rules, reason, _cause(entries[0]))
        except FunctionError as error:
            log.warning("files.question_failed", code=error.code)
            self._again(vanished)
            return
        held = [msgspec.structs.replace(gone.entry, held=suggestion) for gone in vanished if not gone.displaced]
        await self._ledger.record(LedgerChange(entries=held))
        displaced = [gone.entry for gone in vanished if gone.displaced]
        if displaced:
            await self._mirror.rewrite(displaced)
        await self._problems.tell(
            bank,
            VANISHED_KIND,
            f"{reason}. Approve the suggestion to delete what they held, reject it to write the files again.",
            suggestion,
        )

    def _again(self, vanished: Iterable[_Gone]) -> None:
        for gone in vanished:
            self.suspect(gone.entry, displaced=gone.displaced)

    async def _delete(self, bank: str, vanished: Sequence[_Gone]) -> None:
        back: list[FileEntry] = []
        dropped: list[str] = []
        for gone in vanished:
            entry = gone.entry
            try:
                deleted = await self._delete_one(bank, entry)
            except FunctionError as error:
                if error.code in LATER:
                    self._again([gone])
                    continue
                log.info("files.removal_refused", code=error.code)
                deleted = False
                await self._problems.tell(
                    bank,
                    VANISHED_KIND,
                    f"The file {layout.printable(entry.path)} was removed and is written again: {error.message}.",
                    entry.target,
                )
            if not deleted:
                back.append(entry)
            elif not gone.displaced:
                dropped.append(entry.path)
        if dropped:
            await self._ledger.record(LedgerChange(dropped=dropped))
        if back:
            await self._mirror.rewrite(back)

    async def _delete_one(self, bank: str, entry: FileEntry) -> bool:
        """Delete what one file recorded; False where it stays, so that its file is to be written again."""
        cause = _cause(entry)
        try:
            if entry.kind == "rule":
                request = RuleSetRequest(name=entry.target, content="", bank=bank, expected_revision=entry.revision)
                rule_reply = await self._commands.rule_set(request, cause)
                return rule_reply.outcome != "awaiting_review"
            removal = DeleteRequest(id=entry.target, expected_revision=entry.revision)
            reply = await self._commands.delete(removal, cause)
            return reply.outcome != "awaiting_review"
        except FunctionError as error:
            if error.code == "not_found" or (error.code == "conflict" and error.field == "id"):
                return True  # it is gone already, by another way
            if error.code != "conflict":
                raise
        # The store has changed since the file was written: the store wins, and the removal becomes a question.
        if entry.kind == "rule":
            change = ProposedChange(function="rule.set", args={"name": entry.target, "bank": bank, "content": ""})
        else:
            change = ProposedChange(function="delete", args={"id": entry.target})
        reason = f"its file was removed at revision {entry.revision}, and it has changed since"
        await self._commands.suggest(bank, change, reason, cause)
        return False


def _cause(entry: FileEntry) -> str:
    return f"file:{entry.digest.hex()}"
