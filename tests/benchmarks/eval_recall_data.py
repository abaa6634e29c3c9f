"""Reads the evaluation data, and measures a ranking against its evidence."""

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from memory_contracts.names import TEXT_MAX_CHARS
from memory_contracts.records import Memory, Source

METRICS = ("recall@5", "recall@10", "nDCG@10", "MRR", "all@5")
BOOTSTRAP_ROUNDS = 1_000
SEED = 11


class Question(NamedTuple):
    """A question, its category and the ids of the memories that hold the answer."""

    text: str
    category: str
    evidence: frozenset[str]


class Case(NamedTuple):
    """One dialogue or chat: its memories in order, and its questions."""

    kind: str
    name: str
    memories: list[Memory]
    questions: list[Question]


def cases(folder: Path) -> Iterator[Case]:
    """The dialogues and chats of a data folder."""
    for path in sorted((folder / "dialogues").glob("*.memories.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        said = [(r["ref"], r["text"], r["occurred_at"]) for r in rows]
        yield _case("dialogues", path, said, ".memories.jsonl", "category")
    for path in sorted((folder / "chats").glob("*.turns.jsonl")):
        said = [
            (str(m["id"]), m["text"], m["at"])
            for line in path.read_text(encoding="utf-8").splitlines()
            for m in json.loads(line)["messages"]
            if m["role"] == "user"
        ]
        yield _case("chats", path, said, ".turns.jsonl", "ability")


def _case(kind: str, path: Path, said: list[tuple[str, str, str]], suffix: str, category: str) -> Case:
    ids: dict[str, str] = {}
    memories: list[Memory] = []
    for number, (ref, text, at) in enumerate(said):
        ids[ref] = f"mem_{number:026d}"
        when = datetime.fromisoformat(at)
        # Saved as `save` would: newlines folded, at most TEXT_MAX_CHARS.
        memories.append(
            Memory(
                id=ids[ref],
                bank="main",
                text=" ".join(text.split())[:TEXT_MAX_CHARS],
                kind="fact",
                tier="stated",
                source=Source(route="human", principal="me"),
                created_at=when,
                updated_at=when,
                last_seen_at=when,
                occurred_at=when,
            )
        )
    asked = json.loads(path.with_name(path.name.replace(suffix, ".questions.json")).read_text(encoding="utf-8"))
    questions = [
        Question(q["question"], str(q[category]), evidence)
        for q in asked
        if (evidence := frozenset(ids[str(e)] for e in q["evidence"] if str(e) in ids))
    ]
    return Case(kind, path.name.removesuffix(suffix), memories, questions)


def scores(ranked: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """Each metric of one ranking, in [0, 1]."""
    places = [i for i, found in enumerate(ranked[:10]) if found in evidence]
    ideal = sum(1 / math.log2(i + 2) for i in range(min(10, len(evidence))))
    first = next((i for i, found in enumerate(ranked) if found in evidence), None)
    top5 = evidence.intersection(ranked[:5])
    return {
        "recall@5": len(top5) / len(evidence),
        "recall@10": len(places) / len(evidence),
        "nDCG@10": sum(1 / math.log2(i + 2) for i in places) / ideal,
        "MRR": 0.0 if first is None else 1 / (first + 1),
        "all@5": float(len(top5) == len(evidence)),
    }


class Table:
    """Scores per system and category."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)

    def add(self, system: str, kind: str, question: Question, ranked: Sequence[str]) -> None:
        """Adds one question. The adversarial category 5 has its own row and is no part of the total."""
        found = scores(ranked, question.evidence)
        self.rows[(f"{kind} {question.category}", system)].append(found)
        if not (kind == "dialogues" and question.category == "5"):
            self.rows[(kind, system)].append(found)

    def mean(self, group: str, system: str, metric: str) -> float:
        """Mean of a metric."""
        rows = self.rows[(group, system)]
        return sum(r[metric] for r in rows) / len(rows)

    def interval(self, group: str, system: str, metric: str) -> tuple[float, float]:
        """95 % bootstrap interval of a mean."""
        values = [r[metric] for r in self.rows[(group, system)]]
        rng = random.Random(SEED)
        means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(BOOTSTRAP_ROUNDS))
        return means[int(0.025 * BOOTSTRAP_ROUNDS)], means[int(0.975 * BOOTSTRAP_ROUNDS)]

    def print(self, write: Callable[[str], None] = print) -> None:
        """Prints every group, a line per system."""
        for group in sorted({g for g, _ in self.rows}):
            systems = [s for g, s in self.rows if g == group]
            write(f"\n{group} ({len(self.rows[(group, systems[0])])} questions)")
            write(f"  {'':28}" + "".join(f"{m:>22}" for m in METRICS))
            for system in systems:
                cells = ""
                for metric in METRICS:
                    low, high = self.interval(group, system, metric)
                    cells += f"{self.mean(group, system, metric):>8.3f} [{low:.2f}, {high:.2f}]"
                write(f"  {system:28}{cells}")
