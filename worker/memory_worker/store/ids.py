"""Makes record ids: a prefix and a ULID, never derived from content and never reused."""

import os
import time

from ulid import ULID

RANDOM_BYTES = 10
"""Bytes of a ULID that are random; fresh for every id, since ids that count up could be guessed."""


def new_id(prefix: str) -> str:
    """Give a fresh id such as `mem_01J…`: sortable by millisecond, 80 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    return f"{prefix}_{ULID(milliseconds.to_bytes(6, 'big') + os.urandom(RANDOM_BYTES))}"
