"""Extracts what a turn's messages say, by model or by rules, checked and held to the settings."""

import asyncio

import msgspec

from memory_worker.clock import Clock
from memory_worker.config import Settings
from memory_worker.extraction.breaker import Breaker
from memory_worker.extraction.checks import NOTHING_HANDED, Checker
from memory_worker.extraction.items import Candidate, Extraction, ReadTurn, add_counts
from memory_worker.extraction.model import ModelExtractor
from memory_worker.extraction.ports import Completer, HandedOut, Nearest, ResolvedBank, SiblingAway
from memory_worker.extraction.rules import RuleExtractor

THREAD_CHARS = 50_000
"""From this much text on, in characters, the rules run in a thread, so that other sessions are not held up."""
QUERY_CHARS = 2_000
"""How much of the user's words is used to look up the nearest memories, in characters."""


class TurnReader:
    """The one way from messages to an extraction. `extractor` names who reads: `model` or `rules`."""

    def __init__(
        self,
        router: Completer | None,
        breaker: Breaker,
        handed: HandedOut,
        nearest: Nearest,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._handed = handed
        self._nearest = nearest
        self._router = router
        self._breaker = breaker
        self._clock = clock
        self._rules = RuleExtractor()
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Read by these settings from the next turn on."""
        router = self._router
        self._settings = settings
        by_model = settings.extractor == "model" or (settings.extractor == "auto" and router is not None)
        self.extractor = "model" if by_model else "rules"
        self._model_slots = asyncio.Semaphore(settings.extraction_model_requests)
        self._model: ModelExtractor | None = None
        if router is not None:
            self._model = ModelExtractor(
                router,
                self._breaker,
                self._clock,
                model=settings.router_model,
                chunk_chars=settings.extraction_chunk_chars,
                output_tokens=settings.extraction_output_tokens,
            )

    async def extract(self, read: ReadTurn, bank: ResolvedBank, session_id: str | None) -> tuple[Extraction, str]:
        """Give what was said, and the name of who read it: `rules`, the model, or `none` where nobody said a word.

        Raises `SiblingAway` when a model is needed and away, `UnreadableReply` when its answer could not be read.
        """
        user_text = "\n".join(m.text for m in read.messages if m.role == "user")
        if not user_text:
            return Extraction(ignored=read.ignored), "none"
        if self.extractor == "model":
            candidates, unread, name = await self._by_model(read, bank, user_text)
        else:
            candidates, unread, name = await self._by_rules(read, user_text), {}, "rules"
        handed = NOTHING_HANDED
        if candidates and session_id:  # most turns hold nothing to compare
            handed = await self._handed.lines(session_id, bank.name)
        checked = Checker(read, handed).run(candidates, ignored=add_counts(read.ignored, unread))
        return bounded(checked, self._settings), name

    async def _by_model(
        self, read: ReadTurn, bank: ResolvedBank, user_text: str
    ) -> tuple[list[Candidate], dict[str, int], str]:
        if self._model is None:
            raise SiblingAway("router")
        most = self._settings.extraction_known_memories
        async with self._model_slots:
            known = await self._nearest.memories(bank.name, user_text[:QUERY_CHARS], most)
            rules = await self._nearest.learned(bank.name)
            return await self._model.extract(read.messages, bank, known, rules)

    async def _by_rules(self, read: ReadTurn, user_text: str) -> list[Candidate]:
        if len(user_text) > THREAD_CHARS:
            found = await asyncio.to_thread(self._rules.extract, read.messages)
        else:
            found = self._rules.extract(read.messages)
        return [*found.items, *found.learned]


def bounded(checked: Extraction, settings: Settings) -> Extraction:
    """Hold an extraction to the settings: how many memories a turn may add, and what becomes of its instructions.

    Instructions over the bound become suggestions; where rule learning is off they are kept as memories. Memories over
    the bound are counted as refused; those said outright come first.
    """
    items: list[Candidate] = list(checked.items)
    learned: list[Candidate] = []
    suggested: list[Candidate] = [*checked.learned, *checked.suggested]
    if settings.rule_learning == "off":
        items += [msgspec.structs.replace(line, standing=False) for line in suggested]
        suggested = []
    elif settings.rule_learning == "auto":
        learned = checked.learned[: settings.learned_lines_per_turn]
        suggested = suggested[len(learned) :]
    refused = dict(checked.refused)
    over = len(items) - settings.extraction_items_max
    if over > 0:
        rank = {"high": 0, "normal": 1, "low": 2}
        order = sorted(range(len(items)), key=lambda n: (rank[items[n].confidence], n))
        items = [items[n] for n in sorted(order[: settings.extraction_items_max])]
        refused["too_many"] = over
    return Extraction(items=items, learned=learned, suggested=suggested, refused=refused, ignored=checked.ignored)
