"""The exact advantage of each turn of an iteration, by enumeration of the whole game (the estimator ``exact``).

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
from games.common.errors import UsageError
from games.registry import make_game
from league.config.context import RunContext
from league.population.players.player import Player
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.states import Key
from league.theory.exact.turn_values import turn_values
from league.training.evidence.turn_positions import PlaceOfTurn, locate
from league.training.evidence.turn_values import computed_by
from learners.normalisation import trace_of
from learners.trajectories import Trajectory
from learners.values.estimator import ExactTurns, How
from roles.role import Role


def check_exact(context: RunContext) -> None:
    """Refuse games that are too large to be enumerated, where the estimator that does so is asked."""
    for game in context.specs:
        for role in context.roles[game]:
            if computed_by(context.config, game, role.name, How.EXACT):
                name = context.config.values.estimator_for(game, role.name)
                try:
                    exact_form(game)
                except UsageError as error:
                    raise UsageError(
                        f"values.estimator = {name!r} cannot count {game} out. {error} Here: choose another estimator, "
                        "or in place of the preset settle settle-sampled, which learns from the returns of matches."
                    ) from None


def exact_turns(
    context: RunContext, engine: Sampler, episodes: Sequence[Episode], trajectories: Sequence[Trajectory]
) -> list[ExactTurns]:
    """Return what the turns of trajectories were worth; ``engine`` has the weights that played their matches."""
    found = [ExactTurns((), ())] * len(trajectories)
    for game in context.specs:
        mine = [i for i, trajectory in enumerate(trajectories) if trajectory.game == game]
        if mine:
            asked = [trajectories[i] for i in mine]
            worth = exact_advantages(game, context.roles[game], engine, episodes, asked, context.scales[game])
            for i, turns in zip(mine, worth, strict=True):
                found[i] = turns
    return found


def exact_advantages(
    game: str,
    roles: tuple[Role, ...],
    engine: Sampler,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    scale: float,
) -> list[ExactTurns]:
    """Return what each turn of trajectories of one game was worth, in the game's units divided by ``scale``.

    ``engine`` knows all players of their matches, with the weights that they played with. Raises NotEnumerable or
    UsageError for a game that is too large.
    """
    found = [ExactTurns((), ())] * len(trajectories)
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
            found[i] = _of_trajectory(rows, trajectory, list(islice(where, len(trajectory.turns))))
    return found


class _Rows(NamedTuple):
    """A game's actions; those of information state i are ``first[i] : first[i + 1]``."""

    first: NDArray[np.intp]  # [I + 1]
    advantages: NDArray[np.float64]  # [P]
    probabilities: NDArray[np.float64]  # [P]


def _of_trajectory(rows: _Rows, trajectory: Trajectory, where: Sequence[PlaceOfTurn]) -> ExactTurns:
    """Return what the turns of a trajectory were worth."""
    advantages, reply_credits = list[float](), list[tuple[float, ...]]()
    for turn, place in zip(trajectory.turns, where, strict=True):
        actions = slice(rows.first[place.state], rows.first[place.state + 1])
        advantages.append(float(rows.advantages[actions][place.action]))
        weighted = (rows.advantages[actions] * rows.probabilities[actions]).tolist()
        by_action = dict(zip(place.legal, weighted, strict=True))
        reply_credits.append(tuple([by_action[reply] for reply in trace_of(trajectory, turn).mask or ()]))
    return ExactTurns(tuple(advantages), tuple(reply_credits))


@lru_cache(maxsize=8)
def _places(game: str) -> dict[Key, int]:
    """Return the number of each information state, in the order of ``exact_form``."""
    return {key: index for index, key in enumerate(exact_form(game).keys)}


def _table(game: str, roles: tuple[Role, ...], engine: Sampler, player: str) -> PolicyTable:
    """Return how a player of the engine plays every seat."""
    spec = make_game(game).spec
    return Player(player, spec, engine, roles, (((player, 1.0),),) * spec.seats).tabulate().table
