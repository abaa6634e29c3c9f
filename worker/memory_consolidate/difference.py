"""Says in what two nearly equal texts differ, and whether a person should be asked about it.

A difference of one word may be a typing variant, a new value of the same fact, or another fact altogether. The class is
read from the words themselves; the question “ask or leave” then follows from the class and from where the word stands:
“the meeting is at 9 / at 10” is one fact with two values, “room 12 / room 14 has a projector” are two facts.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

import regex

from memory_consolidate.lexicon import Lexicon, stem
from memory_consolidate.tokens import Tokens

Class = Literal["number", "date", "negation", "name", "unit", "quantifier", "order", "wording", "detail"]
GRAVITY: tuple[Class, ...] = (
    "negation",
    "number",
    "date",
    "unit",
    "quantifier",
    "name",
    "order",
    "wording",
    "detail",
)
"""The classes, gravest first: a pair with several differences is filed under the first of them."""

CHANGED_MAX = 2
"""Most content tokens that may be added between two texts that are still compared as one fact."""
SHARED_MIN = 2
"""Fewest content tokens two texts must share to be about one fact; one is enough beside `SHARED_ANY_MIN` in all."""
SHARED_ANY_MIN = 3
JOINED_CHARS = 6
"""Characters that may make up one word in a script without spaces."""
TYPO_MIN_CHARS = 6
"""Shortest word in which one differing letter is read as a spelling variant."""

_DIGIT = regex.compile(r"\d")
_DATE = regex.compile(r"\d{4}-\d{1,2}(-\d{1,2})?|\d{1,2}[./]\d{1,2}([./]\d{2,4})?|(19|20)\d\d")
_WORD = regex.compile(r"[\p{L}\p{N}]")
_UNIT_SIGNS = frozenset("%°$€£¥")
_SIGNS = _UNIT_SIGNS | frozenset("#+^")
_UNCASED = frozenset({"ja", "zh"})
_NOUNS_CAPITAL = frozenset({"de"})


class Difference(NamedTuple):
    """How two texts differ: the gravest class, whether to ask a person, and the differing words as written."""

    kind: Class
    ask: bool
    removed: tuple[str, ...]
    added: tuple[str, ...]


class _Edit(NamedTuple):
    start: int
    end: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    added_start: int


def difference(left: Tokens, right: Tokens, names: AbstractSet[str] = frozenset()) -> Difference | None:
    """Compare two texts that are not the same; None when they differ in too much to be about one fact.

    `names` are case-folded words that are known to name something.
    """
    if left.lexicon.language != right.lexicon.language and _script(left) != _script(right):
        return None
    lexicon = left.lexicon
    if sorted(left.folded) == sorted(right.folded):
        moved = _changed_words(left, right)
        return Difference("order", _shares_enough(left, right, lexicon), moved, moved)
    if not _shares_enough(left, right, lexicon) or _is_far(left, right, names):
        return None
    edits = _edits(left, right)
    removed = tuple(token for edit in edits for token in edit.removed)
    added = tuple(token for edit in edits for token in edit.added)
    lost, gained = _cancel(
        _words(edits, "removed", lexicon), _words(edits, "added", lexicon), lexicon, names, left, right
    )
    if len(lost) > CHANGED_MAX or len(gained) > CHANGED_MAX:
        return None
    classes: set[Class] = {_class(token, lexicon, names, left, right) for token in (*lost, *gained)}
    if _are_opposite(removed, added, lexicon) or _negations(removed, lexicon) != _negations(added, lexicon):
        classes.add("negation")
    if lost and gained and classes <= {"wording", "name"} and _moved_only(lost, gained):
        classes = {"order"}
    if not (lost and gained) and classes <= {"wording", "name", "number", "date", "unit"} and (lost or gained):
        classes = {"detail"}
    kind: Class = next((name for name in GRAVITY if name in classes), "wording")
    written_removed = tuple(left.raw[i] for edit in edits for i in range(edit.start, edit.end))
    written_added = tuple(right.raw[edit.added_start + i] for edit in edits for i in range(len(edit.added)))
    return Difference(kind, _asks(kind, classes, lost, gained, edits, left), written_removed, written_added)


def _is_far(left: Tokens, right: Tokens, names: AbstractSet[str]) -> bool:
    """Whether more words differ than could be one fact's, told without aligning the two: most pairs end here."""
    lexicon = left.lexicon
    most = CHANGED_MAX * (JOINED_CHARS if lexicon.language in _UNCASED else 1)
    words, others = set(left.folded), set(right.folded)
    lost, gained = _content(words - others, lexicon), _content(others - words, lexicon)
    if len(lost) <= most and len(gained) <= most:
        return False
    kept, rest = _cancel(lost, gained, lexicon, names, left, right)
    return len(kept) > most or len(rest) > most


def _asks(
    kind: Class,
    classes: AbstractSet[Class],
    lost: tuple[str, ...],
    gained: tuple[str, ...],
    edits: list[_Edit],
    left: Tokens,
) -> bool:
    """Whether the two are plausibly one fact said twice, or one fact with two values."""
    if not lost and not gained:
        return True
    if kind == "detail":
        return len(lost) + len(gained) <= CHANGED_MAX
    if len(classes - {"negation", "unit", "detail"}) > 1 or len(lost) > 1 or len(gained) > 1:
        return False
    if kind in ("negation", "quantifier", "unit", "order"):
        return True
    edit = next(edit for edit in edits if _content(edit.removed, left.lexicon) or _content(edit.added, left.lexicon))
    if kind in ("number", "date"):
        return not _identifies(edit, left)
    return _is_value(edit, left)


def _identifies(edit: _Edit, left: Tokens) -> bool:
    """Whether a number is part of a name (“room 12”, “version 3”) and not a value (“at 9”, “weighs 5 kg”)."""
    lexicon = left.lexicon
    following = left.folded[edit.end] if edit.end < len(left.folded) else ""
    if following in lexicon.unit or not following:
        return False
    goes_on = following in lexicon.copula or following in lexicon.closer or following in lexicon.opener
    return edit.start <= 1 or (edit.start <= 3 and goes_on)


def _is_value(edit: _Edit, left: Tokens) -> bool:
    """Whether the differing words are all that follows “is”, “called”, “:” and the like."""
    lexicon = left.lexicon
    before = edit.start - 1
    while before >= 0 and left.folded[before] in lexicon.function and left.folded[before] not in lexicon.copula:
        before -= 1
    if before < 1 or left.folded[before] not in lexicon.copula:
        return False
    return all(token in lexicon.function or not _WORD.search(token) for token in left.folded[edit.end :])


def _class(token: str, lexicon: Lexicon, names: AbstractSet[str], left: Tokens, right: Tokens) -> Class:
    if token in lexicon.negation:
        return "negation"
    if token in lexicon.calendar or _DATE.fullmatch(token):
        return "date"
    if token in lexicon.number or _DIGIT.search(token):
        return "number"
    if token in lexicon.unit or not _WORD.search(token):
        return "unit" if token in lexicon.unit or token in _UNIT_SIGNS else "wording"
    if token.startswith("°"):
        return "unit"
    if token in lexicon.quantifier:
        return "quantifier"
    return "name" if _is_name(token, names, left, right) else "wording"


def _is_name(token: str, names: AbstractSet[str], left: Tokens, right: Tokens) -> bool:
    if token in names:
        return True
    if left.lexicon.language in _UNCASED or left.lexicon.language in _NOUNS_CAPITAL:
        return False
    for side in (left, right):
        for index, folded in enumerate(side.folded):
            if folded == token and side.raw[index][:1].isupper():
                return index > 0 or folded not in side.lexicon.function
    return False


def _cancel(
    lost: list[str], gained: list[str], lexicon: Lexicon, names: AbstractSet[str], left: Tokens, right: Tokens
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take out words that are inflections or spelling variants of each other."""
    rest = list(gained)
    kept = []
    for word in lost:
        twin = next(
            (other for other in rest if _is_variant(word, other, lexicon) and not _is_name(word, names, left, right)),
            None,
        )
        if twin is None:
            kept.append(word)
        else:
            rest.remove(twin)
    return tuple(kept), tuple(rest)


def _is_variant(one: str, other: str, lexicon: Lexicon) -> bool:
    """Whether two words are inflections or spellings of one; such words begin alike, which settles most pairs."""
    if one == other:
        return True
    plain, plain_other = one.replace("-", ""), other.replace("-", "")
    if plain[:2] != plain_other[:2] or _DIGIT.search(one + other):
        return False
    if one in lexicon.negation or other in lexicon.negation or frozenset((one, other)) in lexicon.opposite:
        return False
    if {one, other} & (lexicon.quantifier | lexicon.unit):
        return False
    if plain == plain_other or stem(one, lexicon.language) == stem(other, lexicon.language):
        return True
    lengths = sorted((len(one), len(other)))
    return lengths[0] >= TYPO_MIN_CHARS - 1 and lengths[1] >= TYPO_MIN_CHARS and _one_letter_apart(one, other)


def _one_letter_apart(one: str, other: str) -> bool:
    """Whether one letter was added or left out; a replaced letter is as often another word."""
    if abs(len(one) - len(other)) != 1:
        return False
    short, long = sorted((one, other), key=len)
    index = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return short[index:] == long[index + 1 :]


def _content(tokens: Iterable[str], lexicon: Lexicon) -> list[str]:
    return [
        token
        for token in tokens
        if (token not in lexicon.function and (_WORD.search(token) or token in _SIGNS))
        or token in lexicon.negation
        or token in lexicon.quantifier
    ]


def _words(edits: list[_Edit], side: Literal["removed", "added"], lexicon: Lexicon) -> list[str]:
    """The content words of one side; adjoining characters of a script without spaces count as one word."""
    words = []
    for edit in edits:
        content = _content(getattr(edit, side), lexicon)
        if lexicon.language in _UNCASED and not any(_in_class(token, lexicon) for token in content):
            content = ["".join(content)] if content else []
        words += content
    return words


def _in_class(token: str, lexicon: Lexicon) -> bool:
    classes = (lexicon.negation, lexicon.quantifier, lexicon.number, lexicon.unit, lexicon.calendar)
    return any(token in words for words in classes) or bool(_DIGIT.search(token))


def _negations(tokens: tuple[str, ...], lexicon: Lexicon) -> int:
    return sum(token in lexicon.negation or token.endswith("n't") for token in tokens)


def _are_opposite(removed: tuple[str, ...], added: tuple[str, ...], lexicon: Lexicon) -> bool:
    return any(frozenset((one, other)) in lexicon.opposite for one in removed for other in added)


def _moved_only(lost: tuple[str, ...], gained: tuple[str, ...]) -> bool:
    return sorted(lost) == sorted(gained)


def _shares_enough(left: Tokens, right: Tokens, lexicon: Lexicon) -> bool:
    shared = set(left.folded) & set(right.folded)
    content = len(set(_content(shared, lexicon)))
    return content >= SHARED_MIN or (content >= 1 and len(shared) >= SHARED_ANY_MIN)


def _edits(left: Tokens, right: Tokens) -> list[_Edit]:
    matcher = SequenceMatcher(None, left.folded, right.folded, autojunk=False)
    return [
        _Edit(i1, i2, left.folded[i1:i2], right.folded[j1:j2], j1)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def _changed_words(left: Tokens, right: Tokens) -> tuple[str, ...]:
    pairs = zip(left.folded, right.folded, left.raw, strict=True)
    return tuple(written for one, other, written in pairs if one != other)


def _script(tokens: Tokens) -> str:
    return tokens.lexicon.language if tokens.lexicon.language in ("ja", "zh", "ru") else "latin"
