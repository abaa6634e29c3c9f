"""Makes the embedding table: the teacher's vectors of single words, then trained to sum up to its vectors of texts.

Start (“plain distillation”): every row is the teacher's vector of that word alone, projected to 256 dimensions and
scaled by how telling the word is (smooth inverse frequency over the corpus). Training then moves the rows so that the
length-1 sum of a text's rows points where the teacher's vector of the text points. Short and long texts weigh the same.

    python train.py corpus.txt corpus.npy words.txt words.npy OUT.npz [--epochs 6]

NumPy only; the vocabulary written beside the table must be the shipped `vocabulary.txt`.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "worker"), str(ROOT / "contracts")]

from memory_worker.recall.wordpiece import WordPieces  # noqa: E402

DIMS = 256
SMOOTH = 2e-3
"""Frequency at which a word's starting weight is one half."""
BATCH = 512
RATE = 0.02
HELD_OUT = 4_000


def projection(vectors: np.ndarray) -> np.ndarray:
    """The 384×256 matrix that keeps the most of the inner products (principal axes, not centred)."""
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    return axes[:, ::-1][:, :DIMS].astype(np.float32)


def bags(cut: WordPieces, texts: list[str], most: int = 160) -> list[np.ndarray]:
    """The table rows of each text."""
    return [np.array(cut.cut(text)[:most], np.int64) for text in texts]


def summed(table: np.ndarray, batch: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of rows per text, with the flat rows and the text of each."""
    flat = np.concatenate(batch)
    owner = np.repeat(np.arange(len(batch)), [len(b) for b in batch])
    sums = np.zeros((len(batch), table.shape[1]), np.float32)
    starts = np.concatenate(([0], np.cumsum([len(b) for b in batch])[:-1]))
    sums[:] = np.add.reduceat(table[flat], starts, axis=0)
    return sums, flat, owner


def agreement(table: np.ndarray, held: list[np.ndarray], target: np.ndarray) -> float:
    """Mean cosine to the teacher on texts that training does not see."""
    sums, _, _ = summed(table, held)
    return float(np.mean((sums * target).sum(1) / (np.linalg.norm(sums, axis=1) + 1e-9)))


def train(table: np.ndarray, rows: list[np.ndarray], target: np.ndarray, epochs: int, seed: int = 1) -> np.ndarray:
    """Adam on 1 - cosine, touching only the rows of a batch (lazy moments)."""
    rng = np.random.default_rng(seed)
    usable = np.array([i for i, r in enumerate(rows) if len(r)])
    held, usable = usable[:HELD_OUT], usable[HELD_OUT:]
    held_rows, held_target = [rows[i] for i in held], target[held]
    m, v = np.zeros_like(table), np.zeros_like(table)
    print(f"start: cosine {agreement(table, held_rows, held_target):.4f}", flush=True)
    steps = 0
    total = epochs * (len(usable) // BATCH)
    for epoch in range(epochs):
        rng.shuffle(usable)
        for at in range(0, len(usable) - BATCH + 1, BATCH):
            batch = usable[at : at + BATCH]
            sums, flat, owner = summed(table, [rows[i] for i in batch])
            length = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-9
            unit = sums / length
            goal = target[batch]
            cosine = (unit * goal).sum(1, keepdims=True)
            gradient = -(goal - cosine * unit) / length
            used, inverse = np.unique(flat, return_inverse=True)
            order = np.argsort(inverse, kind="stable")
            starts = np.searchsorted(inverse[order], np.arange(len(used)))
            g = np.add.reduceat(gradient[owner[order]], starts, axis=0)
            steps += 1
            rate = RATE * min(1.0, steps / 200) * (1 - steps / (total + 1))
            m[used] = 0.9 * m[used] + 0.1 * g
            v[used] = 0.999 * v[used] + 0.001 * g * g
            step = m[used] / (1 - 0.9 ** min(steps, 1000)) / (np.sqrt(v[used] / (1 - 0.999**steps)) + 1e-6)
            table[used] -= rate * step * np.linalg.norm(table[used], axis=1, keepdims=True) / np.sqrt(DIMS) * 4
        print(f"epoch {epoch + 1}: cosine {agreement(table, held_rows, held_target):.4f}", flush=True)
    return table


def save(table: np.ndarray, out: Path) -> None:
    """Rows as int8 with one scale each."""
    scales = np.abs(table).max(1) / 127 + 1e-12
    vectors = np.clip(np.rint(table / scales[:, None]), -127, 127).astype(np.int8)
    np.savez(out, vectors=vectors, scales=(scales / np.median(scales)).astype(np.float16))


def main() -> None:
    """Trains and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("corpus", "corpus_vectors", "words", "word_vectors", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    texts = args.corpus.read_text(encoding="utf-8").splitlines()
    teacher = np.load(args.corpus_vectors).astype(np.float32)
    texts = texts[: len(teacher)]
    cut = WordPieces(args.words.read_text(encoding="utf-8").splitlines())
    axes = projection(teacher)
    target = teacher @ axes
    target /= np.linalg.norm(target, axis=1, keepdims=True)
    print(f"kept by projection: {np.mean(np.linalg.norm(teacher @ axes, axis=1)):.4f}", flush=True)
    rows = bags(cut, texts)
    counts = np.bincount(np.concatenate(rows), minlength=len(cut.rows) + 1000)
    words = np.load(args.word_vectors).astype(np.float32) @ axes
    share = counts[: len(words)] / counts.sum()
    table = np.ascontiguousarray(words * (SMOOTH / (SMOOTH + share))[:, None]).astype(np.float32)
    if args.epochs:
        table = train(table, rows, target, args.epochs)
    save(table, args.out)


if __name__ == "__main__":
    main()
