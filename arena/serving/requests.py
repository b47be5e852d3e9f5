"""Requests of OpenAI's chat-completions API as this server takes them, and their refusals in OpenAI's form. Pure.

https://platform.openai.com/docs/api-reference/chat/create; ``top_k``, ``min_p`` and ``structured_outputs`` are vLLM's.
A field that would change an answer and is not known here is refused, never passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from games.common.errors import UsageError
from games.common.validation import validated
from roles.chat_text import Message
from roles.truncation import Truncation

if TYPE_CHECKING:
    from arena.lm.tokenization import ChatTokenizer  # torch is slow to import

MAX_CHOICES = 10_000  # of a constrained reply
MAX_COMPLETIONS = 128  # of one request, as at OpenAI
MAX_CHARACTERS = 2**21  # of a chat, whatever the model reads: tokenising them takes a second or two
MAX_CHOICE_CHARACTERS = 2**18  # of all replies that one is constrained to
MAX_VALUES = 50_000  # in a body
MAX_KEYS = 100  # of one object in it
MAX_SENTENCE = 2_000  # characters of a refusal, which may repeat what was sent
MAX_TOP = 20  # tokens whose log-probs are returned beside the sampled one's, as at OpenAI
LABELS = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
NEUTRAL: Mapping[str, tuple[object, ...]] = {  # values at which fields that are not kept to change nothing
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "stop": ([], ""),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "repetition_penalty": (1,),
    "parallel_tool_calls": (True, False),
}


class ServedError(Exception):
    """A request that is refused: the HTTP status, a sentence, the field at fault and OpenAI's code, if there are."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message if len(message) <= MAX_SENTENCE else f"{message[:MAX_SENTENCE]} …")
        self.status, self.param, self.code = status, param, code

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class _Text(BaseModel):
    """A part of a message; only text is read."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One message. Other keys of it, which clients send along with earlier answers, change nothing."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[_Text, ...]

    def plain(self) -> Message:
        """Return the message as chat templates take it."""
        parts = [self.content] if isinstance(self.content, str) else [part.text for part in self.content]
        return {"role": "system" if self.role == "developer" else self.role, "content": "".join(parts)}


class StructuredOutputs(BaseModel):
    """What a reply is constrained to: vLLM's field of the same name."""

    model_config = ConfigDict(extra="forbid")

    choice: tuple[str, ...] = Field(min_length=1, max_length=MAX_CHOICES, description="the replies that are allowed")

    @field_validator("choice")
    @classmethod
    def _differ(cls, choice: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(choice)) < len(choice) or not all(choice):
            raise ValueError("structured_outputs.choice must hold distinct texts, none of them empty.")
        if (characters := sum(map(len, choice))) > MAX_CHOICE_CHARACTERS:
            raise ValueError(
                f"structured_outputs.choice has {characters:,} characters in total; the limit is "
                f"{MAX_CHOICE_CHARACTERS:,}."
            )
        return choice


class StreamOptions(BaseModel):
    """How an answer is streamed."""

    include_usage: bool = Field(False, description="whether a last chunk brings the token counts")


_Tokens = Annotated[int, Field(ge=1)]


class ChatRequest(BaseModel):
    """A request for chat completions. None: as the model was trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(description="the model's name, as /v1/models lists it")
    messages: tuple[ChatMessage, ...] = Field(min_length=1, description="the chat so far")
    temperature: float | None = Field(
        None, ge=0.0, le=100.0, description="sampling temperature; 0: the likeliest token"
    )
    top_p: float | None = Field(
        None, gt=0.0, le=1.0, description="only the likeliest tokens whose probabilities sum to it"
    )
    top_k: int | None = Field(None, ge=-1, description="only this many of the likeliest tokens; 0 or -1: all")
    min_p: float | None = Field(
        None, ge=0.0, le=1.0, description="only tokens at least this likely, as a share of the likeliest"
    )
    max_completion_tokens: _Tokens | None = Field(None, description="longest reply, in tokens")
    max_tokens: _Tokens | None = Field(None, description="an older name of max_completion_tokens")
    seed: int | None = Field(None, description="equal requests with equal seeds get equal replies")
    logprobs: bool | None = Field(None, description="whether to return the tokens' log-probs")
    top_logprobs: int | None = Field(None, ge=0, le=MAX_TOP, description="how many other tokens' log-probs to return")
    n: int | None = Field(None, ge=1, le=MAX_COMPLETIONS, description="how many replies")
    stream: bool | None = Field(None, description="whether the answer comes as server-sent events")
    stream_options: StreamOptions | None = None
    structured_outputs: StructuredOutputs | None = None

    @property
    def truncation(self) -> Truncation | None:
        """What is cut off, where the request says something of it."""
        if self.top_p is None and self.top_k is None and self.min_p is None:
            return None
        return Truncation(max(self.top_k or 0, 0), 1.0 if self.top_p is None else self.top_p, self.min_p or 0.0)

    @property
    def tokens(self) -> int | None:
        """The longest reply that it asks for."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def chat(self) -> list[Message]:
        """The chat as a chat template takes it."""
        return [message.plain() for message in self.messages]


class Served(NamedTuple):
    """What is served: a model's name, and what a request leaves open."""

    name: str
    created: int  # seconds since 1970, of the snapshot
    temperature: float
    truncation: Truncation
    max_tokens: int


def parse_object(content: bytes, holds: str) -> dict[str, Any]:
    """Return a body's JSON object, which ``holds`` something. Raises ServedError for anything else, or too much of it.

    What is not Unicode, as one half of a surrogate pair, no tokenizer reads.
    """
    try:
        data = json.loads(content.decode())
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise ServedError(400, f"The body is not UTF-8, or holds half a surrogate pair ({error}).") from None
    except (ValueError, RecursionError) as error:
        raise ServedError(400, f"The body is not JSON ({error}).") from None
    if not isinstance(data, dict):
        raise ServedError(400, f"The body should be a JSON object with {holds}.")
    _check_size(data)
    return data


def _check_size(data: dict[str, Any]) -> None:
    """Raise ServedError for more values or keys than any request needs: each may take a sentence to refuse."""
    inner: list[Any] = [data]
    for value in inner:  # which grows
        if isinstance(value, dict) and len(value) > MAX_KEYS:
            raise ServedError(400, f"An object in the body has {len(value):,} keys; the limit is {MAX_KEYS}.")
        if isinstance(value, dict | list):
            inner += value.values() if isinstance(value, dict) else value
        if len(inner) > MAX_VALUES:
            raise ServedError(400, f"The body holds more than {MAX_VALUES:,} values.")


def check_characters(chat: Sequence[Message], tokenizer: ChatTokenizer) -> None:
    """Raise ServedError for a chat of more characters than this many tokens can have: it is not even tokenised."""
    characters = sum(len(message["content"]) for message in chat)
    most = MAX_CHARACTERS
    if tokenizer.context:
        most = min(most, tokenizer.context * tokenizer.longest_token)
    if characters > most:
        reads = f", and {tokenizer.model_name} reads at most {tokenizer.context} tokens" * bool(tokenizer.context)
        raise ServedError(400, f"The chat has {characters:,} characters; the limit is {most:,}{reads}.", "messages")


def parse_request(content: bytes, model: str) -> ChatRequest:
    """Return a request. Raises ServedError for one that cannot be kept to, and for one of another than ``model``."""
    data = parse_object(content, "model and messages")
    try:
        request = validated(ChatRequest, _known(data))
    except UsageError as error:
        field = re.split(r"\W", str(error), maxsplit=1)[0]
        raise ServedError(400, str(error), field if field in ChatRequest.model_fields else None) from None
    if request.model != model:
        raise ServedError(
            404, f"There is no model {request.model[:100]!r} here, only {model}.", "model", "model_not_found"
        )
    if request.structured_outputs is not None and request.truncation not in (None, Truncation()):
        raise ServedError(400, "A choice is drawn from all allowed replies: leave out top_p, top_k and min_p.", "top_p")
    return request


def _known(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that say something, of which all are known. Raises ServedError for one that is not kept to."""
    said = {name: value for name, value in data.items() if value is not None and name not in LABELS}
    for name, neutral in NEUTRAL.items():
        if name in said and said.pop(name) not in neutral:
            hint = " For one of several replies send structured_outputs = {'choice': [...]}." * (
                name == "response_format"
            )
            raise ServedError(400, f"{name} is not supported here: leave it out.{hint}", name, "unsupported_parameter")
    return said
