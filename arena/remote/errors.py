"""What can go wrong at a server."""

from __future__ import annotations


class ServerFailed(RuntimeError):
    """A server gave no usable answer, and asking again would not help or has not helped. Says what to do.

    ``status`` is the one of the last answer; None where there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TryAgain(Exception):
    """An attempt failed in a way that may pass. ``wait``: the seconds that the server asks for, if it does."""

    def __init__(self, message: str, status: int | None = None, wait: float | None = None) -> None:
        super().__init__(message)
        self.status, self.wait = status, wait
