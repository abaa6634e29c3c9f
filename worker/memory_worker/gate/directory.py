"""The banks of a tenant as a caller sees them, kept in memory until one changes."""

from collections.abc import Sequence

from memory_contracts.names import DEFAULT_BANK
from memory_worker.gate.access import may_read, no_bank
from memory_worker.store import Caller, TenantStore, banks
from memory_worker.store.banks import BankRow


class BankDirectory:
    """Answers which banks there are without asking the store each time."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store
        self._version = -1
        self._rows: list[BankRow] = []
        self._named: dict[str, BankRow] = {}
        self._numbered: dict[int, BankRow] = {}

    async def rows(self) -> list[BankRow]:
        """Every bank, trashed ones too, by name."""
        version = self._store.banks_version
        if version != self._version:
            self._rows = await banks.read_all(self._store.readers)
            self._named = {row.bank.name: row for row in self._rows if row.bank.trash_id is None}
            self._numbered = {row.n: row for row in self._rows}
            self._version = version
        return self._rows

    async def named(self, name: str) -> BankRow | None:
        """The bank of that name that is not in the trash."""
        await self.rows()
        return self._named.get(name)

    async def numbered(self, n: int) -> BankRow | None:
        """The bank of that number."""
        await self.rows()
        return self._numbered.get(n)

    async def visible(self, caller: Caller) -> list[BankRow]:
        """The banks a caller sees, trash apart."""
        return [row for row in await self.rows() if row.bank.trash_id is None and may_read(caller, row.bank)]

    async def private(self, caller: Caller) -> tuple[str, ...]:
        """The private rows of the journal that a caller sees, as `JournalFilter.private` names them."""
        rows = await self.rows()
        seen = {f"{row.bank.owner}/{row.bank.name}" for row in rows if row.bank.owner and may_read(caller, row.bank)}
        return (*sorted(seen), f"{caller.name}/")

    async def readable(self, caller: Caller, name: str | None) -> BankRow:
        """The bank a request names, `main` when it names none. Raises `not_found` when it is not visible."""
        row = await self.named(name or DEFAULT_BANK)
        if row is None or not may_read(caller, row.bank):
            raise no_bank(name or DEFAULT_BANK)
        return row

    async def numbers(self, caller: Caller, name: str | None) -> Sequence[int]:
        """The number of the named bank, or of every visible one when none is named."""
        if name is not None:
            return [(await self.readable(caller, name)).n]
        return [row.n for row in await self.visible(caller)]
