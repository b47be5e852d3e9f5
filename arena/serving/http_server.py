"""The server: /v1/models and /v1/chat/completions over HTTP, by the standard library, a thread for each connection."""

from __future__ import annotations

import secrets
import time
from http.server import ThreadingHTTPServer
from urllib.parse import SplitResult, unquote

from arena.serving.answers import Answer, list_models, model_json
from arena.serving.completions import Completions, Prompt
from arena.serving.json_handler import JsonHandler, base_url
from arena.serving.requests import ChatRequest, Served, ServedError, parse_request
from games.common.errors import UsageError


class ChatServer(ThreadingHTTPServer):
    """Answers requests with a model's replies. Raises OSError if the address cannot be had."""

    daemon_threads = True
    request_queue_size = 128  # of connections that come at once

    def __init__(self, address: tuple[str, int], completions: Completions, served: Served) -> None:
        self.completions, self.served = completions, served
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where the API begins."""
        return base_url(self.server_address)

    def answer(self, request: ChatRequest) -> Answer:
        """Return the answer to a request. Raises ServedError for a chat that the model cannot read."""
        lm, served = self.completions.lm, self.served
        try:
            ids = lm.encode_prompt(request.chat)
        except UsageError as error:
            raise ServedError(400, str(error), "messages") from None
        room = (lm.context or len(ids) + served.max_tokens + 1) - len(ids)
        choice = request.structured_outputs.choice if request.structured_outputs else ()
        if not choice and room < 1:
            message = f"The chat fills the model's context of {lm.context} tokens, so nothing can be answered."
            raise ServedError(400, message, "messages")
        temperature = served.temperature if request.temperature is None else request.temperature
        truncation = served.truncation if request.truncation is None else request.truncation
        most = min(request.tokens or served.max_tokens, max(room, 1))
        seed = secrets.randbits(63) if request.seed is None else request.seed
        top = (request.top_logprobs or 0) if request.logprobs else None
        prompt = Prompt(ids, choice, temperature, truncation, most, seed, top)
        asked = [prompt._replace(seed=f"{seed}/{number}") for number in range(request.n or 1)]
        futures = [self.completions.submit(one) for one in asked]
        done = [future.result() for future in futures]
        return Answer(f"chatcmpl-{secrets.token_hex(12)}", int(time.time()), served.name, len(ids), done)


class _Handler(JsonHandler):
    server: ChatServer
    pages = "GET /v1/models and POST /v1/chat/completions"

    def get(self, url: SplitResult) -> None:
        path, served = unquote(url.path), self.server.served
        if path == "/v1/models":
            self.send_data(200, list_models(served))
        elif path == f"/v1/models/{served.name}":
            self.send_data(200, model_json(served.name, served.created))
        elif path.startswith("/v1/models/"):
            name = path.removeprefix("/v1/models/")
            raise ServedError(404, f"There is no model {name!r} here, only {served.name}.", "model", "model_not_found")
        else:
            raise self.no_page(url)

    def post(self, url: SplitResult, content: bytes) -> None:
        if url.path != "/v1/chat/completions":
            raise self.no_page(url)
        request = parse_request(content, self.server.served.name)
        self.send_answer(request, self.server.answer(request), self.server.completions.lm)
