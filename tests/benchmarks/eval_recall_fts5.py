"""The baseline of recall: SQLite FTS5 with the porter stemmer, OR of the words without stop words, k1 1.2 and b .75."""

import re
import sqlite3

from memory_contracts.records import Memory

_STOP_WORDS = (
    "a about above after again all also am an and any are as at be because been before being below between both but "
    "by can could d did do does doing don down during each few for from further had has have having he her here "
    "hers him his how i if in into is it its itself just ll m me more most my myself no nor not now of off on once "
    "only or other our ours out over own re s same she should so some such t than that the their theirs them then "
    "there these they this those through to too under until up us ve very was we were what when where which while "
    "who whom whose why will with would you your yours "
)
_STOP = frozenset(_STOP_WORDS.split())


class Fts5:
    """Memories in an in-memory FTS5 table; FTS5's own bm25() has k1 1.2 and b .75."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE m USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")

    def put_all(self, memories: list[Memory]) -> None:
        """Adds memories."""
        self.db.executemany("INSERT INTO m VALUES (?, ?)", [(m.id, m.text) for m in memories])

    def search(self, query: str, limit: int) -> list[str]:
        """Ids of the best memories."""
        words = [w for w in re.findall(r"\w+", query.lower()) if w not in _STOP]
        if not words:
            return []
        match = " OR ".join(f'"{w}"' for w in dict.fromkeys(words))
        rows = self.db.execute("SELECT id FROM m WHERE m MATCH ? ORDER BY rank LIMIT ?", (match, limit))
        return [row[0] for row in rows]
