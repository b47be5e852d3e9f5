"""Welfare: the seats' joint return against the best possible one, in games where nobody has to lose.

The welfare of a match is the sum of its returns. The best possible is the greatest sum with which a match on the same
deal can end, whatever the seats know: in a game without chance, the best of its terminals. A match is Pareto-optimal if
it could not have ended better for one seat and no worse for any other; the share of such matches is the Pareto share.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from statistics import fmean

import numpy as np

from arena.records import EndReason, Episode
from games.common.errors import UsageError
from games.openspiel.repeated import is_repeated, stage_game
from games.outside.as_played import is_outside
from games.registry import make_game
from games.spec import GameSpec, HasOutcomes, Utility

Metrics = dict[str, float]
Outcomes = Collection[tuple[float, ...]]  # returns by seat

MOST_MATCHES = 256  # of an iteration that are compared with the possible outcomes
MOST_STATES = 1_000  # information states of a game whose terminals are enumerated
MOST_OUTCOMES = 20_000  # of a repeated game
SAME = 1e-9  # returns that differ by less, in the game's units, count as equal


def welfare_metrics(spec: GameSpec, episodes: Sequence[Episode]) -> Metrics:
    """Return ``GAME/welfare``, and ``/best_welfare`` and ``/pareto_share`` where the possible outcomes are known.

    They are means over self-play matches, or over all matches if there are none. Empty for games that are not
    general-sum: in others welfare is everyone's return, or says nothing.
    """
    if spec.utility is not Utility.GENERAL_SUM or not episodes:
        return {}
    chosen = [episode for episode in episodes if episode.request.rule == "self_play"] or list(episodes)
    shown = chosen[:: -(-len(chosen) // MOST_MATCHES)]
    metrics = {f"{spec.name}/welfare": fmean([sum(episode.returns) for episode in shown])}
    outcomes = [outcomes_of(spec, episode) for episode in shown]
    with_outcomes = [(episode, possible) for episode, possible in zip(shown, outcomes, strict=True) if possible]
    if len(with_outcomes) < len(shown):
        return metrics
    best = fmean([max(map(sum, possible)) for _, possible in with_outcomes])
    optimal = [e.end is EndReason.FINISHED and is_pareto(e.returns, possible) for e, possible in with_outcomes]
    return metrics | {f"{spec.name}/best_welfare": best, f"{spec.name}/pareto_share": fmean(optimal)}


def outcomes_of(spec: GameSpec, episode: Episode) -> Outcomes:
    """Return the returns that a match could have ended with; empty where they are not known."""
    from arena.submatches import begin_match  # slow to import

    if not spec.has_chance:
        return fixed_outcomes(spec.name)
    match = make_game(spec.name)
    if not isinstance(match, HasOutcomes):
        return ()
    begin_match(match, episode.request)
    return match.possible_returns()


@lru_cache(maxsize=16)
def fixed_outcomes(game: str) -> Outcomes:
    """Return the returns that matches of a game can end with on any deal; empty if the game is too large."""
    from league.theory.exact.exploitability import count_information_states, exact_form  # slow to import

    if is_repeated(game):
        return _repeated(game)
    try:
        count_information_states(game, MOST_STATES)
        return frozenset(tuple(map(float, row)) for row in exact_form(game).returns)
    except UsageError:
        return frozenset()


def common_interest(spec: GameSpec) -> bool:
    """Return whether all seats always earn the same: as a game declares, or as all ends of a small one show.

    OpenSpiel calls some such games general-sum, ``lewis_signaling`` among them.
    """
    if spec.utility is not Utility.GENERAL_SUM or spec.seats == 1:
        return spec.utility is Utility.IDENTICAL
    outcomes = () if is_outside(spec.name) else fixed_outcomes(spec.name)  # its motive is in its name
    return bool(outcomes) and all(max(returns) - min(returns) < SAME for returns in outcomes)


def is_pareto(returns: Sequence[float], possible: Outcomes) -> bool:
    """Return whether no possible outcome is better for a seat and no worse for any other."""
    actual, others = np.array(returns), np.array(list(possible))
    no_worse = (others >= actual - SAME).all(axis=1)
    return not bool((no_worse & (others > actual + SAME).any(axis=1)).any())


def _repeated(game: str) -> Outcomes:
    """Return the sums of a stage's payoffs over its rounds; empty if there are too many."""
    stage = stage_game(game)
    payoffs = {tuple(row) for row in stage.payoffs.reshape(len(stage.payoffs), -1).T.tolist()}
    sums = {(0.0,) * len(stage.payoffs)}
    for _ in range(stage.rounds):
        sums = {tuple([round(a + b, 9) for a, b in zip(total, row, strict=True)]) for total in sums for row in payoffs}
        if len(sums) > MOST_OUTCOMES:
            return frozenset()
    return frozenset(sums)
