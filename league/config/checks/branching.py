"""Checks of ``[branching]``: a budget that the whole matches keep, games that can be taken up, rules that can share."""

from __future__ import annotations

from collections.abc import Sequence

from games.common.errors import UsageError
from games.registry import make_game
from league.config.run import RunConfig
from learners.advantages.forks import FORKABLE
from roles.role import OnIllegal, Role


def check_branching(config: RunConfig, game: str, roles: Sequence[Role]) -> None:
    """Raise UsageError, with what to set instead, for a game of the run that cannot be branched as it is asked."""
    settings, spec = config.branching, make_game(game).spec
    if settings.rule is None:
        return
    for role in roles:
        rule = config.credit.rule_for(game, role.name)
        if not role.given and rule not in FORKABLE:
            raise UsageError(
                f"branching.rule = {settings.rule!r} shares credit among forks, which credit rule {rule!r} of "
                f"{game}/{role.name} does not allow. Set credit.rule to {' or '.join(FORKABLE)}, or no branching.rule."
            )
    if spec.submatch_games or any(role.tools for role in roles):
        raise UsageError(
            f"branching.rule = {settings.rule!r} takes matches up from their middle, but those of {game} open other "
            "matches or call tools. Leave branching out."
        )
    if config.matchmaking.tree:
        raise UsageError(
            "matchmaking.tree branches at every turn, and branching.rule at chosen ones. Leave one of them out."
        )
    needed = config.games[game].matches * spec.max_turns * (1 + most_retries(roles))
    if needed > settings.replies:
        raise UsageError(
            f"branching.replies = {settings.replies} is less than the {needed} replies that the whole matches of "
            f"{game} may take. Set it to more than that, or games.{game}.matches to fewer: what whole matches leave is "
            "spent on forks."
        )


def most_retries(roles: Sequence[Role]) -> int:
    """Return how often a reply may be refused in one turn."""
    return max(role.conduct.retries if role.conduct.on_illegal is OnIllegal.RETRY else 0 for role in roles)
