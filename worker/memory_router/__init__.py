"""A bridge that answers the model router's subjects from any OpenAI-compatible HTTP endpoint."""

from memory_router.bridge import Bridge
from memory_router.main import serve
from memory_router.settings import RouterSettings, SettingsError, read_settings

__all__ = ["Bridge", "RouterSettings", "SettingsError", "read_settings", "serve"]
