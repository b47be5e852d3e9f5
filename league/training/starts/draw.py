"""The draw of an iteration's starts: by a rule's weights, each start at most once, so that groups stay even."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arena.records import MatchRequest
from games.common.seeds import derive_seed
from league.training.starts.measured import StoredStart
from league.training.starts.rules import START_RULES, Moment


def from_starts(
    requests: Sequence[MatchRequest], starts: Sequence[StoredStart], moment: Moment, run_seed: int
) -> list[MatchRequest]:
    """Return matches of one game from stored starts; matches of one deal share one start.

    ``moment.config.rule`` is set. With fewer starts than deals, some deals stay as they are.
    """
    if not requests:
        return []
    deals = list(dict.fromkeys(request.deal_seed for request in requests))
    rng = np.random.default_rng(derive_seed(run_seed, "starts", moment.iteration, requests[0].game))
    chosen = draw_starts(starts, min(len(deals), len(starts)), moment, rng)
    start_of = dict(zip(deals, chosen, strict=False))
    return [
        request.from_start(start_of[request.deal_seed].start) if request.deal_seed in start_of else request
        for request in requests
    ]


def draw_starts(
    starts: Sequence[StoredStart], count: int, moment: Moment, rng: np.random.Generator
) -> list[StoredStart]:
    """Return ``count`` different starts in random order, drawn with the probabilities of ``inclusion``.

    Raises ValueError if there are fewer.
    """
    chances = inclusion(chances_of(starts, moment), count)
    order = rng.permutation(len(starts))
    ends = np.cumsum(chances[order])
    ends[-1:] = count  # but for rounding
    picked = np.searchsorted(ends, rng.random() + np.arange(count), side="right")  # systematic sampling (Madow 1949)
    return [starts[order[index]] for index in rng.permutation(picked)]


def chances_of(starts: Sequence[StoredStart], moment: Moment) -> NDArray[np.float64]:
    """Return the share of each start in the draws [N]: from the rule, for starts never played, and from the floor."""
    config = moment.config
    rule = None if config.rule is None else START_RULES[config.rule]
    new = np.array([not start.plays for start in starts], bool)
    shares = np.zeros(len(starts))
    by_figures = rule is None or rule.by_figures
    played = ~new if by_figures else np.ones(len(starts), bool)
    if rule is not None and played.any():
        weights = rule.make([start for start, counts in zip(starts, played, strict=True) if counts], moment)
        shares[played] = weights / weights.sum() if weights.sum() > 0 else 1.0 / played.sum()
    if by_figures and new.any():
        shares = shares * (1.0 - config.unplayed) if played.any() else shares
        shares[new] += (config.unplayed if played.any() else 1.0) / new.sum()
    floor = config.floor if rule is None or rule.children is None else 0.0
    return (1.0 - floor) * shares + floor / max(len(starts), 1)


def inclusion(shares: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return each start's probability to be among ``count`` different ones [N], in proportion to its share, at most 1.

    Where fewer have a share, those without one divide the rest evenly. Raises ValueError if there are fewer.
    """
    if count > len(shares):
        raise ValueError(f"{count} different starts cannot be drawn from {len(shares)}")
    chances, certain = np.zeros(len(shares)), np.zeros(len(shares), bool)
    while (left := count - int(certain.sum())) > 0:
        open_weights = np.where(certain, 0.0, shares)
        if open_weights.sum() <= 0:
            chances[~certain] = left / (~certain).sum()
            break
        chances = np.where(certain, 1.0, left * open_weights / open_weights.sum())
        if not (over := (chances >= 1.0) & ~certain).any():
            break
        certain |= over
    return np.where(certain, 1.0, chances)
