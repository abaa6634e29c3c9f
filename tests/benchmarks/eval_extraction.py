"""Measure what the rule-based extractor keeps of real chats, beside two baselines computed in the same run.

    python -m tests.benchmarks.eval_extraction --data DIR [--ranker recall]

DIR/chats holds `NAME.turns.jsonl` (one turn-completed event a line) and `NAME.questions.json`
(`{id, ability, question, answer, instruction, preference, evidence: [message ids]}`).

All three systems are ranked by the same plain BM25 (k1 1.2, b 0.75, stemmed, stop words out), or with `--ranker recall`
by the product's own recall, so a difference between rows is a difference in what was stored:

* `rules`: what the extractor kept, learned lines included;
* `messages`: every user message whole;
* `sentences`: every user sentence.
"""

import argparse
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import Stemmer

from memory_contracts.names import RECALL_LIMIT_MAX, TEXT_MAX_CHARS
from memory_contracts.records import Memory, Source
from memory_contracts.turns import TurnMessage
from memory_worker.extraction import Candidate, Checker, RuleExtractor, read_messages
from memory_worker.recall import Embedder, RecallQuery, RecallSettings, StaticEmbedder, TenantIndex

TOP = 8
BLOCK_CHARS = 1_200
LONG_AGO = datetime(2024, 1, 1, tzinfo=UTC)
K1, B = 1.2, 0.75
HELD = 0.6  # share of an instruction's content words one stored text must hold to count as holding it
HELD_SAID = 1 / 3  # the same for a text from the very message that said it: the questions word preferences anew

_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being but by can could did do does "
    "doing don down during each for from further had has have having he her here hers him his how i if in into is "
    "it its itself just me more most my myself no nor not now of off on once only or other our ours out over own "
    "same she should so some such than that the their theirs them then there these they this those through to too "
    "under until up us very was we were what when where which while who whom why will with would you your yours "
    "ll ve re m s t d "
)
_STOP = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_stem = Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """Stemmed content words of a text."""
    raw = _WORD.findall(text.lower().replace("’", "'"))
    return _stem.stemWords([w for w in raw if w not in _STOP and w.split("'")[0] not in _STOP])


@dataclass
class Stored:
    """One stored text and the message it came from."""

    text: str
    message_id: str
    learned: bool = False


@dataclass
class Index:
    """Plain BM25 over one chat's stored texts."""

    rows: list[Stored]
    postings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for n, row in enumerate(self.rows):
            counted = Counter(words(row.text))
            self.lengths.append(sum(counted.values()))
            for word, count in counted.items():
                self.postings.setdefault(word, []).append((n, count))

    def rank(self, query: str) -> list[Stored]:
        """Rows with at least one query word, best first; ties by order of saving."""
        mean = sum(self.lengths) / len(self.lengths) if self.lengths else 1.0
        scores: dict[int, float] = {}
        for word in set(words(query)):
            rows = self.postings.get(word, [])
            idf = math.log(1 + (len(self.rows) - len(rows) + 0.5) / (len(rows) + 0.5))
            for n, count in rows:
                norm = K1 * (1 - B + B * self.lengths[n] / (mean or 1.0))
                scores[n] = scores.get(n, 0.0) + idf * count * (K1 + 1) / (count + norm)
        return [self.rows[n] for n in sorted(scores, key=lambda n: (-scores[n], n))]


class RecallIndex:
    """The product's own recall over one chat's stored texts: all arms, with the floor."""

    def __init__(self, rows: list[Stored], embedder: Embedder) -> None:
        self._rows = {f"mem_{n:026d}": row for n, row in enumerate(rows)}
        self._index = TenantIndex(RecallSettings(), embedder)
        self._index.put_all(
            Memory(
                id=name,
                bank="main",
                text=row.text[:TEXT_MAX_CHARS],
                kind="fact",
                tier="inferred",
                source=Source(route="system", principal="worker"),
                created_at=LONG_AGO,
                updated_at=LONG_AGO,
                last_seen_at=LONG_AGO,
            )
            for name, row in self._rows.items()
        )

    def rank(self, query: str) -> list[Stored]:
        """What recall returns, best first."""
        asked = RecallQuery(text=query, limit=RECALL_LIMIT_MAX)
        return [self._rows[hit.id] for hit in self._index.search(["main"], asked, LONG_AGO.timestamp()).hits]


Ranker = Callable[[list[Stored]], Index | RecallIndex]


@dataclass
class Figures:
    """Sums over the questions of one or more chats."""

    user_chars: int = 0
    stored_chars: int = 0
    memories: int = 0
    turns: int = 0
    evidence_hits: int = 0
    evidence_questions: int = 0
    answer_sum: float = 0.0
    answer_questions: int = 0
    instructions: int = 0
    instructions_learned: int = 0
    instructions_held: int = 0
    preferences: int = 0
    preferences_held: int = 0
    learned: int = 0

    def add(self, other: "Figures") -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def stored_share(self) -> float:
        return self.stored_chars / max(1, self.user_chars)

    @property
    def evidence(self) -> float:
        return self.evidence_hits / max(1, self.evidence_questions)

    @property
    def answer(self) -> float:
        return self.answer_sum / max(1, self.answer_questions)


def block_of(rows: list[Stored]) -> str:
    """The first `BLOCK_CHARS` characters of the ranked rows, one a line; the last is clipped."""
    out: list[str] = []
    room = BLOCK_CHARS
    for row in rows:
        if room <= 0:
            break
        out.append(row.text[:room])
        room -= len(out[-1]) + 1
    return "\n".join(out)


def holds(wanted: str, rows: list[Stored], share: float = HELD) -> bool:
    """Whether one row holds at least `share` of the wanted text's content words."""
    need = set(words(wanted))
    return any(len(need & set(words(row.text))) >= share * len(need) for row in rows)


def measure(
    rows: list[Stored], questions: list[dict[str, Any]], turns: int, user_chars: int, ranker: Ranker = Index
) -> Figures:
    """The table's figures for one system on one chat."""
    index = ranker(rows)
    got = Figures(user_chars=user_chars, stored_chars=sum(len(r.text) for r in rows), memories=len(rows), turns=turns)
    learned = [r for r in rows if r.learned]
    got.learned = len(learned)
    for asked in questions:
        ranked = index.rank(asked["question"])
        evidence = {str(e) for e in asked["evidence"]}
        if evidence:
            got.evidence_questions += 1
            got.evidence_hits += any(r.message_id in evidence for r in ranked[:TOP])
        if asked["answer"] and asked["ability"] != "abstention":
            need = set(words(asked["answer"])) - set(words(asked["question"]))
            if need:
                got.answer_questions += 1
                got.answer_sum += len(need & set(words(block_of(ranked)))) / len(need)
        if asked.get("instruction"):
            got.instructions += 1
            got.instructions_learned += holds(asked["instruction"], learned)
            got.instructions_held += holds(asked["instruction"], rows)
        if asked.get("preference"):
            got.preferences += 1
            said = [row for row in rows if row.message_id in evidence]
            got.preferences_held += holds(asked["preference"], rows) or holds(asked["preference"], said, HELD_SAID)
    return got


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def load(path: Path) -> list[dict[str, Any]]:
    """The turn-completed events of one chat."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def extract(turns: list[dict[str, Any]], extractor: RuleExtractor) -> list[Candidate]:
    """Everything the rules keep, in order, a repeated wording once (as the store keeps it)."""
    seen: set[str] = set()
    kept: list[Candidate] = []
    for turn in turns:
        read = read_messages([msgspec.convert(m, TurnMessage) for m in turn["messages"]])
        found = extractor.extract(read.messages)
        checked = Checker(read).run([*found.items, *found.learned])
        for item in [*checked.items, *checked.learned]:
            key = item.text.casefold()
            if key not in seen:
                seen.add(key)
                kept.append(item)
    return kept


def run(chats: Path, *, verbose: bool = False, ranker: Ranker = Index) -> int:
    """Print the table; the exit code is 0 when every aim is met."""
    extractor = RuleExtractor()
    totals = {name: Figures() for name in ("rules", "messages", "sentences")}
    shares: list[float] = []
    messages = 0
    elapsed = 0.0
    false_lines: dict[str, list[str]] = {}
    print(
        f"{'chat':10} {'system':10} {'stored':>7} {'mem/turn':>8} {'evid@8':>7} {'answer':>7} "
        f"{'learned':>8} {'lines':>5} {'prefs':>6}"
    )

    for path in sorted(chats.glob("*.turns.jsonl")):
        name = path.name.removesuffix(".turns.jsonl")
        turns = load(path)
        questions = json.loads((chats / f"{name}.questions.json").read_text(encoding="utf-8"))
        user = [m for t in turns for m in t["messages"] if m["role"] == "user"]
        user_chars = sum(len(m["text"]) for m in user)
        started = time.process_time()
        kept = extract(turns, extractor)
        elapsed += time.process_time() - started
        messages += sum(len(t["messages"]) for t in turns)
        systems = {
            "rules": [Stored(c.text, c.message_id, c.standing) for c in kept],
            "messages": [Stored(m["text"], str(m["id"])) for m in user],
            "sentences": [Stored(s, str(m["id"])) for m in user for s in _SENTENCE_END.split(m["text"]) if s.strip()],
        }
        wanted = [q["instruction"] for q in questions if q.get("instruction")]
        false_lines[name] = [
            c.text
            for c in kept
            if c.standing and not re.match(r"(?i)(always|never|from now on|please always)\b", c.text)
        ]
        for system, rows in systems.items():
            got = measure(rows, questions, len(turns), user_chars, ranker)
            totals[system].add(got)
            if system == "rules":
                shares.append(got.stored_share)
            print(_row(name, system, got))
        if verbose:
            print("   wanted:", wanted)
            for c in kept:
                if c.standing:
                    print("   line:", c.text)
    for system, got in totals.items():
        print(_row("all", system, got))
    rules, best = totals["rules"], max(totals["messages"].evidence, totals["sentences"].evidence)
    best_answer = max(totals["messages"].answer, totals["sentences"].answer)
    per_second = messages / elapsed if elapsed else 0.0
    checks = [
        ("evidence@8 of the better baseline", rules.evidence / best if best else 1.0, ">=", 0.97),
        ("answer words of the better baseline", rules.answer / best_answer if best_answer else 1.0, ">=", 0.97),
        ("share of the user's characters stored", rules.stored_share, "<=", 0.40),
        ("the same, mean of the chats", sum(shares) / max(1, len(shares)), "<=", 0.40),
        ("instructions held as learned lines", rules.instructions_learned / max(1, rules.instructions), ">=", 0.80),
        ("preferences held", rules.preferences_held / max(1, rules.preferences), ">=", 0.80),
        ("most false lines in a chat", float(max((len(v) for v in false_lines.values()), default=0)), "<=", 1.0),
        ("messages per second of processor time", per_second, ">=", 1_000.0),
    ]
    met = True
    for label, value, sign, aim in checks:
        ok = value >= aim if sign == ">=" else value <= aim
        met = met and ok
        print(f"{label:42} {value:10.3f}  aim {sign} {aim:g}  {'met' if ok else 'NOT MET'}")
    for name, lines in false_lines.items():
        for line in lines:
            print(f"  line without a standing word in {name}: {line}")
    return 0 if met else 1


def _row(name: str, system: str, got: Figures) -> str:
    return (
        f"{name:10} {system:10} {got.stored_share:7.3f} {got.memories / max(1, got.turns):8.2f} {got.evidence:7.3f} "
        f"{got.answer:7.3f} {got.instructions_learned:4d}/{got.instructions:<3d} {got.learned:5d} "
        f"{got.preferences_held:3d}/{got.preferences:<2d}"
    )


def main() -> int:
    """Read the arguments and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--ranker", choices=("bm25", "recall"), default="bm25", help="what ranks the stored texts")
    parser.add_argument("--verbose", action="store_true", help="print the learned lines of every chat")
    args = parser.parse_args()
    chats = args.data / "chats"
    if not chats.is_dir():
        print(f"no chats under {args.data}", file=sys.stderr)
        return 2
    ranker: Ranker = Index
    if args.ranker == "recall":
        ranker = partial(RecallIndex, embedder=StaticEmbedder())
    return run(chats, verbose=args.verbose, ranker=ranker)


if __name__ == "__main__":
    raise SystemExit(main())
