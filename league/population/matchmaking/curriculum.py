"""Which of a run's games are trained: those neither trivial nor impossible, after XLand (arXiv 2107.12808).

With scores R of the player and R_c of the control on the same deals, a game passes if

    Pr[R > high] < solved,    Pr[R > R_c + margin] > better,    E[R_c] < sufficient,

which the paper writes with m_s, m_solved, m_>cont and m_cont, and tunes.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from games.spec import GameSpec
from league.config import RunConfig
from league.config.matchmaking import CurriculumConfig
from league.population.matchmaking.draw import apportion


class Fitness(StrEnum):
    """Whether a game is worth training."""

    FIT = "fit"
    TRIVIAL = "trivial"  # the player nearly always scores high
    CONTROL_SUFFICES = "control suffices"
    IMPOSSIBLE = "impossible"  # the player is hardly ever better than the control


class Judgement(NamedTuple):
    """The results of one game's matches."""

    score: float  # the player's mean
    high: float  # share of its scores that are high
    better: float  # share that is better than the control's on the same deal
    control: float  # the control's mean
    fitness: Fitness


def judge(scores_N: Sequence[float], control_N: Sequence[float], settings: CurriculumConfig) -> Judgement:
    """Return the judgement of a game by scores of player and control, deal by deal."""
    high = fmean([score > settings.high for score in scores_N])
    pairs = zip(scores_N, control_N, strict=True)
    better = fmean([score > control + settings.margin for score, control in pairs])
    control = fmean(control_N)
    if high >= settings.solved:
        fitness = Fitness.TRIVIAL
    elif control >= settings.sufficient:
        fitness = Fitness.CONTROL_SUFFICES
    else:
        possible = settings.better is None or better > settings.better
        fitness = Fitness.FIT if possible else Fitness.IMPOSSIBLE
    return Judgement(fmean(scores_N), high, better, control, fitness)


def active_games(judged: Mapping[str, Judgement], settings: CurriculumConfig, rng: random.Random) -> tuple[str, ...]:
    """Return the games to train, in their order; all if none is fit or the run does not filter."""
    fit = [game for game, judgement in judged.items() if judgement.fitness is Fitness.FIT or not settings.filter]
    fit = fit or list(judged)
    drawn = set(rng.sample(fit, min(settings.active or len(fit), len(fit))))
    return tuple(game for game in fit if game in drawn)


def matches_by_game(
    config: RunConfig, specs: Mapping[str, GameSpec], active: Collection[str], iteration: int
) -> dict[str, int]:
    """Return the matches of an iteration by game, of those that are due.

    A game that is not active keeps ``curriculum.kept`` of its matches. Active games also get the others, in proportion
    to their own. All in whole groups; all games are active if none is named.
    """
    due = {game: settings.matches for game, settings in config.games.items() if (iteration - 1) % settings.every == 0}
    chosen = {game: matches for game, matches in due.items() if game in active}
    if not chosen or len(chosen) == len(due):
        return due
    group = {game: config.matchmaking.matches_of_start(specs[game].max_turns) for game in due}
    kept = {
        game: int(config.curriculum.kept * matches) // group[game] * group[game]
        for game, matches in due.items()
        if game not in chosen
    }
    shares = apportion(sum(due.values()) - sum(kept.values()), chosen)
    shares = {game: matches - matches % group[game] for game, matches in shares.items()}
    return {game: (shares | kept)[game] for game in due if (shares | kept)[game]}
