"""The gate of breeding: whether one run is better than another, exactly where games have values, otherwise by matches.

A run's value is its exploitability (less is better), or in a cooperative game its return with itself, each in units
of half the game's range and averaged over the run's games.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist, fmean
from typing import NamedTuple

from games.common.seeds import derive_seed
from games.registry import make_game
from games.spec import GameSpec, Utility
from league.config import RunConfig
from league.population.evaluation.head_to_head import A, compare
from league.population.players.engines import Engines
from league.population.players.player import resolve
from league.theory.statistics import Estimate
from league.training.board.metrics_log import read_metrics

ROUNDING = 1e-9  # of half a game's range: anything smaller is no gain


class Gain(NamedTuple):
    """How much better one run is than another."""

    gain: float  # in units of half a game's range, a mean over games
    error: float  # its standard error; 0: exact
    confidence: float

    @property
    def better(self) -> bool:
        """Whether the gain is above 0 at this confidence (one-sided, normal)."""
        return self.gain > max(NormalDist().inv_cdf(self.confidence) * self.error, ROUNDING)

    def __str__(self) -> str:
        return f"gain {self.gain:+.3g}" + (f" ± {self.error:.2g}" if self.error else ", exact")


def exact_values(config: RunConfig, run: Path) -> dict[str, float] | None:
    """Return a run's value by game, as measured at its last snapshot; None unless all games have values."""
    last: dict[str, float] = {}
    for line in read_metrics(run):
        last |= {name: value for name, value in line.items() if name.endswith(("/exploitability", "/return"))}
    values = {}
    for game in config.games:
        spec = make_game(game).spec
        if spec.utility is Utility.IDENTICAL and f"{game}/return" in last:
            values[game] = last[f"{game}/return"] / half_range(spec)
        elif spec.utility is not Utility.IDENTICAL and f"{game}/exploitability" in last:
            values[game] = -last[f"{game}/exploitability"] / half_range(spec)
        else:
            return None
    return values


def half_range(spec: GameSpec) -> float:
    """Return half of the range of a game's returns."""
    return (spec.max_return - spec.min_return) / 2.0 or 1.0


def judge(config: RunConfig, first: Path, second: Path, seed: int) -> Gain:
    """Return how much better the first run's newest snapshots are than the second's."""
    confidence = config.descent.confidence
    values = exact_values(config, first), exact_values(config, second)
    if values[0] is not None and values[1] is not None:
        return Gain(_difference(values[0], values[1]), 0.0, confidence)
    gains, variances = [], []
    with Engines() as engines:
        for game in config.games:
            spec = make_game(game).spec
            players = [resolve(str(run), spec, engines) for run in (first, second)]
            seeded, matches = derive_seed(seed, "breed", game), config.descent.matches
            if spec.utility is Utility.IDENTICAL and spec.seats > 1:  # each with itself: together they might not agree
                returns = [compare((player, player), matches, seeded).returns[A] for player in players]
                lead, variance = returns[0].mean - returns[1].mean, sum(_error(estimate) ** 2 for estimate in returns)
            else:
                estimate = compare((players[0], players[1]), matches, seeded).lead
                lead, variance = estimate.mean, _error(estimate) ** 2
            gains.append(lead / half_range(spec))
            variances.append(variance / half_range(spec) ** 2)
    return Gain(fmean(gains), sum(variances) ** 0.5 / len(variances), confidence)


def _difference(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return fmean([first[game] - second[game] for game in first])


def _error(estimate: Estimate) -> float:
    """Return the approximate standard error of an estimate, by its 95 % interval; infinite without one."""
    if estimate.low is None or estimate.high is None:
        return float("inf")
    return (estimate.high - estimate.low) / (2.0 * NormalDist().inv_cdf(0.975))


def ranked(runs: Sequence[Path], verdicts: Mapping[tuple[Path, Path], Gain]) -> list[Path]:
    """Return runs by their mean gain over all others, the best first; equals keep their order."""
    mean = {run: fmean([verdicts[run, other].gain for other in runs if other != run] or [0.0]) for run in runs}
    return sorted(runs, key=lambda run: -round(mean[run], 12))
