"""Mirrors every bank as markdown files, and reads what people change in them."""

from memory_worker.files.ports import Commands, Feed, FilesSettings, Ledger, Snapshot
from memory_worker.files.room import FileRoom, FilesStatus, UnreadFile
from memory_worker.files.store_side import GateCommands, StoreFeed, StoreLedger, StoreSnapshot

__all__ = [
    "Commands",
    "Feed",
    "FileRoom",
    "FilesSettings",
    "FilesStatus",
    "GateCommands",
    "Ledger",
    "Snapshot",
    "StoreFeed",
    "StoreLedger",
    "StoreSnapshot",
    "UnreadFile",
]
