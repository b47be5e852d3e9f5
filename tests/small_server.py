"""A real HTTP server on localhost that speaks OpenAI's chat completions, and misbehaves as it is told."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

MODELS = ["pocket-large", "pocket-small"]
READ, WRITTEN = 11, 3  # tokens that it counts for each answer


class Seen(NamedTuple):
    """A request for a completion as it arrived."""

    at: float  # time.monotonic()
    key: str | None  # the Authorization header
    body: dict


class Answer(NamedTuple):
    """What is sent back; ``cut``: the connection is closed after half of it."""

    status: int = 200
    data: object = None
    headers: dict = {}  # noqa: RUF012 - never changed
    cut: bool = False


def completion(text, usage=True):
    counted = {"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    data = {"object": "chat.completion", "model": MODELS[0], "choices": [choice]}
    return Answer(data=data | ({"usage": counted} if usage else {}))


def error(status, message, code=None, **headers):
    return Answer(status, {"error": {"message": message, "code": code}}, headers)


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
            self.seen.append(Seen(time.monotonic(), key, body))
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
        with suppress(ConnectionError):  # who asked has gone
            super().handle()

    def do_GET(self):
        known = {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}
        self.answer(Answer(data=known) if self.path == "/v1/models" else error(404, "no such page"))

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        content = self.rfile.read(length)
        if len(content) < length:  # who asked has gone
            self.close_connection = True
            return
        body = json.loads(content)
        if self.path == "/v1/chat/completions":
            self.answer(self.server_of_test.complete(self.headers["Authorization"], body))
        else:
            self.answer(error(404, "no such page"))

    def answer(self, answer):
        content = answer.data if isinstance(answer.data, bytes) else json.dumps(answer.data).encode()
        with suppress(ConnectionError):  # who asked may have gone
            self.send_response(answer.status)
            for name, value in {"Content-Length": len(content), **answer.headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if answer.cut else content)
        self.close_connection = answer.cut or self.close_connection

    def log_message(self, *_):
        pass
