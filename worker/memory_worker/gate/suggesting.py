"""Takes proposals: any change that a person decides, and what a correction or a note on a bad run teaches."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from memory_contracts.errors import FunctionError, forbidden, invalid
from memory_contracts.functions.memories import SaveRequest, UpdateRequest
from memory_contracts.functions.review import LearnReply, LearnRequest, SuggestReply, SuggestRequest
from memory_contracts.records import Source, Suggestion
from memory_worker.gate import applying, changing, identities, proposals, ruling
from memory_worker.gate.access import open_bank
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_document, clean_label, clean_text
from memory_worker.gate.contradicting import firmly_against
from memory_worker.gate.drafts import clean_claim, draft_of, request_of
from memory_worker.gate.recognising import values_in
from memory_worker.gate.refusing import RuledOut
from memory_worker.gate.saving import Vault, claims_protected, is_protected
from memory_worker.gate.turns import TurnItem
from memory_worker.store import banks, entities, memories, rules
from memory_worker.store.banks import BankRow
from memory_worker.store.caller import EXTRACTION
from memory_worker.store.fingerprint import fingerprint

LESSONS_MAX = 50
"""Most suggestions that one `learn` makes."""


class Lessons(msgspec.Struct, frozen=True, kw_only=True):
    """What a note teaches: statements to keep, and standing instructions for `learned`."""

    items: tuple[TurnItem, ...] = ()
    learned: tuple[TurnItem, ...] = ()


class LessonReader(Protocol):
    """Reads a note as a turn is read: quotes checked, secrets refused, only what will still be true next month."""

    async def read(self, bank: str, text: str) -> Lessons:
        """Give what a note teaches. Raises `unavailable` when a model is needed and away."""
        ...


class _Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was looked at: what it is about, what is believed now, and whether it is so already."""

    bank: BankRow
    args: dict[str, Any]
    targets: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    now: Any = None
    proposed: Any = None
    true_already: bool = False


def suggest(act: Act, request: SuggestRequest, vault: Vault) -> SuggestReply:
    """Propose a change; nothing is changed now.

    Raises `invalid_input` for a function that cannot be proposed and for arguments that are not its own, and what the
    function itself raises for records that are not there.
    """
    function = request.change.function
    if function not in applying.REQUESTS:
        raise invalid(
            f"{function} cannot be proposed", "change.function", f"one of {', '.join(sorted(applying.REQUESTS))}"
        )
    args = dict(request.change.args)
    if request.bank is not None and "bank" in applying.REQUESTS[function].__struct_fields__:
        args.setdefault("bank", request.bank)
    wanted = applying.read(args, applying.REQUESTS[function], "change.args")
    reason = clean_text(request.reason, "reason", 500)
    if act.writer.route != "human":
        _check_not_ruled_out(act, wanted, vault)
    try:
        proposal = _look(act, function, wanted)
    except FunctionError as error:
        raise _within(error, request) from None
    if proposal.true_already:
        return SuggestReply(outcome="already_true", suggestion=None)
    suggestion, new = proposals.propose(
        act,
        proposal.bank,
        function,
        proposal.args,
        reason=reason,
        targets=proposal.targets,
        keys=proposal.keys,
        now=proposal.now,
        proposed=proposal.proposed,
    )
    return SuggestReply(outcome="awaiting_review" if new else "known", suggestion=suggestion)


def _within(error: FunctionError, request: SuggestRequest) -> FunctionError:
    """An error of the proposed function, its field named by the path that it has in this request."""
    field = error.field
    asked_beside = field == "bank" and "bank" not in request.change.args
    if field is None or asked_beside or field.startswith("change."):
        return error
    return FunctionError(error.code, error.message, field=f"change.args.{field}", hint=error.hint)


def _check_not_ruled_out(act: Act, wanted: Any, vault: Vault) -> None:
    """Raise `RuledOut` when any text of a change was forgotten, or is about somebody not to be learned about."""
    texts = list(_texts(msgspec.to_builtins(wanted)))
    if any(vault.was_forgotten(act, line, ()) for text in texts for line in {text, *ruling.lines_of(text)}):
        raise RuledOut


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _look(act: Act, function: str, wanted: Any) -> _Proposal:
    if function == "save":
        return _look_at_save(act, wanted)
    if function in ("update", "delete", "pin"):
        return _look_at_memory(act, function, wanted)
    if function == "supersede":
        return _look_at_supersede(act, wanted)
    if function in ("rule.set", applying.LEARNED_ADD):
        return _look_at_rule(act, function, wanted)
    if function.startswith("bank."):
        return _look_at_bank(act, function, wanted)
    return _look_at_entity(act, function, wanted)


def _look_at_save(act: Act, wanted: SaveRequest) -> _Proposal:
    bank = open_bank(act, wanted.bank, write=True)
    draft = draft_of(act, wanted, act.writer.tier, Source(route=act.writer.route, principal=act.writer.principal))
    if is_protected(act, draft):
        raise forbidden("a protected value cannot wait in a suggestion", "change.args.protected", "a person saves it")
    known = memories.live_by_text(act.tx, bank.n, fingerprint(draft.text))
    against = firmly_against(act, bank, draft.subject, draft.claim)
    args = msgspec.to_builtins(request_of(draft, bank.bank.name))
    return _Proposal(
        bank=bank,
        args=args,
        targets=(against.memory.id,) if against else (),
        keys=(proposals.text_key(bank, draft.text),),
        now=proposals.builtins(against.memory) if against else None,
        proposed=args,
        true_already=known is not None and (known.memory.pinned or not draft.pinned),
    )


def _look_at_memory(act: Act, function: str, wanted: Any) -> _Proposal:
    row, bank = changing.find(act, wanted.id, write=True)
    memory = row.memory
    changing.check_revision(memory, wanted.expected_revision)
    args = {**msgspec.to_builtins(wanted), "expected_revision": memory.revision}
    if function == "delete":
        true_already = memory.state != "live"
    elif memory.state != "live":
        raise FunctionError("conflict", f"memory {memory.id} is {memory.state}", field="change.args.id")
    elif function == "pin":
        true_already = memory.pinned == wanted.pinned
    else:
        true_already = _says(wanted, memory)
    return _Proposal(
        bank=BankRow(row.bank, bank),
        args=args,
        targets=(memory.id,),
        now=proposals.builtins(memory),
        proposed=args if function == "update" else None,
        true_already=true_already,
    )


def _says(wanted: UpdateRequest, memory: Any) -> bool:
    """Whether a memory is already as an update would make it."""
    fields = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    present = {name: value for name, value in fields.items() if value is not msgspec.UNSET}
    clean: dict[str, Any] = {"text": clean_text, "subject": lambda value: value and clean_label(value, "subject")}
    for name, value in present.items():
        if name in ("id", "expected_revision"):
            continue
        if name == "claim" and value is not None:
            value = clean_claim(value)
        value = clean[name](value) if name in clean else tuple(value) if isinstance(value, list) else value
        if getattr(memory, name) != value:
            return False
    return True


def _look_at_supersede(act: Act, wanted: Any) -> _Proposal:
    row, bank = changing.find(act, wanted.id, write=True)
    by, _ = changing.find(act, wanted.by, write=True)
    changing.check_revision(row.memory, wanted.expected_revision)
    changing.check_revision(by.memory, wanted.expected_by_revision, "expected_by_revision")
    if row.bank != by.bank or row.memory.id == by.memory.id:
        raise invalid("both memories must be two of one bank", "change.args.by")
    if row.memory.state == "live" and by.memory.state != "live":
        raise FunctionError("conflict", f"memory {by.memory.id} is {by.memory.state}", field="change.args.by")
    args = msgspec.to_builtins(wanted)
    args.update(expected_revision=row.memory.revision, expected_by_revision=by.memory.revision)
    return _Proposal(
        bank=BankRow(row.bank, bank),
        args=args,
        targets=(row.memory.id, by.memory.id),
        now={"memory": proposals.builtins(row.memory), "by": proposals.builtins(by.memory)},
        proposed=proposals.builtins(by.memory),
        true_already=row.memory.state != "live",
    )


def _look_at_rule(act: Act, function: str, wanted: Any) -> _Proposal:
    bank = open_bank(act, wanted.bank, write=True)
    args = {**msgspec.to_builtins(wanted), "bank": bank.bank.name}
    if function == applying.LEARNED_ADD:
        text = clean_text(wanted.text, "change.args.text", ruling.LINE_MAX_CHARS)
        return _Proposal(
            bank=bank,
            args={**args, "text": text},
            keys=(proposals.line_key(bank, text),),
            proposed={"text": text},
            true_already=ruling.has_line(act, bank, text),
        )
    content = clean_document(wanted.content)
    rule = rules.find(act.tx, bank.n, wanted.name)
    if wanted.expected_revision is not None and wanted.expected_revision != (rule.revision if rule else 0):
        raise FunctionError("conflict", f"rule {wanted.name} has changed", field="change.args.expected_revision")
    same = (rule.content if rule else "") == content
    return _Proposal(
        bank=bank,
        args={**args, "expected_revision": rule.revision} if rule else args,
        targets=(),
        keys=(proposals.rule_key(bank, wanted.name),),
        now=proposals.builtins(rule) if rule else {"content": ""},
        proposed={"name": wanted.name, "content": content},
        true_already=same and (wanted.priority is None or (rule is not None and rule.priority == wanted.priority)),
    )


def _look_at_bank(act: Act, function: str, wanted: Any) -> _Proposal:
    main = open_bank(act, None, write=True)
    args = msgspec.to_builtins(wanted)
    if function == "bank.create":
        taken = banks.find(act.tx, wanted.name)
        if taken is not None:
            raise FunctionError("conflict", f"bank {wanted.name} exists", field="change.args.name")
        return _Proposal(bank=main, args=args, proposed=args)
    if function == "bank.restore":
        return _Proposal(bank=main, args=args, proposed=args)
    bank = open_bank(act, wanted.name, write=True)
    now = proposals.builtins(bank.bank)
    return _Proposal(bank=bank, args=args, now=now, proposed=args if function == "bank.update" else None)


def _look_at_entity(act: Act, function: str, wanted: Any) -> _Proposal:
    if function == "property.propose":
        name = clean_label(wanted.name, "change.args.name")
        known = entities.find_property(act.tx, name)
        same = known is not None and (known.cardinality, known.protected) == (wanted.cardinality, wanted.protected)
        return _Proposal(
            bank=open_bank(act, None, write=True),
            args={"name": name, "cardinality": wanted.cardinality, "protected": wanted.protected},
            keys=(proposals.property_key(name),),
            now=proposals.builtins(known),
            proposed={"name": name, "cardinality": wanted.cardinality, "protected": wanted.protected},
            true_already=same,
        )
    known_entity = identities.find(act, wanted.entity)
    if function == "entity.alias":
        alias = identities.clean_alias(wanted.alias)
        holder = entities.owner_of(act.tx, alias.value, alias.channel)
        if holder not in (None, known_entity.entity.id):
            raise identities.alias_taken()
        return _Proposal(
            bank=known_entity.home,
            args={"entity": known_entity.entity.id, "alias": msgspec.to_builtins(alias)},
            targets=(known_entity.entity.id,),
            now=proposals.builtins(known_entity.entity),
            proposed=msgspec.to_builtins(alias),
            true_already=holder is not None,
        )
    into = identities.find(act, wanted.into, "into")
    home = identities.meeting_place(known_entity, into)
    return _Proposal(
        bank=home,
        args={"entity": known_entity.entity.id, "into": into.entity.id},
        targets=(known_entity.entity.id, into.entity.id),
        now={"entity": proposals.builtins(known_entity.entity), "into": proposals.builtins(into.entity)},
        proposed=proposals.builtins(identities.joined(known_entity.entity, into.entity)),
        true_already=known_entity.entity.id == into.entity.id,
    )


def learn(act: Act, request: LearnRequest, lessons: Lessons, vault: Vault) -> LearnReply:
    """Make suggestions of what a note teaches: all of it waits for a person, whoever wrote the note."""
    bank = open_bank(act, request.bank, write=True)
    made: list[Suggestion] = []
    for item in lessons.items[:LESSONS_MAX]:
        wanted = _save_of(item, bank)
        # A note is read by the worker, whoever wrote it: what was forgotten does not come back through it.
        if vault.was_forgotten(act, item.text, (*item.entities, *item.tags)) or _belongs_into_the_vault(act, item):
            continue
        proposal = _look_at_save(act, wanted)
        if not proposal.true_already:
            made.extend(_propose(act, "save", proposal, item, request))
    for item in lessons.learned[: LESSONS_MAX - len(made)]:
        line = _look_at_rule(act, applying.LEARNED_ADD, applying.LearnedAdd(text=item.text, bank=bank.bank.name))
        if not line.true_already and not vault.was_forgotten(act, item.text, item.entities):
            made.extend(_propose(act, applying.LEARNED_ADD, line, item, request))
    return LearnReply(suggestions=made)


def _belongs_into_the_vault(act: Act, item: TurnItem) -> bool:
    return claims_protected(act, item.claim) or (act.settings.protect_automatically and bool(values_in(item.text)))


def _save_of(item: TurnItem, bank: BankRow) -> SaveRequest:
    return SaveRequest(
        text=item.text,
        bank=bank.bank.name,
        kind=item.kind,
        subject=item.subject,
        entities=list(item.entities),
        tags=list(item.tags),
        claim=item.claim,
        confidence=item.confidence,
    )


def _propose(act: Act, function: str, proposal: _Proposal, item: TurnItem, request: LearnRequest) -> list[Suggestion]:
    source = Source(
        route="system",
        principal=EXTRACTION,
        session_id=act.origin.session,
        turn_id=request.turn_id,
        role=item.role,
        quote=item.quote,
        pattern=item.pattern,
        model=item.model,
    )
    suggestion, new = proposals.propose(
        act,
        proposal.bank,
        function,
        proposal.args,
        reason="from a note that was to be learned from",
        targets=proposal.targets,
        keys=proposal.keys,
        now=proposal.now,
        proposed=proposal.proposed,
        source=source,
    )
    return [suggestion] if new or suggestion.state == "open" else []
