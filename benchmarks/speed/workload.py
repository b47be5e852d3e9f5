"""The matches that speed benchmarks play."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from arena.records import Episode, MatchRequest, Sampler
from arena.scheduler import play
from games.common.seeds import derive_seed
from games.registry import make_game
from roles.role import Role


def match_requests(game: str, lineups: Iterable[tuple[str, ...]]) -> list[MatchRequest]:
    """Return a match for each line-up of players, all seats trained, each with seeds of its own."""
    return [
        MatchRequest(i, game, derive_seed(i, "deal"), derive_seed(i, "sample"), players, (True,) * len(players))
        for i, players in enumerate(lineups)
    ]


def play_all(requests: Sequence[MatchRequest], roles: tuple[Role, ...], engine: Sampler) -> list[Episode]:
    """Play matches of one game by one engine, all in flight at once."""
    return play(
        requests, roles_of=lambda _: roles, engine_of=lambda _: engine, make_game=make_game, in_flight=len(requests)
    )
