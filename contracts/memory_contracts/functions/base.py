"""Base types of requests and replies."""

import msgspec


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of requests: unknown fields and wrong types are refused, naming the field's path."""


class Reply(msgspec.Struct, kw_only=True):
    """Base of replies: every field is present, readers ignore fields they do not know."""
