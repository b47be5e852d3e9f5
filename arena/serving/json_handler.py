"""A handler of HTTP requests that answers in JSON, and refuses in OpenAI's form."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import SplitResult, urlsplit

from arena.lm.tokenization import ChatTokenizer
from arena.serving.answers import Answer, answer_events, answer_json
from arena.serving.requests import ChatRequest, ServedError
from games.common.text import plain

MAX_BODY = 2**24  # bytes of a request
PATIENCE = 300  # seconds that a connection may say nothing


class JsonHandler(BaseHTTPRequestHandler):
    """One connection, which is kept. A class that inherits has the pages, ``get`` and ``post``, and their list."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    pages = "none"

    def get(self, url: SplitResult) -> None:
        """Answer a GET. Raises ServedError."""
        raise self.no_page(url)

    def post(self, url: SplitResult, content: bytes) -> None:
        """Answer a POST. Raises ServedError."""
        raise self.no_page(url)

    def do_GET(self) -> None:
        """Answer a GET, or refuse it."""
        self._answer(self.get)

    def do_POST(self) -> None:
        """Answer a POST, or refuse it."""
        self._answer(lambda url: self.post(url, self.body()))

    def _answer(self, page: Callable[[SplitResult], None]) -> None:
        try:
            page(urlsplit(self.path))
        except ServedError as error:
            self.refuse(error)
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # one request's failure is its own; it is told on both sides
            sys.stderr.write(f"league: a request failed: {plain(str(error))}\n")
            self.refuse(ServedError(500, f"The request failed: {error}"))

    def no_page(self, url: SplitResult) -> ServedError:
        """Return the refusal of a page that there is not."""
        return ServedError(404, f"There is no {self.command} {url.path[:100]!r} here: only {self.pages}.")

    def handle(self) -> None:
        """Answer requests until the client goes."""
        with suppress(ConnectionError, TimeoutError):  # it has gone
            super().handle()

    def body(self) -> bytes:
        """Return the body of a request. Raises ServedError for one that has no length or too much of it."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise ServedError(411, "The request needs a Content-Length.")
        if int(length) > MAX_BODY:
            self.close_connection = True
            raise ServedError(413, f"The request has {int(length):,} bytes; the most that is read is {MAX_BODY:,}.")
        return self.rfile.read(int(length))

    def refuse(self, error: ServedError) -> None:
        """Answer with a refusal."""
        self.send_data(error.status, error.to_json())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request of HTTP, or has a method that no page takes, in the form of all refusals."""
        self.close_connection = True
        self.refuse(ServedError(code, message or explain or "This is no request that this server reads."))

    def send_data(self, status: int, data: dict[str, Any]) -> None:
        """Answer with a JSON object."""
        content = json.dumps(data, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_answer(self, request: ChatRequest, answer: Answer, tokenizer: ChatTokenizer) -> None:
        """Answer a request for chat completions, whole or streamed as it wants."""
        if request.stream:
            usage = bool(request.stream_options and request.stream_options.include_usage)
            self._send_events(answer_events(answer, tokenizer, usage=usage))
        else:
            self.send_data(200, answer_json(answer, tokenizer))

    def _send_events(self, events: Iterator[bytes]) -> None:
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


def base_url(address: tuple[Any, ...]) -> str:
    """Return where the API of a server at an address begins."""
    host, port = str(address[0]), address[1]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
