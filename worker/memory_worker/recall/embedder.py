"""Turns text into vectors: the shipped static table, and what a slower model must offer."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from memory_worker.recall import analysis
from memory_worker.recall.languages import ENGLISH, vocabulary
from memory_worker.recall.wordpiece import WordPieces

Floats = npt.NDArray[np.float32]

STATIC_TEXT_CHARS_MAX = 400
"""How much of a text the static table reads, in characters: what it is about stands at its beginning, and a sum over a
long text (pasted code, say) points nowhere. 250 to 400 found .03 to .04 more in chats than whole messages did."""


@runtime_checkable
class InlineEmbedder(Protocol):
    """A model fast enough (tens of microseconds a text) to run whenever a row is written or asked for."""

    @property
    def model_id(self) -> str:
        """Name of the model and its version; vectors of different ids are never compared. Empty while not known."""

    @property
    def dims(self) -> int:
        """Numbers per vector."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, one row per text; a row of zeros for a text of which nothing is known."""


@runtime_checkable
class BackgroundEmbedder(Protocol):
    """A model that takes milliseconds or a bus request: rows are embedded in the background."""

    @property
    def model_id(self) -> str:
        """As for `InlineEmbedder`."""

    @property
    def dims(self) -> int:
        """As for `InlineEmbedder`."""

    async def embed_async(self, texts: Sequence[str]) -> Floats:
        """As `InlineEmbedder.embed`; raises any exception when the model cannot answer now."""


Embedder = InlineEmbedder | BackgroundEmbedder


class StaticEmbedder:
    """A table with one vector per word or word piece, distilled from all-MiniLM-L6-v2.

    A text's vector is the sum of its rows at length 1; how telling a word is lies in the length of its row.
    """

    def __init__(self) -> None:
        raw = resources.files("memory_worker.recall").joinpath("data/table.npz")
        with raw.open("rb") as file:
            content = file.read()
        self.model_id = f"static-minilm-256-{hashlib.blake2b(content, digest_size=6).hexdigest()}"
        with raw.open("rb") as file, np.load(file) as table:
            self._vectors: npt.NDArray[np.int8] = table["vectors"]
            self._scales: npt.NDArray[np.float32] = table["scales"].astype(np.float32)
        self.dims = self._vectors.shape[1]

    @cached_property
    def _pieces(self) -> WordPieces:
        return WordPieces(vocabulary())

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of texts; a text without a known word gets zeros."""
        out = np.zeros((len(texts), self.dims), np.float32)
        for at, text in enumerate(texts):
            # The teacher read English; of other languages its pieces only know the letters.
            read = text[:STATIC_TEXT_CHARS_MAX]
            rows = self._pieces.cut(read) if analysis.detect(read) == ENGLISH else []
            if rows:
                total = self._scales[rows] @ self._vectors[rows].astype(np.float32)
                length = float(np.sqrt(total @ total))
                out[at] = total / length if length else total
        return out
