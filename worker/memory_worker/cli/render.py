"""Turns records into text for a terminal; stored text can never steer it."""

import json
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import click

from memory_contracts.functions.operations import DoctorReply, ExtractionStatusReply, FilesStatusReply
from memory_contracts.functions.recalling import ArmReport, Recalled
from memory_contracts.records import Bank, Change, Entity, Memory, Notice, Receipt, Rule, Source, Suggestion, Use

MARK = {"ok": "✓", "degraded": "!", "failing": "✗"}
_COLOUR = {"ok": "green", "degraded": "yellow", "failing": "red"}
WIDTH_MAX = 110
"""Widest text, in columns."""


def clean(text: str, *, keep_lines: bool = False) -> str:
    """Make stored text harmless at a terminal: control, format and direction characters become visible or spaces."""
    return "".join(
        char if (keep_lines and char == "\n") or _harmless(char) else (" " if char in "\n\r\t" else "�")
        for char in text
    )


def _harmless(char: str) -> bool:
    # Zero-width joiner and variation selectors shape emoji and scripts; other format characters can reorder a line.
    return unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp", "Cs") or char in "\u200c\u200d"


def dim(text: str) -> str:
    """Print as a side remark."""
    return click.style(text, dim=True)


def day(at: datetime | None) -> str:
    """The date part, UTC."""
    return at.strftime("%Y-%m-%d") if at else ""


def moment(at: datetime | None) -> str:
    """Date and time to the second, UTC."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ") if at else ""


def paragraph(text: str, lead: str = "") -> str:
    """Wrap one statement behind `lead`."""
    width = max(40, min(shutil.get_terminal_size((100, 24)).columns, WIDTH_MAX))
    return textwrap.fill(
        clean(text), width=width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Align columns; the last one may run on."""
    body = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max([len(title), *(len(row[at]) for row in body)]) for at, title in enumerate(head)]
    lines = [dim("  ".join(title.ljust(widths[at]) for at, title in enumerate(head)).rstrip())]
    lines += ["  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip() for row in body]
    return "\n".join(lines)


def memory(record: Memory, *, lead: str = "• ", extra: Sequence[str] = ()) -> str:
    """One memory: the statement, and below it what is known about it."""
    notes = [record.tier, day(record.occurred_at or record.created_at), record.kind]
    notes += [f"#{tag}" for tag in record.tags] + [f"@{entity}" for entity in record.entities] + list(record.about)
    if record.claim:
        notes.append(f"{record.claim.entity}.{record.claim.property}={record.claim.value}")
    notes += ["pinned"] if record.pinned else []
    notes += [f"{record.confidence} confidence"] if record.confidence != "normal" else []
    notes += [f"protected {record.protected}"] if record.protected else []
    notes += [record.state] if record.state != "live" else []
    notes += [f"until {day(record.expires_at)}"] if record.expires_at and not record.pinned else []
    below = clean(" · ".join([*notes, *extra, record.id]))
    return f"{paragraph(record.text, lead)}\n{' ' * len(lead)}{dim(below)}"


def memory_page(record: Memory) -> str:
    """One memory with every field."""
    rows: list[tuple[str, str]] = [
        ("id", record.id),
        ("bank", record.bank),
        ("kind", record.kind),
        ("tier", record.tier),
        ("state", record.state + (f" by {record.superseded_by}" if record.superseded_by else "")),
        ("revision", str(record.revision)),
        ("confidence", record.confidence),
        ("pinned", "yes" if record.pinned else ""),
        ("subject", record.subject or ""),
        ("slot", record.slot or ""),
        ("entities", ", ".join(record.entities)),
        ("tags", ", ".join(record.tags)),
        ("about", ", ".join(record.about)),
        ("claim", f"{record.claim.entity} · {record.claim.property} · {record.claim.value}" if record.claim else ""),
        ("said again", f"{record.corroboration}×" if record.corroboration else ""),
        ("happened", moment(record.occurred_at)),
        ("created", moment(record.created_at)),
        ("updated", moment(record.updated_at)),
        ("last seen", moment(record.last_seen_at)),
        ("expires", moment(record.expires_at)),
        ("source", source(record.source)),
        ("quote", record.source.quote or ""),
        ("reason", record.reason or ""),
        ("protected", f"{record.protected} (memory reveal)" if record.protected else ""),
    ]
    lines = [paragraph(record.text), ""]
    lines += [f"{dim(name.ljust(10))}  {clean(value)}" for name, value in rows if value]
    return "\n".join(lines)


def source(origin: Source) -> str:
    """Where a text came from, in one line."""
    parts = [f"{origin.route}.{origin.principal}"]
    parts += [f"session {origin.session_id}"] if origin.session_id else []
    parts += [f"turn {origin.turn_id}"] if origin.turn_id else []
    parts += [f"{origin.role} message {', '.join(origin.message_ids)}"] if origin.message_ids else []
    parts += [f"pattern {origin.pattern}"] if origin.pattern else []
    parts += [f"model {origin.model}"] if origin.model else []
    return " · ".join(parts)


def recalled(found: Recalled) -> str:
    """One recalled memory with its score, and how each arm saw it."""
    arms = [f"{name} {score:.2f}" for name, score in found.arms.items()]
    parts = [f"{name} {value:+.3f}" for name, value in (found.parts or {}).items()]
    return memory(found.memory, lead=f"{found.score:.2f}  ", extra=[*arms, *parts])


def arm_line(mode: str, arms: Sequence[ArmReport], cut: str | None) -> str:
    """How a recall was made."""
    told = ", ".join(
        f"{arm.name} {arm.candidates} in {arm.ms:.1f} ms" + (f" ({arm.state})" if arm.state != "ok" else "")
        for arm in arms
    )
    return dim(clean(f"{mode or 'no arm ran'}: {told}" + (f"; cut: {cut}" if cut else "")))


def change(row: Change) -> str:
    """One journal row in one line."""
    what = f"{row.type} {row.target}"
    who = f"{row.actor.route}.{row.actor.principal}"
    note = " · ".join(part for part in (who, f"{row.cause.kind} {row.cause.id}", row.bank, row.id) if part)
    return f"{moment(row.at)}  {clean(what)}  {dim(clean(note))}"


def revision(row: Change) -> str:
    """One revision of a memory: what it became, who did it."""
    after = row.after if isinstance(row.after, dict) else {}
    text, tier, number = (str(after.get(key, "")) for key in ("text", "tier", "revision"))
    who = f"{row.actor.route}.{row.actor.principal}"
    head = f"{number:>3}  {moment(row.at)}  {row.type.removeprefix('memory.')} by {who}"
    note = " · ".join(part for part in (tier, f"{row.cause.kind} {row.cause.id}", row.id) if part)
    below = f"     {dim(clean(note))}"
    return "\n".join(line for line in (clean(head), paragraph(text, "     ") if text else "", below) if line)


def bank(record: Bank) -> Sequence[object]:
    """One row of the bank table."""
    counts = record.counts
    notes = [record.description]
    notes += [f"private to {record.owner}"] if record.owner else []
    notes += [f"over {', '.join(record.layers)}"] if record.layers else []
    notes += ["every change is reviewed"] if record.review == "all" else []
    notes += [f"in the trash since {day(record.trashed_at)} ({record.trash_id})"] if record.trashed_at else []
    return (
        record.name,
        counts.live if counts else "",
        counts.rules if counts else "",
        counts.suggestions if counts else "",
        record.expiry,
        "; ".join(note for note in notes if note),
    )


BANK_HEAD = ("bank", "memories", "rules", "waiting", "expiry", "")


def rule(record: Rule) -> str:
    """One rule, whole."""
    head = click.style(record.name, bold=True)
    note = dim(
        clean(f"  {record.bank} · priority {record.priority} · revision {record.revision} · {day(record.updated_at)}")
    )
    return f"{head}{note}\n{clean(record.content, keep_lines=True)}"


def suggestion(record: Suggestion) -> str:
    """One suggestion: what is believed now beside what is proposed."""
    mark = click.style("destructive ", fg="red") if record.destructive else ""
    state = f" · {record.state}" if record.state != "open" else ""
    head = f"{mark}{click.style(record.change.function, bold=True)}  {clean(record.reason)}"
    note = clean(
        f"{record.by.route}.{record.by.principal} · {record.bank} · {day(record.created_at)}"
        f" · lapses {day(record.expires_at)}{state} · {record.id}"
    )
    lines = [head, f"  {dim(note)}"]
    if record.now is not None:
        lines.append(paragraph(brief(record.now), "  now       "))
    lines.append(
        paragraph(brief(record.proposed if record.proposed is not None else record.change.args), "  proposed  ")
    )
    return "\n".join(lines)


def brief(value: Any) -> str:
    """The text of a record where it has one, else its JSON."""
    if isinstance(value, dict):
        for key in ("text", "content", "name"):
            if isinstance(value.get(key), str) and value[key]:
                return str(value[key])
        if isinstance(value.get("memory"), dict):
            return brief(value["memory"])
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def notice(record: Notice) -> str:
    """One notice."""
    seen = f" · told {day(record.acked_at)}" if record.acked_at else ""
    note = f"{record.kind} · {record.bank} · {day(record.at)}{seen} · {record.id}"
    return f"{paragraph(record.text, '• ')}\n  {dim(clean(note))}"


def use(record: Use) -> str:
    """What one turn was given."""
    note = dim(clean(f"session {record.session_id} · {record.bank}"))
    lines = [f"{moment(record.at)}  turn {clean(record.turn_id)}  {note}"]
    lines += [f"    {given.score:.2f}  {given.id} revision {given.revision}" for given in record.memories]
    lines += [f"    rule {clean(given.name)} revision {given.revision} ({given.bank})" for given in record.rules]
    return "\n".join(lines)


def entity(record: Entity) -> str:
    """One entity in one line."""
    aliases = ", ".join(f"{alias.channel}:{alias.value}" for alias in record.aliases)
    state = record.state if record.state != "live" else ""
    note = " · ".join(part for part in (record.kind, state, aliases, record.id) if part)
    return f"{clean(record.name)}  {dim(clean(note))}"


def receipt(record: Receipt) -> str:
    """What a forgetting destroyed."""
    lines = [f"{record.state}: {record.id} at {moment(record.at)}"]
    lines += [f"  {count:>7,}  {clean(place)}" for place, count in sorted(record.counts.items())]
    lines += [f"  {click.style('not reached', fg='yellow')}  {clean(place)}" for place in record.unreachable]
    return "\n".join(lines)


def doctor(reply: DoctorReply) -> str:
    """The doctor's report, one line per check."""
    width = max((len(check.name) for check in reply.checks), default=0)
    lines = []
    for check in reply.checks:
        mark = click.style(MARK[check.state], fg=_COLOUR[check.state], bold=True)
        lines.append(f"{mark} {check.name.ljust(width)}  {clean(check.detail)}")
        if check.hint and check.state != "ok":
            lines.append(f"  {' ' * width}  {dim('→ ' + clean(check.hint))}")
    lines.append(f"\n{click.style(reply.state, fg=_COLOUR[reply.state], bold=True)}  memory-worker {reply.version}")
    return "\n".join(lines)


def extraction(reply: ExtractionStatusReply) -> str:
    """How reading turns is going."""
    lines = [
        f"waiting {reply.backlog} · in work {reply.in_work} · oldest {reply.oldest_age_s:.0f} s · kept {reply.kept}",
        f"extractor {reply.extractor} · router {reply.router}",
    ]
    for name, counts in (("refused", reply.refused), ("left out", reply.ignored), ("waits for", reply.waiting)):
        if counts:
            lines.append(
                f"{name}: " + ", ".join(f"{clean(reason)} {count}" for reason, count in sorted(counts.items()))
            )
    lines.append(f"parked {reply.parked_total}")
    lines += [f"  {moment(turn.at)}  {clean(turn.turn_id)}  {clean(turn.reason)}" for turn in reply.parked]
    return "\n".join(lines)


def files(reply: FilesStatusReply) -> str:
    """How the markdown files stand."""
    if not reply.mirrored:
        return "not mirrored, as set (files = false)"
    behind = f"{reply.lag_rows:,} changes not written yet, for {reply.lag_s:.0f} s" if reply.lag_rows else "in step"
    watching = "watching" if reply.watching else "looked at from time to time"
    lines = [
        f"files      {reply.files:,}, {behind}",
        f"last sync  {moment(reply.last_sync_at) or 'not since the start'}",
        f"last look  {moment(reply.last_scan_at) or 'not since the start'}, {watching}",
        f"not read   {reply.problems_total}",
    ]
    lines += [f"  {clean(one.path)}: {clean(one.reason)} (since {moment(one.since)})" for one in reply.problems]
    if reply.not_written:
        lines.append(f"not written {reply.not_written}; they are tried again, `memory doctor` says why")
    if reply.vanished:
        lines.append("many files vanished at once; nothing is deleted until a person decides (`memory suggestions`)")
    if reply.error:
        lines.append(f"stopped by {clean(reply.error)}; tried again")
    lines += [f"{run.function:<10} {run.done:,} of {run.total or '?'} memories" for run in reply.running]
    return "\n".join(lines)
