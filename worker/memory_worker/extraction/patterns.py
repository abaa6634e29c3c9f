"""Loads the pattern files of the rule-based extractor, one per language, and compiles them."""

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

import msgspec

from memory_contracts.names import Kind

MONTHS = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
WEEKDAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
PIECES = {
    "date": (
        rf"(?:\b{MONTHS}\.? \d{{1,2}}\b|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{MONTHS}\b|\b\d{{4}}-\d\d-\d\d\b|"
        rf"\b\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}\b|\b{WEEKDAYS}s?\b|\b(?:19|20)\d\d\b|"
        r"\b(?:tomorrow|yesterday|tonight|(?:next|last) (?:week|month|year|night|spring|summer|autumn|fall|winter))\b|"
        r"\b\d{1,2}(?::\d\d)? ?[ap]\.?m\b)"
    ),
    "number": (
        r"(?:\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|hundred|"
        r"thousand|million|half|double|twice)\b)"
    ),
    "end": r"[.!?]*$",
}


class Pattern(msgspec.Struct, frozen=True):
    """One named pattern: what a matching clause is filed as, and what it must hold besides."""

    name: str
    kind: Kind
    match: re.Pattern[str]
    needs: Literal["", "detail", "content"] = ""
    words: int = 5
    subject: str | None = None


class Language(msgspec.Struct, frozen=True):
    """The compiled patterns of one language; `None` where a file has no such section."""

    code: str
    ascii: bool
    case_names: bool
    not_names: frozenset[str]
    frame: frozenset[str]
    patterns: tuple[Pattern, ...]
    remember: tuple[re.Pattern[str], ...]
    remember_previous: re.Pattern[str] | None
    remember_unless: re.Pattern[str] | None
    standing: tuple[re.Pattern[str], ...]
    standing_unless: re.Pattern[str] | None
    lead: re.Pattern[str] | None
    hedge: re.Pattern[str] | None
    ask: re.Pattern[str] | None
    rejoin: re.Pattern[str] | None
    joint: re.Pattern[str] | None
    weighty: re.Pattern[str] | None
    question: re.Pattern[str] | None
    filler: frozenset[str]
    ephemeral: re.Pattern[str] | None
    addressed: re.Pattern[str] | None


@cache
def languages() -> tuple[Language, ...]:
    """Load every language file of the package, English first; raises `ValueError` naming a broken file."""
    folder = resources.files("memory_worker.extraction") / "languages"
    names = sorted((f.name for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda n: (n != "en.toml", n))
    return tuple(load(name, (folder / name).read_text(encoding="utf-8")) for name in names)


def load(name: str, text: str) -> Language:
    """Compile one language file; raises `ValueError` naming the file when it is not valid."""
    try:
        data = tomllib.loads(text)
        return _language(data)
    except (tomllib.TOMLDecodeError, re.error, KeyError) as error:
        raise ValueError(f"language file {name}: {error}") from error


def _language(data: dict[str, Any]) -> Language:
    cut = data.get("cut", {})
    refuse = data.get("refuse", {})
    remember, standing = data.get("remember", {}), data.get("standing", {})
    lead = _alternatives(cut.get("lead"))
    hedge = _alternatives(cut.get("hedge"))
    ask = _alternatives(cut.get("ask"))
    rejoin = _alternatives(cut.get("rejoin"))
    joint = r"(?:^|[,;:—–]\s*|\s-\s|\s+)(?:(?:and|so|but|or|also|plus|now|then|maybe|perhaps)\s+)*"
    return Language(
        code=data["language"],
        ascii=data.get("ascii", True),
        case_names=data.get("case_names", False),
        not_names=frozenset(data.get("not_names", "").split()),
        frame=frozenset(data.get("frame", "").split()),
        patterns=tuple(
            Pattern(
                p["name"],
                cast(Kind, p["kind"]),
                _compile(p["match"]),
                p.get("needs", ""),
                p.get("words", 5),
                p.get("subject"),
            )
            for p in data.get("pattern", [])
        ),
        remember=tuple(_compile(m) for m in remember.get("match", [])),
        remember_previous=_compile(remember.get("previous")),
        remember_unless=_compile(_alternatives(remember.get("unless"))),
        standing=tuple(_compile(m) for m in standing.get("match", [])),
        standing_unless=_compile(_alternatives(standing.get("unless"))),
        lead=_compile(lead and f"(?:{lead})+"),
        hedge=_compile(hedge),
        ask=_compile(ask and f"{joint}(?:{ask})"),
        rejoin=_compile(rejoin and rf"(?:[,;]\s*|\s+)(?:{rejoin})"),
        joint=_compile(_alternatives(cut.get("joint"))),
        weighty=_compile(_alternatives(cut.get("weighty"))),
        question=_compile(_alternatives(cut.get("question"))),
        filler=frozenset(cut.get("filler", "").split("|")),
        ephemeral=_compile(_alternatives(refuse.get("ephemeral"))),
        addressed=_compile(_alternatives(refuse.get("addressed"))),
    )


def _alternatives(parts: list[str] | None) -> str | None:
    return "(?:" + "|".join(f"(?:{p})" for p in parts) + ")" if parts else None


def _compile(source: str | None) -> Any:
    if source is None:
        return None
    for name, piece in PIECES.items():
        source = source.replace("{" + name + "}", piece)
    return re.compile(source, re.IGNORECASE)
