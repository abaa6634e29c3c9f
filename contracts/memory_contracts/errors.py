"""The error a function replies with, on the wire and as an exception."""

from typing import Literal

import msgspec

ErrorCode = Literal[
    "invalid_input",
    "too_large",
    "not_found",
    "conflict",
    "forbidden",
    "pinned",
    "unavailable",
    "storage_full",
    "internal",
]

ERROR_CODE_HEADER = "Nats-Service-Error-Code"
"""Reply header that marks an error and carries its code (NATS ADR-32)."""
ERROR_HEADER = "Nats-Service-Error"
"""Reply header that carries the error's message (NATS ADR-32)."""
IDEMPOTENCY_HEADER = "Idempotency-Key"
"""Request header: the same key from the same principal gives the same reply and one effect for 24 hours."""


class ErrorBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Body of an error reply."""

    code: ErrorCode
    message: str
    field: str | None = None
    hint: str | None = None


class FunctionError(Exception):
    """A function was refused or failed; `code` says which of the nine ways."""

    def __init__(self, code: ErrorCode, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.field = field
        self.hint = hint

    def body(self) -> ErrorBody:
        """Give the wire form of this error."""
        return ErrorBody(code=self.code, message=self.message, field=self.field, hint=self.hint)

    def __str__(self) -> str:
        parts = [f"{self.code}: {self.message}"]
        if self.field:
            parts.append(f"(field {self.field})")
        if self.hint:
            parts.append(f"- {self.hint}")
        return " ".join(parts)


def invalid(message: str, field: str, hint: str | None = None) -> "FunctionError":
    """Make the `invalid_input` error of one field."""
    return FunctionError("invalid_input", message, field=field, hint=hint)


def not_found(message: str, field: str, hint: str | None = None) -> "FunctionError":
    """Make the `not_found` error of the record that `field` names."""
    return FunctionError("not_found", message, field=field, hint=hint)


def forbidden(message: str, field: str | None = None, hint: str | None = None) -> "FunctionError":
    """Make the `forbidden` error of something the caller's route or ownership does not allow."""
    return FunctionError("forbidden", message, field=field, hint=hint)
