"""An HTTP server in its own thread, by uvicorn: the only module that imports uvicorn and h11, its parser.

uvicorn leaves signals alone outside the main thread, so Ctrl-C stays with the command that serves. What it does not
bound by itself is bounded here: connections, the time for a request's head, requests that are sent before the one in
hand is answered, and answers that a client does not read.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena.serving.requests import ServedError
from arena.serving.web_pages import MAX_HEAD, Page, application, our_hosts

BACKLOG = 128  # connections that come at once
MOST_CONNECTIONS = 256  # that are open at a time
HEAD_SECONDS = 10.0  # in which they have to come
IDLE_SECONDS = 60  # that a connection is kept between two requests
READ_SECONDS = 30.0  # that a client may leave an answer unread
GRACE_SECONDS = 1  # for requests under way when the server stops


class WebServer:
    """Answers requests with pages, by method and path, while its context lasts; ``listed`` names them.

    ``hosts`` are names that clients may call it by beside its address and those of this machine alone. Raises OSError
    if the address cannot be had.
    """

    def __init__(
        self,
        address: tuple[str, int],
        pages: Mapping[tuple[str, str], Page],
        listed: str,
        hosts: Collection[str] = (),
    ) -> None:
        self._socket = _listen(address)
        host, self.port = self._socket.getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"  # where the API begins
        config = uvicorn.Config(
            application(pages, listed, our_hosts(address[0], hosts)),
            http=_Connection,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=MAX_HEAD,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more: requests under way have a moment to end."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self) -> None:
        """Wait until the server has stopped by itself."""
        self._thread.join()


def _listen(address: tuple[str, int]) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


class _Connection(H11Protocol):
    """A connection of which nothing takes for ever."""

    _head: asyncio.TimerHandle | None = None  # ends the wait for a head
    _unread: asyncio.TimerHandle | None = None  # ends the wait for a client to read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(ServedError(503, f"The server has {MOST_CONNECTIONS} connections already: try again later."))
        else:
            self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn forgets it where the connection broke
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.DONE and len(self.conn.trailing_data[0]) > MAX_HEAD:
            self.transport.abort()  # it sends on and on while it is being answered
        self._limit_head()

    def _limit_head(self) -> None:
        """Begin the time for a head where one is waited for, and end it where it has come."""
        waiting = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
        if waiting and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        elif not waiting and self._head is not None:
            self._head.cancel()
            self._head = None

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # it is broken already
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request of HTTP."""
        self._refuse(ServedError(400, "This is not an HTTP request that this server can read."))

    def _refuse(self, error: ServedError) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        content = json.dumps(error.to_json()).encode()
        headers: list[tuple[Any, Any]] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        for event in (h11.Response(status_code=error.status, headers=headers), h11.Data(content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
