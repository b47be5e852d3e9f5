"""What turns were worth by estimators of play: an iteration's matches played on from their middles, or enumerated."""

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
    """Return what turns were worth, with the weights that play now, where a role's rule asks an estimator of play."""

    def exact(asked: Sequence[Trajectory]) -> list[ExactTurns]:
        return exact_turns(context, rollouts.engine, episodes, asked)

    simulator = Simulator(
        {episode.request.index: episode for episode in flatten_episodes(episodes)},
        rollouts.play,
        context.scales,
        lambda purpose: derive_seed(context.config.seed, purpose, iteration),
        exact,
    )
    columns: dict[str, dict[tuple[int, int], Any]] = {}
    for name, indices in by_estimator(context.config, trajectories, *OF_PLAY).items():
        asked = [trajectories[i] for i in indices]
        for column, cells in ESTIMATORS[name].make(asked, simulator, context.config.values.settings_of(name)).items():
            found = {(one.match, one.seat): cell for one, cell in zip(asked, cells, strict=True)}
            columns.setdefault(column, {}).update(found)
    return MonteCarloEstimates(columns)
