"""What the file mirror needs of the rest: the journal, a view of the records, its ledger, and a way to write."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from memory_contracts.functions.banks import BankReply, BankUpdateRequest, RuleReply, RuleSetRequest
from memory_contracts.functions.memories import (
    DeleteRequest,
    MemoryReply,
    PinRequest,
    SaveReply,
    SaveRequest,
    UpdateRequest,
)
from memory_contracts.records import Bank, Memory, ProposedChange, Rule
from memory_worker.store.journal import JournalRow
from memory_worker.store.ledger import FileEntry, FileKind, FileProblem, LedgerChange


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the mirror can be set to."""

    batch_rows: int = 500
    """Most journal rows, and so files, of one batch."""
    coalesce_s: float = 0.05
    """Time a batch waits for more rows, in seconds: many changes of one record become one file."""
    settle_s: float = 0.5
    """Time without a further change after which hand edits are read, in seconds."""
    vanish_settle_s: float = 2.0
    """Time without a further vanished file after which files count as removed, in seconds; editors that save by
    removing and renaming are done by then, and so is an `rm` of many files."""
    vanish_window_s: float = 600.0
    """Files removed within this time count as removed at once, in seconds."""
    vanish_min: int = 5
    """Up to this many files of a bank may be removed at once without a question."""
    vanish_share: float = 0.2
    """Up to this share of a bank's files may be removed at once without a question; the larger bound holds."""
    scan_s: float = 300.0
    """Time between two readings of every file, in seconds: what a file system did not tell is found then."""
    file_max_bytes: int = 1_024 * 1_024
    """Largest file that is read, in bytes."""
    retry_s: float = 1.0
    """Time after which work the disk or the store refused is tried again, in seconds; doubled up to a minute."""


class Feed(Protocol):
    """The journal as a reader sees it."""

    def head(self) -> int:
        """Sequence of the newest committed row."""
        ...

    def cursor(self) -> int:
        """Sequence of the last row that is mirrored; 0 at first."""
        ...

    def move(self, seq: int) -> None:
        """Say how far the mirror has come."""
        ...

    async def rows(self, after_seq: int, limit: int) -> Sequence[JournalRow]:
        """Give up to `limit` rows after `after_seq`, in order."""
        ...

    def subscribe(self, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call `callback` with the new head after each commit; gives the way to stop."""
        ...


class Snapshot(Protocol):
    """The records as they are now. Banks in the trash are not seen."""

    async def banks(self) -> Sequence[Bank]:
        """Give every bank, private ones too."""
        ...

    async def memories(self, bank: str, after_id: str, limit: int) -> tuple[Sequence[Memory], str | None]:
        """Give a page of a bank's live memories, by id, and the id to go on after (None on the last page)."""
        ...

    async def of_ids(self, ids: Sequence[str]) -> dict[str, Memory]:
        """Give the memories of those ids that exist, in any state."""
        ...

    async def rules(self, bank: str) -> Sequence[Rule]:
        """Give a bank's rules."""
        ...

    async def history(self, target: str) -> Sequence[JournalRow]:
        """Give the changes of one memory or rule name, oldest first, bounded."""
        ...


class Ledger(Protocol):
    """What the mirror wrote and what it could not read; survives a restart."""

    async def of_targets(self, folder: str, kind: FileKind, targets: Sequence[str]) -> dict[str, FileEntry]:
        """Give the entries of those records of a folder, by target."""
        ...

    async def anywhere(self, ids: Sequence[str]) -> Sequence[FileEntry]:
        """Give the entries of those memories in every folder, the trash included."""
        ...

    async def of_paths(self, paths: Sequence[str]) -> dict[str, FileEntry]:
        """Give the entries of those paths."""
        ...

    async def of_folder(self, folder: str) -> Sequence[FileEntry]:
        """Give every entry of a bank's folder."""
        ...

    async def of_held(self, suggestion: str) -> Sequence[FileEntry]:
        """Give the entries that wait for a suggestion's decision."""
        ...

    async def any_held(self) -> bool:
        """Whether any entry waits for a suggestion's decision."""
        ...

    async def behind(self) -> Sequence[FileEntry]:
        """Give the entries of memories that have another revision now, or live no more; held ones left out."""
        ...

    async def folders(self) -> Sequence[tuple[str, int]]:
        """Give every folder with an entry, and how many it has."""
        ...

    async def problems(self) -> Sequence[FileProblem]:
        """Give every file that cannot be read."""
        ...

    async def record(self, change: LedgerChange) -> None:
        """Record a change; it is on disk when this returns."""
        ...

    async def forget(self, ids: Sequence[str]) -> int:
        """Drop every entry about those memories; gives how many there were."""
        ...


class Commands(Protocol):
    """Writes through the gate, as the principal `file` on the route of the setting `file_route`.

    `cause` names the file and its content in the journal. All raise `FunctionError`.
    """

    async def save(self, request: SaveRequest, cause: str) -> SaveReply: ...
    async def update(self, request: UpdateRequest, cause: str) -> MemoryReply: ...
    async def pin(self, request: PinRequest, cause: str) -> MemoryReply: ...
    async def delete(self, request: DeleteRequest, cause: str) -> MemoryReply: ...
    async def rule_set(self, request: RuleSetRequest, cause: str) -> RuleReply: ...
    async def bank_update(self, request: BankUpdateRequest, cause: str) -> BankReply: ...

    async def suggest(self, bank: str, change: ProposedChange, reason: str, cause: str) -> str:
        """Keep a change as a suggestion beside what the store has; gives its id, also when it was known already."""
        ...

    async def suggest_removal(
        self, bank: str, ids: Sequence[str], rules: Sequence[str], reason: str, cause: str
    ) -> str:
        """Ask a person whether those memories and rules are to be removed together; gives the suggestion's id."""
        ...

    async def end_removal(self, suggestion_id: str) -> None:
        """Take back such a question once none of its files is missing any more."""
        ...

    async def notify(self, bank: str, kind: str, text: str, target: str | None) -> str:
        """Leave a notice for a person; gives its id."""
        ...

    async def withdraw(self, notice_id: str) -> None:
        """Acknowledge a notice whose cause is gone."""
        ...
