"""What turns of an iteration were worth, of estimators that ask the players: by playing on, or by counting out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arena.records import Episode
from league.backends.interface import RolloutBackend
from league.config import RunConfig
from league.credit.exact_advantages import exact_advantages
from league.learning.evidence.turn_values import asked_of
from league.run.continuing.continued import continued_values
from learners.trajectories import Trajectory
from learners.values import EXACT
from roles.role import Roles


def valued_in_play(
    config: RunConfig,
    rollouts: RolloutBackend,
    roles: Roles,
    scales: Mapping[str, float],
    iteration: int,
    episodes: Sequence[Episode],
    trajectories: Sequence[Trajectory],
) -> list[dict[str, Any]]:
    """Return by trajectory the fields of ``Evidence`` that the players' present weights tell; none for other rules."""
    continued = continued_values(config, rollouts.play, scales, iteration, episodes, trajectories)
    found: list[dict[str, Any]] = [{"values": values} if values else {} for values in continued]
    for game in config.games:
        mine = [i for i, t in enumerate(trajectories) if t.game == game and asked_of(config, game, t.role) == EXACT]
        if mine:
            asked = [trajectories[i] for i in mine]
            added = exact_advantages(game, roles[game], rollouts.engine, episodes, asked, scales[game])
            for i, advantages in zip(mine, added, strict=True):
                found[i] = {"contributions": advantages}
    return found
