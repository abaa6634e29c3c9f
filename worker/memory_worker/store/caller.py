"""Who calls: the plain value that a request subject is turned into, once."""

import msgspec

from memory_contracts.names import Route, Tier

TIER_OF_ROUTE: dict[Route, Tier] = {
    "human": "stated",
    "observer": "observed",
    "agent": "inferred",
    "system": "inferred",
}
"""The tier of a text that arrives by a route."""


class Caller(msgspec.Struct, frozen=True):
    """A principal on a route of a tenant. Nothing in a payload can change any of it."""

    tenant: str
    route: Route
    principal: str

    @property
    def name(self) -> str:
        """`<route>.<principal>`, the form in which owners and managers are written."""
        return f"{self.route}.{self.principal}"

    @property
    def tier(self) -> Tier:
        """The tier of a text this caller writes."""
        return TIER_OF_ROUTE[self.route]


EXTRACTION = "extraction"
"""Principal of the system route under which extraction writes."""
EXPIRY = "expiry"
"""Principal of the system route under which the sweeper writes."""
FILE = "file"
"""Principal under which hand edits of files arrive."""
