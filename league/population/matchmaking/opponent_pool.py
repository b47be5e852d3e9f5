"""The input of a matchmaking rule that weighs past opponents, and drawing players by such weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from league.config.matchmaking import MatchmakingConfig
from league.population.results.payoffs import PairRecord
from league.population.storage.members import Kind


@dataclass(frozen=True)
class OpponentPool:
    """The past players that may take a seat, and the records of the live policies that would meet them."""

    players: Sequence[str]  # oldest first  # [N]
    learners: tuple[str, ...]  # the live policies that may meet them
    game: str
    pair_record: Callable[[str, str, str], PairRecord]  # of (player, opponent, game)
    config: MatchmakingConfig
    kinds: Sequence[Kind] = ()  # of the policies that the players are snapshots of  # [N]
    meta_weights: Mapping[str, float] = field(default_factory=dict)  # of players in the meta-strategy
    policies: Sequence[str] = ()  # that the players are snapshots of  # [N]

    @cached_property
    def records(self) -> NDArray[np.float64]:
        """The learners' win rates against each player, and the effective number of matches behind them [L, N, 2]."""
        records = [[self.pair_record(learner, past, self.game) for past in self.players] for learner in self.learners]
        return np.array(records)

    def win_rates(self) -> NDArray[np.float64]:
        """Return the learners' mean win rate against each player [N]."""
        return np.asarray(self.records[..., 0].mean(axis=0))

    def subset(self, indices: Sequence[int]) -> OpponentPool:
        """Return the pool with only the players of these indices."""
        return replace(self, players=[self.players[i] for i in indices], kinds=[self.kinds[i] for i in indices])


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights [N] as probabilities; uniform if all are zero."""
    total = weights.sum()
    return np.asarray(weights / total if total > 0.0 else np.full(len(weights), 1.0 / len(weights)))


def systematic_sample(
    weights: Sequence[float] | NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw ``size`` indices into ``weights`` in random order; i is expected ``size`` * P(i) times.

    Systematic sampling (Madow 1949): a count differs from its expectation by less than one.
    """
    cumulative = np.cumsum(weights)
    points = (rng.random() + np.arange(size)) / size * cumulative[-1]
    drawn = np.minimum(np.searchsorted(cumulative, points, side="right"), len(cumulative) - 1)
    return rng.permutation(drawn)


def prioritised(win_rates: NDArray[np.float64], weighting: Literal["hard", "variance"]) -> NDArray[np.float64]:
    """Return P(B) of prioritised fictitious self-play [N] for the learner's win rates x_B [N]: see ``rules.pfsp``."""
    return normalised({"hard": (1.0 - win_rates) ** 2.0, "variance": win_rates * (1.0 - win_rates)}[weighting])


def alike_by_policy(pool: OpponentPool, chosen: Sequence[bool]) -> NDArray[np.float64]:
    """Return P(B) = 1 / (K n_k) [N] for the chosen players, n_k snapshots of each of K policies; 0 for others."""
    snapshots = Counter(policy for policy, is_chosen in zip(pool.policies, chosen, strict=True) if is_chosen)
    shares = [
        1.0 / (len(snapshots) * snapshots[policy]) if is_chosen else 0.0
        for policy, is_chosen in zip(pool.policies, chosen, strict=True)
    ]
    return np.array(shares)
