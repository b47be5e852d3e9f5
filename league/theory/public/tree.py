"""A game's public tree: positions that everybody sees, and in each a vector over what a seat may hold.

In poker and liar's dice each seat is dealt a hand, and all that follows is seen by both: a history is a public position
and two hands. A walk over public positions with vectors over hands does in one product what a walk over histories does
hand by hand (Johanson et al. 2011, "Accelerating best response calculation in large extensive games"), and a level of
the tree is one array. So a best response needs no Python a history.

Every position but the root is where one move led to, so the chance of a move, for each hand of who moves, is kept at
the position that it leads to: ``policy[c, h]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
CHANCE = -1  # the seat that moves where a public card is drawn
MOST_STATES = 20_000_000  # information states that are counted out; a policy of this many takes a few GB
MOST_SAMPLED = 100_000_000  # of which some are sampled: the tree alone takes as much
NOWHERE = -1  # the parent of the root, and the ending of a position where the match continues


@dataclass(frozen=True, slots=True)
class PublicTree:
    """A two-seat zero-sum game of private hands and public moves.

    Positions are numbered level by level, and the children of a position stand beside each other.
    """

    game: str
    hands: tuple[tuple[str, ...], tuple[str, ...]]  # what each seat may hold
    parent: Integers  # of each position; NOWHERE for the root  # [N]
    action: Integers  # the move that led to it, as the game numbers it  # [N]
    seat: Integers  # who moves there; CHANCE; anything where the match is over  # [N]
    ending: Integers  # which row of ``returns`` it pays; NOWHERE where the match continues  # [N]
    levels: Integers  # where each level begins, and where the last one ends  # [L + 1]
    chances: Floats  # of hands and of the public cards on the way, by ending  # [E, H0, H1]
    returns: Floats  # seat 0's, by ending and hands  # [E, H0, H1]

    @property
    def positions(self) -> int:
        """The number of public positions."""
        return len(self.parent)

    @property
    def information_states(self) -> int:
        """The number of (position, hand) at which a seat has to choose, and to which the deal may lead."""
        going = self.ending == NOWHERE
        return int(sum(np.count_nonzero(self.possible(s)[going & (self.seat == s)]) for s in (0, 1)))

    def possible(self, seat: int) -> NDArray[np.bool_]:
        """Return whether a seat can hold each hand in each position: a public card may rule one out."""  # [N, H_seat]
        held = np.any(self.chances > 0.0, axis=2 - seat)
        found = np.where((self.ending == NOWHERE)[:, None], False, held[self.ending])
        for positions, children in self.families():
            found[positions] = np.logical_or.reduceat(found[children], self.first_children(children))
        return found

    def moves(self) -> Integers:
        """Return who made the move that led to each position; CHANCE for the root."""  # [N]
        return np.where(self.parent == NOWHERE, CHANCE, self.seat[self.parent])

    def families(self) -> Iterator[tuple[Integers, slice]]:
        """Yield (positions, their children) level by level, deepest first; only positions that have children."""
        for level in range(len(self.levels) - 2, 0, -1):
            children = slice(int(self.levels[level]), int(self.levels[level + 1]))
            yield self.parent[children][self.first_children(children)], children

    def first_children(self, children: slice) -> Integers:
        """Return where, within a level, the children of each position of the level above begin."""
        parents = self.parent[children]
        return np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]])

    def uniform(self) -> Floats:
        """Return the policy that plays every legal move with equal probability."""  # [N, H]
        children = np.bincount(self.parent[1:], minlength=self.positions)
        chances = np.ones((self.positions, max(map(len, self.hands))))
        chances[1:] /= children[self.parent[1:], None]
        return chances

    def check(self, policy: Floats) -> None:
        """Raise ValueError for a policy of another shape, or whose moves at a position do not sum to one."""
        shape = (self.positions, max(map(len, self.hands)))
        if policy.shape != shape:
            raise ValueError(f"a policy of {self.game} has shape {shape}, got {policy.shape}")
        for positions, children in self.families():
            chosen = self.seat[positions] != CHANCE
            sums = np.add.reduceat(policy[children], self.first_children(children))[chosen]
            for seat in (0, 1):
                own = self.seat[positions][chosen] == seat
                if not np.allclose(sums[own, : len(self.hands[seat])], 1.0, atol=1e-6):
                    raise ValueError(f"the moves of seat {seat} do not sum to one at some position of {self.game}")
