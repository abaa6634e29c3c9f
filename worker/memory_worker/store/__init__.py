"""The store: SQLite, migrations, records, journal. The only room that knows SQL."""

from memory_worker.store import (
    banks,
    entities,
    forgetting,
    forgotten,
    idempotency,
    inbox,
    journal,
    memories,
    notices,
    rules,
    suggestions,
)
from memory_worker.store.caller import Caller
from memory_worker.store.ids import new_id
from memory_worker.store.journal import JournalRow
from memory_worker.store.migrations import StoreTooNew
from memory_worker.store.readers import Readers
from memory_worker.store.tenant import TenantStore
from memory_worker.store.tenants import DataDirectory, DataDirectoryInUse, DataDirectoryUnusable, OpenTenants
from memory_worker.store.transaction import Origin, Transaction

__all__ = [
    "Caller",
    "DataDirectory",
    "DataDirectoryInUse",
    "DataDirectoryUnusable",
    "JournalRow",
    "OpenTenants",
    "Origin",
    "Readers",
    "StoreTooNew",
    "TenantStore",
    "Transaction",
    "banks",
    "entities",
    "forgetting",
    "forgotten",
    "idempotency",
    "inbox",
    "journal",
    "memories",
    "new_id",
    "notices",
    "rules",
    "suggestions",
]
