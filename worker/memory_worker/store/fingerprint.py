"""The normal form and fingerprint of a text, shared with siblings through the contracts."""

from memory_contracts.normal import fingerprint, normalise

__all__ = ["fingerprint", "normalise"]
