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
from typing import Any, NamedTuple, NoReturn, TypeVar

import httpx2

from arena.errors import EngineError, RetryableError, ServerError, UnusableAnswerError
from arena.event_loop import LoopThread
from arena.records import Reply, ReplyRequest, ScoredReply
from arena.remote.chat_completions import (
    NO_QUOTA,
    RETRY_STATUSES,
    Completion,
    check_masked,
    complete_body,
    estimate_tokens,
    parse_completion,
    parse_error,
    parse_models,
    printable,
    reply_parser,
    suggest_fix,
    to_body,
)
from arena.remote.rate_limit import RateLimit, backoff, retry_after
from arena.remote.secret import Secret
from arena.remote.settings import OPENAI_URL, RemoteSettings
from arena.remote.usage import Usage, with_cost
from games.common.errors import UsageError, unknown_name
from roles.role import OnIllegal

MAX_RETRY_AFTER = 300.0  # seconds: a server that asks to wait longer stops the run
PROBE_RETRIES = 2  # at most, so that a failure is reported soon
LOGPROBS = {"logprobs": True}  # further fields of a request
REFUSED_FIELD = (400, 403, 404, 422, 501)  # statuses of servers that do not take a field
Answer = TypeVar("Answer", Reply, ScoredReply)


class _Response(NamedTuple):
    """What a server answered."""

    status: int
    text: str  # without the key
    cut: bool  # it was longer than is read
    retry_after: str | None  # the header


class OpenAIApi:
    """A sampler for one model. Replies are reproducible only if the server honours the seeds of requests."""

    def __init__(self, settings: RemoteSettings) -> None:
        """Start the thread; nothing is sent yet. Raises UsageError if a key is needed and missing."""
        self.settings = settings
        key = _key(settings)
        self._secret = Secret(key)
        self._usage = Usage()
        self._tells_logprobs: bool | None = False if "logprobs" in settings.leave_out else None  # None: not asked yet
        self._jitter = random.Random()  # affects the time of requests, but nothing that is recorded
        self._requests, self._tokens = RateLimit(settings.requests_per_minute), RateLimit(settings.tokens_per_minute)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=None,  # ``_attempt`` limits the whole attempt
            limits=httpx2.Limits(max_connections=settings.concurrency),
        )
        self._thread = LoopThread(f"openai:{settings.model}")

    def submit(self, request: ReplyRequest) -> Future[Reply]:
        """See ``Streaming``. The future raises ServerError. Raises UsageError for a role that cannot be played."""
        return self._thread.submit(self._reply(*self._prepared(request)))

    def submit_scored(self, request: ReplyRequest) -> Future[ScoredReply]:
        """Do as ``submit``, and ask for the reply's probability as well."""
        body, parse, retries, must_answer = self._prepared(request)
        return self._thread.submit(self._scored(body | LOGPROBS, parse, retries, must_answer))

    def sample(self, requests: Sequence[ReplyRequest]) -> list[Reply]:
        """Return one reply for each request. Raises EngineError if the server fails, UsageError as ``submit`` does."""
        return self.all_of(self.submit, requests)

    def score(self, requests: Sequence[ReplyRequest]) -> list[ScoredReply]:
        """Return one reply for each request, with its probability. Raises as ``sample``."""
        return self.all_of(self.submit_scored, requests)

    def tells_logprobs(self) -> bool:
        """Return whether the server tells log-probs: asked once, by a request that it may refuse."""
        if self._tells_logprobs is None:
            body = self._one_word() | LOGPROBS
            try:
                answer = self._thread.submit(self._scored(body, str, min(self.settings.retries, PROBE_RETRIES), True))
                self._tells_logprobs = answer.result().logprob is not None
            except ServerError as error:
                if error.status not in REFUSED_FIELD:
                    raise UsageError(str(error)) from error
                self._tells_logprobs = False
        return self._tells_logprobs

    def all_of(
        self, submit: Callable[[ReplyRequest], Future[Answer]], requests: Sequence[ReplyRequest]
    ) -> list[Answer]:
        """Return the answers to all requests; after a failure none is waited for."""
        futures: list[Future[Answer]] = []
        try:
            futures.extend(map(submit, requests))
            return [future.result() for future in futures]
        except ServerError as error:
            players = ", ".join(sorted({request.player for request in requests}))
            raise EngineError(f"The engine OpenAIApi failed on a request for {players}: {error}") from error
        finally:
            for future in futures:
                future.cancel()

    def probe(self) -> None:
        """Request one word in the way of later requests. Raises UsageError if there is no response."""
        try:
            self._thread.submit(
                self._reply(self._one_word(), str, min(self.settings.retries, PROBE_RETRIES), True)
            ).result()
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

    def _one_word(self) -> dict[str, Any]:
        """Return the body of a request for one word."""
        chat = [{"role": "user", "content": "Answer with the word ready."}]
        return complete_body(self.settings, chat, {}, temperature=1.0, seed=0)

    def _prepared(self, request: ReplyRequest) -> tuple[dict[str, Any], Callable[[str], str], int, bool]:
        """Return the body of a request, and how its answer is taken: parsed, retried, and whether it must come."""
        check_masked(self.settings, request)
        body = to_body(self.settings, request, request.rng.getrandbits(31))
        masked = request.role.conduct.on_illegal is OnIllegal.MASK
        return body, reply_parser(self.settings, request), self.settings.retries, masked

    async def _reply(self, body: dict[str, Any], parse: Callable[[str], str], retries: int, must_answer: bool) -> Reply:
        return Reply((await self._scored(body, parse, retries, must_answer)).text)

    async def _scored(
        self, body: dict[str, Any], parse: Callable[[str], str], retries: int, must_answer: bool
    ) -> ScoredReply:
        """Send until there is a reply, with at most ``retries`` retries. Attempts share one slot.

        A server that answers, but nothing that can be used, has given an empty reply, which is illegal: the role's
        conduct says what follows. With ``must_answer`` that is a ServerError, as a failure to answer always is.
        """
        failures = 0
        async with self._slots:
            while True:
                try:
                    completion = await self._attempt(body)
                    return ScoredReply(parse(completion.text), completion.logprob)
                except RetryableError as error:
                    failures += 1
                    if failures > retries:
                        if isinstance(error, UnusableAnswerError) and not must_answer:
                            self._count(unusable=1)
                            return ScoredReply("", None)
                        raise self._failure(f"{error}, at the last of {failures} attempts", error.status) from error
                    await asyncio.sleep((error.wait or 0.0) + backoff(failures, self._jitter))
                self._count(retries=1)

    async def _attempt(self, body: dict[str, Any]) -> Completion:
        """Send once, as soon as the rate limits allow. Raises RetryableError or ServerError."""
        expected, now = estimate_tokens(body), time.monotonic()
        await asyncio.sleep(max(self._requests.take(1, now), self._tokens.take(expected, now)))
        self._count(requests=1)
        response = await self._exchange("POST", "/chat/completions", body)
        if response.status != 200:
            self._raise_refusal(response)
        if response.cut:
            raise UnusableAnswerError(f"it answered more than {self.settings.max_response_bytes:,} bytes")
        completion = parse_completion(response.text)
        if completion.input_tokens is None or completion.output_tokens is None:
            self._count(uncounted=1)
        else:
            self._count(input_tokens=completion.input_tokens, output_tokens=completion.output_tokens)
            self._tokens.give_back(expected - completion.input_tokens - completion.output_tokens)
        return completion

    async def _exchange(self, method: str, path: str, body: Any = None) -> _Response:
        """Send a request; return the response, of which no more is read than may be used.

        Its text is read as UTF-8, which JSON is (RFC 8259, 8.1), whatever the header says. Raises RetryableError.
        """
        content, most = bytearray(), self.settings.max_response_bytes
        try:
            async with (
                asyncio.timeout(self.settings.timeout),
                self._client.stream(method, f"{self.settings.url}{path}", json=body) as response,
            ):
                async for piece in response.aiter_bytes():  # uncompressed, in pieces of bounded size
                    content += piece
                    if len(content) > most:
                        break  # which closes the connection
        except TimeoutError:
            late = UnusableAnswerError if self.settings.late == "empty" else RetryableError
            raise late(f"it gave no answer within {self.settings.timeout:g} seconds") from None
        except httpx2.RequestError as error:
            problem = f"{type(error).__name__}: {printable(self._secret.mask(str(error)))}"
            raise RetryableError(f"the connection failed ({problem})") from None
        text = self._secret.mask(content[:most].decode("utf-8-sig", errors="replace"))
        return _Response(response.status_code, text, len(content) > most, response.headers.get("Retry-After"))

    def _raise_refusal(self, response: _Response) -> NoReturn:
        """Raise RetryableError for a refusal that may pass, ServerError for any other."""
        status, (message, code) = response.status, parse_error(response.text)
        problem = f"it answered {status} ({message})"
        wait = retry_after(response.retry_after, datetime.now(UTC))
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
            return parse_models((await self._exchange("GET", "/models")).text)

        try:
            return self._thread.submit(list_models()).result()
        except RetryableError:
            return []  # the list only improves an error message

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
