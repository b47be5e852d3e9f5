"""Errors of engines and of the servers that they ask for replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from games.common.errors import UsageError
from roles.role import ReplyForm, Role


class OfPlayer(Protocol):
    """A request to an engine in a player's name."""

    @property
    def player(self) -> str:
        """The player's id."""
        ...


R = TypeVar("R", bound=OfPlayer)
A = TypeVar("A")


class EngineError(RuntimeError):
    """An engine failed, or did not return one reply for each request."""


class LostEngine(RuntimeError):
    """The process of an engine has ended: no request to it can succeed, and who owns the process replaces it."""


def one_for_each(
    engine: object,
    ask: Callable[[Sequence[R]], list[A]],
    requests: Sequence[R],
    asked: str,
    given: str,
) -> list[A]:
    """Return what a method of an engine answers to requests: ``given``, such as replies to, ``asked``, requests for.

    Raises EngineError, with engine and players named, if it fails or does not answer each request once.
    """
    name = type(engine).__name__
    try:
        answers = ask(requests)
    except UsageError:
        raise
    except Exception as error:
        raise EngineError(
            f"The engine {name} failed on {len(requests)} {asked} {_players(requests)}: {type(error).__name__}: {error}"
        ) from error
    if len(answers) != len(requests):
        raise EngineError(
            f"The engine {name} gave {len(answers)} {given} {len(requests)} {asked} {_players(requests)}; it must "
            "return one for each, in their order."
        )
    return answers


def _players(requests: Sequence[OfPlayer]) -> str:
    """Return the first five of the requests' players as text."""
    names = sorted({request.player for request in requests})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def check_tabular(role: Role) -> None:
    """Raise UsageError for a role whose replies have no exact probabilities."""
    if role.reply is not ReplyForm.CHOICE:
        raise UsageError(
            f"Role {role.name!r} of {role.game} answers in free text, whose distribution over "
            "actions is not a table. Set roles.reply = 'choice', or estimate it by sampling."
        )


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
    """A server sent an answer that is not a reply: not a chat completion, too long, or not what it was constrained
    to.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, status=200)
