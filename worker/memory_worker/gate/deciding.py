"""Decides suggestions: approve, reject, or edit and approve; each on its own, so that one refusal costs no other."""

from typing import Any

import msgspec

from memory_contracts.errors import FunctionError, forbidden, invalid, not_found
from memory_contracts.functions.review import Decided, SuggestionDecideReply, SuggestionDecideRequest
from memory_contracts.normal import normalise
from memory_contracts.records import Memory, Source, Suggestion
from memory_worker.gate import applying, filing, proposals
from memory_worker.gate.access import may_read
from memory_worker.gate.act import Act
from memory_worker.gate.saving import Vault
from memory_worker.store import Caller, Origin, banks, memories, rules, suggestions
from memory_worker.store.suggestions import SuggestionRow

ERASURES = frozenset({"person.forget", "erase", "bank.wipe"})
"""Functions whose suggestions destroy values when approved; they are carried out by forgetting, one at a time."""

TEXTS = {"save": "text", "update": "text", "rule.set": "content", applying.LEARNED_ADD: "text"}
"""The argument that holds the words of a change."""


def decide(act: Act, request: SuggestionDecideRequest, vault: Vault) -> SuggestionDecideReply:
    """Decide suggestions, one entry per id in order; an entry that was refused names why.

    Raises `forbidden` for those who may not decide, and `invalid_input` for an edit of more than one or of a
    rejection, and for a destructive suggestion together with others.
    """
    check_decider(act)
    ids = list(dict.fromkeys(request.ids))
    rows = {row.suggestion.id: row for row in (find(act, suggestion_id) for suggestion_id in ids) if row is not None}
    check_together(request, [row.suggestion for row in rows.values()])
    return SuggestionDecideReply(decided=[_decide_one(act, one, rows.get(one), request, vault) for one in request.ids])


def erasure_of(act: Act, request: SuggestionDecideRequest) -> Suggestion | None:
    """The open suggestion that this request approves and that forgetting is to carry out, if it is one."""
    check_decider(act)
    row = find(act, request.ids[0]) if request.decision == "approve" and len(set(request.ids)) == 1 else None
    if row is None or row.suggestion.state != "open" or row.suggestion.change.function not in ERASURES:
        return None
    check_together(request, [row.suggestion])
    return row.suggestion


def check_decider(act: Act) -> None:
    """Raise `forbidden` unless the caller is a person whom the setting lets decide."""
    deciders = act.settings.deciders
    if act.caller.route != "human" or (deciders and act.caller.principal not in deciders):
        raise forbidden("you may not decide suggestions", hint="the setting deciders names who may")


def check_together(request: SuggestionDecideRequest, found: list[Suggestion]) -> None:
    """Refuse what cannot be decided in one request."""
    if len(set(request.ids)) > 1 and any(suggestion.destructive for suggestion in found):
        raise invalid("a destructive suggestion is decided alone", "ids", "decide it in a request of its own")
    if request.edit is None:
        return
    if request.decision != "approve" or len(request.ids) != 1:
        raise invalid("an edit goes with the approval of one suggestion", "edit", "name one id, or leave edit out")
    if any(suggestion.destructive for suggestion in found):
        raise invalid("a destructive suggestion cannot be edited", "edit", "reject it and ask again")


def find(act: Act, suggestion_id: str) -> SuggestionRow | None:
    """Give a suggestion of a bank the caller sees; None for any other."""
    row = suggestions.find(act.tx, suggestion_id)
    if row is None:
        return None
    bank = banks.by_number(act.tx, row.bank).bank
    return row if bank.trash_id is None and may_read(act.caller, bank) else None


def _decide_one(
    act: Act, one: str, row: SuggestionRow | None, request: SuggestionDecideRequest, vault: Vault
) -> Decided:
    if row is None:
        unknown = not_found(f"no suggestion {one}", "ids", "suggestion.list gives the open ones")
        return Decided(id=one, state="stale", error=str(unknown))
    # What an earlier entry of the same request made needless is closed by now.
    fresh = suggestions.find(act.tx, one)
    suggestion = (fresh or row).suggestion
    wanted = "approved" if request.decision == "approve" else "rejected"
    if suggestion.state != "open":
        error = None if suggestion.state == wanted else _conflict(f"it is {suggestion.state} already")
        return Decided(id=one, state=suggestion.state, error=None if error is None else str(error))
    deciding = msgspec.structs.replace(act, origin=Origin.of(act.caller, one, "suggestion"))
    current = SuggestionRow(row.bank, suggestion)
    if wanted == "rejected":
        return Decided(id=one, state=proposals.settle(deciding, current, "rejected").state)
    if suggestion.change.function in ERASURES:
        raise FunctionError("unavailable", "this suggestion is carried out by forgetting", field="ids")
    try:
        memory = act.tx.attempt(lambda: _approve(deciding, current, request.edit, vault))
    except FunctionError as error:
        if error.code != "conflict":
            return Decided(id=one, state="open", error=str(error))
        return Decided(id=one, state=proposals.settle(deciding, current, "stale").state, error=str(error))
    return Decided(id=one, state="approved", memory=memory)


def _approve(act: Act, row: SuggestionRow, edit: dict[str, Any] | None, vault: Vault) -> Memory | None:
    suggestion = row.suggestion
    check_shown(act, row)
    function, args = suggestion.change.function, suggestion.change.args
    author, source = author_of(act, suggestion), suggestion.source
    if edit:
        aims = sorted(applying.AIMS & edit.keys())
        if aims:
            raise invalid("an edit cannot aim the change at something else", f"edit.{aims[0]}", "propose it anew")
        words = TEXTS.get(function)
        if words in edit and normalise(str(edit[words])) != normalise(str(args.get(words, ""))):
            author, source = act.caller, None
        args = {**args, **edit}
        applying.read(args, applying.REQUESTS[function], "edit")
    approved = msgspec.structs.replace(act, approved=True, author=author, shown=shown_in(suggestion))
    # Closed before it is carried out, so that the change itself does not find it open and drop it.
    settled = proposals.settle(act, row, "approved")
    if "ids" in args:
        filing.remove_together(approved, settled)
        return None
    return applying.apply(approved, function, args, source, vault)


def author_of(act: Act, suggestion: Suggestion) -> Caller:
    """Who wrote what is proposed: where the words came from, else who proposed it. An approval raises no tier."""
    source: Source | None = suggestion.source
    route, principal = (source.route, source.principal) if source else (suggestion.by.route, suggestion.by.principal)
    return Caller(act.caller.tenant, route, principal)


def shown_in(suggestion: Suggestion) -> frozenset[str]:
    """Ids of the memories that a suggestion shows as believed now."""
    return frozenset(str(memory["id"]) for memory in proposals.memories_in(suggestion.now))


def check_shown(act: Act, row: SuggestionRow) -> None:
    """Raise `conflict` unless what the suggestion shows as believed now still is."""
    suggestion = row.suggestion
    for shown in proposals.memories_in(suggestion.now):
        current = memories.find(act.tx, str(shown["id"]))
        gone = current is None or current.memory.state != shown["state"]
        if suggestion.change.function == "save" and gone:
            continue  # what stood against the statement is gone: all the better for it
        if gone or current is None or current.memory.revision != shown["revision"]:
            raise _conflict(f"memory {shown['id']} has changed since this was proposed")
    if suggestion.change.function == "rule.set":
        rule = rules.find(act.tx, row.bank, str(suggestion.change.args.get("name")))
        shown_revision = suggestion.now.get("revision") if isinstance(suggestion.now, dict) else None
        if (rule.revision if rule else None) != shown_revision:
            raise _conflict("the rule has changed since this was proposed")


def _conflict(message: str) -> FunctionError:
    return FunctionError("conflict", message, hint="look at it as it is now and propose again")
