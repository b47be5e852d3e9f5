"""The exact advantage of each turn of an iteration, counted out over the whole game (the estimator ``exact``).

The policies that play are read at every information state, and A(I, a) = Q(I, a) − V(I) follows from their joint play
(``exact.turn_values``): no luck is left in a turn's credit, neither the deal's nor that of later replies. What
is left to chance is which turns are played.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import Episode, Sampler
from games.registry import make_game
from league.population.players.player import Player
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.states import Key
from league.theory.exact.turn_values import turn_values
from league.training.evidence.turn_positions import PlaceOfTurn, locate
from learners.normalisation import trace_of
from learners.trajectories import Trajectory
from roles.role import Role


class CountedOut(NamedTuple):
    """What the turns of one trajectory were worth, in the game's units divided by a scale."""

    advantages: tuple[float, ...]  # of what was played  # [K]
    # of each legal reply, in the order of the turn's mask, its probability times its advantage  # [K][A]
    reply_credits: tuple[tuple[float, ...], ...]


def exact_advantages(
    game: str,
    roles: tuple[Role, ...],
    engine: Sampler,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    scale: float,
) -> list[CountedOut]:
    """Return what each turn of trajectories of one game was worth, in the game's units divided by ``scale``.

    ``engine`` knows all players of their matches, with the weights that they played with. Raises NotEnumerable or
    UsageError for a game that is too large.
    """
    found = [CountedOut((), ())] * len(trajectories)
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
        where = iter(locate([by_match[m] for m in dict.fromkeys(t.match for t in asked)], asked, places))
        rows = _Rows(turns.first, turns.advantages / scale, turns.probabilities)
        for i, trajectory in zip(mine, asked, strict=True):
            found[i] = _counted_out(rows, trajectory, list(islice(where, len(trajectory.turns))))
    return found


class _Rows(NamedTuple):
    """A game's actions; those of information state i are ``first[i] : first[i + 1]``."""

    first: NDArray[np.intp]  # [I + 1]
    advantages: NDArray[np.float64]  # [P]
    probabilities: NDArray[np.float64]  # [P]


def _counted_out(rows: _Rows, trajectory: Trajectory, where: Sequence[PlaceOfTurn]) -> CountedOut:
    """Return what the turns of a trajectory were worth."""
    advantages, reply_credits = list[float](), list[tuple[float, ...]]()
    for turn, place in zip(trajectory.turns, where, strict=True):
        actions = slice(rows.first[place.state], rows.first[place.state + 1])
        advantages.append(float(rows.advantages[actions][place.action]))
        weighted = (rows.advantages[actions] * rows.probabilities[actions]).tolist()
        by_action = dict(zip(place.legal, weighted, strict=True))
        reply_credits.append(tuple([by_action[reply] for reply in trace_of(trajectory, turn).mask or ()]))
    return CountedOut(tuple(advantages), tuple(reply_credits))


@lru_cache(maxsize=8)
def _places(game: str) -> dict[Key, int]:
    """Return the number of each information state, in the order of ``exact_form``."""
    return {key: index for index, key in enumerate(exact_form(game).keys)}


def _table(game: str, roles: tuple[Role, ...], engine: Sampler, player: str) -> PolicyTable:
    """Return how a player of the engine plays every seat."""
    spec = make_game(game).spec
    return Player(player, spec, engine, roles, (((player, 1.0),),) * spec.seats).tabulate().table
