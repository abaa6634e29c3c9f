"""Keeps protected values apart from everything else, encrypted, and knows by keyed hash what was forgotten."""

import hashlib
import hmac
import secrets

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory_contracts.errors import FunctionError, not_found
from memory_contracts.functions.operations import ValueRevealReply, ValueRevealRequest
from memory_contracts.records import Memory
from memory_worker.gate import changing, revising
from memory_worker.gate.act import Act
from memory_worker.gate.drafts import Draft
from memory_worker.store import entities, forgetting, forgotten, memories, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint, normalise
from memory_worker.store.memories import MemoryRow

HASH_BYTES = 16
"""Length of the keyed hashes of what was forgotten and of protected values."""
NONCE_BYTES = 12
"""Length of an AES-GCM nonce (NIST SP 800-38D)."""
KEY_BYTES = 32
"""AES-256."""
HIDDEN = "•••"
"""What stands in every other place for a protected value."""


NAME_WORDS_MAX = 4
"""Longest name, in words, that is looked for in a text that may not be learned again."""


class KeyedVault:
    """The vault of one tenant, under the tenant's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._wrapping = AESGCM(hmac.digest(key, b"wrap", hashlib.sha256))

    def hash(self, kind: str, value: bytes) -> bytes:
        """Hash a fingerprint or a name under the tenant's key, so that nobody without it can test a guess."""
        return hashlib.blake2b(value, digest_size=HASH_BYTES, key=self._key[:64], person=kind.encode()).digest()

    def was_forgotten(self, act: Act, text: str, names: tuple[str, ...]) -> bool:
        """Tell whether this text, or one about these people, is not to be learned again."""
        if not forgotten.any_known(act.tx):
            return False
        hashes = [self.hash("text", fingerprint(text))]
        hashes.extend(self.hash("name", normalise(name).encode()) for name in names)
        hashes.extend(self.hash("name", word.encode()) for word in _runs(normalise(text)))
        return any(forgotten.known(act.tx, value) for value in hashes)

    def protect(self, act: Act, bank: BankRow, draft: Draft, like: Memory | None = None) -> Memory:
        """Keep a draft whose text lies in the vault alone; the same value again reinforces its memory.

        `like` is the record it had elsewhere, as `revising.create` takes it.
        """
        row = self.kept(act, bank, draft.text)
        if row is not None:
            return revising.reinforce(act, row, bank.bank)
        exact = self.hash("value", fingerprint(draft.text))
        ref = new_id("val")
        claim = None if draft.claim is None else msgspec.structs.replace(draft.claim, value=HIDDEN)
        source = msgspec.structs.replace(draft.source, quote=None)
        hidden = msgspec.structs.replace(draft, text=HIDDEN, claim=claim, source=source, subject=None)
        memory = revising.create(act, bank, hidden, text=HIDDEN, ref=ref, like=like)
        owner = self._owner(act, draft)
        key = self._unwrap(forgetting.put_key(act.tx, owner, self._wrap(secrets.token_bytes(KEY_BYTES), owner)), owner)
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, draft.text.encode(), ref.encode())
        forgetting.seal(act.tx, ref, owner, memory.id, bank.n, exact, sealed)
        return memory

    def kept(self, act: Act, bank: BankRow, text: str) -> MemoryRow | None:
        """The live memory of a bank that keeps this value already."""
        known = forgetting.by_exact(act.tx, bank.n, self.hash("value", fingerprint(text)))
        row = None if known is None else memories.find(act.tx, known)
        return row if row is not None and row.memory.state == "live" else None

    def reveal(self, act: Act, request: ValueRevealRequest) -> ValueRevealReply:
        """Give a protected value. Raises `not_found`, and `unavailable` when the tenant's key is not the one it was."""
        found = forgetting.sealed(act.tx, request.ref)
        if found is None:
            raise not_found(f"no protected value {request.ref}", "ref")
        owner, wrapped, memory_id, sealed = found
        _, bank = changing.find(act, memory_id, write=False)
        key = self._unwrap(wrapped, owner)
        value = AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], request.ref.encode()).decode()
        act.tx.append("value.revealed", memory_id, act.origin, bank=bank.name, owner=bank.owner)
        return ValueRevealReply(ref=request.ref, value=value)

    def _owner(self, act: Act, draft: Draft) -> str:
        names = ([draft.claim.entity] if draft.claim else []) + list(draft.entities)
        entity = entities.named(act.tx, names[0]) if names else None
        return entity.id if entity else "tenant"

    def _wrap(self, key: bytes, owner: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._wrapping.encrypt(nonce, key, owner.encode())

    def _unwrap(self, wrapped: bytes, owner: str) -> bytes:
        try:
            return self._wrapping.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], owner.encode())
        except InvalidTag:
            raise FunctionError(
                "unavailable",
                "protected values cannot be opened: the tenant's key is not the one they were sealed with",
                hint="put back tenant.key from a backup; everything else works without it",
            ) from None


def _runs(text: str) -> list[str]:
    """Every run of up to `NAME_WORDS_MAX` words, punctuation at their edges dropped."""
    words = [normalise(word) for word in text.split(" ")]
    return [
        " ".join(words[start : start + length])
        for length in range(1, NAME_WORDS_MAX + 1)
        for start in range(len(words) - length + 1)
    ]
