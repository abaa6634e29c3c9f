"""At start: compares what the server lets the worker do with what it needs, and proves what it must not do."""

import asyncio
from collections.abc import Iterable

import msgspec

from memory_contracts.connection import Bus, BusError, NotPermitted
from memory_worker.bus.accounts import QUEUE, USER_INFO, Layout, Permissions

PROOF_S = 1.0
"""Seconds the server gets to refuse a publish it must refuse."""


class _Allowed(msgspec.Struct):
    allow: list[str] = []
    deny: list[str] = []


class _Granted(msgspec.Struct):
    publish: _Allowed | None = None
    subscribe: _Allowed | None = None


class _User(msgspec.Struct):
    user: str = ""
    account: str = ""
    permissions: _Granted | None = None


class _Info(msgspec.Struct):
    data: _User | None = None


class PermissionReport(msgspec.Struct, frozen=True):
    """What the self-test found. `missing` stops the worker; `excess` and `unproven` are warnings for the operator."""

    user: str
    missing: list[str]
    excess: list[str]
    unproven: list[str]

    @property
    def ok(self) -> bool:
        """Whether the worker can do everything it needs."""
        return not self.missing


class PermissionsMissing(BusError):
    """The server does not let the worker do what it needs; the message lists every subject."""


def forbidden_to_worker(layout: Layout) -> list[str]:
    """Subjects on which the worker must be refused: a caller's, a harness's, and the administration of streams."""
    tenant = layout.tenants[0]
    return [
        layout.subjects.rpc(tenant, "human", "selftest", "save"),
        layout.subjects.turn_completed(tenant, "selftest"),
        "$JS.API.STREAM.CREATE.memory-selftest",
    ]


async def check_permissions(bus: Bus, needed: Permissions, must_not: Iterable[str]) -> PermissionReport:
    """Compare the server's word with `needed`, and try one empty publish on each of `must_not`.

    `excess` lists grants that go beyond what is needed, `unproven` the forbidden subjects that were not refused.
    A server that gives no permissions for the user allows everything, which shows as excess `>`.
    """
    info = msgspec.json.decode((await bus.request(USER_INFO, b"", within=2.0)).data, type=_Info)
    user = info.data or _User()
    granted = user.permissions or _Granted()
    publish, subscribe = granted.publish or _Allowed(allow=[">"]), granted.subscribe or _Allowed(allow=[">"])
    wanted_subscribe = [subject.removesuffix(f" {QUEUE}") for subject in needed.subscribe]
    missing = [
        *(f"publish {subject}" for subject in needed.publish if not _covered(subject, publish)),
        *(f"subscribe {subject}" for subject in wanted_subscribe if not _covered(subject, subscribe)),
    ]
    excess = [
        *(f"publish {subject}" for subject in publish.allow if not _within(subject, needed.publish)),
        *(
            f"subscribe {subject}"
            for subject in subscribe.allow
            if not _within(subject.split(" ")[0], wanted_subscribe)
        ),
    ]
    unproven = [subject for subject in must_not if not await _refused(bus, subject)]
    return PermissionReport(user.user, missing, excess, unproven)


async def _refused(bus: Bus, subject: str) -> bool:
    """Publish nothing on a forbidden subject. Were it let through, no stream would store it and no call would act."""
    try:
        await bus.request(subject, b"", within=PROOF_S, headers={"Nats-Expected-Stream": "memory-selftest"})
    except NotPermitted:
        return True
    except BusError:
        return False
    return False


def _covered(subject: str, allowed: _Allowed) -> bool:
    return _within(subject, [entry.split(" ")[0] for entry in allowed.allow]) and not _within(subject, allowed.deny)


def _within(subject: str, patterns: Iterable[str]) -> bool:
    return any(subject_matches(pattern, subject) for pattern in patterns)


def subject_matches(pattern: str, subject: str) -> bool:
    """Tell whether everything that `subject` (itself perhaps with wildcards) names lies under `pattern`."""
    wanted, given = pattern.split("."), subject.split(".")
    for i, part in enumerate(wanted):
        if part == ">":
            return len(given) > i
        if i >= len(given) or given[i] == ">" or part not in ("*", given[i]):
            return False
    return len(wanted) == len(given)


async def prove_all(bus: Bus, needed: Permissions, must_not: Iterable[str]) -> PermissionReport:
    """Check and raise PermissionsMissing when the worker could not work; other findings are in the report."""
    async with asyncio.timeout(30.0):
        report = await check_permissions(bus, needed, must_not)
    if report.missing:
        raise PermissionsMissing(
            f"the bus does not let {report.user or 'the worker'}: {', '.join(report.missing)}; deploy/nats has the list"
        )
    return report
