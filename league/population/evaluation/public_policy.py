"""A player's policy over a public tree, in games that are too large for a table, and what it gives away there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from league.population.players.player import Player
from league.population.players.tabulating import PolicyReader
from league.theory.public.measures import best_responses, reach, returns
from league.theory.public.reading import read_policy
from league.theory.public.tree import Floats, PublicTree


class PublicValues(NamedTuple):
    """What a player earns against itself and a best response against it, in the game's units a match."""

    exact: bool  # False: some replies were sampled
    illegal_rate: float
    values: tuple[float, float]  # by seat
    best_responses: tuple[float, float]  # by seat


def public_values(player: Player, tree: PublicTree, tell: Callable[[int], object], seed: int = 0) -> PublicValues:
    """Ask a player at every information state of a tree, and compute its best responses.

    ``tell`` gets the number of states that were asked, now and then. A mixture is its equivalent behaviour policy.
    """
    policy = tree.uniform()
    readers: list[PolicyReader] = []
    read: dict[str, Floats] = {}
    for seat in (0, 1):
        for identity, _ in player.members[seat]:
            if identity not in read:
                readers.append(
                    PolicyReader(
                        identity, player.engine_of(identity), player.roles, random.Random(f"{seed}/{identity}")
                    )
                )
                read[identity] = read_policy(tree, readers[-1], tell)
        moved = tree.moves() == seat
        mixed = mixture(tree, seat, [(read[identity], weight) for identity, weight in player.members[seat]])
        policy[moved] = mixed[moved]
    replies = sum(reader.replies for reader in readers)
    value = returns(tree, policy)
    return PublicValues(
        exact=not replies,
        illegal_rate=sum(reader.illegal for reader in readers) / replies if replies else 0.0,
        values=(value, -value),
        best_responses=best_responses(tree, policy),
    )


def mixture(tree: PublicTree, seat: int, members: list[tuple[Floats, float]]) -> Floats:
    """Return the behaviour of a seat that draws one of several policies for each match (Kuhn's theorem).

    A move counts by the members' weights times how likely each would have come there; evenly by weight where none
    would.  # [N, H]
    """
    if len(members) == 1:
        return members[0][0]
    hands = len(tree.hands[seat])
    moved = np.flatnonzero(tree.moves() == seat)
    before = tree.parent[moved]
    chances = [weight * reach(tree, policy, seat)[before] for policy, weight in members]
    total = np.sum(chances, axis=0)
    mixed = members[0][0].copy()
    weights = sum(weight for _, weight in members)
    mixed[moved, :hands] = 0.0
    for chance, (policy, weight) in zip(chances, members, strict=True):
        share = np.where(total > 0.0, chance / np.where(total > 0.0, total, 1.0), weight / weights)
        mixed[moved, :hands] += share * policy[moved, :hands]
    return mixed
