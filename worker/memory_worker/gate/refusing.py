"""Knows by keyed hash what is not to be learned again: forgotten texts, and people nobody wants to be remembered."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from functools import lru_cache

from memory_contracts.errors import FunctionError
from memory_worker.gate.act import Act
from memory_worker.gate.drafts import Draft
from memory_worker.gate.mentions import candidates, spelled
from memory_worker.store import forgotten
from memory_worker.store.fingerprint import fingerprint

HASH_BYTES = 16
"""Length of the keyed hashes of what was forgotten and of protected values."""
NAME_MAX_CHARS = 512
"""Longest name, folded, that is refused: a label has 128 characters at most, three times that in folded Hangul."""

TEXT, NAME, LENGTH = "text", "name", "length"
"""What a hash is of: a text's fingerprint, a name, or how many characters such a name has. The last lets a name be
looked for in a text without trying every part of it, and without keeping in the open how long it is."""


class RuledOut(FunctionError):
    """A text that is not kept because a person had it, or whom it is about, forgotten.

    It says the same in either case, and nothing of what was forgotten.
    """

    def __init__(self) -> None:
        super().__init__("forbidden", "this is not kept: a person has ruled it out", hint="a person can still save it")


def keyed_hash(key: bytes, kind: str, value: bytes) -> bytes:
    """Hash a value under the tenant's key, so that nobody without it can test a guess."""
    return hashlib.blake2b(value, digest_size=HASH_BYTES, key=key[:64], person=kind.encode()).digest()


def remember_texts(act: Act, key: bytes, marks: Iterable[bytes]) -> None:
    """Refuse texts of these fingerprints from now on."""
    for mark in marks:
        forgotten.add(act.tx, keyed_hash(key, TEXT, mark), TEXT)


def remember_names(act: Act, key: bytes, names: Sequence[str]) -> None:
    """Refuse texts that mention one of these names from now on."""
    for name in filter(None, map(spelled, names)):
        if len(name) <= NAME_MAX_CHARS:
            forgotten.add(act.tx, keyed_hash(key, NAME, name.encode()), NAME)
            forgotten.add(act.tx, keyed_hash(key, LENGTH, str(len(name)).encode()), LENGTH)


def is_refused(act: Act, key: bytes, text: str, others: Iterable[str]) -> bool:
    """Tell whether a text was forgotten, or whether it, or one of the `others` beside it, mentions a refused name."""
    if not forgotten.any_known(act.tx):
        return False
    if forgotten.known(act.tx, keyed_hash(key, TEXT, fingerprint(text))):
        return True
    names = forgotten.of_kind(act.tx, NAME)
    if not names:
        return False
    kept = forgotten.of_kind(act.tx, LENGTH)
    lengths = [length for mark, length in _lengths(key) if mark in kept]
    return any(
        keyed_hash(key, NAME, part.encode()) in names
        for words in (text, *others)
        for part in candidates(words, lengths)
    )


@lru_cache(maxsize=64)
def _lengths(key: bytes) -> tuple[tuple[bytes, int], ...]:
    """The hash of every length a name may have."""
    return tuple((keyed_hash(key, LENGTH, str(n).encode()), n) for n in range(1, NAME_MAX_CHARS + 1))


def words_of(draft: Draft) -> tuple[str, ...]:
    """What a statement says beside its text."""
    claim = () if draft.claim is None else (draft.claim.entity, draft.claim.value)
    labels = (*draft.entities, *draft.tags, *draft.about, *claim)
    return tuple(filter(None, (draft.subject, draft.slot, *labels)))


def key_mark(key: bytes) -> str:
    """What tells a tenant's key from another: an HMAC of a constant, from which the key cannot be read."""
    return hmac.digest(key, b"memory-worker tenant key", hashlib.sha256).hex()
