"""Keeps protected values apart from everything else, encrypted, and knows by keyed hash what was forgotten."""

import hashlib
import hmac
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory_contracts.errors import FunctionError, not_found
from memory_contracts.functions.operations import ValueRevealReply, ValueRevealRequest
from memory_contracts.records import Memory
from memory_worker.gate import changing, refusing, revising
from memory_worker.gate.act import Act
from memory_worker.gate.drafts import Draft
from memory_worker.gate.recognising import values_in
from memory_worker.store import Transaction, entities, forgetting, memories, new_id
from memory_worker.store.banks import BankRow
from memory_worker.store.fingerprint import fingerprint, normalise
from memory_worker.store.memories import MemoryRow

NONCE_BYTES = 12
"""Length of an AES-GCM nonce (NIST SP 800-38D)."""
KEY_BYTES = 32
"""AES-256."""
HIDDEN = "•••"
"""What stands in every other place for a protected value."""
NOBODY = "tenant"
"""Owner of the key of values that are about no entity."""


class KeyedVault:
    """The vault of one tenant, under the tenant's key. Without a key it refuses what needs one and says what to do."""

    def __init__(self, key: bytes | None = None, trouble: str = "", hint: str = "") -> None:
        self._key = key
        self.trouble = trouble
        """Why there is no key; empty when there is one."""
        self.hint = hint

    def use(self, key: bytes) -> None:
        """Work with this key from now on."""
        self._key, self.trouble, self.hint = key, "", ""

    def lock(self, trouble: str, hint: str) -> None:
        """Work without a key from now on."""
        self._key, self.trouble, self.hint = None, trouble, hint

    @property
    def key(self) -> bytes:
        """The tenant's key. Raises `unavailable` when it is not there or not the one it was."""
        if self._key is None:
            raise FunctionError(
                "unavailable", f"protected values cannot be used: {self.trouble or 'no key'}", hint=self.hint or None
            )
        return self._key

    # What is not to be learned again

    def was_forgotten(self, act: Act, text: str, others: Iterable[str]) -> bool:
        """Tell whether this text, or one that mentions these people, is not to be learned again."""
        return self._key is not None and refusing.is_refused(act, self._key, text, others)

    def remember_texts(self, act: Act, marks: Iterable[bytes]) -> None:
        """Refuse texts of these fingerprints from now on; without a key nothing can be told apart later."""
        if self._key is not None:
            refusing.remember_texts(act, self._key, marks)

    def remember_names(self, act: Act, names: Sequence[str]) -> None:
        """Refuse texts that mention one of these names from now on."""
        if self._key is not None:
            refusing.remember_names(act, self._key, names)

    # Protected values

    def protect(self, act: Act, bank: BankRow, draft: Draft, like: Memory | None = None) -> Memory:
        """Keep a draft whose text lies in the vault alone; the same value again reinforces its memory.

        `like` is the record it had elsewhere, as `revising.create` takes it. An observer's slot is rewritten in place.
        """
        row = self.kept(act, bank, draft.text)
        if row is not None:
            return revising.reinforce(act, row, bank.bank)
        ref = new_id("val")
        hidden = _hidden(draft)
        slotted = None if draft.slot is None else memories.live_by_slot(act.tx, bank.n, draft.slot)
        if slotted is None:
            memory = revising.create(act, bank, hidden, text=HIDDEN, ref=ref, like=like)
        else:
            memory = revising.rewrite(act, bank, slotted, hidden, protected=ref)
        owner = self._owner(act, draft)
        key = self._unwrap(forgetting.put_key(act.tx, owner, self._wrap(secrets.token_bytes(KEY_BYTES), owner)), owner)
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, draft.text.encode(), ref.encode())
        forgetting.seal(act.tx, ref, owner, memory.id, bank.n, self._exact(draft.text), sealed)
        for value in _values(draft):
            forgetting.mark_value(act.tx, self._value(value), ref)
        return memory

    def kept(self, act: Act, bank: BankRow, text: str) -> MemoryRow | None:
        """The live memory of a bank that keeps this value already."""
        for memory_id in forgetting.by_exact(act.tx, bank.n, self._exact(text)):
            row = memories.find(act.tx, memory_id)
            if row is not None and row.memory.state == "live":
                return row
        return None

    def search_mark(self, value: str) -> bytes:
        """The keyed hash under which a protected value is found by somebody who knows it."""
        return self._value(plain(value))

    def reveal(self, act: Act, request: ValueRevealRequest) -> ValueRevealReply:
        """Give a protected value. Raises `not_found`, and `unavailable` without the key it was sealed under."""
        found = forgetting.sealed(act.tx, request.ref)
        if found is None:
            raise not_found(f"no protected value {request.ref}", "ref")
        owner, wrapped, memory_id, sealed = found
        _, bank = changing.find(act, memory_id, write=False)
        value = self._open(request.ref, owner, wrapped, sealed)
        act.tx.append("value.revealed", memory_id, act.origin, bank=bank.name, owner=bank.owner)
        return ValueRevealReply(ref=request.ref, value=value)

    def opened(self, act: Act) -> Iterator[tuple[str, str]]:
        """Every protected value with its memory, for a forgetting that looks for names; nothing without the key."""
        if self._key is None:
            return
        for ref, owner, wrapped, memory_id, sealed in forgetting.all_sealed(act.tx):
            yield memory_id, self._open(ref, owner, wrapped, sealed)

    def opens(self, tx: Transaction, key: bytes) -> bool:
        """Tell whether a key opens what lies in the vault; True when nothing does."""
        sample = forgetting.any_key(tx)
        if sample is None:
            return True
        try:
            _wrapping(key).decrypt(sample[1][:NONCE_BYTES], sample[1][NONCE_BYTES:], sample[0].encode())
        except InvalidTag:
            return False
        return True

    def _owner(self, act: Act, draft: Draft) -> str:
        names = ([draft.claim.entity] if draft.claim else []) + list(draft.entities)
        entity = entities.named(act.tx, names[0]) if names else None
        return entity.id if entity else NOBODY

    def _exact(self, text: str) -> bytes:
        return refusing.keyed_hash(self.key, "value", fingerprint(text))

    def _value(self, value: str) -> bytes:
        return refusing.keyed_hash(self.key, "exact", value.encode())

    def _open(self, ref: str, owner: str, wrapped: bytes, sealed: bytes) -> str:
        key = self._unwrap(wrapped, owner)
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], ref.encode()).decode()

    def _wrap(self, key: bytes, owner: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + _wrapping(self.key).encrypt(nonce, key, owner.encode())

    def _unwrap(self, wrapped: bytes, owner: str) -> bytes:
        try:
            return _wrapping(self.key).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], owner.encode())
        except InvalidTag:
            raise FunctionError(
                "unavailable",
                "this protected value cannot be opened: it was sealed under another key",
                hint="everything else works; `memory erase` destroys what nobody can open any more",
            ) from None


def plain(value: str) -> str:
    """A value without what people write between its parts: letters and digits alone, case and width folded."""
    folded = unicodedata.normalize("NFKC", value).casefold()
    return "".join(character for character in folded if character.isalnum()) or normalise(value)


def _wrapping(key: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, b"wrap", hashlib.sha256))


def _values(draft: Draft) -> set[str]:
    """What somebody may ask for who knows it: the whole text, its claim's value, the contact data in it."""
    claimed = () if draft.claim is None else (draft.claim.value,)
    return {plain(text) for text in (draft.text, *claimed, *values_in(draft.text))}


def _hidden(draft: Draft) -> Draft:
    """What may be known of a protected statement: nothing that repeats its value."""
    claim = None if draft.claim is None else msgspec.structs.replace(draft.claim, value=HIDDEN)
    source = msgspec.structs.replace(draft.source, quote=None)
    values = _values(draft)
    labels = {
        name: tuple(label for label in getattr(draft, name) if plain(label) not in values and not values_in(label))
        for name in ("entities", "tags", "about")
    }
    return msgspec.structs.replace(draft, text=HIDDEN, claim=claim, source=source, subject=None, **labels)
