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
from typing import NamedTuple

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


class _Rules(NamedTuple):
    tokens: re.Pattern[str]
    kinds: tuple[str, ...]
    labels: tuple["_Label", ...]


class _Label(NamedTuple):
    kind: str
    plain: bool
    stems: tuple[str, ...]
    pattern: re.Pattern[str]


_TOKEN = re.compile(r"[^\s\"'`<>()\[\]{},;|“”«»]{14,}")
_PEM = re.compile(
    r"-{3,5}\s?BEGIN[A-Z0-9 ]* PRIVATE KEY(?: BLOCK)?\s?-{3,5}.*?(?:-{3,5}\s?END[A-Z0-9 ]* PRIVATE KEY(?: BLOCK)?\s?-{3,5}|\Z)",
    re.DOTALL,
)
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d.*?(?:Private-MAC:\s*\S+|\Z)", re.DOTALL)
_URL_PASSWORD = re.compile(
    r"[a-z][a-z0-9+.-]{1,30}://[^\s/:@\"']{0,80}:(?P<value>[^\s/@\"']{1,200})@[^\s\"']+", re.IGNORECASE
)
_CARD = re.compile(r"(?<![\d.,#-])\d(?:[ -]?\d){12,18}(?![\d]|[.,]\d)")
_SEED = re.compile(
    r"\b(?:seed|recovery|mnemonic|backup|secret)\s*(?:phrase|words?|mnemonic)\b[^\n]{0,30}?[:=]?\s+(?P<value>(?:[a-z]{3,8}[ ,]+){11,23}[a-z]{3,8})\b",
    re.IGNORECASE,
)
_BASIC = re.compile(r"\b(?:basic|bearer)\s+(?P<value>[A-Za-z0-9+/_.=-]{16,})", re.IGNORECASE)
_CURL_USER = re.compile(r"(?:\s-u|--user)\s+[\"']?[\w.@-]+:(?P<value>[^\s\"']{4,})")
_LOGIN_PAIR = re.compile(
    r"\b(?:log ?in|sign ?in|credentials?|creds|username|user|account)\b[^\n.]{0,40}?\s(?P<name>[\w.@+-]{3,60})\s*(?:/|:|\||,?\s+and\s+pass\w*\s*:?)\s*(?P<value>[^\s/:|]{6,64})",
    re.IGNORECASE,
)
_BARE_PASSWORD = re.compile(
    r"\b(?:pass ?word|passwd|pwd|pass ?code)\s+(?P<value>(?!1password|sha-?\d|md5|pbkdf2|argon2|bcrypt|base64|utf-?8|oauth2?|v\d)"
    r"(?=\S*\d)(?=\S*[a-z!@#$%^&*])[^\s\"'(){}<>=]{6,64})",
    re.IGNORECASE,
)
_BARE_PIN = re.compile(
    r"\b(?:cvv2?|cvc2?|cvn|pin(?: code| number)?|otp|pass ?code)\s+(?:no\.?\s+|#)?(?P<value>\d{3,8})\b(?!\s*(?:%|[a-z]+ed\b))",
    re.IGNORECASE,
)
_SHAPES = (
    (("pass", "pwd"), "password", _BARE_PASSWORD),
    (("cvv", "cvc", "cvn", "pin", "otp", "pass"), "pin", _BARE_PIN),
    (("phrase", "words", "mnemonic"), "seed_phrase", _SEED),
    (("basic", "bearer"), "bearer", _BASIC),
    ((" -u", "--user"), "password", _CURL_USER),
    (("log", "sign", "cred", "user", "account"), "password", _LOGIN_PAIR),
)

# Words between a label and its value: "password for the router is", "contraseña del wifi es", "密码是".
_JOINT = (
    r"(?P<joint>(?:\s+(?:for|to|of|on|at|del?|du|pour|para|für|do|da|от|для)\b[^\n.:=!?]{1,60}?)?"
    r"(?:\s*(?:[:=：]|=>|->)\s*|\s*(?:是|は|です|:)\s*|\s+(?:is(?: now| currently| still)?|was|are|equals|будет|это|es|est|ist|é|lautet|hai|है|হল|হলো|ہے|هي|هو|adalah|to|as|are:)\s*[:=]?\s+))"
)
_VALUE = r"(?P<value>\"[^\"\n]{3,200}\"|'[^'\n]{3,200}'|`[^`\n]{3,200}`|“[^”\n]{3,200}”|«[^»\n]{3,200}»|[^\s\"'`“”«»]{3,300})"
_PLACEHOLDER = re.compile(
    r"(?i)^(?:[\"'`“]?(?:\*+|x{3,}|\.{3}|…|•+|<[^>]*>?|\$\{?[\w.]+\}?|\{\{?.*|%\w+%|\[.*|your[-_ ].*|my[-_]?(?:password|secret|key|token)|[a-z_-]*(?:password|passwd|secret|token|key)[a-z_-]*|[#*]+.*"
    r"|none|null|nil|true|false|undefined|empty|example|placeholder|redacted|hidden|changed?|string|str|text|varchar.*)[\"'`”]?[,;.]?)$"
)
_CODE_VALUE = re.compile(
    r"^[A-Za-z_][\w.]*[(\[]|^(?:self|os|process|config|request|env|settings|db|app|user|data|args|ctx|this|form|session|var|let|const)\.|^[A-Za-z_]+\.[a-z_]+$|^@|\)$"
)
# What follows "password is" when no password follows.
_NOT_VALUES = frozenset(
    [
        "a",
        "about",
        "again",
        "all",
        "allowed",
        "already",
        "also",
        "always",
        "an",
        "and",
        "any",
        "asked",
        "at",
        "back",
        "bad",
        "bcrypt",
        "be",
        "because",
        "been",
        "being",
        "better",
        "blank",
        "both",
        "broken",
        "but",
        "by",
        "can",
        "case",
        "changed",
        "compromised",
        "correct",
        "created",
        "data",
        "different",
        "done",
        "easy",
        "encrypted",
        "enforced",
        "entered",
        "expired",
        "fine",
        "for",
        "forgotten",
        "from",
        "generated",
        "getting",
        "given",
        "going",
        "gone",
        "good",
        "good",
        "hard",
        "has",
        "hashed",
        "have",
        "hidden",
        "how",
        "if",
        "important",
        "in",
        "incorrect",
        "insecure",
        "invalid",
        "is",
        "it",
        "its",
        "just",
        "kept",
        "leaked",
        "long",
        "lost",
        "managed",
        "managers",
        "many",
        "me",
        "mentioned",
        "missing",
        "more",
        "most",
        "much",
        "my",
        "needed",
        "never",
        "new",
        "no",
        "non",
        "not",
        "now",
        "obvious",
        "of",
        "off",
        "ok",
        "old",
        "on",
        "one",
        "only",
        "optional",
        "or",
        "our",
        "out",
        "pretty",
        "protected",
        "rather",
        "really",
        "required",
        "reset",
        "resets",
        "rotated",
        "safe",
        "safely",
        "salted",
        "same",
        "saved",
        "secure",
        "sent",
        "set",
        "shared",
        "short",
        "should",
        "simple",
        "slow",
        "so",
        "some",
        "something",
        "still",
        "stolen",
        "stored",
        "strong",
        "such",
        "supposed",
        "taken",
        "terrible",
        "than",
        "that",
        "the",
        "their",
        "them",
        "there",
        "they",
        "this",
        "to",
        "too",
        "typed",
        "under",
        "unique",
        "unknown",
        "updated",
        "used",
        "useful",
        "valid",
        "validated",
        "very",
        "via",
        "was",
        "weak",
        "well",
        "what",
        "when",
        "where",
        "which",
        "why",
        "will",
        "with",
        "working",
        "wrong",
        "you",
        "your",
        "authentication",
        "storage",
        "managers",
        "manager",
        "policy",
        "hashing",
        "field",
        "fields",
        "verification",
        "protection",
        "security",
        "complexity",
        "length",
        "what's",
        "up",
        "due",
        "plain",
        "plaintext",
        "expires",
        "input",
        "parameter",
        "argument",
        "string",
        "hash",
        "es",
        "el",
        "la",
        "un",
        "una",
        "de",
        "le",
        "der",
        "die",
        "das",
        "ein",
        "eine",
        "nicht",
        "não",
        "o",
        "que",
    ]
)
_WORDS_ONLY = re.compile(r"^[a-zA-Zа-яА-Я]+$")


@cache
def _rules() -> _Rules:
    text = (resources.files("memory_worker.extraction") / "secrets.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    tokens = data["token"]
    parts = [f"(?P<t{n}>{t['match']})" for n, t in enumerate(tokens)]
    labels = []
    for label in data["label"]:
        words = "|".join(label["words"])
        regex = re.compile(rf"(?<![A-Za-z])(?:{words})s?(?:[\"'`*])?{_JOINT}{_VALUE}", re.IGNORECASE)
        labels.append(_Label(label["kind"], label["plain"], tuple(label["stems"]), regex))
    return _Rules(
        re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(parts)})(?![A-Za-z0-9_])"),
        tuple(t["kind"] for t in tokens),
        tuple(labels),
    )


def find_secrets(text: str) -> list[Found]:
    """Give the secrets in `text`, in order of place, without overlaps."""
    rules = _rules()
    found: list[Found] = []
    for token in _TOKEN.finditer(text):
        found.extend(_in_token(token.group(), token.start(), rules))
    if "PRIVATE KEY" in text:
        found.extend(Found(m.start(), m.end(), "private_key") for m in _PEM.finditer(text))
    if "PuTTY-User" in text:
        found.extend(Found(m.start(), m.end(), "private_key") for m in _PUTTY.finditer(text))
    if "://" in text:
        for match in _URL_PASSWORD.finditer(text):
            if not _PLACEHOLDER.match(match["value"]):
                found.append(Found(match.start(), match.end(), "url_password"))
    for match in _CARD.finditer(text):
        if is_card_number(match.group()):
            found.append(Found(match.start(), match.end(), "card_number"))
    lowered = text.lower()
    for stems, kind, pattern in _SHAPES:
        if not any(stem in lowered for stem in stems):
            continue
        for match in pattern.finditer(text):
            if kind in ("seed_phrase", "pin") or _looks_random(match["value"], 6):
                found.append(Found(match.start("value"), match.end("value"), kind))
    for label in rules.labels:
        if any(stem in lowered for stem in label.stems):
            found.extend(_labelled(text, label))
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


def is_card_number(text: str) -> bool:
    """Tell whether `text` is a payment card number: 13 to 19 digits, a card network's prefix, a valid Luhn sum."""
    digits = [int(c) for c in text if c.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    number = "".join(map(str, digits))
    if not re.match(r"4|5[1-5]|2[2-7]|3[0-9]|6|50|5[6-9]", number):
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


def _in_token(token: str, offset: int, rules: _Rules) -> list[Found]:
    out: list[Found] = []
    for match in rules.tokens.finditer(token):
        kind = rules.kinds[int(str(match.lastgroup)[1:])]
        out.append(Found(offset + match.start(), offset + match.end(), kind))
    if not out and len(token) >= ENTROPY_CHARS:
        for part in re.finditer(rf"[A-Za-z0-9+/_=-]{{{ENTROPY_CHARS},}}", token):
            if _is_noise(part.group()) and not re.search(
                r"sha(?:1|256|384|512)[-:]$", token[: part.start()] + part.group()[:7]
            ):
                out.append(Found(offset + part.start(), offset + part.end(), "high_entropy"))
    return out


def _is_noise(text: str) -> bool:
    """Tell whether a long token is random base64: hex digests, UUIDs, paths and words joined by dashes are not."""
    if re.match(r"sha(?:1|256|384|512)-", text):
        return False
    core = text.rstrip("=")
    if re.fullmatch(r"[0-9a-fA-F-]+", core) or core.count("/") > 3 or core.count("-") + core.count("_") > 3:
        return False
    kinds = sum(bool(re.search(k, core)) for k in ("[a-z]", "[A-Z]", r"\d"))
    return kinds == 3 and len(re.findall(r"\d", core)) >= 3 and entropy(core) >= ENTROPY_BITS


def _labelled(text: str, label: _Label) -> list[Found]:
    out: list[Found] = []
    for match in label.pattern.finditer(text):
        start, end = match.span("value")
        raw = match["value"].rstrip(".,;!?)]}*")
        quoted = raw[:1] in "\"'`“«" and len(raw) > 2
        value = raw.strip("\"'`“”«»")
        if not value or _PLACEHOLDER.match(raw) or (not quoted and _CODE_VALUE.search(raw)):
            continue
        named = not re.search(r"\s(?:as|to)\s", match["joint"])
        if _is_value(value, label, quoted, named, text[start + len(raw) :]):
            out.append(Found(start, start + len(raw), label.kind))
    return out


def _is_value(value: str, label: _Label, quoted: bool, named: bool, after: str) -> bool:
    lower = value.lower()
    kind, plain = label.kind, label.plain
    if kind == "pin":
        return bool(re.fullmatch(r"[#*]?\d{3,10}[#*]?|\d{1,3}(?:-\d{1,3}){2,3}|(?=.*\d)[A-Za-z0-9]{6,12}", value))
    if kind == "identity_number":
        return sum(c.isdigit() for c in value) >= 5
    if not plain:
        return len(value) >= LABELLED_MIN_CHARS and _looks_random(value, LABELLED_MIN_CHARS)
    if lower in _NOT_VALUES or (value.isdigit() and len(value) < 4):
        return False
    if quoted or not _WORDS_ONLY.match(value):
        # "password: 12 characters", "password is 12+ chars": a number that counts something is no password.
        return not (
            value[0].isdigit()
            and re.match(r"\s*(?:\+|-?\s*(?:char|digit|letter|time|day|minute|attempt|symbol|year|week|hour))", after)
        )
    # An ordinary word: only when the clause ends with it, or it is assigned.
    ends = bool(re.match(r"\s*(?:$|[.,;!?\n)]|and\b|but\b|for\b|y\b|et\b|und\b)", after))
    return named and len(value) >= 4 and ends


def _looks_random(value: str, least: int) -> bool:
    """Tell whether a value is a key rather than a word: long enough, with a digit or mixed cases, and no plain code."""
    if len(value) < least or _PLACEHOLDER.match(value):
        return False
    if re.fullmatch(r"[\d.,:/-]+", value):
        return len(re.sub(r"\D", "", value)) >= 12
    if re.fullmatch(r"v?\d+(?:\.\d+)+\S*", value):
        return False
    has_digit = any(c.isdigit() for c in value)
    inner_cases = bool(re.search(r"[a-z][A-Z]", value)) and len(value) >= 16
    return has_digit or inner_cases or bool(re.search(r"[!@#$%^&*]", value[1:-1]))


def _merged(found: list[Found]) -> list[Found]:
    out: list[Found] = []
    for one in sorted(found, key=lambda f: (f.start, -f.end)):
        if out and one.start < out[-1].end:
            if one.end > out[-1].end:
                out[-1] = Found(out[-1].start, one.end, out[-1].kind)
        else:
            out.append(one)
    return out
