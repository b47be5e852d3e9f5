"""A game as an OpenEnv environment (https://github.com/huggingface/OpenEnv), so that other trainers can train against
our players. ``reset`` starts a match, number ``seed`` if one is given; ``step`` answers one turn with words. The
observation has the chat that the league's own players are asked with, the reward is the seat's return when the match is
over and 0 before, and equal numbers are equal matches. Any number of sessions play side by side. The only importer of
openenv's server.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
from typing import Any

from games.common.errors import UsageError
from league.cli.python.seat_matches import SeatMatch, SeatMatches

try:
    from openenv.core.env_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("openenv", "fastapi"):
        raise
    raise UsageError(
        "league serve --openenv needs the package openenv, which is not installed. Install it: "
        "pip install 'llm-league[openenv]'"
    ) from None

SESSIONS = 1024  # that may be open at once
LONGEST = 100_000  # characters of a reply


class SeatAction(Action):  # type: ignore[misc]  # openenv is untyped here
    """The seat's reply: free text that names an action in brackets, as the prompt requests."""

    text: str


class SeatObservation(Observation):  # type: ignore[misc]
    """A turn of the seat: the chat that it is asked with. Without messages the match is over."""

    messages: list[dict[str, str]] = []  # noqa: RUF012  # pydantic copies it
    legal: list[str] = []  # noqa: RUF012
    match: int = 0
    role: str = ""
    illegal_replies: int = 0  # once the match is over


class SeatEnvironment(Environment):  # type: ignore[misc]
    """One session: a match after the other."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, matches: SeatMatches, numbers: itertools.count[int]) -> None:
        super().__init__()
        self._matches, self._numbers = matches, numbers
        self._match: SeatMatch | None = None
        self._number, self._state = 0, State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> SeatObservation:
        """Start match number ``seed``; without one, the next that no session has had."""
        self._number = next(self._numbers) if seed is None else seed
        self._match = self._matches.begin(self._number)
        self._state = State(episode_id=episode_id or f"match-{self._number}", step_count=0)
        return self._observed(self._match)

    def step(self, action: SeatAction, timeout_s: float | None = None, **_: Any) -> SeatObservation:
        """Answer the current turn. Raises ValueError where there is none."""
        if self._match is None or self._match.episode is not None:
            raise ValueError("There is no turn to answer: the match is over, or none has started. Call reset first.")
        self._match.answer(action.text[:LONGEST])
        self._state.step_count += 1
        return self._observed(self._match)

    @property
    def state(self) -> State:
        """The match's id, and how many turns were answered."""
        return self._state

    def _observed(self, match: SeatMatch) -> SeatObservation:
        paid = match.seat_return
        return SeatObservation(
            messages=[dict(message) for message in match.prompt],
            legal=list(match.legal),
            match=self._number,
            role=match.role,
            illegal_replies=match.illegal_replies,
            done=paid is not None,
            reward=0.0 if paid is None else paid,
        )


def app(matches: SeatMatches) -> Any:
    """Return the server's application, which any ASGI server runs."""
    numbers = itertools.count()
    return create_fastapi_app(
        lambda: SeatEnvironment(matches, numbers), SeatAction, SeatObservation, max_concurrent_envs=SESSIONS
    )


def serve(matches: SeatMatches, listening: socket.socket) -> None:
    """Serve on a socket that is bound, until Ctrl-C."""
    import uvicorn

    config = uvicorn.Config(app(matches), log_level="warning", access_log=False)
    with contextlib.suppress(KeyboardInterrupt):  # which it raises again once it has ended
        uvicorn.Server(config).run(sockets=[listening])
