"""Requests and replies about forgetting, extraction, the doctor, files and archives."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import Id, Ids, Label, Name
from memory_contracts.records import Receipt, Suggestion

Path = Annotated[str, Meta(min_length=1, max_length=1_000)]


class PersonForgetRequest(Request):
    """Ask to forget a person; the name is typed again. Only a person's approval erases.

    `keep` names mentions that are not about the person (“May” is also a month).
    """

    entity: Label
    confirm_name: Label
    never_again: bool = False
    keep: Ids = []


class Mention(Reply):
    """A text that mentions the name or an alias; `kind` says in which place."""

    id: str
    bank: str
    kind: str
    text: str


class PersonForgetReply(Reply):
    """The destructive suggestion and every text that mentions the person, for selection."""

    outcome: Literal["awaiting_review"]
    suggestion: Suggestion
    mentions: list[Mention]
    cut: bool = False


class EraseRequest(Request):
    """Destroy one memory, every revision and copy of it."""

    id: Id


class BankWipeRequest(Request):
    """Destroy everything a bank holds; the name is typed again."""

    name: Name
    confirm_name: Name


class ReceiptReply(Reply):
    """What was destroyed, in counts."""

    receipt: Receipt


class ValueRevealRequest(Request):
    """Read one protected value by its reference."""

    ref: Id


class ValueRevealReply(Reply):
    """The value, for this call alone."""

    ref: str
    value: str


class ExtractionStatusRequest(Request):
    """Ask how reading turns is going."""


class ParkedTurn(Reply):
    """A turn that could not be read, and why."""

    turn_id: str
    session_id: str
    reason: str
    at: datetime


class ExtractionStatusReply(Reply):
    """Backlog, work, parked turns (the newest 100 of `parked_total`), and what was kept and refused.

    `done` counts the turns that were read since the store was made; with `parked_total` it shows progress.
    """

    backlog: int
    in_work: int
    oldest_age_s: float
    parked: list[ParkedTurn]
    parked_total: int
    kept: int
    refused: dict[str, int]
    ignored: dict[str, int]
    router: str
    extractor: str
    waiting: dict[str, int] = {}
    done: int = 0


class ExtractionRetryRequest(Request):
    """Run parked turns again: those in `ids`, or all."""

    ids: Ids = []
    all: bool = False


class ExtractionRetryReply(Reply):
    """How many turns were put back to work."""

    retried: int


class DoctorRequest(Request):
    """Ask for a real roundtrip through every part."""


class Check(Reply):
    """One line of the doctor: its state, what was seen, and what to do."""

    name: str
    state: Literal["ok", "degraded", "failing"]
    detail: str
    hint: str | None = None


class DoctorReply(Reply):
    """All checks; `state` is the worst of them."""

    state: Literal["ok", "degraded", "failing"]
    checks: list[Check]
    version: str


class ReloadRequest(Request):
    """Read every file again; with `rewrite` each is then written anew from the records."""

    bank: Name | None = None
    rewrite: bool = False


class ReloadReply(Reply):
    """What reading the files changed."""

    read: int
    changed: int
    problems: list[str]
    written: int = 0


class FilesStatusRequest(Request):
    """Ask how the markdown files stand, and how far the caller's exports and imports are."""


class UnreadFile(Reply):
    """A file that cannot be read and is left as it is, and since when."""

    path: str
    reason: str
    since: datetime


class ArchiveRun(Reply):
    """An export or import under way: memories done, of `total`; 0 while that is not known yet."""

    function: Literal["export", "import"]
    done: int
    total: int


class FilesStatusReply(Reply):
    """How far the files are behind the journal, what is wrong with them, and what runs.

    `lag_rows` counts changes that are not written yet, `lag_s` seconds since the first of them. `vanished` says that
    many files vanished at once and a suggestion asks about them. Names of files are told to people alone.
    """

    mirrored: bool
    files: int = 0
    lag_rows: int = 0
    lag_s: float = 0.0
    last_sync_at: datetime | None = None
    last_scan_at: datetime | None = None
    watching: bool = False
    vanished: bool = False
    problems_total: int = 0
    problems: list[UnreadFile] = []
    not_written: int = 0
    error: str | None = None
    running: list[ArchiveRun] = []


class ExportRequest(Request):
    """Write an archive on the worker's side."""

    bank: Name | None = None
    include_protected: bool = False


class ExportReply(Reply):
    """Where the archive lies and what it holds."""

    path: str
    bytes: int
    sha256: str
    counts: dict[str, int]


class ImportRequest(Request):
    """Read an archive that an export wrote, a folder's markdown, or one markdown file. Texts arrive `inferred`.

    `path` is on the worker's side; links are resolved first. Of the worker's own directory only the archives in the
    tenant's `exports` are read. `trust` keeps the archive's tiers; the journal records who said so.
    """

    path: Path
    bank: Name | None = None
    trust: bool = False
    dry_run: bool = False


class ImportReply(Reply):
    """What was (or with `dry_run` would be) changed."""

    counts: dict[str, int]
    problems: list[str]
    dry_run: bool
