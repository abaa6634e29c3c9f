"""Mirrors every bank as markdown files, and reads what people change in them."""

from memory_worker.files.archives import Archives, Running
from memory_worker.files.erasing import Erased
from memory_worker.files.ports import Commands, Feed, FilesSettings, Ledger, Snapshot
from memory_worker.files.room import FileRoom, FilesStatus, UnreadFile
from memory_worker.files.store_side import GateCommands, StoreFeed, StoreLedger, StoreSnapshot
from memory_worker.files.trash import Trash

__all__ = [
    "Archives",
    "Commands",
    "Erased",
    "Feed",
    "FileRoom",
    "FilesSettings",
    "FilesStatus",
    "GateCommands",
    "Ledger",
    "Running",
    "Snapshot",
    "StoreFeed",
    "StoreLedger",
    "StoreSnapshot",
    "Trash",
    "UnreadFile",
]
