"""One run over one bank: read, find, act, report. It acts through `supersede` and `suggest` and nothing else."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from memory_consolidate.finding import Found, find
from memory_consolidate.items import Item
from memory_consolidate.judge import judged
from memory_consolidate.learned import line_proposals, rule_proposals
from memory_consolidate.proposals import ORDER, Proposal, Supersede
from memory_consolidate.reading import Pace, Reader, rest
from memory_consolidate.settings import ConsolidateSettings
from memory_consolidate.state import Lease, moment
from memory_contracts.client import MemoryClient
from memory_contracts.errors import FunctionError
from memory_contracts.functions.consolidating import ConsolidateAct, ConsolidateReport
from memory_contracts.names import LEARNED_RULE
from memory_contracts.records import ProposedChange

ACTS_IN_REPORT = 100
"""Acts named in a report; all are in the journal under the run's id."""
TOGETHER = 4
"""Retirements sent side by side; the store writes them in one commit."""
_EXPECTED = frozenset({"conflict", "not_found", "pinned", "forbidden", "invalid_input"})
"""Refusals that tell that a record is not what it was when it was read: the act is left out, the run goes on."""
_ABOUT_RULES = frozenset({"rule.set", "learned.add"})
"""Functions whose suggestions name no memory, so that what they were about is remembered here."""
_RESTORED_REVISION = 3
"""A record that was retired and brought back has at least this revision."""


class Interrupted(Exception):
    """The bank is not ours any more, or the process is stopping; what is left is for a later run."""


class Outcome(NamedTuple):
    """A run's report, what a person was asked about that only this worker's state remembers, and retirements left."""

    report: ConsolidateReport
    told: tuple[str, ...]
    left: int


class Run:
    """The state of one run.

    `clock` gives Unix seconds; `proceed` is asked before each act and says whether the bank is still ours.
    """

    def __init__(
        self,
        client: MemoryClient,
        bank: str,
        lease: Lease,
        settings: ConsolidateSettings,
        *,
        clock: Callable[[], float],
        proceed: Callable[[], bool],
        told: frozenset[str] = frozenset(),
        judge_subject: str | None = None,
        pace: Pace = rest,
    ) -> None:
        self._reader = Reader(client, bank, pace)
        self._client = client
        self._bank = bank
        self._lease = lease
        self._settings = settings
        self._clock = clock
        self._proceed = proceed
        self._told = told
        self._judge_subject = judge_subject
        self._principal = client.bus.credentials.principal
        self._revisions: dict[str, int] = {}
        self._acts: list[ConsolidateAct] = []
        self._newly_told: list[str] = []
        self._skipped: Counter[str] = Counter()
        self._found: Counter[str] = Counter()
        self._cut: set[str] = set()
        self._memories = self._compared = 0
        self._superseded = self._suggested = self._known = self._carried = self._left = 0

    async def go(self) -> Outcome:
        """Run to the end. Refusals of single acts are counted; a worker that stays away fails the run.

        In a dry run the report counts what would be done.

        The plan is made in a thread, so that the reservation of the bank is renewed meanwhile.
        """
        try:
            await self._work()
        except Interrupted:
            return self._outcome("interrupted", None)
        except FunctionError as error:
            return self._outcome("failed", f"{error.code}: {error.message}")
        return self._outcome("done", None)

    async def _work(self) -> None:
        resumed = self._lease.trigger == "schedule" and not self._lease.dry_run
        before = await self._reader.acts_of_run(self._lease.run_id) if resumed else Counter[str]()
        self._superseded = before["memory.superseded"]
        self._suggested = before["suggestion.created"]
        pages = await self._reader.memories()
        self._memories = len(pages.items) + sum(pages.skipped.values())
        self._skipped.update(pages.skipped)
        if pages.cut:
            self._cut.add("memories")
        rules = await self._reader.rules()
        single_valued = await self._reader.single_valued()
        still_open, known = await self._reader.own_suggestions(
            self._principal, {item.id: item.revision for item in pages.items}
        )
        self._check()
        found = await asyncio.to_thread(find, pages.items, single_valued)
        self._note(found)
        learned = next((rule for rule in rules if rule.name == LEARNED_RULE), None)
        proposals = list(found.proposals)
        if learned is not None:
            proposals += [p for p in line_proposals(learned) if not self._is_told(p)]
        proposals += rule_proposals(pages.items, rules, self._bank, self._settings.repeats_min, self._told)
        retired = {act.loser.id for act in found.supersedes}
        proposals += await self._unused([item for item in pages.items if item.id not in retired], known)
        self._found.update(p.kind for p in proposals[len(found.proposals) :])
        fresh = [proposal for proposal in proposals if proposal.key not in known]
        self._known += len(proposals) - len(fresh)
        await self._retire_all(found.supersedes)
        await self._ask_all(sorted(fresh, key=lambda proposal: ORDER.index(proposal.kind)), still_open)

    def _note(self, found: Found) -> None:
        self._found.update(found.counts)
        self._skipped.update(found.skipped)
        self._compared = found.compared
        self._cut.update(found.cut)

    def _is_told(self, proposal: Proposal) -> bool:
        return _told_key(proposal) in self._told

    def _check(self) -> None:
        if not self._proceed():
            raise Interrupted

    # Retiring

    async def _retire_all(self, acts: Sequence[Supersede]) -> None:
        room = max(0, self._settings.supersedes_max - self._superseded)
        if len(acts) > room:
            self._left = len(acts) - room
            self._carried += self._left
            self._cut.add("supersedes")
        for group in _apart(acts[:room]):
            self._check()
            if self._lease.dry_run:
                for act in group:
                    self._superseded += 1
                    self._record(act)
                continue
            async with self._reader.paced():
                outcomes = await asyncio.gather(*map(self._retire, group))
            for act, outcome in zip(group, outcomes, strict=True):
                if outcome is None:
                    self._superseded += 1
                    self._record(act)
                else:
                    self._skipped[outcome] += 1

    async def _retire(self, act: Supersede) -> str | None:
        """Retire one record; gives why not, when the store or an earlier decision of a person stands against it."""
        loser, keeper = act.loser, act.keeper
        try:
            if loser.revision >= _RESTORED_REVISION and await self._reader.was_restored(loser.id, self._principal):
                return "restored_by_a_person"
            reply = await self._reader.repeated(
                partial(
                    self._client.with_key(f"{self._lease.run_id}:{loser.id}").supersede,
                    id=loser.id,
                    by=keeper.id,
                    reason=act.reason,
                    run_id=self._lease.run_id,
                    expected_revision=self._revision(loser),
                    expected_by_revision=self._revision(keeper),
                )
            )
        except FunctionError as error:
            if error.code not in _EXPECTED:
                raise
            return f"refused_{error.code}"
        self._revisions[keeper.id] = reply.by.revision
        return None

    def _revision(self, item: Item) -> int:
        return self._revisions.get(item.id, item.revision)

    def _record(self, act: Supersede) -> None:
        if len(self._acts) < ACTS_IN_REPORT:
            self._acts.append(ConsolidateAct(act="supersede", kind=act.kind, id=act.loser.id, by=act.keeper.id))

    # Asking

    async def _ask_all(self, proposals: list[Proposal], still_open: int) -> None:
        if self._judge_subject is not None and proposals:
            kept = await judged(self._client.bus, proposals, self._judge_subject)
            if kept is None:
                self._cut.add("judge")
            else:
                self._skipped["judge"] += len(proposals) - len(kept)
                proposals = kept
        room = max(
            0,
            min(self._settings.suggestions_max - self._suggested, self._settings.open_max - still_open),
        )
        asked = 0
        for number, proposal in enumerate(proposals):
            if asked >= room:
                self._carried += len(proposals) - number
                self._cut.add("suggestions")
                break
            self._check()
            if self._lease.dry_run or await self._ask(proposal):
                asked += 1
                self._suggested += 1
                self._record_proposal(proposal)

    async def _ask(self, proposal: Proposal) -> bool:
        """Make one suggestion; False when it was known, is true already, or cannot be made any more."""
        mark = "-".join(sorted(proposal.key))
        try:
            reply = await self._reader.asked(
                partial(
                    self._client.with_key(f"{self._lease.run_id}:{mark}").suggest,
                    change=ProposedChange(function=proposal.function, args=proposal.args),
                    reason=proposal.reason,
                    bank=self._bank,
                    run_id=self._lease.run_id,
                )
            )
        except FunctionError as error:
            if error.code not in _EXPECTED:
                raise
            self._skipped[f"refused_{error.code}"] += 1
            return False
        if proposal.function in _ABOUT_RULES:
            self._newly_told.append(_told_key(proposal))
        if reply.outcome != "awaiting_review":
            self._known += 1
            return False
        return True

    def _record_proposal(self, proposal: Proposal) -> None:
        if len(self._acts) < ACTS_IN_REPORT:
            first, *others = sorted(proposal.key)
            identifier = str(proposal.args.get("id", first))
            by = proposal.args.get("by", others[0] if others else None)
            self._acts.append(ConsolidateAct(act="suggest", kind=proposal.kind, id=identifier, by=by))

    async def _unused(self, items: Sequence[Item], known: set[frozenset[str]]) -> list[Proposal]:
        """Offer for deletion what only a model wrote down, nobody repeated, and no turn was ever given."""
        before = moment(self._clock()) - timedelta(days=self._settings.unused_days)
        old = [
            item
            for item in items
            if item.tier == "inferred"
            and not item.pinned
            and not item.corroboration
            and item.last_seen_at < before
            and frozenset((item.id,)) not in known
        ]
        old.sort(key=lambda item: (item.last_seen_at, item.id))
        proposals = []
        for item in old[: self._settings.unused_max]:
            self._check()
            if await self._reader.was_used(item.id):
                self._skipped["used"] += 1
                continue
            since = item.last_seen_at.date().isoformat()
            reason = f"written down by itself, not heard again since {since}, never recalled"
            proposals.append(Proposal("unused", "delete", {"id": item.id}, reason, frozenset((item.id,)), (item.text,)))
        return proposals

    def _outcome(self, state: str, error: str | None) -> Outcome:
        report = ConsolidateReport(
            run_id=self._lease.run_id,
            bank=self._bank,
            trigger=self._lease.trigger,
            dry_run=self._lease.dry_run,
            state="done" if state == "done" else "failed" if state == "failed" else "interrupted",
            started_at=moment(self._lease.started_at),
            finished_at=moment(self._clock()),
            memories=self._memories,
            compared=self._compared,
            found=dict(sorted(self._found.items())),
            superseded=self._superseded,
            suggested=self._suggested,
            known=self._known,
            carried=self._carried,
            skipped={name: count for name, count in sorted(self._skipped.items()) if count},
            cut=tuple(sorted(self._cut)),
            requests=self._reader.requests,
            acts=tuple(self._acts),
            error=error,
        )
        return Outcome(report, tuple(self._newly_told), self._left)


def _told_key(proposal: Proposal) -> str:
    return "+".join(sorted(proposal.key))


def _apart(acts: Sequence[Supersede]) -> list[list[Supersede]]:
    """Cut acts into groups that touch no record twice, in order, so that each sees what the one before did."""
    groups: list[list[Supersede]] = []
    touched: set[str] = set()
    for act in acts:
        ids = {act.loser.id, act.keeper.id}
        if not groups or len(groups[-1]) >= TOGETHER or ids & touched:
            groups.append([])
            touched = set()
        groups[-1].append(act)
        touched |= ids
    return groups
