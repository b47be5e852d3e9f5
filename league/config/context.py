"""The context that the parts of one run share: its settings, its folder, and what is derived from the settings, once.

A function that reads only settings takes the configuration; one that also needs roles, games or the folder takes this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from games.registry import make_game
from games.spec import GameSpec
from league.config.load import policy_names, run_roles
from league.config.run import RunConfig
from learners.trajectories import return_scale
from roles.role import Roles


@dataclass(frozen=True)
class RunContext:
    """A run, without its state; made by ``run_context``.

    ``dataclasses.replace`` gives the same run another folder, or settings that change neither games nor roles.
    """

    config: RunConfig
    run_dir: Path
    roles: Roles  # by game and seat; of the run's games, and then of those that their matches open
    specs: Mapping[str, GameSpec]  # of the run's games
    all_specs: Mapping[str, GameSpec]  # of all games that have ``roles``
    scales: Mapping[str, float]  # what returns are divided by before learning, by game; of all games that have roles

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """The names of the run's policies: those that roles are bound to, and then the exploiters."""
        return tuple(policy_names(self.config, self.roles))

    @cached_property
    def live(self) -> dict[str, tuple[str, ...]]:
        """The policy in training, or the fixed player, by game and seat."""
        return {game: tuple(role.policy for role in seats) for game, seats in self.roles.items()}


def run_context(config: RunConfig, run_dir: Path) -> RunContext:
    """Return the context of a run that is, or will be, in a folder."""
    roles = run_roles(config)
    specs = {game: make_game(game).spec for game in roles}
    scaled = config.credit.scale_returns
    return RunContext(
        config=config,
        run_dir=run_dir,
        roles=roles,
        specs={game: specs[game] for game in config.games},
        all_specs=specs,
        scales={game: return_scale(spec) if scaled else 1.0 for game, spec in specs.items()},
    )
