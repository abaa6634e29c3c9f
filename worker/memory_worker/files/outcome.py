"""What reading one hand-edited file may come to, besides being done."""

import hashlib

from memory_contracts.errors import FunctionError

LATER = frozenset({"unavailable", "storage_full", "internal"})
"""Error codes after which the same request may succeed later."""


class Refused(Exception):
    """The change cannot be made as it stands in the file; the message says why."""


class Later(Exception):
    """The store cannot take the change now; the file is to be read again later."""


def refusal(error: FunctionError) -> Exception:
    """Give what an error of the gate means for the file that caused it."""
    if error.code in LATER:
        return Later(error.code)
    hint = f" ({error.hint})" if error.hint else ""
    return Refused(f"{error.message}{hint}")


def stale(error: FunctionError) -> bool:
    """Whether the gate refused because the record has changed since it was read."""
    return error.code == "conflict" and error.field == "expected_revision"


def cause_of(path: str, digest: bytes) -> str:
    """Name a file's state in the journal, without words of its name or content."""
    return f"file:{hashlib.blake2b(path.encode('utf-8', 'replace') + digest, digest_size=12).hexdigest()}"
