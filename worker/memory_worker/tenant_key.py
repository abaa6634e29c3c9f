"""Finds the tenant's key, and locks the vault when it is not the key under which the store keeps things."""

import asyncio
import base64
import contextlib
import hashlib
import os
import secrets
from pathlib import Path

import msgspec
import structlog

from memory_worker.gate import KeyedVault, key_mark
from memory_worker.store import TenantStore, Transaction, forgetting, forgotten

log = structlog.get_logger(__name__)

KEY_FILE = "tenant.key"
"""File (0600) of the key under which forgotten texts are hashed and protected values wrapped."""
KEY_BYTES = 32
"""Length of a key."""
MARK = "vault_key"
"""Under this name the store keeps what tells its key from another."""


class KeySource(msgspec.Struct, frozen=True):
    """Where the key of a tenant comes from: the setting, else a file in the tenant's directory."""

    directory: Path
    configured: str = ""

    @property
    def name(self) -> str:
        """What a person has to put back when the key is lost."""
        return "the setting vault_key" if self.configured else str(self.directory / KEY_FILE)

    def read(self) -> bytes | None:
        """Give the key; None when there is no file."""
        if self.configured:
            # One key for all tenants would let one tenant's hashes be compared with another's.
            secret = base64.b64decode(self.configured)
            return hashlib.blake2b(self.directory.name.encode(), key=secret, digest_size=KEY_BYTES).digest()
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / KEY_FILE).read_bytes()
        return None

    def make(self) -> bytes:
        """Make a key and its file. Raises OSError when it cannot be written."""
        key = secrets.token_bytes(KEY_BYTES)
        path = self.directory / KEY_FILE
        fresh = path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(handle, key)
            os.fsync(handle)
        finally:
            os.close(handle)
        fresh.replace(path)
        return key


async def open_vault(vault: KeyedVault, store: TenantStore, source: KeySource) -> None:
    """Give the vault its key, or lock it; a key is made only for a store that holds nothing under another one."""
    key = await asyncio.to_thread(source.read)
    mark = await store.meta(MARK)
    used = await store.write(_holds_something)
    if key is None and not used:
        key = await asyncio.to_thread(source.make)
    trouble = ""
    if key is None:
        trouble = f"{source.name} is missing"
    elif len(key) != KEY_BYTES:
        trouble = f"{source.name} is not a key of {KEY_BYTES} bytes"
    elif used and not await _fits(vault, store, key, mark):
        trouble = f"{source.name} is not the key this store was written with"
    if key is None or trouble:
        log.warning("vault.locked", tenant=store.tenant, reason=trouble)
        vault.lock(trouble, f"put {source.name} back from a backup and restart; everything else works without it")
        return
    vault.use(key)
    if mark != key_mark(key):
        await store.set_meta(MARK, key_mark(key))


def _holds_something(tx: Transaction) -> bool:
    return forgotten.any_known(tx) or forgetting.any_key(tx) is not None


async def _fits(vault: KeyedVault, store: TenantStore, key: bytes, mark: str | None) -> bool:
    """Whether it is the store's key: by its mark, or, in a store of a release that left none, by what it opens."""
    return mark == key_mark(key) if mark is not None else await store.write(lambda tx: vault.opens(tx, key))
