"""The members of a population, the mixture that a best response is trained against, and the games' judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

GUEST = "guest"
Kind = str  # a league role, or GUEST


class Member(NamedTuple):
    """A player of the population: a snapshot, or a guest."""

    id: str
    policy: str  # a snapshot's policy; a guest's own id
    kind: Kind  # of the policy


class MetaStrategy(NamedTuple):
    """A game's meta-strategy, which holds until the next snapshot."""

    weights: Mapping[str, float] = {}  # psro: by player, among those of one seat
    joint: Sequence[tuple[tuple[str, ...], float]] = ()  # jpsro: line-ups by seat with their probabilities
    advised: tuple[str, ...] = ()  # jpsro, correlated: the snapshot recommended to each seat  # [seats]


class JudgedGames(NamedTuple):
    """The results of the matches that judge a run's games; they hold until the next ones."""

    active: tuple[str, ...] = ()  # games that are trained; (): all
    fitness: Mapping[str, str] = {}  # whether a game is worth training, by game
    best: Mapping[str, tuple[str, ...]] = {}  # the line-up of snapshots with the best score so far, by game  # [seats]
    matches: int = 0  # that judged games so far
