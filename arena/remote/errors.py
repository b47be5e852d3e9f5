"""Errors of a server."""

from __future__ import annotations


class ServerError(RuntimeError):
    """A server sent no usable response, and a retry would not help or has not helped. The message says what to do.

    ``status`` is that of the last response; None where there was no response.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RetryableError(Exception):
    """An attempt failed in a way that may pass. ``wait``: the seconds that the server asks to wait, if it does."""

    def __init__(self, message: str, status: int | None = None, wait: float | None = None) -> None:
        super().__init__(message)
        self.status, self.wait = status, wait


class UnusableAnswerError(RetryableError):
    """A server sent an answer that is no reply: not a chat completion, too long, or not what it was constrained to."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=200)
