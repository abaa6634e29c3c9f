"""Makes record ids: a prefix and a ULID, never derived from content and never reused."""

from ulid import ULID


def new_id(prefix: str) -> str:
    """Give a fresh id such as `mem_01J…`: sortable by time, 80 random bits."""
    return f"{prefix}_{ULID()}"
