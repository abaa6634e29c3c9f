"""Commits what a turn taught: items, reinforcements, learned lines, cursor and inbox state in one transaction."""

import msgspec

from memory_contracts.errors import FunctionError
from memory_contracts.names import Confidence, Kind
from memory_contracts.records import Claim, Source
from memory_worker.clock import to_datetime
from memory_worker.gate import banking, proposals, ruling
from memory_worker.gate.act import Act
from memory_worker.gate.cleaning import clean_labels, clean_names, clean_text
from memory_worker.gate.drafts import Draft, clean_claim
from memory_worker.gate.recognising import values_in
from memory_worker.gate.refusing import RuledOut
from memory_worker.gate.saving import Vault, decide
from memory_worker.store import banks, inbox
from memory_worker.store.banks import BankRow

UNFIT = "unfit"
"""Counted as refused: an item that the gate cannot keep, such as an empty text or an over-long name."""
RULED_OUT = "ruled_out"
"""Counted as refused: an item that was forgotten, or about somebody who is not to be learned about."""
PROTECTED = "protected"
"""Counted as refused: a value that belongs into the vault, in a standing instruction, since a rule is read out, or in
a bank that holds changes back, since it cannot wait in a suggestion."""


class TurnItem(msgspec.Struct, frozen=True, kw_only=True):
    """One checked statement of a turn, with where in the turn it was said."""

    text: str
    quote: str
    message_id: str
    role: str
    kind: Kind = "fact"
    subject: str | None = None
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    claim: Claim | None = None
    confidence: Confidence = "normal"
    occurred_at: float | None = None
    pattern: str | None = None
    model: str | None = None


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that reading one turn came to."""

    turn_id: str
    session_id: str
    bank: str | None
    """None when the turn is recorded and nothing is kept of it."""
    items: tuple[TurnItem, ...] = ()
    learned: tuple[TurnItem, ...] = ()
    suggested: tuple[TurnItem, ...] = ()
    """Standing instructions that wait for a person."""
    cursor: str | None = None
    refused: dict[str, int] = {}
    ignored: dict[str, int] = {}
    note: str | None = None


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a turn's items, by outcome."""

    created: int = 0
    reinforced: int = 0
    replaced: int = 0
    awaiting_review: int = 0
    learned: int = 0
    repeated: bool = False


def commit_turn(act: Act, commit: TurnCommit, vault: Vault) -> TurnResult:
    """Commit a turn once: a turn that is done already changes nothing."""
    if inbox.state_of(act.tx, commit.turn_id) == "done":
        return TurnResult(repeated=True)
    counts = {"created": 0, "reinforced": 0, "replaced": 0, "awaiting_review": 0, UNFIT: 0, RULED_OUT: 0, PROTECTED: 0}
    learned = 0
    if commit.bank is not None:
        bank = _bank(act, commit.bank)
        for item in commit.items:
            counts[_keep(act, bank, item, commit, vault)] += 1
        learned = _learn(act, bank, commit, vault, counts)
    if commit.cursor is not None:
        inbox.set_session_cursor(act.tx, commit.session_id, commit.cursor)
    act.tx.failpoint("before-turn-done")
    inbox.done(act.tx, commit.turn_id, commit.note)
    act.tx.count("turns_read")
    act.tx.count("kept", counts["created"])
    for reason in (UNFIT, RULED_OUT, PROTECTED):
        if counts[reason]:
            act.tx.count(f"refused.{reason}", counts[reason])
    for prefix, counted in (("refused", commit.refused), ("ignored", commit.ignored)):
        for name, count in counted.items():
            act.tx.count(f"{prefix}.{name}", count)
    return TurnResult(
        created=counts["created"],
        reinforced=counts["reinforced"],
        replaced=counts["replaced"],
        awaiting_review=counts["awaiting_review"],
        learned=learned,
    )


def _keep(act: Act, bank: BankRow, item: TurnItem, commit: TurnCommit, vault: Vault) -> str:
    """Decide one item; one that cannot be kept costs the others nothing."""
    try:
        return act.tx.attempt(lambda: decide(act, bank, _draft(act, item, commit), vault).outcome)
    except RuledOut:
        return RULED_OUT
    except FunctionError as error:
        if error.code == "unavailable":
            raise  # the vault has no key: the turn waits for it instead of losing what it says
        return PROTECTED if error.field == "protected" else UNFIT


def _bank(act: Act, name: str) -> BankRow:
    """The bank that the resolver chose: a private one only where it chose its owner, else a shared one, made if new."""
    return banks.find(act.tx, name) or banking.ensure(act, name)[0]


def _source(act: Act, item: TurnItem, commit: TurnCommit) -> Source:
    return Source(
        route=act.origin.route,
        principal=act.origin.principal,
        session_id=commit.session_id,
        turn_id=commit.turn_id,
        message_ids=(item.message_id,),
        role=item.role,
        quote=item.quote,
        pattern=item.pattern,
        model=item.model,
    )


def _draft(act: Act, item: TurnItem, commit: TurnCommit) -> Draft:
    return Draft(
        text=clean_text(item.text),
        tier="inferred",
        source=_source(act, item, commit),
        kind=item.kind,
        subject=item.subject,
        entities=clean_names(item.entities, "entities"),
        tags=clean_labels(item.tags, "tags"),
        claim=None if item.claim is None else clean_claim(item.claim),
        confidence=item.confidence,
        occurred_at=None if item.occurred_at is None else to_datetime(item.occurred_at),
    )


def _learn(act: Act, bank: BankRow, commit: TurnCommit, vault: Vault, counts: dict[str, int]) -> int:
    """Add standing instructions, said in the user's own words, to `learned`; what may not be added is suggested."""
    added = 0
    lines = [(item, True) for item in commit.learned] + [(item, False) for item in commit.suggested]
    for item, at_once in lines:
        if item.role != "user":
            continue
        if vault.was_forgotten(act, item.text, item.entities):
            counts[RULED_OUT] += 1
            continue
        if act.settings.protect_automatically and values_in(item.text):
            counts[PROTECTED] += 1
            continue
        if at_once and bank.bank.review != "all":
            outcome = ruling.add_learned(act, bank, item.text, _source(act, item, commit))
            added += outcome == "added"
            if outcome != "full":
                continue
        elif ruling.is_known(act, bank, item.text):
            continue
        proposals.propose(
            act,
            bank,
            "learned.add",
            {"bank": bank.bank.name, "text": item.text},
            reason="a standing instruction the user gave",
            keys=[proposals.line_key(bank, item.text)],
            proposed={"text": item.text},
            source=_source(act, item, commit),
        )
    return added
