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
        # One column per 64 signs: a scan reads each from end to end.
        self.bits = tuple(f"bits{n}" for n in range(-(-dims // 64)))
        self.data.update({name: np.zeros(0, np.uint64) for name in self.bits})

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
        for name in self.bits:
            del self.data[name]
        self.bits = tuple(f"bits{n}" for n in range(-(-dims // 64)))
        self.data["vector"] = np.zeros((room, dims), np.int8)
        self.data.update({name: np.zeros(room, np.uint64) for name in self.bits})
        self.data["embedded"][:] = False

    def set_vector(self, row: int, vector: npt.NDArray[np.float32]) -> None:
        """Writes a unit vector into a row, as int8 (127 = 1.0) and as signs."""
        self.data["vector"][row] = np.rint(vector * 127)
        for name, word in zip(self.bits, signs(vector), strict=True):
            self.data[name][row] = word

    def has_meaning(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which rows have a vector that is not zero: one without a single positive sign is zero."""
        found = np.zeros(len(rows), np.bool_)
        for name in self.bits:
            found |= self.data[name][rows] != 0
        return found

    def distances(self, wanted: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64] | slice) -> npt.NDArray[np.uint16]:
        """How many signs of each row differ from the wanted ones."""
        total: npt.NDArray[np.uint16] | None = None
        for name, word in zip(self.bits, wanted, strict=True):
            differing = np.bitwise_count(self[name][rows] ^ word).astype(np.uint16)
            total = differing if total is None else np.add(total, differing, out=total)
        return np.zeros(0, np.uint16) if total is None else total

    @property
    def nbytes(self) -> int:
        """Bytes of all columns, room for growth included."""
        return sum(column.nbytes for column in self.data.values())


def signs(vector: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """The signs of a vector, 64 to a word, the last one filled up with zeros."""
    positive = np.zeros(-(-len(vector) // 64) * 64, np.bool_)
    positive[: len(vector)] = vector > 0
    return np.packbits(positive).view(np.uint64)
