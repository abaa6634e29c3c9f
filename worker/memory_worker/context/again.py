"""Gives the answer of an earlier turn again, from ids and revisions, when it is no longer held in memory."""

import msgspec

from memory_contracts.functions.recalling import ContextReply
from memory_worker.context import rules
from memory_worker.context.assemble import render, restore_rules
from memory_worker.context.block import Entry
from memory_worker.context.given import Detail, Session
from memory_worker.context.live import LiveBanks
from memory_worker.store import TenantStore, uses

_decode = msgspec.json.Decoder(Detail).decode


async def rebuild(
    store: TenantStore, live: LiveBanks, session: Session, session_id: str, turn_id: str, budgets: rules.Budgets
) -> ContextReply | None:
    """Give a turn the bytes it had, as far as forgetting and acknowledged notices let it; None without a record."""
    rows = await uses.of_turn(store.readers, turn_id, session_id)
    if not rows:
        return None
    row = rows[0]
    detail = _decode(row.detail)
    key = (row.bank, detail.agent)
    told = session.rules.get(key)
    if told is None and key in session.stored:
        told = await restore_rules(store, session.stored[key])
    if told is None:
        return None
    texts = await uses.rules_at(
        store.readers, [(step.bank, step.name, n) for step in detail.steps for n in (step.before, step.after) if n]
    )
    update, _ = rules.render_update(detail.steps, lambda bank, name, n: texts.get((bank, name, n)), budgets)
    found = await uses.memories_at(store.readers, [(item.memory, item.revision) for item in row.memories])
    entries = [
        Entry(found[item.memory, item.revision], item.chars, item.changed)
        for item in row.memories
        if (item.memory, item.revision) in found
    ]
    waiting = {notice.id: notice for name in detail.scope for notice in (await live.content(name)).notices}
    reply = render(
        bank=row.bank,
        told=told,
        update=update,
        entries=entries,
        scores={item.memory: item.score for item in row.memories},
        total=detail.total,
        notices=[waiting[notice] for notice in detail.notices if notice in waiting],
        mode=detail.mode,
        truncated=detail.truncated,
        readback=detail.readback,
    )
    return msgspec.structs.replace(reply, used_rules=list(detail.rules))
