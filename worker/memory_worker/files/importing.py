"""Brings an archive, a folder of facts or a rule file into a tenant, through the gate and in batches."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.functions.operations import ImportReply
from memory_contracts.names import DEFAULT_BANK
from memory_contracts.records import Bank, LearnedLine, Memory, Rule, Source
from memory_worker.clock import Clock, to_datetime
from memory_worker.files import archive, foreign
from memory_worker.files.archive import Progress, no_progress
from memory_worker.files.foreign import Arrival, record_of
from memory_worker.files.format import parse_bank, parse_memory, parse_rule
from memory_worker.files.frontmatter import Unreadable
from memory_worker.files.layout import place_of, printable
from memory_worker.files.outcome import LATER
from memory_worker.gate.importing import Imported
from memory_worker.gate.ruling import DEFAULT_PRIORITY

T = TypeVar("T")

BATCH = 200
"""Memories of one transaction."""
PROBLEMS_MAX = 200
"""Most problems one reply names; the counts are of all."""

_line = msgspec.json.Decoder(LearnedLine).decode


class Intake(Protocol):
    """Takes records in through the gate. With `dry_run` everything is decided and nothing is kept."""

    async def bank(self, bank: Bank) -> Imported:
        """Make a bank, or keep the one that is there."""
        ...

    async def memories(self, bank: str, records: Sequence[Memory]) -> Sequence[Imported]:
        """Add memories, in one transaction."""
        ...

    async def rule(self, bank: str, rule: Rule) -> Imported:
        """Add a rule, or ask a person."""
        ...


class Importer:
    """Reads what is to come in and counts what became of it."""

    def __init__(
        self,
        intake: Intake,
        clock: Clock,
        *,
        dry_run: bool,
        visible: Callable[[Bank], bool],
        progress: Progress = no_progress,
    ) -> None:
        self._intake = intake
        self._clock = clock
        self._dry_run = dry_run
        self._visible = visible
        self._unseen: set[str] = set()
        self._progress = progress
        self._counts: Counter[str] = Counter()
        self._problems: list[str] = []
        self._waiting: list[tuple[str, Memory]] = []
        self._waiting_bank = ""
        self._total = 0

    async def run(self, path: Path, into: str | None) -> ImportReply:
        """Import an archive, a folder or a file that was admitted; `into` names the bank that takes everything.

        Raises `invalid_input` for an archive that is damaged; then nothing came in.
        """
        if path.name.endswith(archive.SUFFIX) and await asyncio.to_thread(path.is_file):
            await self._archive(path, into)
        else:
            await self._folder(path, into or DEFAULT_BANK)
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return ImportReply(counts=counts, problems=self._problems, dry_run=self._dry_run)

    async def _archive(self, path: Path, into: str | None) -> None:
        manifest = await asyncio.to_thread(archive.check, path)
        self._total = manifest.counts.get("memories", 0)
        self._progress(0, self._total)
        now = to_datetime(self._clock.now())
        lines: dict[str, list[LearnedLine]] = {}
        stream = archive.contents(path)
        while batch := await asyncio.to_thread(_take, stream, BATCH):
            for name, data in batch:
                try:
                    await self._member(name, data, into, lines, now)
                except (Unreadable, msgspec.MsgspecError) as error:
                    self._problem(name, str(error))
        await self._flush()

    async def _member(
        self, name: str, data: bytes, into: str | None, lines: dict[str, list[LearnedLine]], now: datetime
    ) -> None:
        place = place_of(name)
        if place is None or place.bank is None:
            raise Unreadable("its folder is named like no bank")
        bank = into or place.bank
        if place.area == "bank":
            await self._flush()
            # An archive of one person lies where another can name it: what was private in it stays its owner's.
            if not self._visible(_bank(place.bank, data, now)):
                self._unseen.add(place.bank)
        if place.bank in self._unseen:
            raise Unreadable("it is in a private bank of somebody else")
        if place.area == "bank":
            if into is None:
                self._count("banks", await self._try(name, self._intake.bank(_bank(bank, data, now))))
        elif name.endswith(f"/{archive.LEARNED}"):
            lines[place.bank] = [_line(line) for line in data.splitlines() if line]
        elif place.area == "rule" and place.name is not None:
            rule = _rule(bank, place.name, data, lines.get(place.bank, []), now)
            self._count("rules", await self._try(name, self._intake.rule(bank, rule)))
        elif place.area == "memory":
            file = parse_memory(data)
            if file.front is None:
                raise Unreadable("it has no front matter")
            await self._add(bank, name, record_of(file, bank, now))

    async def _folder(self, path: Path, bank: str) -> None:
        stream = foreign.read(path, to_datetime(self._clock.now()))
        while batch := await asyncio.to_thread(_take, stream, BATCH):
            for arrival in batch:
                await self._arrived(arrival, bank)
        await self._flush()

    async def _arrived(self, arrival: Arrival, bank: str) -> None:
        record = arrival.record
        if record is None:
            self._problem(arrival.path, arrival.problem)
        elif isinstance(record, Rule):
            self._count("rules", await self._try(arrival.path, self._intake.rule(bank, record)))
        else:
            await self._add(bank, arrival.path, record)

    async def _add(self, bank: str, name: str, memory: Memory) -> None:
        if bank != self._waiting_bank or len(self._waiting) >= BATCH:
            await self._flush()
        self._waiting_bank = bank
        self._waiting.append((name, memory))

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            taken = await self._intake.memories(self._waiting_bank, [memory for _, memory in waiting])
        except FunctionError as error:
            if error.code in LATER:
                raise
            taken = [Imported("refused", error.message)] * len(waiting)
        for (name, _), one in zip(waiting, taken, strict=True):
            if one.outcome == "refused":
                self._problem(name, one.reason, count=False)
            self._count("memories", one)
        done = sum(count for name, count in self._counts.items() if name.startswith("memories_"))
        self._progress(done, max(self._total, done))

    async def _try(self, name: str, taking: Awaitable[Imported]) -> Imported:
        try:
            taken = await taking
        except FunctionError as error:
            if error.code in LATER:
                raise
            taken = Imported("refused", error.message)
        if taken.outcome == "refused":
            self._problem(name, taken.reason, count=False)
        return taken

    def _count(self, what: str, taken: Imported) -> None:
        self._counts[f"{what}_{taken.outcome}"] += 1

    def _problem(self, name: str, reason: str, *, count: bool = True) -> None:
        if count:
            self._counts["unreadable"] += 1
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(f"{printable(name)}: {reason}")


def cause_of(path: Path, trust: bool) -> str:
    """Name an import in the journal: which file it was, by hash, and whether a person vouched for it."""
    mark = hashlib.blake2b(str(path).encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"import-trusted:{mark}" if trust else f"import:{mark}"


def _take(stream: Iterator[T], count: int) -> list[T]:
    """On a thread: give the next few of a stream."""
    taken = []
    for one in stream:
        taken.append(one)
        if len(taken) >= count:
            break
    return taken


def _bank(name: str, data: bytes, now: datetime) -> Bank:
    file = parse_bank(data)
    return Bank(
        name=name,
        created_at=now,
        updated_at=now,
        description=file.description or "",
        owner=file.owner,
        managers=tuple(file.managers or ()),
        layers=tuple(file.layers or ()),
        review=file.review or "auto",
        expiry=file.expiry or "quarter",
        mirror=file.mirror is not False,
        revision=max(1, file.revision or 1),
    )


def _rule(bank: str, name: str, data: bytes, lines: list[LearnedLine], now: datetime) -> Rule:
    file = parse_rule(data)
    return Rule(
        bank=bank,
        name=name,
        content=file.content,
        priority=DEFAULT_PRIORITY if file.priority is None else file.priority,
        revision=file.revision or 1,
        updated_at=now,
        source=Source(route="human", principal="import"),
        lines=tuple(lines),
    )
