"""The values of turns whose estimator is ``continuations``: an iteration's matches are played on from their middles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena.records import Episode, flatten_episodes
from games.common.seeds import derive_seed
from league.config import RunConfig
from league.credit.continuations import Continuations, ContinuationValues, PlayMatches
from league.learning.evidence.turn_values import asked_of
from learners.trajectories import Trajectory
from learners.values import CONTINUATIONS
from learners.values.estimator import Estimates


def continued_values(
    config: RunConfig,
    play: PlayMatches,
    scales: Mapping[str, float],
    iteration: int,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> Estimates:
    """Return the values of each trajectory's turns, with the weights that play now; () where another values them."""
    values: Estimates = [()] * len(trajectories)
    indices = [i for i, t in enumerate(trajectories) if asked_of(config, t.game, t.role) == CONTINUATIONS]
    if indices:
        seed = derive_seed(config.seed, "continued", iteration)
        continuations = Continuations(play, config.values.continuations.count, seed)
        by_index = {episode.request.index: episode for episode in flatten_episodes(episodes)}
        estimator = ContinuationValues(continuations, by_index, scales)
        for i, values_K in zip(indices, estimator.estimate([trajectories[i] for i in indices]), strict=True):
            values[i] = values_K
    return values
