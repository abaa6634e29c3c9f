"""Finds secrets in text: keys, tokens, private keys, passwords and card numbers, which are never stored.

Three ways of finding, none of which needs a network or a model: tokens with a provider's known form, values that a
label names ("my password is …", "api_key=…"), and values with a checksum or an unmistakable shape (card numbers,
private key blocks, addresses that carry a password). The forms lie in `secrets.toml`.
"""

import math
import re
import tomllib
from collections import Counter
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec

MASK = "[secret removed]"
"""What stands where a secret stood."""
ENTROPY_CHARS = 40
"""An unlabelled token of at least this length that mixes cases and digits, and is random, counts as a secret."""
ENTROPY_BITS = 4.3
"""Shannon entropy, in bits per character, from which such a token counts as random (base64 of noise: 4.7 and up)."""
LABELLED_MIN_CHARS = 8
"""Shortest labelled value that counts as a key or token."""


class Found(NamedTuple):
    """One secret: where it lies in the text, and its kind."""

    start: int
    end: int
    kind: str


class _Shape(NamedTuple):
    kind: str
    stems: tuple[str, ...]
    random: bool
    match: re.Pattern[str]


class _Label(NamedTuple):
    kind: str
    plain: bool
    stems: tuple[str, ...]
    match: re.Pattern[str]


class _Forms(NamedTuple):
    """The compiled contents of `secrets.toml`."""

    tokens: re.Pattern[str]
    kinds: tuple[str, ...]
    shapes: tuple[_Shape, ...]
    labels: tuple[_Label, ...]
    placeholder: re.Pattern[str]
    code: re.Pattern[str]
    not_values: frozenset[str]


_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|“”«»]{14,}")
_CARD = re.compile(r"(?<![\d.,#-])\d(?:[ -]?\d){12,18}(?![\d]|[.,]\d)")
_CARD_PREFIX = re.compile(r"4|5[1-5]|2[2-7]|3[0-9]|6|50|5[6-9]")
_NOISE = re.compile(rf"[A-Za-z0-9+/_=-]{{{ENTROPY_CHARS},}}")
_DIGEST = re.compile(r"sha(?:1|256|384|512)[-:]")
_WORDS_ONLY = re.compile(r"^[^\W\d_]+$")
# "password: 12 characters": a number that counts something is no password.
_COUNTS = re.compile(r"\s*(?:\+|-?\s*(?:char|digit|letter|time|day|minute|attempt|symbol|year|week|hour))")
_CLAUSE_ENDS = re.compile(r"\s*(?:$|[.,;!?\n)]|(?:and|but|for|y|et|und)\b)")


@cache
def _forms() -> _Forms:
    source = resources.files("memory_worker.extraction") / "secrets.toml"
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    labelled = data["labelled"]
    tokens = "|".join(f"(?P<t{n}>{token['match']})" for n, token in enumerate(data["token"]))
    labels = []
    for label in data["label"]:
        words = "|".join(label["words"])
        match = rf"(?<![A-Za-z])(?:{words})s?(?:[\"'`*])?{labelled['joint']}{labelled['value']}"
        labels.append(_Label(label["kind"], label["plain"], tuple(label["stems"]), re.compile(match, re.IGNORECASE)))
    return _Forms(
        tokens=re.compile(rf"(?<![A-Za-z0-9_])(?:{tokens})(?![A-Za-z0-9_])"),
        kinds=tuple(token["kind"] for token in data["token"]),
        shapes=tuple(
            _Shape(shape["kind"], tuple(shape["stems"]), shape.get("random", False), re.compile(shape["match"]))
            for shape in data["shape"]
        ),
        labels=tuple(labels),
        placeholder=re.compile(labelled["placeholder"]),
        code=re.compile(labelled["code"]),
        not_values=frozenset(labelled["not_values"].split()),
    )


def find_secrets(text: str) -> list[Found]:
    """Give the secrets in `text`, in order of place, without overlaps."""
    forms = _forms()
    found: list[Found] = []
    for token in _TOKEN.finditer(text):
        found.extend(_in_token(token.group(), token.start(), forms))
    found.extend(Found(*m.span(), "card_number") for m in _CARD.finditer(text) if is_card_number(m.group()))
    lowered = text.lower()
    for shape in forms.shapes:
        if any(stem in lowered for stem in shape.stems):
            found.extend(_shaped(text, shape, forms))
    for label in forms.labels:
        if any(stem in lowered for stem in label.stems):
            found.extend(_labelled(text, label, forms))
    return _merged(found)


def mask_secrets(text: str) -> tuple[str, dict[str, int]]:
    """Give `text` with every secret replaced by `MASK`, and how many of each kind there were."""
    found = find_secrets(text)
    if not found:
        return text, {}
    out: list[str] = []
    at = 0
    for one in found:
        out += [text[at : one.start], MASK]
        at = one.end
    out.append(text[at:])
    return "".join(out), dict(Counter(one.kind for one in found))


def mask_payload(payload: bytes) -> bytes:
    """Give a turn event's bytes with every secret in its texts replaced; the same bytes when there is none.

    For whoever stores an event before it is read: what is masked here is in no file, log or backup at all.
    """
    try:
        event = msgspec.json.decode(payload)
        masked = _mask_value(event)
        return payload if masked is event else msgspec.json.encode(masked)
    except (msgspec.MsgspecError, RecursionError):  # no JSON, or nested deeper than anybody reads
        text, kinds = mask_secrets(payload.decode("utf-8", "replace"))
        return text.encode() if kinds else payload


def _mask_value(value: Any) -> Any:
    """Mask every string inside a JSON value; the same object when nothing changed."""
    if isinstance(value, str):
        text, kinds = mask_secrets(value)
        return text if kinds else value
    if isinstance(value, list):
        masked = [_mask_value(part) for part in value]
        return masked if any(a is not b for a, b in zip(masked, value, strict=True)) else value
    if isinstance(value, dict):
        fields = {key: _mask_value(part) for key, part in value.items()}
        return fields if any(fields[key] is not value[key] for key in value) else value
    return value


def is_card_number(text: str) -> bool:
    """Tell whether `text` is a payment card number: 13 to 19 digits, a card network's prefix, a valid Luhn sum."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    number = "".join(map(str, digits))
    if not _CARD_PREFIX.match(number):
        return False
    total = 0
    for n, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if n % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def entropy(text: str) -> float:
    """Shannon entropy of the characters of `text`, in bits per character."""
    if not text:
        return 0.0
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _in_token(token: str, offset: int, forms: _Forms) -> list[Found]:
    out = [
        Found(offset + match.start(), offset + match.end(), forms.kinds[int(str(match.lastgroup)[1:])])
        for match in forms.tokens.finditer(token)
    ]
    if not out and len(token) >= ENTROPY_CHARS and not _DIGEST.search(token):
        out.extend(
            Found(offset + part.start(), offset + part.end(), "high_entropy")
            for part in _NOISE.finditer(token)
            if _is_noise(part.group())
        )
    return out


def _is_noise(text: str) -> bool:
    """Tell whether a long token is random base64: hex digests, UUIDs, paths and words joined by dashes are not."""
    core = text.rstrip("=")
    if re.fullmatch(r"[0-9a-fA-F-]+", core) or core.count("/") > 3 or core.count("-") + core.count("_") > 3:
        return False
    mixed = all(re.search(kind, core) for kind in ("[a-z]", "[A-Z]"))
    return mixed and len(re.findall(r"\d", core)) >= 3 and entropy(core) >= ENTROPY_BITS


def _shaped(text: str, shape: _Shape, forms: _Forms) -> list[Found]:
    group = "value" if "value" in shape.match.groupindex else 0
    return [
        Found(match.start(group), match.end(group), shape.kind)
        for match in shape.match.finditer(text)
        if not shape.random or _looks_random(match[group], 6, forms)
    ]


def _labelled(text: str, label: _Label, forms: _Forms) -> list[Found]:
    out: list[Found] = []
    for match in label.match.finditer(text):
        start = match.start("value")
        raw = match["value"].rstrip(".,;!?)]}*。！")
        quoted = raw[:1] in tuple("\"'`“«") and len(raw) > 2
        if not raw or forms.placeholder.match(raw) or (not quoted and forms.code.search(raw)):
            continue
        named = not re.search(r"\s(?:as|to)\s", match["joint"])
        after = text[start + len(raw) :]
        if _is_value(raw.strip("\"'`“”«»"), label, forms, quoted=quoted, named=named, after=after):
            out.append(Found(start, start + len(raw), label.kind))
    return out


def _is_value(value: str, label: _Label, forms: _Forms, *, quoted: bool, named: bool, after: str) -> bool:
    """Tell whether what follows a label is its value rather than the next words of a sentence."""
    if label.kind == "pin":
        return bool(re.fullmatch(r"[#*]?\d{3,10}[#*]?|\d{1,3}(?:-\d{1,3}){2,3}|(?=.*\d)[A-Za-z0-9]{6,12}", value))
    if label.kind == "identity_number":
        return sum(c.isdigit() for c in value) >= 5
    if not label.plain:
        return _looks_random(value, LABELLED_MIN_CHARS, forms)
    if value.lower() in forms.not_values or (value.isdigit() and len(value) < 4):
        return False
    if quoted or not _WORDS_ONLY.match(value):
        return not (value[:1].isdigit() and _COUNTS.match(after))
    # An ordinary word is a password only where the clause ends with it.
    return named and len(value) >= 4 and bool(_CLAUSE_ENDS.match(after))


def _looks_random(value: str, least: int, forms: _Forms) -> bool:
    """Tell whether a value is a key rather than a word: long enough, with a digit, a symbol or mixed cases."""
    if len(value) < least or forms.placeholder.match(value):
        return False
    if re.fullmatch(r"[\d.,:/-]+", value):
        return len(re.sub(r"\D", "", value)) >= 12
    if re.fullmatch(r"v?\d+(?:\.\d+)+\S*", value):
        return False
    mixed = bool(re.search(r"[a-z][A-Z]", value)) and len(value) >= 16
    return mixed or any(c.isdigit() for c in value) or bool(re.search(r"[!@#$%^&*]", value[1:-1]))


def _merged(found: list[Found]) -> list[Found]:
    out: list[Found] = []
    for one in sorted(found, key=lambda f: (f.start, -f.end)):
        if out and one.start < out[-1].end:
            if one.end > out[-1].end:
                out[-1] = Found(out[-1].start, one.end, out[-1].kind)
        else:
            out.append(one)
    return out
