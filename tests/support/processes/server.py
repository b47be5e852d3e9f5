"""A real HTTP server on localhost that speaks OpenAI's chat completions, and misbehaves as a test asks."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

MODELS = ["pocket-large", "pocket-small"]
INPUT_TOKENS, OUTPUT_TOKENS = 11, 3  # reported for each completion


class ReceivedRequest(NamedTuple):
    """A request for a completion as it arrived."""

    at: float  # time.monotonic()
    key: str | None  # the Authorization header
    body: dict


class Response(NamedTuple):
    """A response; ``cut``: the connection is closed after half of it.

    ``data`` is an object to send as JSON, bytes, or an iterator of bytes to send in chunks. With ``bare``, the bytes
    are all that is sent, status line and headers included, and the connection is closed.
    """

    status: int = 200
    data: object = None
    headers: dict = {}  # noqa: RUF012 - never changed
    cut: bool = False
    bare: bool = False


def completion(text, usage=True):
    counts = {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    data = {"object": "chat.completion", "model": MODELS[0], "choices": [choice]}
    return Response(data=data | ({"usage": counts} if usage else {}))


def error(status, message, code=None, **headers):
    return Response(status, {"error": {"message": message, "code": code}}, headers)


class Server:
    """Answers each request for a completion by ``behave(number, body)``, numbers counted from 0; a context manager."""

    def __init__(self, behave=lambda number, body: completion("[bet]")):
        self.behave, self.seen = behave, []
        self.at_once = self.most_at_once = 0
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.http = _Http(("127.0.0.1", 0), type("Bound", (_Handler,), {"server_of_test": self}))
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def silence(self, seconds=60.0):
        """Wait, but no longer than the server is up."""
        self.stopped.wait(seconds)

    def complete(self, key, body):
        with self.lock:
            number = len(self.seen)
            self.seen.append(ReceivedRequest(time.monotonic(), key, body))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self.behave(number, body)
        finally:
            with self.lock:
                self.at_once -= 1


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of connections that come at once; the default of 5 turns some away


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept

    def handle(self):
        with suppress(ConnectionError):  # the client has gone
            super().handle()

    def do_GET(self):
        models = {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}
        self.send(Response(data=models) if self.path == "/v1/models" else error(404, "no such page"))

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        if len(content) < length:  # the client has gone
            self.close_connection = True
            return
        body = json.loads(content)
        if self.path == "/v1/chat/completions":
            self.send(self.server_of_test.complete(self.headers["Authorization"], body))
        else:
            self.send(error(404, "no such page"))

    def send(self, response):
        if isinstance(response.data, Iterator):
            self.send_chunks(response)
            return
        content = response.data if isinstance(response.data, bytes) else json.dumps(response.data).encode()
        if response.bare:
            with suppress(ConnectionError):
                self.wfile.write(content)
            self.close_connection = True
            return
        with suppress(ConnectionError):  # the client may have gone
            self.send_response(response.status)
            for name, value in {"Content-Length": len(content), **response.headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if response.cut else content)
        self.close_connection = response.cut or self.close_connection

    def send_chunks(self, response):
        with suppress(ConnectionError):
            self.send_response(response.status)
            for name, value in {"Transfer-Encoding": "chunked", **response.headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            for piece in response.data:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_):
        pass
