"""Files that could not be read: remembered, listed in a folder, and told to a person until they read again."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Collection, Sequence

import msgspec
import structlog

from memory_contracts.errors import FunctionError
from memory_contracts.names import DEFAULT_BANK
from memory_worker.clock import Clock, to_datetime
from memory_worker.files import layout
from memory_worker.files.disk import Disk, Put, Remove
from memory_worker.files.naming import slug
from memory_worker.files.ports import Commands, Ledger
from memory_worker.store.ledger import FileProblem, LedgerChange

log = structlog.get_logger(__name__)

NOTICES_MAX = 20
"""Most open notices about unreadable files; beyond it files are only listed, so that a folder of foreign files does
not flood the next context."""
REMARKS_MAX = 100
"""Most remarks about ignored changes that are kept for the status."""
PROBLEM_KIND = "file-problem"
IGNORED_KIND = "file-change-ignored"
VANISHED_KIND = "files-vanished"


class Found(msgspec.Struct, frozen=True):
    """An unreadable file as it was met: `digest` of what was found there."""

    path: str
    digest: bytes
    reason: str


class Problems:
    """The unreadable files of one tenant. A path is known by its printable form."""

    def __init__(self, disk: Disk, ledger: Ledger, commands: Commands, clock: Clock) -> None:
        self._disk = disk
        self._ledger = ledger
        self._commands = commands
        self._clock = clock
        self._known: dict[str, FileProblem] = {}
        self.remarks: deque[str] = deque(maxlen=REMARKS_MAX)
        """What was ignored lately: path and fields, newest last."""

    async def open(self) -> None:
        """Learn what was unreadable at the last run."""
        self._known = {problem.path: problem for problem in await self._ledger.problems()}

    def all(self) -> list[FileProblem]:
        """Give every unreadable file, by path."""
        return [self._known[path] for path in sorted(self._known)]

    def knows(self, path: str, digest: bytes | None = None) -> bool:
        """Whether a path is unreadable; with `digest`, whether it still holds exactly what was found then."""
        known = self._known.get(layout.printable(path))
        return known is not None and (digest is None or known.digest == digest)

    async def report(self, found: Sequence[Found], banks: Collection[str]) -> None:
        """Remember unreadable files and tell of the new ones; `banks` are those that can hold a notice."""
        changed: list[FileProblem] = []
        for one in found:
            path = layout.printable(one.path)
            known = self._known.get(path)
            if known is not None and known.digest == one.digest and known.reason == one.reason:
                continue
            place = layout.place_of(one.path)
            problem = FileProblem(
                path=path,
                folder=place.folder if place else "",
                digest=one.digest,
                reason=one.reason,
                at=known.at if known else self._clock.now(),
                notice=known.notice if known else await self._tell(place, path, one.reason, banks),
            )
            self._known[path] = problem
            changed.append(problem)
            log.info("files.unreadable", reason=one.reason)
        if changed:
            await self._ledger.record(LedgerChange(problems=changed))
            await asyncio.to_thread(self._write, changed)

    async def _tell(self, place: layout.Place | None, path: str, reason: str, banks: Collection[str]) -> str | None:
        if sum(problem.notice is not None for problem in self._known.values()) >= NOTICES_MAX:
            return None
        bank = place.bank if place is not None and place.bank in banks else DEFAULT_BANK
        assert bank is not None
        text = f"The file {path} is not read: {reason}. It was left as it is."
        return await self.tell(bank, PROBLEM_KIND, text, path)

    async def tell(self, bank: str, kind: str, text: str, target: str | None) -> str | None:
        """Leave a notice; None where the store cannot take one now."""
        try:
            return await self._commands.notify(bank, kind, text, target)
        except FunctionError as error:
            log.warning("files.notice_failed", code=error.code)
            return None

    async def remark(self, path: str, bank: str, fields: Sequence[str]) -> None:
        """Tell that changes of fields were ignored that cannot be changed by hand."""
        shown = layout.printable(path)
        text = f"In the file {shown} the change of {', '.join(fields)} was ignored: it cannot be made by hand."
        self.remarks.append(f"{shown}: {', '.join(fields)} cannot be changed by hand")
        await self.tell(bank, IGNORED_KIND, text, shown)

    async def clear(self, paths: Collection[str]) -> list[str]:
        """Forget problems of files that read again or are gone; gives the paths that were known."""
        solved = [self._known.pop(path) for path in sorted({*map(layout.printable, paths)}) if path in self._known]
        if not solved:
            return []
        await self._ledger.record(LedgerChange(solved=[problem.path for problem in solved]))
        await asyncio.to_thread(self._unwrite, solved)
        for problem in solved:
            if problem.notice is not None:
                try:
                    await self._commands.withdraw(problem.notice)
                except FunctionError as error:
                    log.warning("files.notice_failed", code=error.code)
        return [problem.path for problem in solved]

    def below(self, folder: str) -> list[str]:
        """Give the unreadable files of a folder, by path."""
        return [path for path, problem in self._known.items() if problem.folder == folder]

    async def clear_below(self, folder: str) -> None:
        """Forget the problems of a folder that was moved away."""
        await self.clear(self.below(folder))

    def _write(self, problems: Sequence[FileProblem]) -> None:
        """On a thread: list problems in the folder; a listing that cannot be written is no reason to stop."""
        wishes = []
        for problem in problems:
            path = _listing(problem.path)
            standing = self._disk.look(path)
            expected = standing.digest if standing.state == "found" else None
            wishes.append(Put(path, _text(problem).encode("utf-8", "replace"), expected))
        self._try(wishes)

    def _unwrite(self, problems: Sequence[FileProblem]) -> None:
        self._try([Remove(_listing(problem.path)) for problem in problems])

    def _try(self, wishes: Sequence[Put | Remove]) -> None:
        try:
            self._disk.apply(wishes)
        except OSError as error:
            log.warning("files.listing_failed", error=type(error).__name__)


def _listing(path: str) -> str:
    """Give the file that tells of a problem: readable, and one per path."""
    mark = hashlib.blake2b(path.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return f"{layout.PROBLEMS}/{slug(path.removeprefix(layout.BANKS).removesuffix('.md'), 'file')}-{mark}.txt"


def _text(problem: FileProblem) -> str:
    return (
        f"File:   {problem.path}\n"
        f"Reason: {problem.reason}\n"
        f"Since:  {to_datetime(problem.at):%Y-%m-%d %H:%M:%S} UTC\n\n"
        "The file was left exactly as it is, and what the store knows stays as it was.\n"
        "Correct the file, or remove it; this note goes away when it reads again.\n"
    )
