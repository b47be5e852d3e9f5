"""What a matchmaking rule may look at when it weighs past opponents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from league.config_learning import LearnerKind
from league.config_matchmaking import MatchmakingConfig
from league.payoffs import Known

Kind = LearnerKind | Literal["guest"]


class Member(NamedTuple):
    """A player of the population: a snapshot, or a guest."""

    id: str
    policy: str  # the policy it is a snapshot of; of a guest, itself
    kind: Kind  # of the policy


class Meta(NamedTuple):
    """A game's meta-strategy, as it stands until the next snapshot."""

    weights: Mapping[str, float] = {}  # psro: of each player, among those that may take one seat
    joint: Sequence[tuple[tuple[str, ...], float]] = ()  # jpsro: line-ups by seat with their probabilities
    advised: tuple[str, ...] = ()  # jpsro, correlated: the snapshot that each seat is told to play  # [seats]


@dataclass(frozen=True)
class OpponentPool:
    """The past players that may fill a seat, and how the live policies that would meet them fare.

    ``known(player, opponent, game)`` says how the pair's matches went.
    """

    players: Sequence[str]  # oldest first  # [N]
    learners: tuple[str, ...]  # the live policies that may meet them
    game: str
    known: Callable[[str, str, str], Known]
    config: MatchmakingConfig
    kinds: Sequence[Kind] = ()  # of the policies that the players are snapshots of  # [N]
    meta: Mapping[str, float] = field(default_factory=dict)  # weight of a player in the meta-strategy

    @cached_property
    def records(self) -> NDArray[np.float64]:
        """The learners' rates of winning against each player, and the matches that they rest on [L, N, 2]."""
        return np.array([[self.known(learner, past, self.game) for past in self.players] for learner in self.learners])

    def win_rates(self) -> NDArray[np.float64]:
        """Return the learners' mean rate of winning against each player [N]."""
        return np.asarray(self.records[..., 0].mean(axis=0))

    def among(self, chosen: Sequence[int]) -> OpponentPool:
        """Return the pool of some of the players, by place."""
        return OpponentPool(
            [self.players[place] for place in chosen],
            self.learners,
            self.game,
            self.known,
            self.config,
            [self.kinds[place] for place in chosen],
            self.meta,
        )
