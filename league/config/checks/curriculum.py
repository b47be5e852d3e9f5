"""Checks of ``[curriculum]``: games that have scores and may be left out, and a bound that lets them be judged."""

from __future__ import annotations

import math

from games.common.errors import UsageError
from games.registry import make_game
from league.config.run import RunConfig
from roles.role import Roles


def check_curriculum(config: RunConfig, roles: Roles) -> None:
    """Raise UsageError, with what to set instead, for games that cannot be judged, or trained as they are judged."""
    settings = config.curriculum
    if not settings.matches:
        return
    for game, own in config.games.items():
        spec = make_game(game).spec
        if not math.isfinite(spec.max_return - spec.min_return):
            raise UsageError(
                f"curriculum.matches = {settings.matches} judges games by where a return lies in their range, and that "
                f"of {game} has no end. Leave the game out, or set curriculum.matches = 0."
            )
        if settings.filter and own.every != 1:
            raise UsageError(
                f"games.{game}.every = {own.every}, but the curriculum says when a game is played. Leave every out, or "
                "set curriculum.filter = false."
            )
    if settings.filter and config.branching.rule is not None:
        raise UsageError(
            f"branching.rule = {config.branching.rule!r} has a budget for each game's own matches, and the curriculum "
            "gives a game those of others. Leave one of them out, or set curriculum.filter = false."
        )
    if 0 < settings.most_matches < (needed := matches_to_judge(config, roles)):
        raise UsageError(
            f"curriculum.most_matches = {settings.most_matches} is less than the {needed} matches that judge the games "
            "once. Set it to that or more, or curriculum.matches to fewer."
        )


def matches_to_judge(config: RunConfig, roles: Roles) -> int:
    """Return how many matches judge all games once at most: newest, control and best, in each free seat."""
    seats = [sum(not role.given for role in roles[game]) for game in config.games]
    return sum(3 * -(-config.curriculum.matches // max(free, 1)) * free for free in seats)
