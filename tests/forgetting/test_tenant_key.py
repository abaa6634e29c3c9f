"""A lost or wrong key shuts what needs it, says what to do, and never gives way to a new one by itself."""

import secrets
from pathlib import Path

import pytest

from memory_contracts.errors import FunctionError
from memory_contracts.functions.memories import ListRequest, SaveRequest
from memory_contracts.functions.operations import ValueRevealRequest
from memory_contracts.records import Memory
from memory_worker.gate import Act, Gate, GateSettings, KeyedVault, Plan, destroy
from memory_worker.store import Caller, Origin, TenantStore, Transaction
from memory_worker.tenant_key import KEY_FILE, KeySource, open_vault
from tests.gate.conftest import ANA, CODER, MovableClock


class Started:
    """A tenant's store, gate and vault, as at a start of the worker."""

    def __init__(self, directory: Path, configured: str = "") -> None:
        self.store = TenantStore("local", directory, MovableClock())
        self.vault = KeyedVault()
        self.gate = Gate(self.store, GateSettings(), self.vault, lambda bank, page, total: "")
        self.source = KeySource(directory, configured)

    async def __aenter__(self) -> "Started":
        await self.store.open()
        await open_vault(self.vault, self.store, self.source)
        await self.gate.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.store.close()

    async def save(self, text: str, caller: Caller = ANA, **fields: bool) -> Memory:
        reply = await self.gate.save(caller, SaveRequest(text=text, **fields))
        assert reply.memory is not None
        return reply.memory

    async def reveal(self, ref: str) -> str:
        request = ValueRevealRequest(ref=ref)
        return (await self.store.write(lambda tx: self.vault.reveal(self._act(tx), request))).value

    async def erase(self, memory_id: str) -> None:
        plan = Plan(kind="memory", memory_ids=(memory_id,))
        await self.store.write(lambda tx: destroy(self._act(tx), plan, self.vault))

    def _act(self, tx: Transaction) -> Act:
        return self.gate.act(tx, ANA, Origin.of(ANA, "req_1"))


def lose(path: Path, how: str) -> None:
    """Do to a key file what happens to key files."""
    if how == "missing":
        path.unlink()
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(secrets.token_bytes(32))


@pytest.mark.parametrize("how", ["missing", "empty", "another"])
async def test_a_lost_key_is_never_replaced(tmp_path: Path, how: str) -> None:
    """Protected functions name the file and what to do, all else works, and with the old key all is as it was."""
    key = tmp_path / KEY_FILE
    async with Started(tmp_path) as first:
        saved = await first.save("the code is zinnia", protected=True)
        gone = await first.save("the kettle is red")
        await first.erase(gone.id)
    assert saved.protected is not None
    good = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    lose(key, how)
    left = key.read_bytes() if key.exists() else None
    async with Started(tmp_path) as second:
        assert str(key) in second.vault.trouble
        for call in (second.reveal(saved.protected), second.save("the door is lilac", protected=True)):
            with pytest.raises(FunctionError) as refused:
                await call
            assert refused.value.code == "unavailable"
            assert str(key) in refused.value.message
            assert "back" in (refused.value.hint or "")
        await second.save("Ana likes tea")
        assert (await second.gate.reading.list(ANA, ListRequest())).total == 2
        assert (key.read_bytes() if key.exists() else None) == left
    key.write_bytes(good)
    async with Started(tmp_path) as third:
        assert third.vault.trouble == ""
        assert await third.reveal(saved.protected) == "the code is zinnia"
        with pytest.raises(FunctionError):
            await third.save("the kettle is red", CODER)


async def test_hashes_alone_hold_the_key(tmp_path: Path) -> None:
    """A store without protected values that has forgotten something takes no other key either."""
    async with Started(tmp_path) as first:
        await first.erase((await first.save("the kettle is red")).id)
    (tmp_path / KEY_FILE).write_bytes(secrets.token_bytes(32))
    async with Started(tmp_path) as second:
        assert "is not the key this store was written with" in second.vault.trouble


async def test_a_store_that_holds_nothing_gets_a_new_key(tmp_path: Path) -> None:
    """Where nothing lies under a key, a new one is made, and the store works with it from then on."""
    async with Started(tmp_path) as first:
        await first.save("Ana likes tea")
    (tmp_path / KEY_FILE).unlink()
    async with Started(tmp_path) as second:
        assert second.vault.trouble == ""
        saved = await second.save("the code is zinnia", protected=True)
    assert saved.protected is not None
    async with Started(tmp_path) as third:
        assert await third.reveal(saved.protected) == "the code is zinnia"


async def test_a_store_of_before_the_mark_is_known_by_what_its_key_opens(tmp_path: Path) -> None:
    """Without a mark the right key is recognised by the vault, and a wrong one is refused."""
    async with Started(tmp_path) as first:
        await first.save("the code is zinnia", protected=True)
        await first.store.write(lambda tx: tx.run("DELETE FROM meta WHERE key = 'vault_key'"))
    good = (tmp_path / KEY_FILE).read_bytes()
    (tmp_path / KEY_FILE).write_bytes(secrets.token_bytes(32))
    async with Started(tmp_path) as second:
        assert second.vault.trouble != ""
    (tmp_path / KEY_FILE).write_bytes(good)
    async with Started(tmp_path) as third:
        assert third.vault.trouble == ""


async def test_a_configured_key_is_named_as_the_setting(tmp_path: Path) -> None:
    """With `vault_key` no file is made; another key in the setting is noticed and named as what it is."""
    async with Started(tmp_path, "A" * 43 + "=") as first:
        await first.save("the code is zinnia", protected=True)
    assert not (tmp_path / KEY_FILE).exists()
    async with Started(tmp_path, "B" * 42 + "A=") as second:
        assert second.vault.trouble == "the setting vault_key is not the key this store was written with"


async def test_forgetting_works_without_the_key(tmp_path: Path) -> None:
    """What cannot be opened can still be destroyed."""
    async with Started(tmp_path) as first:
        saved = await first.save("the code is zinnia", protected=True)
    (tmp_path / KEY_FILE).unlink()
    async with Started(tmp_path) as second:
        await second.erase(saved.id)
        assert await second.store.readers.one("SELECT count(*) FROM vault_keys") == (0,)
