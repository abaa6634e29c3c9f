"""Holds what the index knows of each row beside its words: fixed-width columns that grow by doubling."""

from typing import Any

import numpy as np
import numpy.typing as npt

ID_BYTES = 32
"""Room for an id; `mem_` and a ULID are 30."""
KINDS = ("fact", "preference", "person", "project", "place", "instruction", "observation")
TIERS = ("inferred", "observed", "stated")
"""Lowest first: a row's number is its rank."""
CONFIDENCES = ("low", "normal", "high")
NEVER = np.inf

_SPEC: dict[str, str] = {
    "id": f"S{ID_BYTES}",
    "alive": "?",  # false once removed or replaced; the row stays until a compaction
    "superseded": "?",
    "kind": "u1",
    "tier": "u1",
    "confidence": "u1",
    "corroboration": "u1",  # capped at 255
    "happened": "f8",  # unix seconds: when it happened, else when it was written
    "updated": "f8",
    "expires": "f8",
    "subject": "u8",  # hash of the subject key, 0 = none
    "content": "u8",  # hash of everything the words of the row come from
    "text": "u8",  # hash of the text its vector was made from
    "family": "u8",  # hash of the row's set of terms: rows of one family say the same in other punctuation
    "talk": "u4",  # number of the conversation it was said in, 0 = unknown
    "embedded": "?",
}

Column = npt.NDArray[Any]


class Columns:
    """The columns of one bank; `size` rows are in use, a row is never reused."""

    def __init__(self, dims: int) -> None:
        self.size = 0
        self.dims = dims
        self.data: dict[str, Column] = {name: np.zeros(0, spec) for name, spec in _SPEC.items()}
        self.data["vector"] = np.zeros((0, dims), np.int8)
        self.data["bits"] = np.zeros((0, -(-dims // 64)), np.uint64)

    def __getitem__(self, name: str) -> Column:
        """The rows of a column that are in use, as a view."""
        return self.data[name][: self.size]

    def append(self) -> int:
        """Adds an empty row and returns its number."""
        if self.size == len(self.data["id"]):
            room = max(64, self.size + self.size // 2)
            for name, column in self.data.items():
                grown = np.zeros((room, *column.shape[1:]), column.dtype)
                grown[: self.size] = column[: self.size]
                self.data[name] = grown
        self.size += 1
        return self.size - 1

    def keep(self, rows: npt.NDArray[np.int64]) -> None:
        """Keeps only these rows, in this order."""
        self.data = {name: column[rows] for name, column in self.data.items()}
        self.size = len(rows)

    def set_dims(self, dims: int) -> None:
        """Drops all vectors and makes room for those of another model."""
        self.dims = dims
        room = len(self.data["id"])
        self.data["vector"] = np.zeros((room, dims), np.int8)
        self.data["bits"] = np.zeros((room, -(-dims // 64)), np.uint64)
        self.data["embedded"][:] = False

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, room for growth included."""
        return sum(column.nbytes for column in self.data.values())


def quantise(vectors: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.uint64]]:
    """Unit vectors → int8 rows (127 = 1.0) and their signs packed into 64-bit words."""
    rows, dims = vectors.shape
    signs = np.zeros((rows, -(-dims // 64) * 64), np.bool_)
    signs[:, :dims] = vectors > 0
    bits = np.packbits(signs, axis=1).view(np.uint64)
    return np.clip(np.rint(vectors * 127), -127, 127).astype(np.int8), bits
