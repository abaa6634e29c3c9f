"""Unions and differences of row sets; NumPy's own hash or sort both sides anew, which costs several times as much."""

from typing import Any

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[Any]


def union(one: Rows, other: Rows) -> Rows:
    """The rows of either set, ascending; both are ascending and free of repeats."""
    if not len(one):
        return other
    if not len(other):
        return one
    return distinct(np.concatenate((one, other)))


def distinct(rows: Rows) -> Rows:
    """The rows, ascending and without repeats."""
    if len(rows) < 2:
        return rows
    ordered = np.sort(rows)
    new = np.empty(len(ordered), np.bool_)
    new[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    kept: Rows = ordered[new]
    return kept


def minus(rows: Rows, without: Rows) -> Rows:
    """The distinct rows, ascending, that are not in the ascending `without`."""
    rows = distinct(rows)
    if not len(rows) or not len(without):
        return rows
    at = np.searchsorted(without, rows)
    at[at == len(without)] = 0
    left: Rows = rows[without[at] != rows]
    return left
