"""Turns requests of the router's contract into calls of an OpenAI-compatible endpoint, and its faults into errors.

Endpoints differ in what they accept. What one refuses by name (a JSON Schema, a temperature, the older name of the
output limit) is left out or renamed, once, and remembered. Whatever may come right by itself, a wrong key and a
missing model included, is `unavailable`: the worker then waits and loses nothing.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import openai

from memory_contracts.errors import FunctionError
from memory_contracts.siblings import (
    CompleteReply,
    CompleteRequest,
    EmbedReply,
    EmbedRequest,
    ModelInfo,
    ModelsReply,
)
from memory_router.settings import RouterSettings

INPUTS_MAX = 2_048
"""Most texts of one embedding request."""
ADAPTATIONS_MAX = 4
"""Most changes to one request before its refusal is passed on."""

_EMBED_NAMES = ("embed", "bge-", "e5-", "gte-", "minilm", "nomic")
# How a refusal names what was refused, and what is done about it.
_ADAPTATIONS = (
    (("json_schema", "response_format", "schema"), "schema"),
    (("max_completion_tokens",), "new_limit"),
    (("max_tokens",), "new_limit"),
    (("temperature",), "temperature"),
)

R = TypeVar("R")


class Bridge:
    """Answers complete, embed and models from one endpoint. Every method raises FunctionError."""

    def __init__(self, settings: RouterSettings) -> None:
        self._settings = settings
        self._client = openai.AsyncOpenAI(
            base_url=settings.url,
            api_key=settings.api_key or "none",  # the library insists on one; local servers ignore it
            timeout=settings.timeout_s,
            max_retries=settings.retries,
        )
        self._adapted: set[str] = set()

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._client.close()

    async def complete(self, request: CompleteRequest) -> CompleteReply:
        """Give a completion. Raises `unavailable` (ask again), `invalid_input` (the endpoint refuses the request)."""
        return await self._within(self._settings.deadline_s, self._complete(request))

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """Give one vector per text, in the order of the texts. Raises as `complete` does."""
        if not request.input or len(request.input) > INPUTS_MAX:
            raise FunctionError("invalid_input", f"1 to {INPUTS_MAX} texts can be embedded at once", field="input")
        return await self._within(self._settings.embed_deadline_s, self._embed(request))

    async def models(self) -> ModelsReply:
        """Give the endpoint's models. Raises as `complete` does."""
        return await self._within(self._settings.embed_deadline_s, self._models())

    async def _complete(self, request: CompleteRequest) -> CompleteReply:
        model = request.model or self._settings.model or await self._first("complete")
        for _ in range(ADAPTATIONS_MAX):
            try:
                answer = await self._client.chat.completions.create(**self._arguments(request, model))
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if not self._adapt(error):
                    raise
                continue
            choices = getattr(answer, "choices", None)
            if not choices:
                raise _not_an_answer()
            message = choices[0].message
            usage = getattr(answer, "usage", None)
            return CompleteReply(
                text=message.content or "",
                model=answer.model or model,
                usage=usage.model_dump(exclude_none=True) if usage else None,
                finish_reason=choices[0].finish_reason,
            )
        raise FunctionError("invalid_input", "the endpoint refuses the request in every form")

    def _arguments(self, request: CompleteRequest, model: str) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": model,
            "messages": [
                {"role": "system", "content": request.system},
                *({"role": message.role, "content": message.content} for message in request.messages),
            ],
            "max_completion_tokens" if "new_limit" in self._adapted else "max_tokens": request.max_output_tokens,
        }
        if "temperature" not in self._adapted:
            arguments["temperature"] = request.temperature
        if request.schema is not None and "object" not in self._adapted:
            arguments["response_format"] = (
                {"type": "json_object"}
                if "schema" in self._adapted
                else {"type": "json_schema", "json_schema": {"name": "answer", "schema": request.schema}}
            )
        return arguments

    def _adapt(self, error: openai.APIStatusError) -> bool:
        """Remember what the endpoint refuses by name; false when there is nothing (more) to leave out."""
        said = f"{error.message} {error.body}".lower()
        for names, change in _ADAPTATIONS:
            if not any(name in said for name in names):
                continue
            if change == "schema" and "schema" in self._adapted:
                change = "object"
            if change in self._adapted:
                return False
            self._adapted.add(change)
            return True
        return False

    async def _embed(self, request: EmbedRequest) -> EmbedReply:
        model = request.model or self._settings.embed_model or await self._first("embed")
        vectors: list[list[float]] = []
        named = model
        for at in range(0, len(request.input), self._settings.embed_batch):
            texts = request.input[at : at + self._settings.embed_batch]
            answer = await self._client.embeddings.create(model=model, input=texts, encoding_format="float")
            data = getattr(answer, "data", None)
            if not data or len(data) != len(texts):
                raise _not_an_answer()
            vectors.extend(list(row.embedding) for row in sorted(data, key=lambda row: row.index))
            named = answer.model or model
        if len({len(vector) for vector in vectors}) != 1:
            raise _not_an_answer()
        return EmbedReply(model=named, embeddings=vectors)

    async def _models(self) -> ModelsReply:
        page = await self._client.models.list()
        data = getattr(page, "data", None)
        if data is None:
            raise _not_an_answer()
        return ModelsReply(models=[ModelInfo(id=model.id, kind=_kind(model.id)) for model in data])

    async def _first(self, kind: str) -> str:
        """The first model of a kind that the endpoint lists."""
        for model in (await self._models()).models:
            if model.kind == kind:
                return model.id
        raise FunctionError("unavailable", f"the endpoint lists no model to {kind} with; name one in the settings")

    async def _within(self, seconds: float, work: Awaitable[R]) -> R:
        """Await `work` for at most `seconds`; no error text of the endpoint is passed on, it may quote the request."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise FunctionError("unavailable", f"the endpoint took longer than {seconds:g} s") from None
        except (openai.BadRequestError, openai.UnprocessableEntityError, openai.ConflictError) as error:
            raise FunctionError("invalid_input", f"the endpoint refuses the request ({error.status_code})") from None
        except openai.APIStatusError as error:
            raise FunctionError("unavailable", f"the endpoint answers {error.status_code}") from None
        except openai.APIConnectionError:
            raise FunctionError("unavailable", "the endpoint cannot be reached") from None
        except FunctionError:
            raise
        except Exception as error:
            # Bodies that are no JSON or another JSON surface as whatever the library stumbles over.
            raise FunctionError("unavailable", f"the endpoint's answer is not one ({type(error).__name__})") from None


def _kind(name: str) -> str:
    return "embed" if any(part in name.lower() for part in _EMBED_NAMES) else "complete"


def _not_an_answer() -> FunctionError:
    return FunctionError("unavailable", "the endpoint's answer is not one")
