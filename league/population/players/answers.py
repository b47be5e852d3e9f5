"""Answers of endpoints on disk, so that none is asked for twice: what a killed command has paid for is kept. A file of
JSON lines, one for each answer, each written whole and forced to disk as it comes. An answer is found again by its
player, its game and seat, what the seat saw, the hash of the whole request, and its number: the seed that the request
drew from its match's or table's generator. So the same command asks for the same numbers, and continues where it was
killed; and two matches with the same request have separate answers. A line that a kill cut short is dropped.

The model behind a name may change at its server. The file then holds answers of both: start a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from arena.records import Reply, ReplyRequest, ScoredReply
from arena.remote.settings import RemoteSettings
from arena.remote.usage import Usage
from games.common.errors import DamagedFile, UsageError
from games.common.files import refuse_special
from league.population.storage.lock import held_file
from roles.prompts import messages

if TYPE_CHECKING:
    from arena.samplers.openai_api import OpenAIApi

IF_DAMAGED = "Move it away; its answers are then asked for again."


class AnswerKey(NamedTuple):
    """What finds an answer again."""

    player: str
    game: str
    seat: int
    state: str  # what the seat saw
    prompt: str  # SHA-256 of the messages, the legal replies and the form of the reply
    number: int  # what the request drew


def key_of(request: ReplyRequest, number: int) -> AnswerKey:
    """Return the key of a request's answer."""
    role = request.role
    chat = messages(role, request.observation, request.legal, request.refusals, request.form)
    how = [role.reply, role.temperature, role.max_reply_tokens, *role.truncation, role.conduct.on_illegal]
    asked = json.dumps([chat, request.legal, how, request.chat], ensure_ascii=True).encode()
    prompt = hashlib.sha256(asked).hexdigest()
    return AnswerKey(request.player, role.game, role.seat, request.observation, prompt, number)


class AnswerStore:
    """The file; a context manager. One process at a time has it. Raises UsageError where it cannot be used."""

    def __init__(self, path: Path) -> None:
        refuse_special(path)
        self.path = path
        self._lock, self._known = threading.Lock(), dict[AnswerKey, ScoredReply]()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._held = held_file(path)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise UsageError(f"The answers {path} cannot be written ({error.strerror}).") from error
        try:
            self._read()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)
        self._held.release()

    def __len__(self) -> int:
        return len(self._known)

    def kept(self, engine: OpenAIApi) -> KeptPlayer:
        """Return an endpoint's engine that asks only for missing answers."""
        return KeptPlayer(engine, self)

    def get(self, key: AnswerKey) -> ScoredReply | None:
        """Return an answer; None for one that is not there."""
        return self._known.get(key)

    def add(self, key: AnswerKey, answer: ScoredReply) -> None:
        """Keep an answer: it is on disk when this returns. Any thread may call it."""
        line = json.dumps([*key, *answer], ensure_ascii=True).encode() + b"\n"
        with self._lock:
            self._known[key] = answer
            os.write(self._handle, line)
            os.fsync(self._handle)

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                *key, text, logprob = json.loads(line)
                self._known[AnswerKey(*key)] = ScoredReply(text, logprob)
            except (ValueError, TypeError) as error:
                raise DamagedFile(self.path, f"line {number} is not an answer", IF_DAMAGED) from error
        if whole < len(content):
            os.ftruncate(self._handle, whole)  # a kill cut the last line short


def kept_in(path: str | Path | None) -> AbstractContextManager[AnswerStore | None]:
    """Return the answers of a file, as a context manager; of None where there is no file."""
    return nullcontext() if path is None else AnswerStore(Path(path).expanduser())


class KeptPlayer:
    """The engine of an endpoint whose answers are kept: it asks only for those that are missing."""

    def __init__(self, engine: OpenAIApi, answers: AnswerStore) -> None:
        self._engine, self._answers = engine, answers

    @property
    def settings(self) -> RemoteSettings:
        """The settings of the endpoint."""
        return self._engine.settings

    def usage(self) -> Usage:
        """Return the usage of new requests, without the stored answers."""
        return self._engine.usage()

    def close(self) -> None:
        """Close the endpoint; the file stays open."""
        self._engine.close()

    def probe(self) -> None:
        """Request one word, which is not kept."""
        self._engine.probe()

    def tells_logprobs(self) -> bool:
        """See ``TellsLogprobs``."""
        return self._engine.tells_logprobs()

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``."""
        return self._kept(request, self._engine.submit, lambda kept: Reply(kept.text))

    def submit_scored(self, request: ReplyRequest) -> Future[ScoredReply]:
        """Do as ``submit``, with the reply's probability."""
        return self._kept(request, self._engine.submit_scored, lambda kept: kept)

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """See ``Sampler``."""
        return self._engine.all_of(self.submit, requests)

    def score(self, requests: Sequence[ReplyRequest]) -> list[ScoredReply]:
        """See ``TellsLogprobs``."""
        return self._engine.all_of(self.submit_scored, requests)

    def _kept(
        self,
        request: ReplyRequest,
        submit: Callable[[ReplyRequest], Future[Any]],
        take: Callable[[ScoredReply], Any],
    ) -> Future[Any]:
        """Return the stored answer; else ask, under the number that the engine will draw, and keep the answer."""
        before = request.rng.getstate()
        key = key_of(request, request.rng.getrandbits(31))
        if (known := self._answers.get(key)) is not None:
            done: Future[Any] = Future()
            done.set_result(take(known))
            return done
        request.rng.setstate(before)
        kept: Future[Any] = Future()
        asked = submit(request)

        def keep(future: Future[Any]) -> None:
            if future.cancelled() or kept.cancelled():
                kept.cancel()
            elif (error := future.exception()) is not None:
                kept.set_exception(error)
            else:
                answer = future.result()
                self._answers.add(key, ScoredReply(answer.text, getattr(answer, "logprob", None)))
                kept.set_result(answer)

        asked.add_done_callback(keep)
        kept.add_done_callback(lambda future: asked.cancel() if future.cancelled() else None)
        return kept
