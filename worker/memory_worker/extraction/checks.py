"""Checks every item in code before it may be stored: what fails is refused and counted, the others are kept.

The same checks hold for the rules and for a model. None of them asks a model, and none logs what it saw.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from memory_contracts.names import LABEL_MAX_CHARS, LABELS_MAX, TEXT_MAX_CHARS
from memory_contracts.normal import fingerprint, normalise
from memory_worker.clock import to_datetime
from memory_worker.extraction.items import Candidate, Extraction, ReadMessage, ReadTurn, by_id
from memory_worker.extraction.messages import OWN_LEAD
from memory_worker.extraction.patterns import languages
from memory_worker.extraction.prose import sentences
from memory_worker.extraction.secrets import MASK, find_secrets

TEXT_MIN_CHARS = 3
"""Shortest statement, in characters."""
QUOTE_MIN_CHARS = 3
"""Shortest quote that proves anything, in characters of its normal form."""
RESTATED_SHARE = 0.7
"""A statement of which at least this share is text that `context` handed out counts as a restatement."""
RESTATED_MIN_CHARS = 16
"""Shortest handed-out text that is looked for inside a statement, in characters."""
INSTRUCTION_MIN_WORDS = 2
"""Shortest standing instruction in Latin letters, in words."""
GROUNDED_SHARE = 0.5
"""Least share of a statement's content words that must occur in the user's messages of the turn."""

_EMPHASIS = re.compile(r"[*_`~]+")
_QUOTATION = re.compile(r"[\"“«„][^\"“”«»„]{8,}[\"”»“]")
_MARKUP = re.compile(
    r"<\s*/?\s*(?:memory|system|instruction|rule|tool|assistant|user|im_start|im_end|\|)|<\||\|>|\[/?INST\]|```",
    re.IGNORECASE,
)
_CLAUSE_MARKS = (". ", "! ", "? ", "; ", ", ", " but ", " and ")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_WORD = re.compile(r"[^\W\d_]{3,}")
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t|no longer|stopped|quit)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t|stop\w*|quit\w*|hates?|dislikes?|avoid\w*|"
    r"refus\w*|declin\w*|against|lacks?|un\w+|unable|fail\w*|reject\w*|former\w*|ceased|rather than|instead|allerg\w*|"
    r"free|skip\w*|exclud\w*|less|only)\b",
    re.IGNORECASE,
)


class Handed(msgspec.Struct, frozen=True):
    """What `context` gave to the session: fingerprints of each memory text and rule line, and the texts if kept."""

    fingerprints: frozenset[bytes] = frozenset()
    texts: tuple[str, ...] = ()


NOTHING_HANDED = Handed()


def folded(text: str) -> str:
    """The form in which a quote is compared: the fingerprint's normal form, with marks of emphasis left out."""
    return normalise(_EMPHASIS.sub("", text).replace("’", "'").replace("“", '"').replace("”", '"'))


class Checker:
    """The checks of one turn. Raises nothing; `refused` counts by check what was turned away."""

    def __init__(self, read: ReadTurn, handed: Handed = NOTHING_HANDED) -> None:
        self._messages = by_id(read.messages)
        self._folds: dict[str, str] = {}
        self._secret_parts: dict[str, list[str]] = {}
        self._handed = handed
        self._handed_texts = [t for t in (normalise(t) for t in handed.texts) if len(t) >= RESTATED_MIN_CHARS]
        self._said_words: set[str] | None = None
        self._seen: set[bytes] = set()

    def run(self, candidates: Iterable[Candidate], *, ignored: dict[str, int] | None = None) -> Extraction:
        """Give the candidates that pass, each text once, and the counts of those that do not."""
        items: list[Candidate] = []
        learned: list[Candidate] = []
        suggested: list[Candidate] = []
        refused: dict[str, int] = {}
        for candidate in candidates:
            tidy = tidied(candidate)
            reason = self.refusal(tidy)
            if reason is None:
                print_ = fingerprint(tidy.text)
                if print_ in self._seen:
                    reason = "repeated"
                else:
                    self._seen.add(print_)
            if reason is not None:
                refused[reason] = refused.get(reason, 0) + 1
                continue
            if not tidy.standing:
                items.append(tidy)
            elif tidy.model is None or matches_standing(tidy.text):
                learned.append(tidy)
            else:
                suggested.append(tidy)  # a model calls it one; no pattern knows it: a person decides
        return Extraction(
            items=items, learned=learned, suggested=suggested, refused=refused, ignored=dict(ignored or {})
        )

    def refusal(self, item: Candidate) -> str | None:
        """Name the first check that `item` fails, or give `None`."""
        message = self._messages.get(item.message_id)
        if message is None:
            return "message"
        if message.role != item.role or message.role != "user":
            return "role"
        quote = folded(item.quote)
        if len(quote) < QUOTE_MIN_CHARS or quote not in self._folded(message):
            return "quote"
        if not TEXT_MIN_CHARS <= len(item.text) <= TEXT_MAX_CHARS:
            return "length"
        fields = (item.text, item.quote, item.subject or "", *item.entities, *item.tags, *_claim_texts(item))
        if self._holds_secret(item, message, fields):
            return "secret"
        if any(_MARKUP.search(field) for field in fields):
            return "markup"
        if is_addressed(item.text) or is_addressed(item.quote):
            return "addressed"
        if self._restated(item.text) or self._restated(item.quote):
            return "handed_out"
        if is_ephemeral(item.text) or is_ephemeral(item.quote):
            return "ephemeral"
        if item.standing and not self._may_stand(item, message):
            return "not_own_words"
        if item.model is not None and not self._grounded(item, message):
            return "not_said"
        return None

    def _folded(self, message: ReadMessage) -> str:
        if message.id not in self._folds:
            self._folds[message.id] = folded(message.text)
        return self._folds[message.id]

    def _holds_secret(self, item: Candidate, message: ReadMessage, fields: Sequence[str]) -> bool:
        """Whether the item holds a secret, or the value of one whose label lies outside the quote."""
        if message.id not in self._secret_parts:
            found = find_secrets(message.text)
            self._secret_parts[message.id] = [normalise(message.text[f.start : f.end]) for f in found]
        parts = self._secret_parts[message.id]
        if any(MASK in field for field in fields):
            return True
        if item.model is None and not parts:
            return False  # the rules' texts are parts of the message, which holds none
        said = normalise(" ".join(fields))
        return any(find_secrets(field) for field in fields) or any(part and part in said for part in parts)

    def _restated(self, text: str) -> bool:
        bare = OWN_LEAD.sub("", text)
        if fingerprint(text) in self._handed.fingerprints or fingerprint(bare) in self._handed.fingerprints:
            return True
        if not self._handed_texts:
            return False
        said = normalise(bare)
        return any(
            (handed in said and len(handed) >= RESTATED_SHARE * len(said))
            or (said in handed and len(said) >= RESTATED_SHARE * len(handed))
            for handed in self._handed_texts
        )

    def _may_stand(self, item: Candidate, message: ReadMessage) -> bool:
        """Whether a standing instruction lies in a sentence the person wrote, not in something pasted or quoted."""
        if not is_instruction(item.text):
            return False
        quote = folded(item.quote)
        for sentence in sentences(message.text):
            if not sentence.own:
                continue
            said = folded(sentence.text)
            at = said.find(quote)
            if at >= 0 and said.count('"', 0, at) % 2 == 0:
                return True
        return False

    def _grounded(self, item: Candidate, message: ReadMessage) -> bool:
        """Whether the statement of a model says what was said: its numbers, its words, its polarity."""
        said = self._folded(message)
        numbers = set(_NUMBER.findall(said))
        allowed = numbers | _date_numbers(item.occurred_at) | _date_numbers(message.at)
        values = " ".join((item.text, item.claim.value if item.claim else "", " ".join(item.entities)))
        if any(n.rstrip(".,") not in allowed and n.rstrip(".,") not in said for n in _NUMBER.findall(values)):
            return False
        words = {w.lower() for w in _WORD.findall(item.text)} - languages()[0].frame
        if words:
            heard = self._said()
            hits = sum(1 for w in words if w in heard or any(w[:5] == h[:5] for h in heard if len(w) > 4))
            if hits < GROUNDED_SHARE * len(words):
                return False
        spoken = _clause_of(said, folded(item.quote))
        return not (_NEGATION.search(spoken) and not _NEGATIVE.search(item.text))

    def _said(self) -> set[str]:
        if self._said_words is None:
            text = " ".join(self._folded(m) for m in self._messages.values() if m.role == "user")
            self._said_words = set(_WORD.findall(text))
        return self._said_words


def tidied(item: Candidate) -> Candidate:
    """Fold newlines and spaces in an item's texts and hold its lists to their bounds.

    A standing instruction of a model is the user's own words: its quote takes the place of its text.
    """
    if item.standing and item.model is not None:
        item = msgspec.structs.replace(item, text=item.quote.strip(" \t\r\n.!"))
    return msgspec.structs.replace(
        item,
        text=" ".join(item.text.split()),
        quote=" ".join(item.quote.split())[:TEXT_MAX_CHARS],
        subject=" ".join(item.subject.split())[:LABEL_MAX_CHARS] or None if item.subject else None,
        entities=_labels(item.entities),
        tags=_labels(item.tags),
    )


def _claim_texts(item: Candidate) -> tuple[str, ...]:
    return (item.claim.entity, item.claim.property, item.claim.value) if item.claim else ()


def _labels(values: Iterable[str]) -> tuple[str, ...]:
    short = (" ".join(value.split())[:LABEL_MAX_CHARS] for value in values)
    return tuple(dict.fromkeys(value for value in short if value))[:LABELS_MAX]


def is_instruction(text: str) -> bool:
    """Tell whether a text can be a standing instruction: no question, no single word, and not somebody quoted."""
    if text.rstrip().endswith(("?", "？", "؟")) or (text.isascii() and len(text.split()) < INSTRUCTION_MIN_WORDS):
        return False
    bare = _QUOTATION.sub(" ", text)
    return bare == text or matches_standing(bare.strip())


def matches_standing(text: str) -> bool:
    """Tell whether a text is a standing instruction by the patterns of any language."""
    return any(pattern.match(text) for lang in languages() for pattern in lang.standing)


def is_addressed(text: str) -> bool:
    """Tell whether a text speaks to the memory system or about a model's instructions."""
    return any(lang.addressed is not None and lang.addressed.search(text) for lang in languages())


def is_ephemeral(text: str) -> bool:
    """Tell whether a text is true for a moment only."""
    return any(lang.ephemeral is not None and lang.ephemeral.search(text) for lang in languages())


def _date_numbers(at: float | None) -> set[str]:
    if at is None:
        return set()
    day = to_datetime(at)
    return {str(day.year), str(day.month), str(day.day), f"{day.month:02d}", f"{day.day:02d}"}


def _clause_of(text: str, quote: str) -> str:
    """The quote with what comes before it in its clause: “I don't” belongs to “eat meat”, what follows does not."""
    at = text.find(quote)
    if at < 0:
        return quote
    start = max(text.rfind(mark, 0, at) + len(mark) if mark in text[:at] else 0 for mark in _CLAUSE_MARKS)
    return text[start : at + len(quote)]
