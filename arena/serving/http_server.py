"""The server: /v1/models and /v1/chat/completions over HTTP, by the standard library, a thread for each connection."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from arena.serving.answers import Answer, answer_events, answer_json, list_models, model_json
from arena.serving.completions import Completions, Prompt
from arena.serving.requests import ChatRequest, Served, ServedError, parse_request
from games.common.errors import UsageError
from games.common.text import plain

MAX_BODY = 2**24  # bytes of a request
PATIENCE = 300  # seconds that a connection may say nothing


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
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/v1"

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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    timeout = PATIENCE
    server: ChatServer

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError):  # the client has gone
            super().handle()

    def do_GET(self) -> None:
        path, served = unquote(urlsplit(self.path).path), self.server.served
        if path == "/v1/models":
            self._send(200, list_models(served))
        elif path == f"/v1/models/{served.name}":
            self._send(200, model_json(served))
        elif path.startswith("/v1/models/"):
            name = path.removeprefix("/v1/models/")
            self._refuse(
                ServedError(404, f"There is no model {name!r} here, only {served.name}.", "model", "model_not_found")
            )
        else:
            self._refuse(self._no_page(path))

    def do_POST(self) -> None:
        try:
            content = self._body()
            path = urlsplit(self.path).path
            if path != "/v1/chat/completions":
                raise self._no_page(path)
            request = parse_request(content, self.server.served)
            answer, tokenizer = self.server.answer(request), self.server.completions.lm
        except ServedError as error:
            self._refuse(error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001  # one request's failure is its own; it is told on both sides
            sys.stderr.write(f"league: a request failed: {plain(str(error))}\n")
            self._refuse(ServedError(500, f"The model failed: {error}"))
        else:
            if request.stream:
                options = request.stream_options
                self._stream(answer_events(answer, tokenizer, usage=bool(options and options.include_usage)))
            else:
                self._send(200, answer_json(answer, tokenizer))

    def _body(self) -> bytes:
        """Return the body of a request. Raises ServedError for one that has no length or too much of it."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise ServedError(411, "The request needs a Content-Length.")
        if int(length) > MAX_BODY:
            self.close_connection = True
            raise ServedError(413, f"The request has {int(length):,} bytes; the most that is read is {MAX_BODY:,}.")
        return self.rfile.read(int(length))

    def _no_page(self, path: str) -> ServedError:
        return ServedError(
            404, f"There is no {self.command} {path[:100]!r} here: only GET /v1/models and POST /v1/chat/completions."
        )

    def _refuse(self, error: ServedError) -> None:
        self._send(error.status, error.to_json())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of HTTP, or has a method that no page takes, in the form of all refusals."""
        self.close_connection = True
        self._refuse(ServedError(code, message or explain or "This is no request that this server reads."))

    def _send(self, status: int, data: dict[str, Any]) -> None:
        content = json.dumps(data, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, events: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""
