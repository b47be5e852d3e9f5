"""Models behind any server with OpenAI's chat-completions API, such as vLLM's, as frozen players.

One thread with an event loop sends the requests of all matches. Requests wait in the loop, so ``submit`` never blocks,
and cancelling one closes its connection at once. The only importer of httpx2.
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
from arena.records import Reply, ReplyRequest
from arena.remote.chat_completions import (
    NO_QUOTA,
    RETRY_STATUSES,
    Completion,
    check_masked,
    complete_body,
    estimate_tokens,
    parse_completion,
    parse_error,
    printable,
    reply_parser,
    suggest_fix,
    to_body,
)
from arena.remote.errors import RetryableError, ServerError
from arena.remote.rate_limit import RateLimit, backoff, retry_after
from arena.remote.settings import OPENAI_URL, RemoteSettings
from arena.remote.usage import Usage, with_cost
from arena.samplers.event_loop import LoopThread
from games.common.errors import UsageError, unknown_name

MAX_RETRY_AFTER = 300.0  # seconds: a server that asks to wait longer stops the run
MIN_SECRET = 8  # characters; a shorter key, such as EMPTY for a server that takes any key, may be a word of a reply
PROBE_RETRIES = 2  # at most, so that a failure is reported soon


class OpenAIApi:
    """A sampler for one model. Replies are reproducible only if the server honours the seeds of requests."""

    def __init__(self, settings: RemoteSettings) -> None:
        """Start the thread; nothing is sent yet. Raises UsageError if a key is needed and missing."""
        self.settings = settings
        self._key = _key(settings)
        self._usage = Usage()
        self._jitter = random.Random()  # affects the time of requests, but nothing that is recorded
        self._requests, self._tokens = RateLimit(settings.requests_per_minute), RateLimit(settings.tokens_per_minute)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=None,  # ``_attempt`` limits the whole attempt
            limits=httpx2.Limits(max_connections=settings.concurrency),
        )
        self._thread = LoopThread(f"openai:{settings.model}")

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. The future raises ServerError. Raises UsageError for a role that cannot be played."""
        check_masked(self.settings, request)
        body = to_body(self.settings, request, request.rng.getrandbits(31))
        return self._start(body, reply_parser(self.settings, request), self.settings.retries)

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises EngineError if the server fails, UsageError as ``submit`` does."""
        futures: list[Future[Reply]] = []
        try:
            futures.extend(map(self.submit, requests))
            return [future.result() for future in futures]
        except ServerError as error:
            players = ", ".join(sorted({request.player for request in requests}))
            raise EngineError(f"The engine OpenAIApi failed on a request for {players}: {error}") from error
        finally:
            for future in futures:
                future.cancel()

    def probe(self) -> None:
        """Request one word in the way of later requests. Raises UsageError if there is no response."""
        chat = [{"role": "user", "content": "Answer with the word ready."}]
        body = complete_body(self.settings, chat, {}, temperature=1.0, seed=0)
        try:
            self._start(body, str, min(self.settings.retries, PROBE_RETRIES)).result()
        except ServerError as error:
            if error.status == 404 and (names := self._models()):
                raise unknown_name(f"model at {self.settings.url}", self.settings.model, names) from error
            raise UsageError(str(error)) from error

    def usage(self) -> Usage:
        """Return the usage so far."""
        return with_cost(self._usage, self.settings.input_price, self.settings.output_price)

    def close(self) -> None:
        """Cancel pending requests and end the thread. The engine cannot be used afterwards."""
        self._thread.close(self._client.aclose)

    def _start(self, body: dict[str, Any], parse: Callable[[str], str], retries: int) -> Future[Reply]:
        return self._thread.submit(self._reply(body, parse, retries))

    async def _reply(self, body: dict[str, Any], parse: Callable[[str], str], retries: int) -> Reply:
        """Send until there is a reply, with at most ``retries`` retries. Attempts share one slot."""
        failures = 0
        async with self._slots:
            while True:
                try:
                    completion = await self._attempt(body)
                    return Reply(parse(completion.text))
                except RetryableError as error:
                    failures += 1
                    if failures > retries:
                        raise self._failure(f"{error}, at the last of {failures} attempts", error.status) from error
                    await asyncio.sleep((error.wait or 0.0) + backoff(failures, self._jitter))
                self._count(retries=1)

    async def _attempt(self, body: dict[str, Any]) -> Completion:
        """Send once, as soon as the rate limits allow. Raises RetryableError or ServerError."""
        expected, now = estimate_tokens(body), time.monotonic()
        await asyncio.sleep(max(self._requests.take(1, now), self._tokens.take(expected, now)))
        self._count(requests=1)
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await self._client.post(f"{self.settings.url}/chat/completions", json=body)
        except TimeoutError:
            raise RetryableError(f"it gave no answer within {self.settings.timeout:g} seconds") from None
        except httpx2.RequestError as error:
            raise RetryableError(f"the connection failed ({type(error).__name__}: {self._safe(str(error))})") from error
        text = self._safe(response.text)
        if response.status_code != 200:
            self._raise_refusal(response, text)
        completion = parse_completion(text)
        if completion.input_tokens is None or completion.output_tokens is None:
            self._count(uncounted=1)
        else:
            self._count(input_tokens=completion.input_tokens, output_tokens=completion.output_tokens)
            self._tokens.give_back(expected - completion.input_tokens - completion.output_tokens)
        return completion

    def _raise_refusal(self, response: httpx2.Response, text: str) -> NoReturn:
        """Raise RetryableError for a refusal that may pass, ServerError for any other."""
        status, (message, code) = response.status_code, parse_error(text)
        problem = f"it answered {status} ({message})"
        wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
        if status not in RETRY_STATUSES or code == NO_QUOTA:
            raise self._failure(problem, status, passes=False)
        if wait is not None and wait > MAX_RETRY_AFTER:
            raise self._failure(f"{problem} and asks to wait {wait:.0f} seconds", status)
        raise RetryableError(problem, status, wait)

    def _failure(self, problem: str, status: int | None, *, passes: bool = True) -> ServerError:
        remedy = suggest_fix(status, self.settings.variable, passes=passes)
        return ServerError(f"{self.settings.url}: {problem}. {remedy}", status)

    def _models(self) -> list[str]:
        """Return the names of the models that the server lists; nothing if it cannot list them."""

        async def list_models() -> list[str]:
            async with asyncio.timeout(self.settings.timeout):
                response = await self._client.get(f"{self.settings.url}/models")
            return [printable(self._safe(model["id"])) for model in response.json()["data"]]

        try:
            return self._thread.submit(list_models()).result()
        except (TimeoutError, httpx2.HTTPError, ValueError, LookupError, TypeError):
            return []  # the list only improves an error message

    def _safe(self, text: str) -> str:
        """Return a text with the key masked, should a server or a library repeat it."""
        return text.replace(self._key, "[key]") if len(self._key) >= MIN_SECRET else text

    def _count(self, **counts: int) -> None:
        """Add to the usage. Only the loop's thread calls it."""
        self._usage = self._usage._replace(**{name: getattr(self._usage, name) + n for name, n in counts.items()})


def _key(settings: RemoteSettings) -> str:
    """Return the key from the environment; "" where none is needed. A UsageError never shows the key."""
    name = settings.variable
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        owner = "OpenAI" if settings.url == OPENAI_URL else settings.url
        raise UsageError(
            f"openai:{settings.model} needs a key of {owner} in the environment variable {name}, which is not set. "
            f"Set it, or name another server: openai:{settings.model}@URL, for example http://localhost:8000/v1."
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"The key in {name} holds characters that no key has (not shown here). Set it again.")
    return key
