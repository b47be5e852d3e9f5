"""What turns were worth by the estimator ``exact``: the advantages of the policies that played, counted out."""

from __future__ import annotations

from collections.abc import Sequence

from arena.records import Episode, Sampler
from games.common.errors import UsageError
from league.config.context import RunContext
from league.theory.exact.exploitability import exact_form
from league.training.evidence.exact_advantages import CountedOut, exact_advantages
from league.training.evidence.turn_values import asked_of
from learners.trajectories import Trajectory
from learners.values import EXACT


def check_counted_out(context: RunContext) -> None:
    """Refuse games that are too large to be counted out, where the estimator ``exact`` is asked."""
    for game in context.specs:
        if any(asked_of(context.config, game, role.name) == EXACT for role in context.roles[game]):
            try:
                exact_form(game)
            except UsageError as error:
                raise UsageError(
                    f"values.estimator = 'exact' cannot count {game} out. {error} Here: choose another estimator, or "
                    "in place of the preset settle settle-sampled, which learns from the returns of matches."
                ) from None


def count_out(
    context: RunContext, engine: Sampler, episodes: Sequence[Episode], trajectories: Sequence[Trajectory]
) -> dict[int, CountedOut]:
    """Return what turns were worth by index of the trajectory, where the estimator ``exact`` is asked.

    ``engine`` has the weights that the matches were played with.
    """
    config, found = context.config, dict[int, CountedOut]()
    for game in context.specs:
        mine = [i for i, t in enumerate(trajectories) if t.game == game and asked_of(config, game, t.role) == EXACT]
        if mine:
            asked = [trajectories[i] for i in mine]
            added = exact_advantages(game, context.roles[game], engine, episodes, asked, context.scales[game])
            found.update(zip(mine, added, strict=True))
    return found
