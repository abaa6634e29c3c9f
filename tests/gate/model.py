"""A plain model of what the gate keeps: dictionaries and the rules in a few lines, to check the real one against."""

from dataclasses import dataclass, field

from memory_worker.store import Caller

FIRST_OF_ROUTE = {"human": "stated", "observer": "observed", "agent": "inferred", "system": "inferred"}


@dataclass
class Kept:
    """One record."""

    id: str
    text: str
    tier: str
    author: str
    subject: str | None
    pinned: bool = False
    state: str = "live"
    by: str | None = None
    by_person: bool = False
    wordings: set[str] = field(default_factory=set)

    @property
    def firm(self) -> bool:
        return self.pinned or self.tier == "stated"


class Model:
    """Records in the order they were made."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}

    def live(self) -> dict[str, tuple[str, str, bool]]:
        return {one.id: (one.text, one.tier, one.pinned) for one in self.kept.values() if one.state == "live"}

    def with_text(self, text: str) -> Kept | None:
        return next((one for one in self.kept.values() if one.state == "live" and one.text == text), None)

    def successor(self, one: Kept) -> Kept | None:
        seen = {one.id}
        while one.by is not None and one.by not in seen:
            seen.add(one.by)
            one = self.kept[one.by]
            if one.state == "live":
                return one
        return None

    def save(self, caller: Caller, text: str, subject: str | None, *, automatic: bool = False) -> str:
        """What must come of a statement: its outcome. A new record is put under the id `new` until its id is known."""
        person = caller.route == "human"
        known = self.with_text(text)
        if known is not None:
            if person:
                known.tier, known.author, known.subject = "stated", _author(known, caller), subject or known.subject
            return "reinforced"
        spoken = [one for one in reversed(self.kept.values()) if text in one.wordings]
        worded = next((one for one in spoken if one.state == "live"), spoken[0] if spoken else None)
        if worded is not None and worded.state == "live":
            if person:
                worded.text, worded.tier, worded.author = text, "stated", caller.name
                return "replaced"
            return "reinforced" if automatic else "awaiting_review"
        if worded is not None and not person:
            if worded.state == "deleted" and worded.by_person:
                return "reinforced" if automatic else "awaiting_review"
            successor = self.successor(worded) if worded.state == "superseded" else None
            if successor is not None and automatic:
                return "reinforced"
            if successor is not None and successor.firm:
                return "awaiting_review"
        against = [one for one in self.kept.values() if one.state == "live" and subject and one.subject == subject]
        if not person and any(one.firm for one in against):
            return "awaiting_review"
        self.kept["new"] = Kept("new", text, FIRST_OF_ROUTE[caller.route], caller.name, subject, wordings={text})
        retired = [one for one in against if person or (not automatic and one.author == caller.name and not one.firm)]
        for one in retired:
            one.state, one.by = "superseded", "new"
        return "replaced" if retired else "created"

    def name_new(self, id: str) -> None:
        """Give the record that `save` made its id."""
        made = self.kept.pop("new", None)
        if made is None:
            return
        made.id = id
        self.kept[id] = made
        for one in self.kept.values():
            if one.by == "new":
                one.by = id

    def may_change(self, caller: Caller, one: Kept) -> bool:
        own = one.author == caller.name and one.tier == "inferred" and not one.pinned
        return caller.route == "human" or own


def _author(known: Kept, caller: Caller) -> str:
    return known.author if known.tier == "stated" else caller.name
