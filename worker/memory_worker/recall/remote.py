"""Vectors from a model elsewhere, asked over the bus."""

from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ask = Callable[[Sequence[str]], Awaitable[tuple[str, Sequence[Sequence[float]]]]]
"""Asks for one vector per text; gives the model's name and the vectors."""

REMOTE_DIMS_MAX = 4_096
"""Longest vector that is accepted from elsewhere, in numbers."""


class RemoteEmbedder:
    """A model that is asked for (`router.embed`); its name and the length of its vectors are known after an answer.

    When the answer names another model than before, the index drops every vector and asks for all of them
    again.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.model_id = ""
        self.dims = 0

    async def embed_async(self, texts: Sequence[str]) -> Floats:
        """Unit vectors, float32. Raises ValueError for an answer of another shape, and whatever asking raises."""
        model, answered = await self._ask(texts)
        vectors: Floats = np.asarray(answered, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not 0 < vectors.shape[1] <= REMOTE_DIMS_MAX:
            raise ValueError("the answer has another shape than was asked for")
        if not np.isfinite(vectors).all():
            raise ValueError("the answer holds numbers that are none")
        lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        self.model_id, self.dims = f"remote:{model}", int(vectors.shape[1])
        unit: Floats = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
        return unit
