"""Measures what recall finds on dialogues, chats and the two hand-made sets, beside plain BM25 in the same run.

    python -m tests.benchmarks.eval_recall --data ../shared/data [--minilm] [--failures]

Each line of a dialogue, and each user message of a chat, is one memory of an own index. `default` is what the product
does; the other rows switch arms off. An arm alone runs without the floor, so that its ranking is what is measured.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from memory_worker.recall import Embedder, RecallQuery, RecallSettings, StaticEmbedder, TenantIndex
from tests.benchmarks import eval_recall_sets
from tests.benchmarks.eval_recall_data import Table, cases
from tests.benchmarks.eval_recall_fts5 import Fts5

DEPTH = 10
NOW = 1_780_000_000.0

_OPEN = {"floor": 0.0, "keep_share": 0.0}
SYSTEMS: dict[str, RecallSettings] = {
    "default": RecallSettings(),
    "default, no vectors": msgspec.structs.replace(RecallSettings(), arms=("lexical", "context")),
    "lexical arm": msgspec.structs.replace(RecallSettings(), arms=("lexical",), **_OPEN),
    "semantic arm": msgspec.structs.replace(RecallSettings(), arms=("semantic",), **_OPEN),
    "lexical + context arms": msgspec.structs.replace(RecallSettings(), arms=("lexical", "context"), **_OPEN),
    "default, no floor": msgspec.structs.replace(RecallSettings(), **_OPEN),
}


def measure(folder: Path, embedders: dict[str, Embedder]) -> Table:
    """Every system on every question."""
    table = Table()
    for case in cases(folder):
        baseline = Fts5()
        baseline.put_all(case.memories)
        for question in case.questions:
            table.add("FTS5", case.kind, question, baseline.search(question.text, DEPTH))
        for label, embedder in embedders.items():
            tenant = TenantIndex(RecallSettings(), embedder)
            tenant.put_all(case.memories)
            for name, settings in SYSTEMS.items():
                if label and name not in ("default", "semantic arm"):
                    continue
                tenant.settings = settings
                for question in case.questions:
                    found = tenant.search(["main"], RecallQuery(text=question.text, limit=DEPTH), NOW)
                    table.add(f"{label}{name}", case.kind, question, [h.id for h in found.hits])
    return table


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--minilm", action="store_true", help="also the full sentence model (extra [minilm])")
    parser.add_argument("--failures", action="store_true", help="list the cases of the hand-made sets that fail")
    args = parser.parse_args(arguments)
    static = StaticEmbedder()
    embedders: dict[str, Embedder] = {"": static}
    if args.minilm:
        from memory_worker.recall.minilm import InlineMiniLm

        embedders["[minilm] "] = InlineMiniLm()
    measure(args.data, embedders).print()
    print()
    for label, embedder in embedders.items():
        eval_recall_sets.print_sets(f"{label}default", embedder, RecallSettings(), failures=args.failures)


if __name__ == "__main__":
    main(sys.argv[1:])
