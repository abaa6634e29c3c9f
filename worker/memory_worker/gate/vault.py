"""Knows what was forgotten, by keyed hash, and keeps protected values apart from everything else."""

import hashlib
import hmac

from memory_contracts.errors import FunctionError
from memory_contracts.records import Memory
from memory_worker.gate.act import Act
from memory_worker.gate.drafts import Draft
from memory_worker.store import forgotten
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint, normalise

HASH_BYTES = 16
"""Length of the keyed hashes of what was forgotten."""


class KeyedVault:
    """The vault of one tenant, under the tenant's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def hash(self, kind: str, value: bytes) -> bytes:
        """Hash a fingerprint or a name under the tenant's key, so that nobody without it can test a guess."""
        return hmac.digest(self._key, kind.encode() + b"\0" + value, hashlib.blake2b)[:HASH_BYTES]

    def was_forgotten(self, act: Act, text: str, names: tuple[str, ...]) -> bool:
        """Tell whether this text, or one about these people, is not to be learned again."""
        if not forgotten.any_known(act.tx):
            return False
        hashes = [self.hash("text", fingerprint(text))]
        hashes.extend(self.hash("name", normalise(name).encode()) for name in names)
        return any(forgotten.known(act.tx, value) for value in hashes)

    def protect(self, act: Act, bank: BankRow, draft: Draft) -> Memory:
        """Keep a draft whose value is hidden everywhere but in the vault."""
        raise FunctionError("unavailable", "protected values are not available in this release", field="protected")
