"""The pages of an HTTP API: which clients are allowed, size limits, answers, and refusals in OpenAI's form.

The one place that imports Starlette. A browser is the client to be careful with: any page that a person opens can send
requests to this machine. So a request must name a host that is ours (a name that an attacker points at 127.0.0.1 is
not), a POST from another site's page is refused, and only POST, with a content type that no HTML form sends, changes
anything.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from arena.serving.requests import ServedError
from games.common.text import plain

MAX_HEAD = 2**14  # bytes of a request's target and headers
MAX_BODY = 2**24  # bytes of a request
MAX_BODIES = 2**26  # bytes of all requests that are read or computed at a time
BODY_SECONDS = 30.0  # in which a body has to come
LOOK = 0.2  # seconds between two looks whether a client is still there
AT_WORK = 2  # requests that are parsed, tokenised or written at a time

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client has closed the connection."""


class Events(NamedTuple):
    """An answer as server-sent events."""

    pieces: Sequence[bytes]


class Document(NamedTuple):
    """An answer that a browser shows or runs."""

    content: bytes
    kind: str  # its media type
    headers: Mapping[str, str]


Page = Callable[["Call"], Awaitable[dict[str, Any] | Events | Document]]


class Workload:
    """What the requests of one server take: memory for bodies, and threads."""

    def __init__(self) -> None:
        self.bytes = 0
        self.at_work = asyncio.Semaphore(AT_WORK)


class Call:
    """One request, as a page has it."""

    def __init__(self, request: Request, workload: Workload) -> None:
        self._request, self._workload = request, workload
        self._held = 0  # bytes of the workload
        self.unread = request.method == "POST"  # whether something of the body may still come

    @property
    def key(self) -> str:
        """The API key that it carries; "" for none."""
        return self._request.headers.get("authorization", "").removeprefix("Bearer ").strip()

    def named(self, name: str) -> str:
        """Return the part of the path that a page's own path has in braces."""
        return str(self._request.path_params[name])

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the address; of one that is given twice, the last."""
        return dict(self._request.query_params)

    async def body(self) -> bytes:
        """Return the body. Raises ServedError for one that is too long, too slow or no JSON by its own word."""
        headers = self._request.headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ServedError(415, "The request needs the header Content-Type: application/json.")
        length = headers.get("content-length")
        if length is None and "transfer-encoding" not in headers:
            raise ServedError(411, "The request needs a Content-Length.")
        if length is not None and int(length) > MAX_BODY:
            raise ServedError(413, f"The request has {int(length):,} bytes; the limit is {MAX_BODY:,}.")
        try:
            async with asyncio.timeout(BODY_SECONDS):
                content = await self._read()
        except TimeoutError:
            raise ServedError(408, f"The request did not arrive within {BODY_SECONDS:g} seconds.") from None
        self.unread = False
        return content

    async def _read(self) -> bytes:
        content = bytearray()
        async for piece in self._request.stream():
            content += piece
            self._held += len(piece)
            self._workload.bytes += len(piece)
            if len(content) > MAX_BODY:
                raise ServedError(413, f"The request is longer than {MAX_BODY:,} bytes, which is the limit.")
            if self._workload.bytes > MAX_BODIES:
                raise ServedError(503, "The server has as many requests as it can hold: try again later.")
        return bytes(content)

    def release(self) -> None:
        """Give back what the body took."""
        self._workload.bytes -= self._held
        self._held = 0

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Do some work in another thread, a few requests' at a time. Raises ClientGone if nobody waits for it."""
        async with self._workload.at_work:
            if await self._request.is_disconnected():
                raise ClientGone
            return await asyncio.to_thread(work, *arguments)

    async def wait(self, futures: Sequence[Future[Result]], seconds: float | None = None) -> list[Result]:
        """Return what all futures hold, and raise what one of them raises.

        Raises ClientGone if the client goes first, and TimeoutError if they take longer than this many seconds. In the
        end all that are still to come are cancelled.
        """
        results = asyncio.gather(*map(asyncio.wrap_future, futures))
        results.add_done_callback(_looked_at)
        watch = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait((results, watch), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if results.done() or all(future.done() for future in futures):  # a loop may be told a moment later
                return [future.result() for future in futures if future.done()]
            if watch.done():
                raise ClientGone
            raise TimeoutError
        finally:
            watch.cancel()
            results.cancel()  # which does nothing where all have come and the loop has not told it yet
            for future in futures:
                future.cancel()

    async def _watch(self) -> None:
        while not await self._request.is_disconnected():
            await asyncio.sleep(LOOK)


def _looked_at(ended: asyncio.Future[list[Result]]) -> None:
    """Take note of how futures ended, for asyncio reports an error that nobody has looked at."""
    if not ended.cancelled():
        ended.exception()


def application(pages: Mapping[tuple[str, str], Page], listed: str, is_ours: Callable[[str], bool]) -> ASGIApp:
    """Return an application with pages by method and path. ``listed`` names them to who asks for another."""
    workload = Workload()
    routes = [Route(path, _endpoint(page, workload), methods=[method]) for (method, path), page in pages.items()]

    async def no_page(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = f"{request.method[:20]} {request.url.path[:100]!r}"
        if error.status_code != 405:
            return refusal(ServedError(404, f"There is no {path} here: only {listed}."), close=True)
        takes = [method for method, own in pages if compile_path(own)[0].match(request.url.path)]
        hint = ", with a JSON body" if "POST" in takes else ""
        answer = refusal(ServedError(405, f"There is no {path} here: this page takes {takes[0]}{hint}."), close=True)
        answer.headers["Allow"] = ", ".join(takes)
        return answer

    app = Starlette(routes=routes, exception_handlers={HTTPException: no_page})
    app.router.redirect_slashes = False
    return _guarded(app, is_ours)


def our_hosts(bound: str, allowed: Collection[str]) -> Callable[[str], bool]:
    """Return what says whether a host's name is that of a server at an address, or one of those ``allowed``.

    Where the address is every one of the machine, any number will do: an attacker's page is known by a name.
    """
    ours = {"localhost", "127.0.0.1", "::1", bound.lower(), *(name.lower() for name in allowed)}
    everywhere = bound in ("0.0.0.0", "::", "")

    def is_ours(name: str) -> bool:
        return name in ours or (everywhere and _is_number(name))

    return is_ours


def refusal(error: ServedError, *, close: bool) -> Response:
    """Return a refusal in OpenAI's form."""
    return _json(error.to_json(), error.status, {"Connection": "close"} if close else None)


def _json(data: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(data, allow_nan=False), status, headers, "application/json")


def _endpoint(page: Page, workload: Workload) -> Callable[[Request], Awaitable[Response]]:
    """Return a page as Starlette asks it: one request's failure is its own, and reported on both sides."""

    async def endpoint(request: Request) -> Response:
        call = Call(request, workload)
        try:
            answer = await page(call)
            if isinstance(answer, Events):
                return StreamingResponse(_each(answer.pieces), 200, {"Cache-Control": "no-cache"}, "text/event-stream")
            if isinstance(answer, Document):
                return Response(answer.content, 200, answer.headers, answer.kind)
            return _json(answer)
        except ServedError as error:
            return refusal(error, close=call.unread)
        except (ClientGone, ClientDisconnect):
            return Response(status_code=499)  # which nobody reads
        except Exception as error:  # noqa: BLE001
            sys.stderr.write(f"league: a request failed: {plain(str(error))}\n")
            return refusal(ServedError(500, f"The request failed: {error}"), close=call.unread)
        finally:
            call.release()

    return endpoint


async def _each(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _guarded(app: ASGIApp, is_ours: Callable[[str], bool]) -> ASGIApp:
    """Return an application that is asked nothing that fails ``_check_head``."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            _check_head(Request(scope), is_ours)
        except ServedError as error:
            await refusal(error, close=True)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def _check_head(request: Request, is_ours: Callable[[str], bool]) -> None:
    """Raise ServedError for a request that is not for this server, comes from another site's page, or is unclear."""
    headers = request.headers
    size = (
        len(request.scope["raw_path"])
        + len(request.scope["query_string"])
        + sum(len(name) + len(value) for name, value in headers.raw)
    )
    if size > MAX_HEAD:  # the connection bounds only what does not come at once
        raise ServedError(431, f"The head of the request has {size:,} bytes; the limit is {MAX_HEAD:,}.")
    hosts = headers.getlist("host")
    host = _host(hosts[0]) if len(hosts) == 1 else None
    if host is None or not is_ours(host):
        raise ServedError(
            403,
            f"The host {', '.join(hosts)[:100]!r} is not a name of this server. Use its address, or start it with "
            "--allow-host and that name.",
        )
    origins = headers.getlist("origin")
    if origins and request.method not in ("GET", "HEAD") and not _is_same_site(origins, hosts[0]):
        raise ServedError(403, f"A page of {', '.join(origins)[:100]!r} may not send requests here.")
    if "transfer-encoding" in headers and "content-length" in headers:
        raise ServedError(400, "A request may have a Content-Length or a Transfer-Encoding, not both.")
    if request.method != "POST" and ("transfer-encoding" in headers or headers.get("content-length", "0") != "0"):
        raise ServedError(400, f"A {request.method[:20]} may not have a body here.")


def _host(header: str) -> str | None:
    """Return the name in a Host header, without its port; None if there is none."""
    match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+?))\.?(?::\d{1,5})?", header.strip().lower(), re.ASCII)
    return match and (match[1] or match[2])


def _is_same_site(origins: Sequence[str], host: str) -> bool:
    """Return whether an Origin header names the very host and port that are asked."""
    try:
        [origin] = [urlsplit(origin) for origin in origins]
    except ValueError:
        return False
    return origin.scheme in ("http", "https") and origin.netloc.lower() == host.strip().lower()


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
