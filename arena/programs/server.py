"""The endpoint of programs: turns to take, chat completions under a turn's key, and what is played, over HTTP."""

from __future__ import annotations

import hashlib
import json
import select
import socket
import time
from collections.abc import Mapping
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import SplitResult, parse_qs

from arena.lm.tokenization import ChatTokenizer
from arena.programs.board import TurnBoard
from arena.programs.turns import ProgramTurn
from arena.records import Reply
from arena.serving.answers import Answer, model_json
from arena.serving.completions import Completed, TokenScore
from arena.serving.json_handler import JsonHandler, base_url
from arena.serving.requests import ChatRequest, ServedError, parse_request
from roles.role import ReplyForm

LONGEST_WAIT = 60  # seconds that a request for a turn is held at most


class ProgramServer(ThreadingHTTPServer):
    """Serves a board's turns. ``tokenizers`` are those of the policies that play them, by name.

    Raises OSError if the address cannot be had.
    """

    daemon_threads = True
    request_queue_size = 128  # of connections that come at once

    def __init__(self, address: tuple[str, int], board: TurnBoard, tokenizers: Mapping[str, ChatTokenizer]) -> None:
        self.board, self.tokenizers, self.started = board, tokenizers, int(time.time())
        super().__init__(address, _Handler)

    @property
    def url(self) -> str:
        """Where the API begins."""
        return base_url(self.server_address)

    def models(self) -> list[dict[str, Any]]:
        """Return the policies as /v1/models lists them."""
        return [model_json(name, self.started) for name in self.tokenizers]

    def answer(self, key: str, content: bytes) -> tuple[ChatRequest, Answer, ChatTokenizer]:
        """Return a request for completions, and its answer. Raises ServedError."""
        turn = self.board.turn(key)
        policy, role = turn.request.player, turn.request.role
        request = parse_request(content, policy)
        _check_sampling(request, turn)
        replies = self.board.complete(key, request.chat, request.tokens, request.n or 1)
        first = replies[0][0]
        most = min(request.tokens or role.max_reply_tokens, role.max_reply_tokens)
        done = [_completed(reply, most, logprobs=bool(request.logprobs)) for _, reply in replies]
        prompt = replies[0][1].trace
        tokens = len(prompt.prompt_ids) if prompt else 0
        answer = Answer(f"{_prefix(key)}{first}", int(time.time()), policy, tokens, done)
        return request, answer, self.tokenizers[policy]

    def play(self, key: str, content: bytes) -> dict[str, Any]:
        """Play what a request names; return the answer to it. Raises ServedError."""
        self.board.turn(key)
        try:
            data = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ServedError(400, f"The body is no JSON ({error}).") from None
        match data:
            case {"completion": str(name), **rest} if not rest.keys() - {"choice"}:
                choice, number = rest.get("choice", 0), name.removeprefix(_prefix(key))
                known = number != name and number.isdecimal()
                place = int(number) + choice if known and isinstance(choice, int) and choice >= 0 else -1
                reply = self.board.play(key, place)
            case {"content": str(text)} if len(data) == 1:
                reply = self.board.play(key, content=text)
            case _:
                raise ServedError(
                    400,
                    'The body should be {"completion": "chatcmpl-…"}, the id of a completion that was asked for under '
                    'this key (with "choice": K where n was more than 1), or {"content": "…"}, what one of them says.',
                )
        return {"object": "play", "content": reply.text}


class _Handler(JsonHandler):
    server: ProgramServer
    pages = "GET /v1/models, GET /v1/seats/next, POST /v1/chat/completions and POST /v1/seats/play"

    def get(self, url: SplitResult) -> None:
        if url.path == "/v1/models":
            self.send_data(200, {"object": "list", "data": self.server.models()})
        elif url.path == "/v1/seats/next":
            self.send_data(200, self._next(parse_qs(url.query)))
        else:
            raise self.no_page(url)

    def post(self, url: SplitResult, content: bytes) -> None:
        key = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if url.path == "/v1/chat/completions":
            self.send_answer(*self.server.answer(key, content))
        elif url.path == "/v1/seats/play":
            self.send_data(200, self.server.play(key, content))
        else:
            raise self.no_page(url)

    def _next(self, query: Mapping[str, list[str]]) -> dict[str, Any]:
        """Return a turn with its key, or no key if there is none to take for so long."""
        program, wait = query.get("program", [""])[-1], query.get("wait", ["20"])[-1]
        if not wait.isdecimal():
            raise ServedError(400, f"wait = {wait[:40]!r} should be a whole number of seconds.", "wait")
        board = self.server.board
        if (taken := board.take(program[:200], min(int(wait[:9]), LONGEST_WAIT), self._gone)) is None:
            return {"object": "seat", "key": None}
        key, turn = taken
        return {**turn.to_json(), "key": key, "seconds": board.limits.seconds}

    def _gone(self) -> bool:
        """Return whether whoever asks has closed the connection, as a process does that is killed."""
        try:
            ready, _, _ = select.select([self.connection], [], [], 0.0)
            return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True


def _prefix(key: str) -> str:
    """Return how the ids of a turn's completions begin."""
    return f"chatcmpl-{hashlib.blake2b(key.encode(), digest_size=12).hexdigest()}-"


def _check_sampling(request: ChatRequest, turn: ProgramTurn) -> None:
    """Refuse what would sample otherwise than the role does: the policy is trained as it was sampled."""
    role, legal = turn.request.role, turn.request.legal
    said: list[tuple[str, object, object]] = [
        ("temperature", request.temperature, role.temperature),
        ("top_k", None if request.top_k is None else max(request.top_k, 0), role.top_k),
        ("top_p", request.top_p, role.top_p),
        ("min_p", request.min_p, role.min_p),
    ]
    for name, given, own in said:
        if given not in (None, own):
            raise ServedError(
                400, f"{name} = {given} is not that of the role, {own}: leave it out, the run's settings decide.", name
            )
    if request.seed is not None:
        raise ServedError(400, "seed is not supported here: leave it out, the seeds of the run decide.", "seed")
    if request.top_logprobs:
        raise ServedError(400, "top_logprobs is not supported here: only what was sampled is known.", "top_logprobs")
    choice = request.structured_outputs
    if choice is not None and not (role.reply is ReplyForm.CHOICE and set(choice.choice) == set(legal)):
        form = f"one of {', '.join(legal)}" if role.reply is ReplyForm.CHOICE else "a free reply"
        raise ServedError(400, f"The role's reply is {form}: leave structured_outputs out.", "structured_outputs")


def _completed(reply: Reply, most: int, *, logprobs: bool) -> Completed:
    """Return a reply as chat completions are answered with."""
    trace = reply.trace
    if trace is None:  # of an engine that keeps none
        return Completed(reply.text, (), True, ())
    finished = trace.mask is not None or len(trace.reply_ids) < most
    pairs = zip(trace.reply_ids, trace.logprobs, strict=True)
    scores = tuple(TokenScore(token, logprob, ()) for token, logprob in pairs) if logprobs else ()
    return Completed(reply.text, trace.reply_ids, finished, scores)
