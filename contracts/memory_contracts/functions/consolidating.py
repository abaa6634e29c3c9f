"""Requests and replies about the consolidate worker: run, status, report."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from memory_contracts.functions.base import Reply, Request
from memory_contracts.names import Name

FindingKind = Literal[
    "same_text",
    "same_tokens",
    "number",
    "date",
    "negation",
    "name",
    "unit",
    "quantifier",
    "order",
    "wording",
    "detail",
    "subject",
    "claim",
    "learned_same",
    "learned_conflict",
    "unused",
    "rule_worthy",
]
"""What was found about memories or rule lines.

`same_text` and `same_tokens` are superseded. Near-duplicates carry the class of the difference, the gravest first when
there are several. `subject` and `claim` are two values of one thing; `unused` was never recalled and not seen for long.
"""


class ConsolidateRunRequest(Request):
    """Run hygiene over one bank, or all; `dry_run` acts on nothing. Neither shifts the schedule."""

    bank: Name | None = None
    dry_run: bool = False


class ConsolidateAct(Reply):
    """One thing that was done (or, in a dry run, would be): ids only, never text."""

    act: Literal["supersede", "suggest"]
    kind: FindingKind
    id: str
    by: str | None = None


class ConsolidateReport(Reply):
    """What one run of one bank read, found, did, suggested, left and skipped, in counts.

    `memories` were read; `compared` pairs were verified token by token; `found` counts by kind; `known` suggestions
    were there before; `carried` is what a cap left for a later run; `cut` names the caps that were met; `acts` are the
    first 100. `requests` counts calls of the memory worker.
    """

    run_id: str
    bank: str
    trigger: Literal["schedule", "manual"]
    dry_run: bool
    state: Literal["done", "failed", "interrupted"]
    started_at: datetime
    finished_at: datetime
    memories: int = 0
    compared: int = 0
    found: dict[str, int] = {}
    superseded: int = 0
    suggested: int = 0
    known: int = 0
    carried: int = 0
    skipped: dict[str, int] = {}
    cut: tuple[str, ...] = ()
    requests: int = 0
    acts: tuple[ConsolidateAct, ...] = ()
    error: str | None = None


class ConsolidateRunReply(Reply):
    """One report per bank that was run; `busy` names banks that another run held."""

    reports: list[ConsolidateReport]
    busy: tuple[str, ...] = ()


class ConsolidateStatusRequest(Request):
    """Ask which banks are dirty and when they run next."""


class BankSchedule(Reply):
    """Where one bank stands: `changed_at` is its newest unread change, `next_at` when the next scheduled run is due."""

    bank: str
    dirty: bool
    next_at: datetime
    changed_at: datetime | None = None
    last_run_at: datetime | None = None
    running: str | None = None
    carried: int = 0


class ConsolidateStatusReply(Reply):
    """One entry per bank, by name."""

    banks: list[BankSchedule]


class ConsolidateReportRequest(Request):
    """Read the last reports of one bank, or of all."""

    bank: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ConsolidateReportReply(Reply):
    """Reports, newest first."""

    reports: list[ConsolidateReport]
