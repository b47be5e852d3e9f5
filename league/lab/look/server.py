"""The page and its views over HTTP: on this machine only, behind a token in the address. Everything is below
``/TOKEN/``, so that the page uses relative addresses and needs no cookie; without the token there is nothing. The
address of a view is behind the #, which a browser never sends.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from contextlib import nullcontext
from typing import Any

from arena.serving.requests import ServedError
from arena.serving.web_pages import Call, Document
from arena.serving.web_server import WebServer
from games.common.errors import UsageError
from games.common.files import parse_json
from league.lab.look.page import KINDS, POLICY, asset, page
from league.lab.look.run_files import RunFiles
from league.lab.look.views import LOADING, VIEWS, as_json, view

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
ACTIONS = ("ask", "begin", "move")  # which load weights and play: POST


class LookServer(WebServer):
    """Answers with a run's page and views. Raises OSError where the port is taken."""

    def __init__(self, run: RunFiles, port: int) -> None:
        self._run, self.token = run, secrets.token_urlsafe(16)
        self._at_play = threading.Lock()  # weights are loaded and asked by one request at a time
        self._games: Any = None  # matches that somebody plays here, made with the first
        pages = {
            ("GET", "/{token}/"): self._page,
            ("GET", "/{token}/{name}"): self._asset,
            ("GET", "/{token}/api/{view}"): self._view,
            ("POST", "/{token}/api/{view}"): self._action,
        }
        super().__init__(("127.0.0.1", port), pages, "the page that `league look` names, with its token")

    @property
    def address(self) -> str:
        """Where the page is, with its token."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def stop(self) -> None:
        """Answer no more, and forget the models that were loaded."""
        super().stop()
        with self._at_play:
            self._run.close()

    def _check(self, call: Call) -> None:
        """Raise ServedError for a request without the token."""
        if not hmac.compare_digest(call.named("token").encode(), self.token.encode()):
            raise ServedError(404, "There is nothing here. Open the full address that `league look` printed.")

    async def _page(self, call: Call) -> Document:
        self._check(call)
        return Document(page(), "text/html; charset=utf-8", {**HEADERS, "Content-Security-Policy": POLICY})

    async def _asset(self, call: Call) -> Document:
        self._check(call)
        name = call.named("name")
        kind = KINDS.get(name.rpartition(".")[2])
        content = None if kind is None else asset(name)
        if content is None or kind is None:
            raise ServedError(404, f"There is no {name[:100]!r} here.")
        return Document(content, kind, HEADERS)

    async def _view(self, call: Call) -> Document:
        self._check(call)
        content = await call.in_thread(self._answer, call.named("view"), call.query)
        return Document(content, "application/json", HEADERS)

    def _answer(self, name: str, query: dict[str, str]) -> bytes:
        """Return a view, or the sentence of why there is none. Raises ServedError for an unknown view."""
        if name not in VIEWS:
            raise ServedError(404, f"There is no view {name[:100]!r}.")
        try:
            with self._at_play if name in LOADING else nullcontext():
                return as_json(view(self._run, name, query)).encode()
        except UsageError as error:
            return as_json({"error": str(error)}).encode()

    async def _action(self, call: Call) -> Document:
        self._check(call)
        name, body = call.named("view"), await call.body()
        if name not in ACTIONS:
            raise ServedError(404, f"There is no {name[:100]!r} here: only {', '.join(ACTIONS)}.")
        return Document(await call.in_thread(self._play, name, body), "application/json", HEADERS)

    def _play(self, name: str, body: bytes) -> bytes:
        try:
            request = parse_json(body.decode())
        except ValueError:
            request = None
        if not isinstance(request, dict) or not all(isinstance(key, str) for key in request):
            raise ServedError(400, "The body should be a JSON object.")
        with self._at_play:
            from league.lab.look.asking import Games

            self._games = self._games or Games(self._run)
            try:
                return as_json(getattr(self._games, name)(request)).encode()
            except UsageError as error:
                return as_json({"error": str(error)}).encode()
