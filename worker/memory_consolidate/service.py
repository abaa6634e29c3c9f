"""The consolidate worker: marks what changed, runs banks when they are due, and answers `consolidate.*`."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from memory_consolidate import schedule
from memory_consolidate.bucket import Bucket, Changed
from memory_consolidate.keeping import holding
from memory_consolidate.passing import Outcome, Run
from memory_consolidate.reading import Pace, rest
from memory_consolidate.settings import ConsolidateSettings
from memory_consolidate.state import BankState, Lease, States, Trigger, moment
from memory_contracts.client import MemoryClient
from memory_contracts.connection import BusError
from memory_contracts.errors import FunctionError, not_found
from memory_contracts.events import ItemChanged
from memory_contracts.functions.base import Reply, Request
from memory_contracts.functions.consolidating import (
    BankSchedule,
    ConsolidateReport,
    ConsolidateReportReply,
    ConsolidateReportRequest,
    ConsolidateRunReply,
    ConsolidateRunRequest,
    ConsolidateStatusReply,
)
from memory_contracts.serving import FunctionAnswer, FunctionCall, Serving, serve_functions

QUEUE = "memory-consolidate"
"""Queue group of the instances that answer."""
DURABLE = "system-consolidate"
"""Durable consumer of the instances that mark what changed."""
READ_EVENTS = frozenset({"created", "updated", "restored", "reinforced"})
"""Changes after which there may be something to find."""
BACKOFF_S = 60.0
BACKOFF_MAX_S = 3_600.0
"""Seconds a bank whose run failed is left alone, doubling with each failure in a row."""
JUDGE_SUBJECT = "router.v1.{tenant}.complete"
"""Where the optional judge is asked."""
ERROR_PAUSE_S = 2.0
"""Seconds before the bus is asked again after an error."""

log = structlog.get_logger(room="consolidate")


class Consolidator:
    """One instance. Several may run side by side: each bank is reserved by compare-and-set."""

    def __init__(
        self,
        client: MemoryClient,
        settings: ConsolidateSettings = ConsolidateSettings(),  # noqa: B008 - frozen
        *,
        clock: Callable[[], float] = time.time,
        pace: Pace = rest,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._pace = pace
        self._holder = secrets.token_hex(8)
        self._states = States(Bucket(client.bus))
        self._one_at_a_time = asyncio.Lock()
        self._failures: dict[str, tuple[int, float]] = {}
        self._stopping = False
        self._serving: list[Serving] = []

    async def serve(self) -> None:
        """Work until cancelled or until the connection is closed for good."""
        answers: dict[str, FunctionAnswer] = {
            "consolidate.run": self._answer_run,
            "consolidate.status": self._answer_status,
            "consolidate.report": self._answer_report,
        }
        self._serving = await serve_functions(self._client.bus, answers, queue=QUEUE)
        tasks = [
            asyncio.create_task(self._watch(), name="watch changes"),
            asyncio.create_task(self._keep_schedule(), name="keep schedule"),
            asyncio.create_task(self._client.bus.closed.wait(), name="bus closed"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(serving.stop() for serving in self._serving))

    # What changed

    async def _watch(self) -> None:
        """Mark banks whose memories changed. An event is acknowledged after the mark is written."""
        while True:
            try:
                async with self._client.on_item_changed(durable=DURABLE) as events:
                    async for event in events:
                        await self._mark(event)
                return  # closed for good
            except (BusError, Changed) as error:
                log.warning("consolidate.watch_failed", error=type(error).__name__)
                await asyncio.sleep(ERROR_PAUSE_S * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret

    async def _mark(self, event: ItemChanged) -> None:
        creds = self._client.bus.credentials
        own = (event.actor.route, event.actor.principal) == (creds.route, creds.principal)
        if own or event.event_type not in READ_EVENTS:
            return
        await self._states.change(event.bank, lambda state: schedule.changed(state, event.at.timestamp()))

    # When to run

    async def _keep_schedule(self) -> None:
        while True:
            try:
                await self.run_due()
            except (BusError, FunctionError, Changed) as error:
                log.warning("consolidate.schedule_failed", error=type(error).__name__)
            await asyncio.sleep(self._settings.tick_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret

    async def run_due(self) -> list[ConsolidateReport]:
        """Run every bank that is due, one after the other; gives the reports."""
        reports = []
        for bank in await self._banks():
            state = await self._states.get(bank)
            _, not_before = self._failures.get(bank, (0, 0.0))
            now = self._clock()
            if now < max(schedule.due_at(state, self._settings), not_before):
                continue
            report = await self.run_bank(bank, "schedule")
            if report is None:
                continue
            reports.append(report)
            if report.state == "failed":
                failures = self._failures.get(bank, (0, 0.0))[0] + 1
                pause = min(BACKOFF_S * 2 ** (failures - 1), BACKOFF_MAX_S)
                self._failures[bank] = (failures, self._clock() + pause)
            else:
                self._failures.pop(bank, None)
        return reports

    async def run_bank(self, bank: str, trigger: Trigger, *, dry_run: bool = False) -> ConsolidateReport | None:
        """Run one bank now; None when another instance or run has it. Raises BusError when the bucket is away."""
        if self._one_at_a_time.locked() and self._is_running(await self._states.get(bank)):
            return None
        async with self._one_at_a_time:
            now = self._clock()
            lease = Lease(
                holder=f"{self._holder}-{secrets.token_hex(4)}",
                until=now + self._settings.lease_s,
                run_id=new_run_id(now),
                trigger=trigger,
                dry_run=dry_run,
                started_at=now,
            )
            async with holding(self._states, bank, lease, self._settings.lease_s, self._clock) as held:
                if held is None:
                    return None
                state = await self._states.get(bank)
                run = Run(
                    self._client,
                    bank,
                    held.lease,
                    self._settings,
                    clock=self._clock,
                    proceed=lambda: held.valid() and not self._stopping,
                    told=frozenset(state.told),
                    judge_subject=self._judge_subject(),
                    pace=self._pace,
                )
                outcome = await run.go()
                await self._finish(bank, held.lease, outcome)
        report = outcome.report
        log.info(
            "consolidate.ran",
            bank=bank,
            run=report.run_id,
            state=report.state,
            memories=report.memories,
            superseded=report.superseded,
            suggested=report.suggested,
            carried=report.carried,
        )
        return report

    async def _finish(self, bank: str, lease: Lease, outcome: Outcome) -> None:
        """Write the report, then the schedule: a crash between the two runs the bank again and finds nothing."""
        await self._states.add_report(bank, outcome.report)
        if outcome.report.state == "done":
            await self._states.change(
                bank,
                lambda state: schedule.finished(
                    state, lease.holder, lease.trigger, dry_run=lease.dry_run, left=outcome.left, told=outcome.told
                ),
            )

    def _is_running(self, state: BankState) -> bool:
        return state.lease is not None and state.lease.until > self._clock()

    def _judge_subject(self) -> str | None:
        tenant = self._client.bus.credentials.tenant
        return JUDGE_SUBJECT.format(tenant=tenant) if self._settings.judge else None

    async def _banks(self) -> list[str]:
        return [bank.name for bank in (await self._client.bank_list()).banks if bank.trashed_at is None]

    # Functions

    async def _named(self, bank: str | None) -> list[str]:
        banks = await self._banks()
        if bank is None:
            return banks
        if bank not in banks:
            raise not_found(f"no bank {bank}", "bank", "consolidate.status names the banks that are looked after")
        return [bank]

    async def _answer_run(self, call: FunctionCall, request: Request) -> Reply:
        assert isinstance(request, ConsolidateRunRequest)
        reports, busy = [], []
        for bank in await self._named(request.bank):
            try:
                report = await self.run_bank(bank, "manual", dry_run=request.dry_run)
            except (BusError, Changed):
                raise FunctionError("unavailable", "the state of the consolidate worker cannot be reached") from None
            if report is None:
                busy.append(bank)
            else:
                reports.append(report)
        return ConsolidateRunReply(reports=reports, busy=tuple(busy))

    async def _answer_status(self, call: FunctionCall, request: Request) -> Reply:
        rows = []
        for bank in await self._named(None):
            try:
                state = await self._states.get(bank)
            except BusError:
                raise FunctionError("unavailable", "the state of the consolidate worker cannot be reached") from None
            running = state.lease if self._is_running(state) else None
            rows.append(
                BankSchedule(
                    bank=bank,
                    dirty=state.changed_at is not None,
                    next_at=moment(max(schedule.due_at(state, self._settings), self._clock())),
                    changed_at=None if state.changed_at is None else moment(state.changed_at),
                    last_run_at=None if state.ran_at is None else moment(state.ran_at),
                    running=running.run_id if running else None,
                    carried=state.carried,
                )
            )
        return ConsolidateStatusReply(banks=rows)

    async def _answer_report(self, call: FunctionCall, request: Request) -> Reply:
        assert isinstance(request, ConsolidateReportRequest)
        reports: list[ConsolidateReport] = []
        for bank in await self._named(request.bank):
            try:
                reports += await self._states.reports(bank)
            except BusError:
                raise FunctionError("unavailable", "the state of the consolidate worker cannot be reached") from None
        reports.sort(key=lambda report: report.started_at, reverse=True)
        return ConsolidateReportReply(reports=reports[: request.limit])


def new_run_id(now: float) -> str:
    """An id that sorts by time and that nobody can guess."""
    return f"run_{datetime.fromtimestamp(now, UTC):%Y%m%d%H%M%S}{secrets.token_hex(8)}"
