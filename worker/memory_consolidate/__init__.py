"""Hygiene of banks, as a sibling of the memory worker that talks to it through the bus only."""

from memory_consolidate.main import serve
from memory_consolidate.service import Consolidator
from memory_consolidate.settings import ConsolidateSettings

__all__ = ["ConsolidateSettings", "Consolidator", "serve"]
