"""Loads the named SQL statements of the `sql` folder: `-- name: x` starts the statement `x`."""

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@cache
def load(module: str) -> dict[str, str]:
    """Give the statements of `sql/<module>.sql` by name."""
    text = resources.files(__package__).joinpath("sql", f"{module}.sql").read_text("utf-8")
    parts = _NAME.split(text)
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
