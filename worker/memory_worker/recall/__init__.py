"""Recall: the memories that are relevant to a query, in milliseconds, with an honest account of how they were found."""

from memory_worker.recall.embedder import BackgroundEmbedder, Embedder, InlineEmbedder, StaticEmbedder
from memory_worker.recall.feed import BankGone, EntityPut, IndexChange, IndexFeed, MemoryGone, MemoryPut, Skip
from memory_worker.recall.index import TenantIndex
from memory_worker.recall.minilm import MiniLmEmbedder, ModelUnavailable
from memory_worker.recall.query import Arm, Hit, RecalledMemory, RecallOutcome, RecallQuery, RecallStatus, SearchResult
from memory_worker.recall.remote import RemoteEmbedder
from memory_worker.recall.service import RecallService
from memory_worker.recall.settings import RecallSettings

__all__ = [
    "Arm",
    "BackgroundEmbedder",
    "BankGone",
    "Embedder",
    "EntityPut",
    "Hit",
    "IndexChange",
    "IndexFeed",
    "InlineEmbedder",
    "MemoryGone",
    "MemoryPut",
    "MiniLmEmbedder",
    "ModelUnavailable",
    "RecallOutcome",
    "RecallQuery",
    "RecallService",
    "RecallSettings",
    "RecallStatus",
    "RecalledMemory",
    "RemoteEmbedder",
    "SearchResult",
    "Skip",
    "StaticEmbedder",
    "TenantIndex",
]
