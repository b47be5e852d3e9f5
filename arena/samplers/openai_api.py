"""Models behind any server that speaks OpenAI's chat completions, a vLLM server too, as frozen players.

One thread with its own event loop sends for all matches; requests wait there for their turn, so ``submit`` never
blocks, and to cancel one closes its connection at once. The only importer of httpx2.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, NoReturn

import httpx2

from arena.errors import EngineError
from arena.loop_thread import LoopThread
from arena.records import Reply, ReplyRequest
from arena.remote.errors import ServerFailed, TryAgain
from arena.remote.pace import Pace, backoff, retry_after
from arena.remote.settings import OPENAI_URL, RemoteSettings
from arena.remote.usage import Usage, priced
from arena.remote.wire import (
    AGAIN,
    NO_QUOTA,
    Answer,
    advice,
    check_masked,
    complete_body,
    read_answer,
    reader,
    shown,
    to_body,
    tokens_expected,
    told,
)
from games.errors import UsageError, unknown_name

PATIENCE = 300.0  # seconds: a server that asks to wait longer has stopped the run
SECRET = 8  # letters; what is shorter, such as EMPTY for a server that takes any key, may be a word of a reply
PROBE_RETRIES = 2  # at most: who waits for the first match to begin would rather be told


class OpenAIApi:
    """A sampler for one model. Replies are not reproducible unless the server keeps to the seeds that it is sent."""

    def __init__(self, settings: RemoteSettings) -> None:
        """Start the thread; nothing is sent yet. Raises UsageError if a key is needed and not there."""
        self.settings = settings
        self._key = _key(settings)
        self._usage = Usage()
        self._jitter = random.Random()  # moves requests in time and changes nothing that is recorded
        self._requests, self._tokens = Pace(settings.requests_per_minute), Pace(settings.tokens_per_minute)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=None,  # an attempt has one for all it does
            limits=httpx2.Limits(max_connections=settings.concurrency),
        )
        self._thread = LoopThread(f"openai:{settings.model}")

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. The future raises ServerFailed; UsageError is raised for a role that it cannot play."""
        check_masked(self.settings, request)
        body = to_body(self.settings, request, request.rng.getrandbits(31))
        return self._begin(body, reader(self.settings, request), self.settings.retries)

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises EngineError if the server fails, UsageError as ``submit`` does."""
        futures: list[Future[Reply]] = []
        try:
            futures.extend(map(self.submit, requests))
            return [future.result() for future in futures]
        except ServerFailed as failed:
            players = ", ".join(sorted({request.player for request in requests}))
            raise EngineError(f"The engine OpenAIApi failed on a request for {players}: {failed}") from failed
        finally:
            for future in futures:
                future.cancel()

    def probe(self) -> None:
        """Ask the model for one word as it will be asked for replies. Raises UsageError if there is no answer."""
        chat = [{"role": "user", "content": "Answer with the word ready."}]
        body = complete_body(self.settings, chat, {}, temperature=1.0, seed=0)
        try:
            self._begin(body, str, min(self.settings.retries, PROBE_RETRIES)).result()
        except ServerFailed as failed:
            if failed.status == 404 and (names := self._models()):
                raise unknown_name(f"model at {self.settings.url}", self.settings.model, names) from failed
            raise UsageError(str(failed)) from failed

    def usage(self) -> Usage:
        """Return the account so far."""
        return priced(self._usage, self.settings.input_price, self.settings.output_price)

    def close(self) -> None:
        """Cancel what is under way and end the thread. The engine cannot be used after."""
        self._thread.close(self._client.aclose)

    def _begin(self, body: dict[str, Any], read: Callable[[str], str], retries: int) -> Future[Reply]:
        return self._thread.send(self._reply(body, read, retries))

    async def _reply(self, body: dict[str, Any], read: Callable[[str], str], retries: int) -> Reply:
        """Ask until there is an answer, ``retries`` times again at most. It keeps its slot while it waits."""
        failures = 0
        async with self._slots:
            while True:
                try:
                    answer = await self._attempt(body)
                    return Reply(read(answer.text))
                except TryAgain as failed:
                    failures += 1
                    if failures > retries:
                        raise self._failed(f"{failed}, at the last of {failures} attempts", failed.status) from failed
                    await asyncio.sleep((failed.wait or 0.0) + backoff(failures, self._jitter))
                self._count(retries=1)

    async def _attempt(self, body: dict[str, Any]) -> Answer:
        """Send once, when the rate limits allow. Raises TryAgain or ServerFailed."""
        expected, now = tokens_expected(body), time.monotonic()
        await asyncio.sleep(max(self._requests.take(1, now), self._tokens.take(expected, now)))
        self._count(requests=1)
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self._client.post(f"{self.settings.url}/chat/completions", json=body)
        except TimeoutError:
            raise TryAgain(f"it gave no answer within {self.settings.timeout:g} seconds") from None
        except httpx2.RequestError as error:
            raise TryAgain(f"the connection failed ({type(error).__name__}: {self._safe(str(error))})") from error
        text = self._safe(response.text)
        if response.status_code != 200:
            self._refuse(response, text)
        answer = read_answer(text)
        if answer.input_tokens is None or answer.output_tokens is None:
            self._count(uncounted=1)
        else:
            self._count(input_tokens=answer.input_tokens, output_tokens=answer.output_tokens)
            self._tokens.give_back(expected - answer.input_tokens - answer.output_tokens)
        return answer

    def _refuse(self, response: httpx2.Response, text: str) -> NoReturn:
        """Raise TryAgain for a refusal that may pass, ServerFailed for any other."""
        status, (message, code) = response.status_code, told(text)
        said = f"it answered {status} ({message})"
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        if status not in AGAIN or code == NO_QUOTA:
            raise self._failed(said, status, passes=False)
        if wait is not None and wait > PATIENCE:
            raise self._failed(f"{said} and asks to wait {wait:.0f} seconds", status)
        raise TryAgain(said, status, wait)

    def _failed(self, said: str, status: int | None, *, passes: bool = True) -> ServerFailed:
        what_to_do = advice(status, self.settings.variable, passes=passes)
        return ServerFailed(f"{self.settings.url}: {said}. {what_to_do}", status)

    def _models(self) -> list[str]:
        """Return the models that the server lists; none where it lists none."""

        async def ask() -> list[str]:
            async with asyncio.timeout(self.settings.timeout):
                listed = await self._client.get(f"{self.settings.url}/models")
            return [shown(self._safe(one["id"])) for one in listed.json()["data"]]

        try:
            return self._thread.send(ask()).result()
        except (TimeoutError, httpx2.HTTPError, ValueError, LookupError, TypeError):
            return []  # it only helps to find the name

    def _safe(self, text: str) -> str:
        """Return a text without the key, should a server or a library repeat it."""
        return text.replace(self._key, "[key]") if len(self._key) >= SECRET else text

    def _count(self, **more: int) -> None:
        """Add to the account. Only the thread calls it."""
        self._usage = self._usage._replace(**{name: getattr(self._usage, name) + n for name, n in more.items()})


def _key(settings: RemoteSettings) -> str:
    """Return the key from the environment; "" where none is sent. Raises UsageError, which never shows it."""
    name = settings.variable
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        whose = "OpenAI" if settings.url == OPENAI_URL else settings.url
        raise UsageError(
            f"openai:{settings.model} needs a key of {whose} in the environment variable {name}, which is not set. "
            f"Set it, or name another server: openai:{settings.model}@URL, for example http://localhost:8000/v1."
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"The key in {name} holds letters that no key has (not shown here). Set it anew.")
    return key
