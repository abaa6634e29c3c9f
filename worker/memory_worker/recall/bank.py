"""Indexes the memories of one bank: puts, removes and filters rows."""

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime

import numpy as np
import numpy.typing as npt
import regex

from memory_contracts.records import Memory
from memory_worker.recall import dates
from memory_worker.recall.analysis import analysed, fold, groups_of
from memory_worker.recall.columns import CONFIDENCES, ID_BYTES, KINDS, NEVER, TIERS, Columns
from memory_worker.recall.postings import Ints, PostingList, Postings, impact
from memory_worker.recall.query import RecallQuery
from memory_worker.recall.rowsets import distinct
from memory_worker.recall.surfaces import Surfaces

TAG, ENTITY, ABOUT, SESSION, TALK, SUBJECT = "\x01t", "\x01e", "\x01a", "\x01s", "\x01k", "\x01u"
"""Marks of the filter terms of a row: its entity names, tags, handles, session and talk are looked up as postings."""
SPEAKER_LABEL = regex.compile(r"^\s*[\p{L}][\p{L}\p{M}.'-]*(?: [\p{Lu}][\p{L}\p{M}.'-]*)?: (?=\S)")
"""A speaker's label before a quoted line (“Ana: …”): who said it belongs to the words, not to the meaning."""
DATE_IMPACT = impact(1, 15)
"""Impact of a date, tag, entity or handle term: such terms do not count for the length of the text."""
_ROW_SETS_MAX = 20_000
"""Filters that leave at most this many rows are answered by scoring exactly those rows."""

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


def folded_label(label: str) -> str:
    """A tag, handle or name as it is compared: folded, white space joined."""
    return " ".join(fold(label).split())


def digest(*parts: str) -> int:
    """64-bit hash of texts, never 0."""
    raw = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "little") or 1


def talk_term(talk: int) -> str:
    """The posting term of a talk's number."""
    return f"{TALK}{talk:x}"


def subject_term(subject: int) -> str:
    """The posting term of a subject's number."""
    return f"{SUBJECT}{subject:x}"


def spoken(text: str) -> str:
    """What a vector is made of: the text without its speaker's label."""
    return str(SPEAKER_LABEL.sub("", text, count=1))


def seconds(at: datetime | None, default: float) -> float:
    """Unix seconds of a time."""
    return default if at is None else at.timestamp()


class BankIndex:
    """One bank's rows. Not thread-safe: one thread applies and searches."""

    def __init__(self, name: str, dims: int) -> None:
        self.name = name
        self.columns = Columns(dims)
        self.postings = Postings()
        self.rows: dict[bytes, int] = {}
        self.sorted_rows: Rows = np.empty(0, np.int64)
        self.present = 0
        self.unembedded = 0
        self.next_expiry = NEVER
        self.surfaces = Surfaces()

    def row_of(self, memory_id: str) -> int | None:
        """The row of a memory, or none."""
        key = memory_id.encode()
        row = self.rows.get(key)
        if row is None and len(self.sorted_rows):
            ids = self.columns["id"][: len(self.sorted_rows)]
            at = int(np.searchsorted(ids, np.bytes_(key), sorter=self.sorted_rows))
            if at < len(self.sorted_rows) and ids[self.sorted_rows[at]] == key:
                row = int(self.sorted_rows[at])
        return row if row is not None and self.columns["alive"][row] else None

    def put(self, memory: Memory, embed: Callable[[str], npt.NDArray[np.float32]] | None) -> bool:
        """Makes the row of a memory say what the memory says; true when a vector is missing afterwards.

        A change of words makes a new row and retires the old one; any other change is written in place. Ids longer than
        `ID_BYTES` cannot be held: ValueError.
        """
        key = memory.id.encode()
        if len(key) > ID_BYTES:
            raise ValueError(f"memory id longer than {ID_BYTES} bytes")
        session = memory.source.session_id or ""
        labels = [*memory.entities, "", *memory.tags, "", *memory.about, "", session]
        when = memory.occurred_at.isoformat() if memory.occurred_at else ""
        content = digest(memory.text, when, memory.subject or "", *labels)
        row = self.row_of(memory.id)
        if row is not None and int(self.columns["content"][row]) == content:
            self._describe(row, memory)
            return not self.columns["embedded"][row]
        replaced: int | None = None
        text_hash = digest(memory.text)
        if row is not None:
            if self.columns["embedded"][row] and int(self.columns["text"][row]) == text_hash:
                replaced = row
            self._retire(row)
        row = self.columns.append()
        c = self.columns.data
        c["id"][row] = key
        c["alive"][row] = True
        c["content"][row] = content
        c["text"][row] = text_hash
        # What was said in one session, or about one day, was said in one talk.
        c["talk"][row] = digest(session or when[:10]) & 0xFFFFFFFF if session or when else 0
        self.rows[key] = row
        self.present += 1
        self.unembedded += 1
        self._describe(row, memory)
        self._index(row, memory, session)
        if replaced is not None:
            for name in ("vector", *self.columns.bits):
                c[name][row] = c[name][replaced]
            c["embedded"][row] = True
            self.unembedded -= 1
        elif embed is not None:
            self.set_vector(row, embed(spoken(memory.text)))
        return not c["embedded"][row]

    def _describe(self, row: int, memory: Memory) -> None:
        """Writes the columns that may change while the words stay."""
        c = self.columns.data
        c["superseded"][row] = memory.state == "superseded"
        c["kind"][row] = KINDS.index(memory.kind)
        c["tier"][row] = TIERS.index(memory.tier)
        c["confidence"][row] = CONFIDENCES.index(memory.confidence)
        c["corroboration"][row] = min(255, memory.corroboration)
        c["happened"][row] = seconds(memory.occurred_at or memory.created_at, 0.0)
        c["updated"][row] = seconds(memory.updated_at, 0.0)
        c["expires"][row] = expires = seconds(memory.expires_at, NEVER)
        c["subject"][row] = digest(folded_label(memory.subject)) if memory.subject else 0
        self.next_expiry = min(self.next_expiry, expires)

    def _index(self, row: int, memory: Memory, session: str) -> None:
        counts: dict[str, int] = {}
        length = 0
        known = self.surfaces.terms
        for chunk in analysed(memory.text):
            length += len(chunk.groups)
            for term in chunk.terms:
                counts[term] = counts.get(term, 0) + 1
            for word in chunk.words:
                if word[0] not in known:
                    self.surfaces.add(*word)
        impacts = {term: impact(count, length) for term, count in counts.items()}
        self.columns["family"][row] = digest(*sorted(impacts))
        extra: list[str] = []
        for label in memory.tags:
            extra += [TAG + folded_label(label), *(t for g in groups_of(label, "english") for t in g.terms)]
        for label in memory.entities:
            extra += [ENTITY + folded_label(label), *(t for g in groups_of(label, "english") for t in g.terms)]
        if memory.subject:
            extra += [t for g in groups_of(memory.subject, "english") for t in g.terms]
            extra.append(subject_term(int(self.columns["subject"][row])))
        extra += [ABOUT + folded_label(label) for label in memory.about]
        if session:
            extra.append(SESSION + session)
        if self.columns["talk"][row]:
            extra.append(talk_term(int(self.columns["talk"][row])))
        extra += dates.terms_of_memory(memory.text, memory.occurred_at, memory.created_at)
        for term in extra:
            impacts.setdefault(term, DATE_IMPACT)
        self.postings.add(row, impacts)

    def set_vector(self, row: int, vector: npt.NDArray[np.float32]) -> None:
        """Gives a row its unit vector; a zero vector (nothing known) counts as embedded and matches nothing."""
        c = self.columns.data
        self.columns.set_vector(row, vector)
        if not c["embedded"][row]:
            self.unembedded -= 1
        c["embedded"][row] = True

    def drop_vectors(self, dims: int) -> None:
        """Forgets every vector, for a change of model."""
        self.columns.set_dims(dims)
        self.unembedded = self.present

    def ids(self) -> list[str]:
        """The ids of the rows that are there."""
        found: list[bytes] = self.columns["id"][self.columns["alive"]].tolist()
        return [i.decode() for i in found]

    def remove(self, memory_id: str) -> bool:
        """Removes a memory; false when it was not there."""
        row = self.row_of(memory_id)
        if row is None:
            return False
        self._retire(row)
        return True

    def _retire(self, row: int) -> None:
        c = self.columns
        c["alive"][row] = False
        if not c["embedded"][row]:
            self.unembedded -= 1
        self.rows.pop(bytes(c["id"][row]), None)
        self.present -= 1

    @property
    def removed(self) -> int:
        """Rows that wait for a compaction."""
        return self.columns.size - self.present

    def compact(self) -> None:
        """Drops removed rows and folds the growing parts into flat arrays; rows come into the order of their ids."""
        alive = np.flatnonzero(self.columns["alive"])
        moved: Ints = np.full(self.columns.size, -1, np.int64)
        moved[alive] = np.arange(len(alive))
        self.postings.compact(moved)
        self.columns.keep(alive)
        self.rows = {}
        self.sorted_rows = np.argsort(self.columns["id"], kind="stable")
        expires = self.columns["expires"]
        self.next_expiry = float(expires.min()) if len(expires) else NEVER
        self.surfaces.keep(self.postings.numbers)

    def compact_if_worth(self) -> None:
        """Compacts when growth or removals since the last time make up a fixed share, so the cost per change is
        constant."""
        if self.postings.dead_weight() or self.removed > max(1_000, self.present // 4):
            self.compact()

    # Filters

    def filtered(
        self, query: RecallQuery, entity_names: Iterable[str], now: float
    ) -> tuple[Rows | None, Callable[[Rows], Mask]]:
        """The query's filters: the rows they leave when labels make them few (else none), and a test for any rows.

        The test holds for every filter; the row list only narrows where to look.
        """
        sets: list[Rows] = []
        if query.tag is not None:
            sets.append(self._rows_with([TAG + folded_label(query.tag)]))
        if query.entity is not None:
            sets.append(self._rows_with([ENTITY + name for name in entity_names]))
        if query.about:
            sets.append(self._rows_with([ABOUT + folded_label(handle) for handle in query.about]))
        if query.session_id is not None:
            sets.append(self._rows_with([SESSION + query.session_id]))
        few: Rows | None = None
        for rows in sorted(sets, key=len):
            few = rows if few is None else np.intersect1d(few, rows, assume_unique=True)
        label_mask: Mask | None = None
        if few is not None and len(few) > _ROW_SETS_MAX:
            label_mask = np.zeros(self.columns.size, np.bool_)
            label_mask[few] = True
            few = None
        return few, lambda rows: self._passes(rows, query, label_mask, now)

    def live(self, term: str) -> PostingList:
        """The posting list of a term without removed rows."""
        found = self.postings.get(term)
        if not self.removed or not len(found.rows):
            return found
        alive = self.columns["alive"][found.rows]
        return PostingList(found.rows[alive], found.impacts[alive])

    def rows_of_subject(self, subject: int) -> Rows:
        """The live rows of a subject."""
        rows = self.postings.get(subject_term(subject)).rows.astype(np.int64)
        return rows[self.columns["alive"][rows] & ~self.columns["superseded"][rows]]

    def _rows_with(self, terms: Iterable[str]) -> Rows:
        lists = [self.postings.get(term).rows for term in set(terms)]
        if not lists:
            return np.empty(0, np.int64)
        rows = lists[0] if len(lists) == 1 else distinct(np.concatenate(lists))
        return rows.astype(np.int64)

    def _passes(self, rows: Rows, query: RecallQuery, label_mask: Mask | None, now: float) -> Mask:
        c = self.columns
        mask: Mask = c["alive"][rows]
        if self.next_expiry <= now:
            mask &= c["expires"][rows] > now  # a row expires at its second, not after
        if label_mask is not None:
            mask &= label_mask[rows]
        if not query.include_superseded:
            mask &= ~c["superseded"][rows]
        if query.kind is not None:
            mask &= c["kind"][rows] == KINDS.index(query.kind)
        if query.tier is not None:
            mask &= c["tier"][rows] == TIERS.index(query.tier)
        if query.since is not None:
            mask &= c["happened"][rows] >= query.since
        if query.until is not None:
            mask &= c["happened"][rows] < query.until
        if query.exclude_ids:
            excluded = [r for i in query.exclude_ids if (r := self.row_of(i)) is not None]
            mask &= ~np.isin(rows, excluded)
        return mask
