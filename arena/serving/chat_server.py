"""The server of one model: /v1/models and /v1/chat/completions over HTTP."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Sequence
from typing import Any

from arena.lm.chunks import Tokens
from arena.serving.answers import Answer, list_models, model_json, written
from arena.serving.completions import Completed, Completions, Prompt
from arena.serving.requests import MAX_SENTENCE, ChatRequest, Served, ServedError, check_characters, parse_request
from arena.serving.web_pages import Call, Events
from arena.serving.web_server import WebServer
from games.common.errors import UsageError
from games.common.limits import LEAST_TEMPERATURE
from roles.trie import ReplyTrie

MAX_CHOICE_TOKENS = 2**17  # that the model reads for one choice
MAX_SCORES = 2**18  # log-probs in one answer


class ChatServer(WebServer):
    """Answers requests with a model's replies. ``hosts`` as ``WebServer``. Raises OSError likewise."""

    def __init__(
        self, address: tuple[str, int], completions: Completions, served: Served, hosts: Collection[str] = ()
    ) -> None:
        self.completions, self.served = completions, served
        pages = {
            ("GET", "/v1/models"): self._models,
            ("GET", "/v1/models/{name:path}"): self._model,
            ("POST", "/v1/chat/completions"): self._complete,
        }
        super().__init__(address, pages, "GET /v1/models and POST /v1/chat/completions", hosts)

    async def _models(self, _: Call) -> dict[str, Any]:
        return list_models(self.served)

    async def _model(self, call: Call) -> dict[str, Any]:
        name, served = call.named("name"), self.served
        if name != served.name:
            message = f"There is no model {name[:100]!r} here, only {served.name}."
            raise ServedError(404, message, "model", "model_not_found")
        return model_json(served.name, served.created)

    async def _complete(self, call: Call) -> dict[str, Any] | Events:
        request, prompts = await call.in_thread(self._read, await call.body())
        done = await call.wait([self.completions.submit(prompt) for prompt in prompts])
        return await call.in_thread(self._write, request, prompts[0].ids, done)

    def _read(self, content: bytes) -> tuple[ChatRequest, list[Prompt]]:
        """Return a request and what it asks of the model. Raises ServedError for what that cannot read."""
        lm, served = self.completions.lm, self.served
        request = parse_request(content, served.name)
        check_characters(request.chat, lm)
        try:
            ids = lm.encode_prompt(request.chat)
        except UsageError as error:
            raise ServedError(400, str(error), "messages") from None
        choice = self._choice(request, ids)
        room = (lm.context or len(ids) + served.max_tokens + 1) - len(ids)
        if choice is None and room < 1:
            message = f"The chat fills the model's context of {lm.context} tokens, which leaves no room for an answer."
            raise ServedError(400, message, "messages")
        most = min(request.tokens or served.max_tokens, max(room, 1))
        top = (request.top_logprobs or 0) if request.logprobs else None
        number, longest = request.n or 1, max(map(len, choice.tokens)) if choice else most
        if top is not None and number * longest * (top + 1) > MAX_SCORES:
            message = (
                f"{number} replies of {longest} tokens with {top + 1} log-probs each are over the limit of "
                f"{MAX_SCORES:,}."
            )
            raise ServedError(400, f"{message} Ask for fewer.", "logprobs")
        temperature = served.temperature if request.temperature is None else request.temperature
        temperature = temperature if temperature >= LEAST_TEMPERATURE else 0.0
        truncation = served.truncation if request.truncation is None else request.truncation
        seed = secrets.randbits(63) if request.seed is None else request.seed
        prompt = Prompt(ids, choice, temperature, truncation, most, seed, top)
        return request, [prompt._replace(seed=f"{seed}/{place}") for place in range(number)]

    def _choice(self, request: ChatRequest, ids: Tokens) -> ReplyTrie | None:
        """Return the trie of the replies that a request allows; None if it allows all. Raises ServedError."""
        if request.structured_outputs is None:
            return None
        lm = self.completions.lm
        try:
            trie = lm.new_trie(request.structured_outputs.choice)
        except ValueError as error:
            raise ServedError(400, str(error)[:MAX_SENTENCE], "structured_outputs") from None
        longest = max(map(len, trie.tokens))
        if lm.context and len(ids) + longest - 1 > lm.context:
            message = f"The chat is {len(ids)} tokens long and a choice {longest}, but the model reads {lm.context}."
            raise ServedError(400, f"{message} Send a shorter chat, or shorter choices.", "structured_outputs")
        again = 1 if lm.shares_prefix else len(ids)  # tokens of the chat that are read at each node
        read = sum(again + len(prefix) for prefix in trie.prefixes)
        if read > MAX_CHOICE_TOKENS:
            message = f"Choosing one of these replies takes {read:,} tokens; the limit is {MAX_CHOICE_TOKENS:,}."
            raise ServedError(400, f"{message} Send fewer, or shorter ones.", "structured_outputs")
        return trie

    def _write(self, request: ChatRequest, ids: Tokens, done: Sequence[Completed]) -> dict[str, Any] | Events:
        answer = Answer(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), self.served.name, len(ids), done)
        return written(request, answer, self.completions.lm)
