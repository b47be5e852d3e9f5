"""The members of a population, and the mixture over them that a best response is trained against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from league.config.learning import LeagueRole

Kind = LeagueRole | Literal["guest"]


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
