"""The exact advantage of each turn of an iteration, by enumerating the whole game (the estimator ``exact``).

The policies that play are read at every information state, and A(I, a) = Q(I, a) − V(I) follows from their joint play
(``exact.turn_values``): a turn's credit contains no luck, neither of the deal nor of later replies. Chance decides only
which turns are played.
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
    """Refuse games that are too large to enumerate, where the exact estimator is used."""
    for game in context.specs:
        for role in context.roles[game]:
            if computed_by(context.config, game, role.name, How.EXACT):
                name = context.config.values.estimator_for(game, role.name)
                try:
                    exact_form(game)
                except UsageError as error:
                    raise UsageError(
                        f"values.estimator = {name!r} cannot enumerate {game}. {error} Choose another estimator, "
                        "or the preset settle-returns instead of settle, or pocket-returns instead of pocket, which "
                        "learn from the returns of matches."
                    ) from None


def exact_turns(
    context: RunContext, engine: Sampler, episodes: Sequence[Episode], trajectories: Sequence[Trajectory]
) -> list[ExactTurns]:
    """Return the exact advantages of trajectories' turns; ``engine`` has the weights that played their matches."""
    turns_N = [ExactTurns((), ())] * len(trajectories)
    for game in context.specs:
        indices = [i for i, trajectory in enumerate(trajectories) if trajectory.game == game]
        if indices:
            of_game = [trajectories[i] for i in indices]
            advantages = exact_advantages(game, context.roles[game], engine, episodes, of_game, context.scales[game])
            for i, turns in zip(indices, advantages, strict=True):
                turns_N[i] = turns
    return turns_N


def exact_advantages(
    game: str,
    roles: tuple[Role, ...],
    engine: Sampler,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
    scale: float,
) -> list[ExactTurns]:
    """Return the exact advantages of the turns of one game's trajectories, in the game's units divided by ``scale``.

    ``engine`` knows all players of their matches, with the weights that they played with. Raises NotEnumerable or
    UsageError for a game that is too large.
    """
    turns_N = [ExactTurns((), ())] * len(trajectories)
    by_match = {episode.request.index: episode for episode in episodes if episode.request.game == game}
    tables: dict[str, PolicyTable] = {}
    state_numbers = _state_numbers(game)
    for players in dict.fromkeys(trajectory.players for trajectory in trajectories):
        for player in players:
            if player not in tables:
                tables[player] = _table(game, roles, engine, player)
        turns = turn_values(exact_form(game), [tables[players[key[0]]].probabilities[key] for key in state_numbers])
        indices = [i for i, trajectory in enumerate(trajectories) if trajectory.players == players]
        of_players = [trajectories[i] for i in indices]
        located = iter(
            locate([by_match[m] for m in dict.fromkeys(t.match for t in of_players)], of_players, state_numbers)
        )
        rows = _Rows(turns.first, turns.advantages / scale, turns.probabilities)
        for i, trajectory in zip(indices, of_players, strict=True):
            turns_N[i] = _of_trajectory(rows, trajectory, list(islice(located, len(trajectory.turns))))
    return turns_N


class _Rows(NamedTuple):
    """A game's actions; those of information state i are ``first[i] : first[i + 1]``."""

    first: NDArray[np.intp]  # [I + 1]
    advantages: NDArray[np.float64]  # [P]
    probabilities: NDArray[np.float64]  # [P]


def _of_trajectory(rows: _Rows, trajectory: Trajectory, located: Sequence[PlaceOfTurn]) -> ExactTurns:
    """Return the exact advantages of a trajectory's turns."""
    advantages, reply_credits = list[float](), list[tuple[float, ...]]()
    for turn, located_turn in zip(trajectory.turns, located, strict=True):
        actions = slice(rows.first[located_turn.state], rows.first[located_turn.state + 1])
        advantages.append(float(rows.advantages[actions][located_turn.action]))
        weighted = (rows.advantages[actions] * rows.probabilities[actions]).tolist()
        by_action = dict(zip(located_turn.legal, weighted, strict=True))
        reply_credits.append(tuple([by_action[reply] for reply in trace_of(trajectory, turn).mask or ()]))
    return ExactTurns(tuple(advantages), tuple(reply_credits))


@lru_cache(maxsize=8)
def _state_numbers(game: str) -> dict[Key, int]:
    """Return the number of each information state, in the order of ``exact_form``."""
    return {key: index for index, key in enumerate(exact_form(game).keys)}


def _table(game: str, roles: tuple[Role, ...], engine: Sampler, player: str) -> PolicyTable:
    """Return the policy of an engine's player in every seat."""
    spec = make_game(game).spec
    return Player(player, spec, engine, roles, (((player, 1.0),),) * spec.seats).tabulate().table
