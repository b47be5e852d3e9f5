"""Values of turns by estimators that play: Monte Carlo continuations of an iteration's matches, or enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arena.records import Episode, flatten_episodes
from games.common.seeds import derive_seed
from league.config.context import RunContext
from league.training.evidence.exact_advantages import exact_turns
from league.training.evidence.source import MonteCarloEstimates
from league.training.evidence.turn_values import OF_PLAY, by_estimator
from league.training.interfaces import RolloutBackend
from learners.trajectories import Trajectory
from learners.values import ESTIMATORS
from learners.values.estimator import ExactTurns, Simulator


def monte_carlo_estimates(
    context: RunContext,
    rollouts: RolloutBackend,
    iteration: int,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> MonteCarloEstimates:
    """Return the values of turns under the weights that play now, where a role's rule uses an estimator that plays."""

    def exact(chosen: Sequence[Trajectory]) -> list[ExactTurns]:
        return exact_turns(context, rollouts.engine, episodes, chosen)

    simulator = Simulator(
        {episode.request.index: episode for episode in flatten_episodes(episodes)},
        rollouts.play,
        context.scales,
        lambda purpose: derive_seed(context.config.seed, purpose, iteration),
        exact,
    )
    columns: dict[str, dict[tuple[int, int], Any]] = {}
    for name, indices in by_estimator(context.config, trajectories, *OF_PLAY).items():
        chosen = [trajectories[i] for i in indices]
        for column, cells in ESTIMATORS[name].make(chosen, simulator, context.config.values.settings_of(name)).items():
            by_seat = {(t.match, t.seat): cell for t, cell in zip(chosen, cells, strict=True)}
            columns.setdefault(column, {}).update(by_seat)
    return MonteCarloEstimates(columns)
