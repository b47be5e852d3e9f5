"""The exact advantage of each turn of an iteration, counted out over the whole game (the estimator ``exact``).

The policies that play are read at every information state, and A(I, a) = Q(I, a) − V(I) follows from their joint play
(``league.exact.turn_values``): no luck is left in a turn's credit, neither the deal's nor that of later replies. What
is left to chance is which turns are played.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from arena.records import Episode, Sampler
from games.registry import make_game
from league.credit.matches import locate
from league.exact.exploitability import PolicyTable, exact_form
from league.exact.states import Key
from league.exact.turn_values import TurnValues, turn_values
from league.players.player import Player
from learners.trajectories import Trajectory
from learners.values.estimator import Estimates
from roles.role import Role


def exact_advantages(
    game: str,
    roles: tuple[Role, ...],
    engine: Sampler,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    scale: float,
) -> Estimates:
    """Return the advantage of each turn of trajectories of one game, in the game's units divided by ``scale``.

    ``engine`` knows all players of their matches, with the weights that they played with. Raises NotEnumerable or
    UsageError for a game that is too large.
    """
    found: Estimates = [()] * len(trajectories)
    by_match = {episode.request.index: episode for episode in episodes if episode.request.game == game}
    tables: dict[str, PolicyTable] = {}
    places = _places(game)
    for players in dict.fromkeys(trajectory.players for trajectory in trajectories):
        for player in players:
            if player not in tables:
                tables[player] = _table(game, roles, engine, player)
        turns = turn_values(exact_form(game), [tables[players[key[0]]].probabilities[key] for key in places])
        mine = [i for i, trajectory in enumerate(trajectories) if trajectory.players == players]
        asked = [trajectories[i] for i in mine]
        advantages = _of_turns(turns, [by_match[m] for m in dict.fromkeys(t.match for t in asked)], asked, places)
        start = 0
        for i, trajectory in zip(mine, asked, strict=True):
            found[i] = tuple((advantages[start : start + len(trajectory.turns)] / scale).tolist())
            start += len(trajectory.turns)
    return found


@lru_cache(maxsize=8)
def _places(game: str) -> dict[Key, int]:
    """Return the number of each information state, in the order of ``exact_form``."""
    return {key: index for index, key in enumerate(exact_form(game).keys)}


def _table(game: str, roles: tuple[Role, ...], engine: Sampler, player: str) -> PolicyTable:
    """Return how a player of the engine plays every seat."""
    spec = make_game(game).spec
    return Player(player, spec, engine, roles, (((player, 1.0),),) * spec.seats).tabulate().table


def _of_turns(
    turns: TurnValues, episodes: Sequence[Episode], trajectories: Sequence[Trajectory], places: dict[Key, int]
) -> np.ndarray:
    """Return the advantages of the trajectories' turns, one after the other [T], in the game's units."""
    where = np.array(locate(episodes, trajectories, places), np.intp).reshape(-1, 2)
    return np.asarray(turns.advantages[turns.first[where[:, 0]] + where[:, 1]])
