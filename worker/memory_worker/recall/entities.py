"""Knows the tenant's entities by every name they go by, and finds them in a query."""

from collections.abc import Iterable
from typing import NamedTuple

from memory_worker.recall.analysis import Group, groups_of
from memory_worker.recall.bank import folded_label

MENTION_WORDS_MAX = 4
"""Longest name, in words, that is found inside a query."""
NAMES_MAX = 64
"""Most names of one entity that widen a query."""


class Mention(NamedTuple):
    """An entity's name in a query: the words [start, end) it takes, and every folded name of the entities it may
    mean."""

    start: int
    end: int
    names: frozenset[str]


class EntityTable:
    """Entities by id and by folded name; one name may mean several entities."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.ids: dict[str, set[str]] = {}

    def put(self, entity_id: str, name: str, aliases: Iterable[str]) -> None:
        """Replaces the names of an entity; none at all removes it."""
        for old in self.names.pop(entity_id, ()):
            owners = self.ids[old]
            owners.discard(entity_id)
            if not owners:
                del self.ids[old]
        spelled = [folded_label(n) for n in (name, *aliases)]
        names = tuple(dict.fromkeys(n for n in spelled if n))[:NAMES_MAX]
        if not names:
            return
        self.names[entity_id] = (folded_label(entity_id), *names)
        for known in self.names[entity_id]:
            self.ids.setdefault(known, set()).add(entity_id)

    def resolve(self, label: str) -> frozenset[str]:
        """Every folded name of the entities that a label (id, name or alias) may mean, the label itself included."""
        wanted = folded_label(label)
        found = {wanted}
        for entity_id in self.ids.get(wanted, ()):
            found.update(self.names[entity_id])
        return frozenset(found)

    def mentions(self, groups: list[Group]) -> list[Mention]:
        """The entities named in a query given as its words, the longest names first, without overlap."""
        found: list[Mention] = []
        taken: set[int] = set()
        words = [group.surface for group in groups]
        for size in range(min(MENTION_WORDS_MAX, len(words)), 0, -1):
            for start in range(len(words) - size + 1):
                span = range(start, start + size)
                if taken.isdisjoint(span) and (owners := self.ids.get(" ".join(words[start : start + size]))):
                    names = frozenset(name for owner in owners for name in self.names[owner])
                    found.append(Mention(start, start + size, names))
                    taken.update(span)
        return found


def name_terms(name: str) -> list[str]:
    """The index terms of a name's words."""
    return [term for group in groups_of(name, "english") for term in group.terms]
