"""How far a player gets in a suite's games, level by level of difficulty, as in BALROG (arXiv 2411.13543).

Progress in a game is where the mean return lies in the game's range, from 0 to 100, a mean over opponents of equal
weight. A level's is the mean over its games, and the mean of all is one over all games. Games are independent and their
standard errors add as squares; within a game a deal is one observation, which all opponents share.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from games.spec import GameSpec
from league.lab.comparisons.suite_evaluation import SuiteEvaluation
from league.population.evaluation.head_to_head import A, B, mean_return
from league.population.results.match_store import MatchStore


class Progress(NamedTuple):
    """A player's progress in one game, in the games of one level, or in all."""

    player: str
    level: str  # "" for all
    game: str  # "" for all of the level
    percent: float  # 0 is the game's least return, 100 its greatest
    error: float | None  # its standard error, in the same units; None: of one deal


Deals = Mapping[int, float]  # a value by deal, from 0 to 100


def progress_by_level(evaluation: SuiteEvaluation, store: MatchStore) -> list[Progress]:
    """Return each player's progress in every level's games and in the level, the easiest first, and at last in all.

    [] for a suite without levels; a game that was not played is left out. All matches must be stored.
    """
    rows: list[Progress] = []
    for player in evaluation.plan.players if evaluation.plan.suite.levels else ():
        everything: list[Progress] = []
        for level, names in evaluation.plan.suite.levels.items():
            played = [(game, deals) for game in names if (deals := _percents(evaluation, store, player, game))]
            games = [Progress(player, level, game, *_mean(deals)) for game, deals in played]
            rows += [*games, *_together(player, level, games)]
            everything += games
        rows += _together(player, "", everything)
    return rows


def _percents(evaluation: SuiteEvaluation, store: MatchStore, player: str, game: str) -> list[Deals]:
    """Return a player's mean percentage on each deal of a game, one mapping for each of its pairings."""
    found: list[Deals] = []
    for number, contest in enumerate(evaluation.contests):
        for side in _sides(player, contest.pairing.player, contest.pairing.opponent):
            if contest.pairing.game == game:
                by_deal: dict[int, list[float]] = defaultdict(list)
                for meeting in evaluation.meetings(number, store):
                    earned = mean_return(meeting.returns, meeting.seating, side)
                    by_deal[meeting.deal].append(percent(earned, contest.spec))
                found.append({deal: fmean(values) for deal, values in by_deal.items()})
    return found


def _sides(player: str, first: str, second: str) -> Iterator[int]:
    """Yield the side on which a player takes part in a pairing: two players of a game with a winner meet each other."""
    if player == first:
        yield A
    elif player == second:
        yield B


def percent(earned: float, spec: GameSpec) -> float:
    """Return where a return lies in a game's range, from 0 to 100."""
    return 100.0 * (earned - spec.min_return) / ((spec.max_return - spec.min_return) or 1.0)


def _mean(pairings: Sequence[Deals]) -> tuple[float, float | None]:
    """Return the mean over pairings of their means over deals, and its standard error, with deals as clusters.

    With deviations u_d = sum over pairings p of (x_pd - mean_p) / (n_p P), summed over the pairings that have deal d,
    the variance is n / (n - 1) times the sum of their squares; for one pairing it is s² / n.
    """
    means = [fmean(deals.values()) for deals in pairings]
    deviations: dict[int, float] = defaultdict(float)
    for deals, mean in zip(pairings, means, strict=True):
        for deal, value in deals.items():
            deviations[deal] += (value - mean) / (len(deals) * len(pairings))
    n = len(deviations)
    return fmean(means), None if n < 2 else math.sqrt(n / (n - 1) * sum(u * u for u in deviations.values()))


def _together(player: str, level: str, games: Sequence[Progress]) -> list[Progress]:
    """Return the mean of several games, whose deals are independent; [] for none."""
    if not games:
        return []
    errors = [game.error for game in games if game.error is not None]
    error = math.sqrt(sum(e * e for e in errors)) / len(games) if len(errors) == len(games) else None
    return [Progress(player, level, "", fmean(game.percent for game in games), error)]
