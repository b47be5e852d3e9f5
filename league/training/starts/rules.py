"""Start rules: how often each start of a game is played, given the figures of its matches so far.

A rule is a pure function of the starts that have been played and a ``Moment``, and gives each a weight of 0 or more
[N]; all 0 means all equal. In what follows p is a start's solve rate.

To add a rule: write its function here and its entry below; from outside, give it to ``league.register_start``. Its own
settings, if it has any, are ``moment.config.NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError
from games.common.registry import Entry, Registry
from games.registry import make_game
from league.config import RunConfig
from league.config.matchmaking import StartsConfig
from league.training.starts.measured import StoredStart

EQUAL_DIGITS = 12  # scores that agree to this many digits are equal


class Moment(NamedTuple):
    """The time of a draw: an iteration of a run, and its configuration of starts."""

    iteration: int  # from 1
    iterations: int  # of the whole run
    config: StartsConfig


StartWeights = Callable[[Sequence[StoredStart], Moment], NDArray[np.float64]]
# For a rule that makes starts itself: the starts, born in an iteration, that follow the existing ones.
Children = Callable[[Sequence[StoredStart], StartsConfig, int], list[StoredStart]]


def check_floor(config: RunConfig) -> None:
    """Raise UsageError for a floor that leaves nothing to the rule."""
    settings = config.starts
    if settings.floor >= 1.0:
        raise UsageError(
            f"starts.floor = {settings.floor:g} leaves nothing to starts.rule = {settings.rule!r}: all starts are "
            "drawn with equal probability. Choose rule 'uniform', or a smaller floor."
        )


@dataclass(frozen=True, slots=True)
class StartRule(Entry[StartWeights]):
    """A start rule; ``make(starts, moment)`` returns a weight for each start [N]."""

    check: Callable[[RunConfig], None] | None = check_floor
    by_figures: bool = True  # it reads the figures of matches, so starts never played have a separate share
    # The pool starts with an expert's matches, each start leaving the last action to play, and grows by these; None: it
    # starts with new deals.
    children: Children | None = None


def uniform(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """All starts alike, 1 [N]: the baseline for every other rule."""
    return np.ones(len(starts))


def learnability(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Learnability: starts that are sometimes solved and sometimes not, p (1 - p) [N].

    That is the variance of a 0/1 outcome, and what one step of REINFORCE can gain (Tzannetos et al. 2023, ProCuRL;
    Rutherford et al. 2024, "No Regrets", sampling for learnability).
    """
    rates = np.array([start.rate for start in starts], np.float64)
    return rates * (1.0 - rates)


def plr(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Prioritised level replay: starts from which much is still to be learned, and stale ones [N].

    Jiang et al. 2021 (PLR). A start has a score S: "value_loss", the mean distance of a match from the mean before it,
    which is the L1 value loss with that mean as the value, 2p (1 - p) for a 0/1 task; or "regret", the best match so
    far less the mean (MaxMC; Jiang et al. 2021, "Replay-guided adversarial environment design"), 1 - p of a task that
    was ever solved. Ranked by it, 1 for the largest, equal scores sharing their mean rank,

        P = (1 - rho) P_S + rho P_C

    where P_S is proportional to (1 / rank) ** (1 / beta) and P_C to the iterations since a start's last match, with
    beta = ``temperature`` and rho = ``staleness``. A start may be played again immediately, so staleness counts from 0.
    """
    config = moment.config
    surprise = np.array([start.surprise for start in starts], np.float64)
    regret = np.array([start.best - start.rate for start in starts], np.float64)
    by_score = _shares(
        (1.0 / ranks(surprise if config.score == "value_loss" else regret)) ** (1.0 / config.temperature)
    )
    stale = _shares(np.array([moment.iteration - 1 - start.last for start in starts], np.float64))
    return (1.0 - config.staleness) * by_score + config.staleness * stale


def ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each score [N], 1 for the largest; equal scores, up to rounding, share their mean rank."""
    falling = -np.round(scores, EQUAL_DIGITS)
    ordered = np.sort(falling)
    first, last = np.searchsorted(ordered, falling, "left"), np.searchsorted(ordered, falling, "right")
    return (first + last + 1) / 2


def _shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1.0 / max(len(weights), 1))


def staged(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Longer matches as the run progresses: 1 for each start of an admitted size, else 0 [N].

    Xi et al. 2025 (AgentGym-RL: ScalingInter-RL). Sizes are admitted one by one, the smallest first and the largest
    when the share ``ramp`` of the iterations is over; among the admitted sizes, all starts are alike.
    """
    return np.array([start.size <= largest(starts, moment) for start in starts], np.float64)


def largest(starts: Sequence[StoredStart], moment: Moment) -> int:
    """Return the largest admitted size."""
    sizes = sorted({start.size for start in starts})
    ramp = moment.config.ramp * moment.iterations
    stage = len(sizes) * (moment.iteration - 1) // ramp if ramp else len(sizes)
    return sizes[min(int(stage), len(sizes) - 1)]


def hard(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Weight starts by how rarely they are solved: (1 - p) ** power of each that was solved, even in part, else 0 [N].

    The rarer its successes, the more often a start is played, so that a group contains one (as ARPO, Lu et al. 2025,
    replays successes into groups without any, and rStar2, Shang et al. 2025, resamples on correct answers). A start
    that was never solved weighs nothing: nothing could be learned from it.
    """
    rates = np.array([start.rate for start in starts], np.float64)
    solved = np.array([start.best > 0.0 for start in starts], bool)
    return np.where(solved, (1.0 - rates) ** moment.config.power, 0.0)


def backward(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Backward: an expert's matches from the end backwards, 1 for each start without a child, else 0 [N].

    Salimans and Chen 2018; R3, Xi et al. 2024; Agent-RLVR, 2025. The first start of an expert's match leaves one action
    to play. A mastered start is followed by its child, whose prefix is one action shorter, until nothing of the expert
    is left. Only the last start of each such line is played.
    """
    parents = {start.parent for start in starts}
    return np.array([start.name not in parents for start in starts], np.float64)


def shortened(starts: Sequence[StoredStart], config: StartsConfig, iteration: int) -> list[StoredStart]:
    """Return the starts, born in an iteration, that follow the mastered ones that have no child yet."""
    parents = {start.parent for start in starts}
    return [
        StoredStart(
            stored.start._replace(prefix=stored.start.prefix[:-1]),
            size=stored.size + 1,
            parent=stored.name,
            author=stored.author,
            born=iteration,
        )
        for stored in starts
        if stored.start.prefix and stored.plays and stored.rate >= config.mastered and stored.name not in parents
    ]


def check_prefixes(config: RunConfig) -> None:
    """Raise UsageError for a run whose matches, or other starts, the rule cannot shorten."""
    check_floor(config)
    if config.starts.middles:
        raise UsageError(
            f"starts.rule = {config.starts.rule!r} shortens an expert's matches, one start following another, and "
            f"starts.middles = {config.starts.middles} would add others to the pool. Leave it out, or choose "
            "another rule."
        )
    for game in config.games:
        if make_game(game).spec.submatch_games:
            raise UsageError(
                f"starts.rule = {config.starts.rule!r} shortens matches of an expert, which is cast for no submatch, "
                f"and those of {game} open some. Choose another rule; starts.middles leaves starts within them."
            )


def variance(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Only starts whose matches vary most: 1 for each start that is kept, else 0 [N].

    Wang et al. 2025 (RAGEN: filtering by the variance of rewards). Groups of equal returns teach nothing and let the
    update drift. The share ``keep`` of starts with the largest standard deviation is played, all alike, with any that
    equal the last of them.
    """
    if not starts:
        return np.zeros(0)
    spreads: NDArray[np.float64] = np.array([round(start.spread, EQUAL_DIGITS) for start in starts], np.float64)
    count = max(1, round(moment.config.keep * len(spreads)))
    return np.array(spreads >= np.sort(spreads)[-count], np.float64)


def relative_spread(starts: Sequence[StoredStart], _moment: Moment) -> NDArray[np.float64]:
    """Relative spread: standard deviation / mean of a start's matches [N]; 0 of one that was never solved.

    Tajwar et al. 2025 (PAPRIKA: learning potential, the coefficient of variation). It does not depend on the scale of
    the returns; of a 0/1 task it is sqrt((1 - p) / p), so what is seldom solved is played most.
    """
    rates, spreads = (np.array([getattr(one, part) for one in starts], np.float64) for part in ("rate", "spread"))
    return np.divide(spreads, rates, out=np.zeros(len(starts)), where=rates > 0.0)


START_RULES: Registry[StartRule] = Registry(
    "starts",
    "start rule",
    StartRule,
    "starts.rule",
    {
        "uniform": StartRule(uniform, check=None, by_figures=False),
        "learnability": StartRule(learnability),
        "plr": StartRule(plr),
        "staged": StartRule(staged, by_figures=False),
        "hard": StartRule(hard),
        "backward": StartRule(backward, by_figures=False, check=check_prefixes, children=shortened),
        "variance": StartRule(variance),
        "relative_spread": StartRule(relative_spread),
    },
    reserved=StartsConfig.model_fields,
)
register = START_RULES.register
