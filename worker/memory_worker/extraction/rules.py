"""The rule-based extractor: finds what people say outright, in their own words, with no model.

A message goes through four steps: what was pasted is left out (`prose.py`), parts that ask are cut, what is left is
matched against the named patterns of the language files, and the clause is kept word for word. Each item names the
pattern that made it.
"""

import re
from collections.abc import Iterator, Sequence

from memory_contracts.names import LABELS_MAX, Kind
from memory_worker.extraction.dates import said_date
from memory_worker.extraction.items import Candidate, Extraction, ReadMessage
from memory_worker.extraction.patterns import PIECES, Language, Pattern, languages
from memory_worker.extraction.prose import Sentence, sentences

CLAUSE_MIN_CHARS = 12
"""Shortest clause that can be a memory, in characters."""
CLAUSE_MAX_CHARS = 1_000
"""Longest; a longer one is somebody's document, not a statement."""
ASKED_MIN_CHARS = 3
"""Shortest text of a remember-request or standing instruction, in characters: other scripts say much in few."""
LEARNED_MAX_CHARS = 400
"""Longest standing instruction, in characters."""

_DATE = re.compile(PIECES["date"], re.IGNORECASE)
_NUMBER = re.compile(r"\d")
_NAME = re.compile(
    r"(?<=[\w,;'’)] )(?:[A-Z]{2,} )?[A-Z][\w'’-]*[a-z][\w'’-]*(?: (?:of |the |& )?(?!I\b)[A-Z][\w'’&-]*)*"
)
_POSSESSIVE = re.compile(r"['’]s?$")
_WORD = re.compile(r"[^\W_][\w'’-]*")
_QUOTED = re.compile(r"[\"“«][^\"“”«»]{0,400}[\"”»]")
_EDGES = " \t\n,;:—–-.!。！、，：।۔"
_CONJUNCTION = re.compile(
    r"(?:and|but|so|or|plus|also|because|since|considering|that|then|which)\b[\s,]*", re.IGNORECASE
)


class RuleExtractor:
    """Reads messages with the patterns of every language file. Deterministic; holds no state between calls."""

    def __init__(self) -> None:
        self._languages = languages()
        self._ascii_languages = tuple(language for language in self._languages if language.ascii)
        self._main = self._languages[0]

    def extract(self, messages: Sequence[ReadMessage]) -> Extraction:
        """Give what the user's messages say outright, in order. Assistant messages are never learned from."""
        items: list[Candidate] = []
        learned: list[Candidate] = []
        for message in messages:
            if message.role != "user":
                continue
            before: Sentence | None = None
            for sentence in sentences(message.text):
                for found in self._sentence(sentence, before, message):
                    (learned if found.standing else items).append(found)
                before = sentence
        return Extraction(items=items, learned=learned)

    def _sentence(self, sentence: Sentence, before: Sentence | None, message: ReadMessage) -> Iterator[Candidate]:
        if len(sentence.text) > 4 * CLAUSE_MAX_CHARS:
            return
        asked = self._standing(sentence, message) or self._remember(sentence, before, message)
        if asked is not None:
            yield asked
            return
        for clause, pattern in self._statements(sentence):
            yield Candidate(
                text=_capital(clause),
                kind=pattern.kind,
                quote=clause,
                message_id=message.id,
                role=message.role,
                entities=self._names(clause),
                subject=pattern.subject,
                pattern=f"{self._main.code}.{pattern.name}",
                occurred_at=said_date(clause, message.at),
            )

    def _standing(self, sentence: Sentence, message: ReadMessage) -> Candidate | None:
        """Find a standing instruction; what stands in quotation marks is somebody else's."""
        if not sentence.own or sentence.listed:
            return None
        text = _QUOTED.sub(lambda m: "\x00" * len(m.group()), sentence.text)
        for language in self._of(text):
            if language.standing_unless and language.standing_unless.search(text):
                continue
            for n, regex in enumerate(language.standing, 1):
                match = regex.match(text)
                if not match:
                    continue
                what = sentence.text[match.start("what") : match.end("what")].strip(_EDGES)
                if ASKED_MIN_CHARS <= len(what) <= LEARNED_MAX_CHARS:
                    pattern = f"{language.code}.standing.{n}"
                    return self._asked(what, "instruction", pattern, message, standing=True)
        return None

    def _remember(self, sentence: Sentence, before: Sentence | None, message: ReadMessage) -> Candidate | None:
        for language in self._of(sentence.text):
            if language.remember_unless and language.remember_unless.search(sentence.text):
                continue
            if before and language.remember_previous and language.remember_previous.match(sentence.text):
                what = before.text.strip(_EDGES)
                if ASKED_MIN_CHARS <= len(what) <= CLAUSE_MAX_CHARS:
                    return self._asked(what, "fact", f"{language.code}.remember.previous", message)
            for n, regex in enumerate(language.remember, 1):
                match = regex.search(sentence.text)
                if not match:
                    continue
                what = match["what"].strip(_EDGES + "?")  # the mark belongs to “can you remember …?”
                if ASKED_MIN_CHARS <= len(what) <= CLAUSE_MAX_CHARS:
                    return self._asked(what, "fact", f"{language.code}.remember.{n}", message)
        return None

    def _of(self, text: str) -> tuple[Language, ...]:
        """Give the languages a sentence can be in."""
        return self._ascii_languages if text.isascii() else self._languages

    def _asked(self, what: str, kind: Kind, pattern: str, message: ReadMessage, *, standing: bool = False) -> Candidate:
        return Candidate(
            text=_capital(what),
            kind=kind,
            quote=what,
            message_id=message.id,
            role=message.role,
            entities=() if standing else self._names(what),
            confidence="high",
            pattern=pattern,
            occurred_at=None if standing else said_date(what, message.at),
            standing=standing,
        )

    def _statements(self, sentence: Sentence) -> Iterator[tuple[str, Pattern]]:
        """Give what a sentence tells, word for word, with the pattern that found it."""
        text = sentence.text
        for told in self._told(sentence):
            start, end = _trimmed(text, *told)
            if not CLAUSE_MIN_CHARS <= end - start <= CLAUSE_MAX_CHARS:
                continue
            pattern = self._pattern(text[start:end])
            if pattern is None:
                continue
            end = self._without_tail(text, start, end)
            hedge = self._main.hedge.match(text, start, end) if self._main.hedge else None
            yield text[hedge.end() if hedge else start : end], pattern

    def _without_tail(self, text: str, start: int, end: int) -> int:
        """Cut what follows the part with the numbers, dates and names where it adds none, gives no reason and fits no
        pattern by itself."""
        language = self._main
        while language.joint and language.weighty:
            joint = max((match.start() for match in language.joint.finditer(text, start, end)), default=start)
            head, tail = text[start:joint], text[joint:end]
            if len(head) < CLAUSE_MIN_CHARS or not self._has_detail(head):
                break
            if self._has_detail(tail) or language.weighty.search(tail) or self._pattern(_bare(tail)):
                break
            end = joint
        return end

    def _told(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        """Give where the parts of a sentence lie that tell something, without the parts that ask."""
        language, text = self._main, sentence.text
        if sentence.listed:
            yield 0, len(text)
            return
        lead = language.lead.match(text) if language.lead else None
        pos = lead.end() if lead else 0
        asking = bool(language.question and language.question.match(text, pos))
        while pos < len(text):
            if not asking:
                ask = language.ask.search(text, pos) if language.ask else None
                yield pos, ask.start() if ask else len(text)
                if not ask:
                    return
                pos = ask.end()
            rejoin = language.rejoin.search(text, pos) if language.rejoin else None
            if not rejoin:
                return
            pos = rejoin.end()
            asking = False

    def _has_detail(self, clause: str) -> bool:
        """Whether a clause holds a number, a date or a name."""
        return bool(_NUMBER.search(clause) or _DATE.search(clause) or self._names(clause))

    def _pattern(self, clause: str) -> Pattern | None:
        """Give the first pattern that matches a clause and finds in it what it needs."""
        detail = self._has_detail(clause)
        content: int | None = None
        for pattern in self._main.patterns:
            if (pattern.needs == "detail" and not detail) or not pattern.match.search(clause):
                continue
            if pattern.needs == "content" and not detail:
                if content is None:
                    content = sum(1 for word in _WORD.findall(clause) if word.lower() not in self._main.filler)
                if content < pattern.words:
                    continue
            return pattern
        return None

    def _names(self, clause: str) -> tuple[str, ...]:
        if not self._main.case_names:
            return ()
        names = (_POSSESSIVE.sub("", name) for name in _NAME.findall(clause))
        return tuple(dict.fromkeys(n for n in names if n not in self._main.not_names))[:LABELS_MAX]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out punctuation at both ends of a part, and conjunctions at its start."""
    while True:
        before = start
        while start < end and text[start] in _EDGES:
            start += 1
        conjunction = _CONJUNCTION.match(text, start, end)
        if conjunction:
            start = conjunction.end()
        if start == before:
            break
    while end > start and text[end - 1] in _EDGES + "?":
        end -= 1
    return start, end


def _bare(text: str) -> str:
    start, end = _trimmed(text, 0, len(text))
    return text[start:end]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
