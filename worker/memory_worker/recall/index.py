"""The index of one tenant: applies changes, searches banks, without a bus, a store or a thread."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import regex

from memory_contracts.records import Memory
from memory_worker.recall import plan as plans
from memory_worker.recall.analysis import analysed, fold, forget_cache, groups_of
from memory_worker.recall.bank import BankIndex, digest
from memory_worker.recall.embedder import Embedder, InlineEmbedder
from memory_worker.recall.entities import EntityTable
from memory_worker.recall.feed import BankGone, EntityPut, IndexChange, MemoryGone, MemoryPut
from memory_worker.recall.fusion import rank
from memory_worker.recall.languages import ENGLISH, known_words
from memory_worker.recall.query import Arm, Hit, RecallQuery, SearchResult
from memory_worker.recall.search import Found, search
from memory_worker.recall.settings import RecallSettings

Floats = npt.NDArray[np.float32]

_WORDS = regex.compile(r"[\p{L}\p{M}]+")

NAME_SHARE = 0.05
"""Share of a bank's rows above which a capitalised word of a query is a name that is everywhere in it."""
NAME_PRIOR = 200
"""Rows added to a bank when that share is taken, so that a small bank is not mistaken for one about a single name."""
FOUND_STATES = ("live", "superseded")
"""States of memories that the index holds."""


PROOFS_MAX = 8
"""Most memories that are looked at for proof that they have a word of a destroyed text too."""


def words_of(text: str) -> set[str]:
    """The unstemmed words of a text, as they are kept for typing errors."""
    return {word[0] for chunk in analysed(text) for word in chunk.words}


class TenantIndex:
    """Every bank of a tenant, its entities, and the journal sequence they include.

    Not thread-safe: one thread applies and searches. With an inline embedder rows get their vectors when put; with a
    background one `waiting` names the memories that have none yet.
    """

    def __init__(self, settings: RecallSettings, embedder: Embedder | None) -> None:
        self.settings = settings
        self.embedder = embedder
        self._inline = embedder if isinstance(embedder, InlineEmbedder) else None
        self.banks: dict[str, BankIndex] = {}
        self.entities = EntityTable()
        self.seq = 0
        self.waiting: dict[str, str] = {}
        self.model_id: str | None = (embedder.model_id or None) if embedder else None
        """Id of the model that all vectors are of."""
        self.dims = embedder.dims if embedder else 0

    def adopt_model(self, model_id: str, dims: int) -> None:
        """Makes the index hold vectors of this model only: of another one every vector is dropped and waits anew."""
        if (model_id, dims) == (self.model_id, self.dims):
            return
        self.model_id, self.dims = model_id, dims
        for name, bank in self.banks.items():
            bank.drop_vectors(dims)
            self.waiting.update((i, name) for i in bank.ids())

    def _embed_one(self) -> Callable[[str], Floats] | None:
        inline = self._inline
        if inline is None:
            return None
        return lambda text: inline.embed([text])[0]

    def apply(self, changes: Iterable[IndexChange]) -> None:
        """Applies journal changes in order and moves the cursor; applying a change again is harmless."""
        embed = self._embed_one()
        for change in changes:
            if isinstance(change, MemoryPut):
                self.put(change.memory, embed)
            elif isinstance(change, MemoryGone):
                self._remove(change.id, change.bank)
            elif isinstance(change, EntityPut):
                self.entities.put(change.id, change.name, change.aliases)
            elif isinstance(change, BankGone):
                self.banks.pop(change.bank, None)
                self.waiting = {i: b for i, b in self.waiting.items() if b != change.bank}
            self.seq = max(self.seq, change.seq)

    def put_all(self, memories: Iterable[Memory]) -> None:
        """Adds memories outside the journal, for a rebuild."""
        embed = self._embed_one()
        for memory in memories:
            self.put(memory, embed)

    def put(self, memory: Memory, embed: Callable[[str], Floats] | None) -> None:
        """Makes the index say what one memory says. A memory never changes its bank."""
        if memory.state not in FOUND_STATES:
            self._remove(memory.id, memory.bank)
            return
        target = self.banks.get(memory.bank)
        if target is None:
            target = self.banks[memory.bank] = BankIndex(memory.bank, self.dims)
        if target.put(memory, embed) and self.embedder:
            self.waiting[memory.id] = memory.bank
        else:
            self.waiting.pop(memory.id, None)
        target.compact_if_worth()

    def _remove(self, memory_id: str, bank_name: str) -> None:
        self.waiting.pop(memory_id, None)
        bank = self.banks.get(bank_name)
        if bank is None or not bank.remove(memory_id):
            return
        if bank.present:
            bank.compact_if_worth()
        else:
            del self.banks[bank_name]

    def set_vectors(self, ids: Sequence[str], texts: dict[str, str], vectors: Floats | None) -> None:
        """Gives waiting rows the vectors of `texts` (same order), unless their text changed meanwhile.

        The vectors must be of `model_id`. Ids of `ids` without a text are gone from the store and stop waiting.
        """
        made = dict(zip(texts, vectors, strict=True)) if vectors is not None else {}
        for memory_id in ids:
            bank = self.banks.get(self.waiting.get(memory_id, ""))
            row = bank.row_of(memory_id) if bank else None
            if bank is None or row is None or memory_id not in made:
                self.waiting.pop(memory_id, None)
            elif int(bank.columns["text"][row]) == digest(texts[memory_id]):
                bank.set_vector(row, made[memory_id])
                self.waiting.pop(memory_id, None)

    @property
    def nbytes(self) -> int:
        """Bytes held by the index's arrays and vocabularies."""
        return sum(b.columns.nbytes + b.postings.nbytes for b in self.banks.values())

    def clear(self) -> None:
        """Forgets everything, the memory of analysed words included."""
        self.banks, self.waiting, self.seq = {}, {}, 0
        self.entities = EntityTable()
        forget_cache()

    def compact(self) -> None:
        """Drops every removed row with its words, in all banks, and the memory of analysed words."""
        for bank in self.banks.values():
            bank.compact()
        forget_cache()

    def spelled_in(self, texts: Iterable[str]) -> dict[str, dict[str, list[str]]]:
        """By bank, the words kept for typing errors that stand in `texts`, with memories that may have them as well."""
        words = {word for text in texts for word in words_of(text)}
        found: dict[str, dict[str, list[str]]] = {}
        for name, bank in self.banks.items():
            for word in words & bank.surfaces.terms.keys():
                rows = bank.live(bank.surfaces.terms[word]).rows[-PROOFS_MAX:]
                ids = [i.decode() for i in bank.columns["id"][rows].tolist()]
                found.setdefault(name, {})[word] = ids
        return found

    def drop_unproven(self, bank: str, words: Mapping[str, Sequence[str]], memories: Iterable[Memory]) -> None:
        """Forgets the words kept for typing errors that none of their `memories` is seen to have."""
        said = {memory.id: words_of(memory.text) for memory in memories}
        gone = [word for word, ids in words.items() if not any(word in said.get(i, ()) for i in ids)]
        if bank in self.banks:
            self.banks[bank].surfaces.drop(gone)

    def meaning_of(self, scope: Sequence[str], text: str) -> str:
        """What the vector of a query is made of: the query without the names that are all over the banks.

        A name says whose memories are asked for, not what about: the words find it, in a vector it drowns the rest.
        """
        read = plans.clipped(text, self.settings.query_chars)
        banks = [self.banks[name] for name in dict.fromkeys(scope) if name in self.banks]
        kept = [w for w in read.split() if not (w[:1].isupper() and self._is_everywhere(banks, w))]
        meaning = " ".join(kept) if any(len(w) > 3 for w in kept) else read
        # Of a word that is in no vocabulary only the letters have a vector.
        known = known_words()
        return meaning if any(word in known for word in _WORDS.findall(fold(meaning))) else ""

    def _is_everywhere(self, banks: Sequence[BankIndex], word: str) -> bool:
        groups = groups_of(word, ENGLISH)
        return bool(groups) and all(
            any(max(len(b.live(t).rows) for t in g.terms) > NAME_SHARE * (b.present + NAME_PRIOR) for b in banks)
            for g in groups
        )

    def query_vector(self, text: str) -> Floats | None:
        """The vector of a query by an inline embedder; none when nothing of it is known."""
        if self._inline is None:
            return None
        vector: Floats = self._inline.embed([text])[0]
        return vector if vector.any() else None

    def search(
        self,
        scope: Sequence[str],
        query: RecallQuery,
        now: float,
        vector: Floats | None = None,
        settings: RecallSettings | None = None,
    ) -> SearchResult:
        """The best memories of the banks in `scope`, nearest bank first among equals.

        `vector`: the query's, if a background embedder made it; `settings`: others than the index's own.
        """
        settings = settings or self.settings
        started = time.perf_counter()
        plan = plans.make(query.text, now, self.entities, settings)
        if not plan.groups or (vector is not None and len(vector) != self.dims):
            vector = None  # “ok, what next?” asks for nothing; a vector of another model is none
        elif vector is None and "semantic" in settings.arms:
            vector = self.query_vector(self.meaning_of(scope, query.text))
        embed_ms = (time.perf_counter() - started) * 1e3
        names = self.entities.resolve(query.entity) if query.entity is not None else frozenset[str]()
        banks = [self.banks[name] for name in dict.fromkeys(scope) if name in self.banks]
        found = [search(bank, plan, query, names, vector, now, settings) for bank in banks]
        ranking = rank(found, query.limit, settings, explain=query.explain)
        hits = [
            Hit(id=r.id, bank=r.bank, score=r.score, arms=r.arms, parts=r.parts if query.explain else None)
            for r in ranking.rows
        ]
        arms = self._arms(found, banks, vector, embed_ms, settings)
        mode = "+".join(arm.name for arm in arms if arm.state in ("ok", "cut", "empty")) or "none"
        cut = sorted({c for f in found for c in f.cut} | ({"query"} if plan.cut else set()))
        return SearchResult(
            hits=hits,
            arms=arms,
            mode=mode,
            cut=", ".join(cut) or None,
            below_floor=ranking.below_floor,
            left=ranking.left,
        )

    def _arms(
        self,
        found: list[Found],
        banks: list[BankIndex],
        vector: Floats | None,
        embed_ms: float,
        settings: RecallSettings,
    ) -> list[Arm]:
        lexical = sum(f.lexical_candidates for f in found)
        semantic = sum(f.semantic_candidates for f in found)
        context = sum(f.context_candidates for f in found)
        embedded = self.embedded(banks)
        return [
            Arm(
                name="lexical",
                state="off"
                if "lexical" not in settings.arms
                else "cut"
                if any("postings" in f.cut for f in found)
                else "ok"
                if lexical
                else "empty",
                candidates=lexical,
                ms=round(sum(f.lexical_ms for f in found), 3),
            ),
            Arm(
                name="semantic",
                state="off"
                if self.embedder is None or "semantic" not in settings.arms
                else "down"
                if vector is None and self._inline is None
                else "cut"
                if any("scan" in f.cut for f in found)
                else "ok"
                if semantic
                else "empty",
                candidates=semantic,
                ms=round(embed_ms + sum(f.semantic_ms for f in found), 3),
                model=self.model_id,
                embedded=round(embedded, 4),
            ),
            Arm(
                name="context",
                state="off" if "context" not in settings.arms else "ok" if context else "empty",
                candidates=context,
                ms=round(sum(f.context_ms for f in found), 3),
            ),
        ]

    def embedded(self, banks: Iterable[BankIndex] | None = None) -> float:
        """Share in [0, 1] of the rows that have a vector of the current model; 1 when there are no rows."""
        chosen = list(self.banks.values() if banks is None else banks)
        rows = sum(b.present for b in chosen)
        return 1.0 - sum(b.unembedded for b in chosen) / rows if rows else 1.0

    def similar(self, bank: str, text: str, k: int, now: float, vector: Floats | None = None) -> list[Hit]:
        """The `k` nearest live memories of one bank to a text, without a floor."""
        wide = msgspec.structs.replace(self.settings, floor=0.0, keep_share=0.0)
        return self.search([bank], RecallQuery(text=text, limit=k), now, vector, wide).hits
