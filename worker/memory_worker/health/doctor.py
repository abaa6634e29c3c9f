"""Runs every check of the doctor and reports one line each: what was seen, and what to do."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from memory_contracts.functions.operations import Check, DoctorReply

State = Literal["ok", "degraded", "failing"]
Examine = Callable[[], Awaitable[Sequence[Check]]]
"""Looks at one part and gives its lines; raising is a failing line, so a check need not catch."""

CHECK_DEADLINE_S = 10.0
"""Longest wait for one part; the others are reported all the same."""
_WORST_FIRST: tuple[State, ...] = ("failing", "degraded")


class DoctorService:
    """Composes the checks; each part is examined on its own, so a broken one hides no other."""

    def __init__(self, version: str, parts: Sequence[tuple[str, Examine]] = ()) -> None:
        self._version = version
        self._parts = list(parts)

    def add(self, name: str, examine: Examine) -> None:
        """Examine one more part; `name` leads its line when it breaks."""
        self._parts.append((name, examine))

    async def examine(self) -> DoctorReply:
        """Run all checks side by side; the report keeps the order of the parts."""
        found = await asyncio.gather(*(_run(name, examine) for name, examine in self._parts))
        checks = [check for lines in found for check in lines]
        states = {check.state for check in checks}
        worst: State = next((state for state in _WORST_FIRST if state in states), "ok")
        return DoctorReply(state=worst, checks=checks, version=self._version)


async def _run(name: str, examine: Examine) -> Sequence[Check]:
    started = time.perf_counter()
    try:
        return await asyncio.wait_for(examine(), CHECK_DEADLINE_S)
    except TimeoutError:
        detail = f"gave no result within {time.perf_counter() - started:.0f} s"
    except Exception as error:  # one broken part must not cost the report of the others
        detail = f"broke: {type(error).__name__}"
    return [Check(name=name, state="failing", detail=detail, hint="look at the worker's log for this minute")]


class Roundtrip(msgspec.Struct, frozen=True, kw_only=True):
    """The callables a roundtrip goes through; each raises when its step fails.

    `save` takes a text and gives the memory's id; the others take that id. `recall` takes the id and the text.
    `trigger` and `file` wait for the change to arrive, so they bring their own deadline. `erase` destroys the
    scratch bank with all that the roundtrip left, and is called whatever happened before.
    """

    save: Callable[[str], Awaitable[str]]
    committed: Callable[[str], Awaitable[None]]
    recall: Callable[[str, str], Awaitable[None]]
    trigger: Callable[[str], Awaitable[None]] | None
    file: Callable[[str], Awaitable[None]] | None
    erase: Callable[[], Awaitable[None]]


ROUNDTRIP_TEXT = "The doctor's thermometer lies in the blue drawer."
"""What the doctor saves, finds and erases again."""


def roundtrip(steps: Roundtrip) -> Examine:
    """Save, re-read from disk, recall, see the trigger and the file, erase: for real, in a scratch bank."""

    async def examine() -> Sequence[Check]:
        done: list[str] = []
        lines: list[Check] = []
        started = time.perf_counter()
        step = "save"
        try:
            memory_id = await steps.save(ROUNDTRIP_TEXT)
            done.append(step)
            step = "commit"
            await steps.committed(memory_id)
            done.append(step)
            step = "recall"
            await steps.recall(memory_id, ROUNDTRIP_TEXT)
            done.append(step)
            for step, wait in (("trigger", steps.trigger), ("file", steps.file)):
                if wait is not None:
                    await wait(memory_id)
                    done.append(step)
        except Exception as error:  # the step is named, the rest of the report goes on
            lines.append(_broken(step, done, error))
        try:
            await steps.erase()
            done.append("erase")
        except Exception as error:
            lines.append(_broken("erase", done, error))
        if not lines:
            ms = (time.perf_counter() - started) * 1_000
            lines.append(Check(name="roundtrip", state="ok", detail=f"{' → '.join(done)} in {ms:.0f} ms"))
        return lines

    return examine


def _broken(step: str, done: list[str], error: Exception) -> Check:
    reached = f" after {' → '.join(done)}" if done else ""
    reason = str(error) if isinstance(error, RoundtripError) else type(error).__name__
    return Check(
        name="roundtrip",
        state="degraded" if step in ("trigger", "file") else "failing",
        detail=f"{step} did not work{reached}: {reason}",
        hint=_STEP_HINTS[step],
    )


class RoundtripError(Exception):
    """A step of the roundtrip did not do what it should; the text says what, and quotes nothing stored."""


_STEP_HINTS = {
    "save": "see the lines on disk space and the store",
    "commit": "the record was acknowledged but is not on disk: stop and check the disk",
    "recall": "the recall index is behind or broken: see the readers' lag",
    "trigger": "changes are kept and published later: see the bus and the relay's lag",
    "file": "files are written later: see the file mirror's lag and problems",
    "erase": "the scratch bank is still there: `memory banks` shows it",
}
