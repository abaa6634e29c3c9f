"""Names, limits and constrained string types shared by every message."""

import re
from typing import Annotated, Literal

from msgspec import Meta

NAME_MAX_CHARS = 64
"""Longest tenant, bank, principal or rule name, in characters."""

# `$` alone would accept a trailing newline in Python; the lookahead is valid in JSON Schema's dialect as well.
NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,63}$(?![\s\S])"
"""Pattern of tenant, bank, principal and rule names: lower case, so that folders never collide."""

_NAME = re.compile(NAME_PATTERN)

TEXT_MAX_CHARS = 2_000
"""Longest memory text, in characters after newlines are folded."""
RULE_MAX_CHARS = 20_000
"""Longest rule content, in characters."""
QUERY_MAX_CHARS = 20_000
"""Longest recall query or context message that is read, in characters."""
LABEL_MAX_CHARS = 128
"""Longest entity name, tag, context handle, subject or slot, in characters."""
LABELS_MAX = 16
"""Most entities, tags or context handles on one memory."""
ID_MAX_CHARS = 256
"""Longest session, turn, message or request id, in characters."""
IDS_MAX = 200
"""Most ids in one request that takes a list of ids."""
REASON_MAX_CHARS = 500
"""Longest free-text reason or description, in characters."""
LIST_LIMIT_DEFAULT = 50
LIST_LIMIT_MAX = 200
"""Page size of list functions."""
SEQ_MAX = 2**53 - 1
"""Highest sequence number or count that a request may name: the largest that every JSON reader holds exactly."""
CURSOR_MAX_CHARS = 1_024
"""Longest cursor, in characters: it may hold a whole label, in whatever script."""
RECALL_LIMIT_DEFAULT = 8
RECALL_LIMIT_MAX = 100
"""Most memories one recall returns."""

DEFAULT_TENANT = "local"
DEFAULT_BANK = "main"
LEARNED_RULE = "learned"
"""The rule that grows by itself, one line per learned standing instruction."""
AGENT_BANK_PREFIX = "agent-"
"""`agent-<principal>` is an agent's private bank, there from its first use."""

Route = Literal["human", "agent", "observer", "system"]
ROUTES: tuple[Route, ...] = ("human", "agent", "observer", "system")
Tier = Literal["stated", "observed", "inferred"]
Kind = Literal["fact", "preference", "person", "project", "place", "instruction", "observation"]
Confidence = Literal["low", "normal", "high"]
MemoryState = Literal["live", "superseded", "deleted", "expired", "forgotten"]

Name = Annotated[str, Meta(pattern=NAME_PATTERN, description="Lower-case name of at most 64 characters.")]
Id = Annotated[str, Meta(min_length=1, max_length=ID_MAX_CHARS)]
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX_CHARS)]
Label = Annotated[str, Meta(min_length=1, max_length=LABEL_MAX_CHARS)]
Labels = Annotated[list[Label], Meta(max_length=LABELS_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX_CHARS)]
Ids = Annotated[list[Id], Meta(max_length=IDS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=LIST_LIMIT_MAX)]
Cursor = Annotated[str, Meta(min_length=1, max_length=CURSOR_MAX_CHARS)]
Revision = Annotated[int, Meta(ge=1, le=SEQ_MAX)]
Seq = Annotated[int, Meta(ge=0, le=SEQ_MAX)]


def is_name(value: str) -> bool:
    """Tell whether `value` may name a tenant, bank, principal or rule."""
    return _NAME.match(value) is not None
