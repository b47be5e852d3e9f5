"""The endpoint of programs: turns to take, chat completions under a turn's key, and what is played, over HTTP."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from arena.lm.tokenization import ChatTokenizer
from arena.programs.board import Asker, Handed, TurnBoard
from arena.programs.turns import ProgramTurn
from arena.records import Reply
from arena.serving.answers import Answer, model_json, written
from arena.serving.completions import Completed, TokenScore
from arena.serving.requests import ChatRequest, ServedError, check_characters, parse_object, parse_request
from arena.serving.web_pages import Call, ClientGone, Events
from arena.serving.web_server import WebServer
from games.common.errors import UsageError
from games.common.validation import validated
from roles.role import ReplyForm

LISTED = "GET /v1/models, POST /v1/seats/next, POST /v1/chat/completions and POST /v1/seats/play"

_Word = Annotated[str, Field(max_length=200)]


class NextRequest(BaseModel):
    """Who asks for a turn, and for which."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: _Word = Field("", description="the program's name, by which it gets its turn back after a restart")
    token: _Word = Field("", description="the token from the first answer, which proves that the name is its own")
    role: _Word = Field("", description="GAME/ROLE to take turns for; left out: any")
    wait: int = Field(20, ge=0, le=60, description="seconds that it waits for a turn")


class ProgramServer(WebServer):
    """Serves a board's turns. ``tokenizers`` are the policies', by name.

    ``roles`` are those whose turns there are (empty: not known), ``hosts`` as ``WebServer``. Raises OSError likewise.
    """

    def __init__(
        self,
        address: tuple[str, int],
        board: TurnBoard,
        tokenizers: Mapping[str, ChatTokenizer],
        roles: Sequence[str] = (),
        hosts: Collection[str] = (),
    ) -> None:
        self.board, self.tokenizers, self.roles, self.started = board, tokenizers, roles, int(time.time())
        pages = {
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/seats/next"): self._next,
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/v1/seats/play"): self._play,
        }
        super().__init__(address, pages, LISTED, hosts)

    async def _models(self, _: Call) -> dict[str, Any]:
        return {"object": "list", "data": [model_json(name, self.started) for name in self.tokenizers]}

    async def _next(self, call: Call) -> dict[str, Any]:
        """Return a turn with its key, or no key if there is none to take for so long."""
        data = parse_object(await call.body(), "program, wait and role, as {}")
        try:
            request = validated(NextRequest, data)
        except UsageError as error:
            raise ServedError(400, str(error)) from None
        if request.role and self.roles and request.role not in self.roles:
            raise ServedError(400, f"Programs take the turns of {' and '.join(self.roles)} here.", "role")
        owner = {"token": self.board.token(request.program, request.token)} if request.program else {}
        future = self.board.ask(Asker(request.program, request.role))
        handed: Handed | None = None
        try:
            [handed] = await call.wait([future], request.wait)
        except TimeoutError:
            if not future.cancel():  # it came at the last moment
                handed = future.result()
        except ClientGone:
            if not future.cancel():
                self.board.give_back(future.result()[0])
            raise
        if handed is None:
            return {"object": "seat", "key": None, **owner}
        key, turn = handed
        return {**turn.to_json(), "key": key, "seconds": self.board.limits.seconds, **owner}

    async def _complete(self, call: Call) -> dict[str, Any] | Events:
        key, board = call.key, self.board
        turn = board.turn(key)
        request = await call.in_thread(self._read, turn, await call.body())
        try:
            asked = board.complete(key, request.chat, request.tokens, request.n or 1)
            replies = await call.wait(asked)
        except UsageError as error:
            raise ServedError(400, str(error), "messages") from None
        first = board.keep(key, replies)
        return await call.in_thread(self._write, request, turn, f"{_prefix(key)}{first}", replies)

    def _read(self, turn: ProgramTurn, content: bytes) -> ChatRequest:
        request = parse_request(content, turn.request.player)
        _check_sampling(request, turn)
        check_characters(request.chat, self.tokenizers[turn.request.player])
        return request

    def _write(
        self, request: ChatRequest, turn: ProgramTurn, name: str, replies: Sequence[Reply]
    ) -> dict[str, Any] | Events:
        policy, role = turn.request.player, turn.request.role
        most = min(request.tokens or role.max_reply_tokens, role.max_reply_tokens)
        done = [_completed(reply, most, logprobs=bool(request.logprobs)) for reply in replies]
        prompt = replies[0].trace
        answer = Answer(name, int(time.time()), policy, len(prompt.prompt_ids) if prompt else 0, done)
        return written(request, answer, self.tokenizers[policy])

    async def _play(self, call: Call) -> dict[str, Any]:
        """Play what a request names."""
        key = call.key
        self.board.turn(key)
        match parse_object(await call.body(), "completion or content"):
            case {"completion": str(name), **rest} if not rest.keys() - {"choice"}:
                choice, number = rest.get("choice", 0), name.removeprefix(_prefix(key))
                known = number != name and number.isdecimal() and len(number) < 10
                place = int(number) + choice if known and isinstance(choice, int) and choice >= 0 else -1
                reply = self.board.play(key, place)
            case {"content": str(text), **rest} if not rest:
                reply = self.board.play(key, content=text)
            case _:
                raise ServedError(
                    400,
                    'The body should be {"completion": "chatcmpl-…"}, the id of a completion that was asked for under '
                    'this key (with "choice": K where n was more than 1), or {"content": "…"}, what one of them says.',
                )
        return {"object": "play", "content": reply.text}


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
                400, f"{name} = {given} differs from the role's, {own}: leave it out; the run's settings decide.", name
            )
    if request.seed is not None:
        raise ServedError(400, "seed is not supported here: leave it out; the run's seeds decide.", "seed")
    if request.top_logprobs:
        raise ServedError(
            400, "top_logprobs is not supported here: only the sampled tokens' log-probs are known.", "top_logprobs"
        )
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
