"""What turns were worth by the estimator ``exact``: the advantages of the policies that played, counted out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena.records import Episode, Sampler
from league.config import RunConfig
from league.credit.exact_advantages import exact_advantages
from league.learning.evidence.turn_values import asked_of
from learners.trajectories import Trajectory
from learners.values import EXACT
from roles.role import Roles


def count_out(
    config: RunConfig,
    engine: Sampler,
    roles: Roles,
    scales: Mapping[str, float],
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> dict[int, tuple[float, ...]]:
    """Return the contributions of turns [K] by index of the trajectory, where the estimator ``exact`` is asked.

    ``engine`` has the weights that the matches were played with.
    """
    found: dict[int, tuple[float, ...]] = {}
    for game in config.games:
        mine = [i for i, t in enumerate(trajectories) if t.game == game and asked_of(config, game, t.role) == EXACT]
        if mine:
            asked = [trajectories[i] for i in mine]
            added = exact_advantages(game, roles[game], engine, episodes, asked, scales[game])
            found.update(zip(mine, added, strict=True))
    return found
