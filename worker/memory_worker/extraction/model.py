"""Extraction with a model: one request a chunk, tolerant reading, one repair, a circuit breaker around the router."""

from collections.abc import Sequence

from memory_contracts.errors import FunctionError
from memory_contracts.siblings import CompleteReply, CompleteRequest
from memory_worker.clock import Clock
from memory_worker.extraction import prompt
from memory_worker.extraction.breaker import Breaker
from memory_worker.extraction.items import Candidate, ReadMessage, by_id
from memory_worker.extraction.ports import Completer, ResolvedBank, SiblingAway
from memory_worker.extraction.reply import Unreadable, candidate, read_items
from memory_worker.extraction.secrets import MASK, find_secrets, mask_secrets

RAW_MAX_BYTES = 65_536
"""Longest raw reply that is kept with a parked turn, in bytes."""
REPAIR_SHOWN_CHARS = 8_000
"""Longest part of an unreadable answer that is shown to the model again, in characters."""

_AWAY_CODES = frozenset({"unavailable"})


class UnreadableReply(Exception):
    """A model's reply could not be read, twice; `raw` is the last one, without secrets, for the parked turn."""

    def __init__(self, raw: bytes) -> None:
        super().__init__("the model's reply could not be read")
        self.raw = raw


class ModelExtractor:
    """Asks a model through the router.

    `extract` raises `SiblingAway` (the turn waits), `UnreadableReply` (it is parked), `FunctionError` (it is retried).
    """

    def __init__(
        self, router: Completer, breaker: Breaker, clock: Clock, *, model: str, chunk_chars: int, output_tokens: int
    ) -> None:
        self._router = router
        self._breaker = breaker
        self._clock = clock
        self._model = model
        self._chunk_chars = chunk_chars
        self._output_tokens = output_tokens

    async def extract(
        self, messages: Sequence[ReadMessage], bank: ResolvedBank, known: Sequence[str], rules: Sequence[str]
    ) -> tuple[list[Candidate], dict[str, int], str]:
        """Give the candidates of a conversation, unchecked; counts of what could not be read; the model's name."""
        named = by_id(messages)
        found: list[Candidate] = []
        ignored: dict[str, int] = {}
        model = self._model
        parts = prompt.chunks(messages, self._chunk_chars)
        if len(parts) > prompt.CHUNKS_MAX:
            ignored["chunks_over_bound"] = len(parts) - prompt.CHUNKS_MAX
            parts = parts[: prompt.CHUNKS_MAX]
        for chunk in parts:
            asked = prompt.request(
                chunk,
                now=self._clock.now(),
                bank=bank.name,
                description=bank.description,
                known=known,
                rules=rules,
                model=self._model,
                max_output_tokens=self._output_tokens,
            )
            reply, items, cut = await self._ask(asked, messages)
            model = reply.model or model or "unnamed"
            if cut:
                ignored["reply_cut"] = ignored.get("reply_cut", 0) + 1
            for item in items:
                made = candidate(item, named, model)
                if made is None:
                    ignored["bad_item"] = ignored.get("bad_item", 0) + 1
                else:
                    found.append(made)
        return found, ignored, model

    async def _ask(
        self, asked: CompleteRequest, messages: Sequence[ReadMessage]
    ) -> tuple[CompleteReply, list[dict[str, object]], bool]:
        reply = await self._complete(asked)
        try:
            return reply, *read_items(reply.text)
        except Unreadable:
            reply = await self._complete(prompt.repair(asked, reply.text, REPAIR_SHOWN_CHARS))
        try:
            return reply, *read_items(reply.text)
        except Unreadable as error:
            raise UnreadableReply(raw_without_secrets(reply.text, messages)) from error

    async def _complete(self, asked: CompleteRequest) -> CompleteReply:
        if not self._breaker.allow(self._clock.now()):
            raise SiblingAway("router")
        try:
            reply = await self._router.complete(asked)
        except (SiblingAway, TimeoutError) as error:
            self._breaker.failed(self._clock.now())
            raise SiblingAway("router") from error
        except FunctionError as error:
            if error.code in _AWAY_CODES:
                self._breaker.failed(self._clock.now())
                raise SiblingAway("router") from error
            self._breaker.answered()
            raise
        except BaseException:
            self._breaker.failed(self._clock.now())
            raise
        self._breaker.answered()
        return reply


def raw_without_secrets(text: str, messages: Sequence[ReadMessage]) -> bytes:
    """The start of a reply as it is kept: no secret in it that a pattern knows or that the user's messages hold.

    JSON escapes are undone first, since they hide a secret from the patterns; it is masked before it is cut, so that a
    cut never leaves half a secret.
    """
    for escaped, plain in (('\\"', '"'), ("\\n", "\n"), ("\\t", " "), ("\\/", "/")):
        text = text.replace(escaped, plain)
    text = mask_secrets(text)[0]
    for message in messages:
        for found in find_secrets(message.text):
            text = text.replace(message.text[found.start : found.end].strip("\"'`“”«»"), MASK)
    return text.encode("utf-8", "replace")[:RAW_MAX_BYTES]
