"""Values, best responses, exploitability and equilibria over a public tree.

Equilibria are found by CFR+ (Tammelin 2014): regrets never fall below 0, and averages are weighed by time.
"""

from __future__ import annotations

import numpy as np

from league.theory.public.tree import NOWHERE, Floats, PublicTree


def reach(tree: PublicTree, policy: Floats, seat: int) -> Floats:
    """Return how likely a seat's own moves lead to each position, by its hand."""  # [N, H_seat]
    hands = len(tree.hands[seat])
    chances = np.ones((tree.positions, hands))
    by = tree.moves()
    for level in range(1, len(tree.levels) - 1):
        own = slice(int(tree.levels[level]), int(tree.levels[level + 1]))
        chances[own] = chances[tree.parent[own]]
        moved = by[own] == seat
        chances[own][moved] *= policy[own][moved, :hands]
    return chances


def at_endings(tree: PublicTree, others: Floats, seat: int) -> Floats:
    """Return what a seat earns at each ending, by its hand, times how likely chance and the other seat lead there.

    ``others``: the other seat's ``reach``. Zero where the match goes on.  # [N, H_seat]
    """
    earned = np.zeros((tree.positions, len(tree.hands[seat])))
    ended = np.flatnonzero(tree.ending != NOWHERE)
    order = ended[np.argsort(tree.ending[ended], kind="stable")]
    kinds = tree.ending[order]
    starts = np.flatnonzero(np.r_[True, kinds[1:] != kinds[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
        payoff = tree.returns[kinds[start]] * tree.chances[kinds[start]]  # [H0, H1], to seat 0
        rows = order[start:stop]
        earned[rows] = others[rows] @ (payoff.T if seat == 0 else -payoff)
    return earned


def counterfactual_values(tree: PublicTree, policy: Floats, seat: int, *, best: bool) -> Floats:
    """Return what a seat earns from each position on, by its hand, times how likely the others lead there.

    It plays by ``policy``, or with ``best`` what earns most against the other seat's part of it.  # [N, H_seat]
    """
    hands = len(tree.hands[seat])
    values = at_endings(tree, reach(tree, policy, 1 - seat), seat)
    for positions, children in tree.families():
        below, starts = values[children], tree.first_children(children)
        own = tree.seat[positions] == seat
        summed = np.empty((len(positions), hands))
        if not own.all():
            summed[~own] = np.add.reduceat(below, starts)[~own]
        if own.any():
            if best:
                summed[own] = np.maximum.reduceat(below, starts)[own]
            else:
                summed[own] = np.add.reduceat(below * policy[children, :hands], starts)[own]
        values[positions] = summed
    return values


def returns(tree: PublicTree, policy: Floats) -> float:
    """Return seat 0's expected return when both play by ``policy``; seat 1's is minus that."""
    return float(counterfactual_values(tree, policy, 0, best=False)[0].sum())


def best_responses(tree: PublicTree, policy: Floats) -> tuple[float, float]:
    """Return, by seat, the most that it can expect while the other plays by ``policy``."""
    first, second = (float(counterfactual_values(tree, policy, seat, best=True)[0].sum()) for seat in (0, 1))
    return first, second


def exploitability(tree: PublicTree, policy: Floats) -> float:
    """Return the mean over seats of what a best response gains, in the game's units a match."""
    return sum(best_responses(tree, policy)) / 2.0


def solve(tree: PublicTree, iterations: int) -> Floats:
    """Return the average policy after this many iterations; each updates both seats in turn."""  # [N, H]
    policy = tree.uniform()
    regrets, total = np.zeros_like(policy), np.zeros_like(policy)
    by = tree.moves()
    for iteration in range(1, iterations + 1):
        for seat in (0, 1):
            hands = len(tree.hands[seat])
            moved = np.flatnonzero(by == seat)
            own = reach(tree, policy, seat)
            total[moved, :hands] += iteration * own[tree.parent[moved]] * policy[moved, :hands]
            regrets[moved, :hands] += _gains(tree, policy, seat)[moved]
            np.maximum(regrets, 0.0, out=regrets)
            _match(tree, regrets, policy, seat)
    for seat in (0, 1):
        _match(tree, total, policy, seat)
    return policy


def _gains(tree: PublicTree, policy: Floats, seat: int) -> Floats:
    """Return by how much each move is worth more than the seat's own mix of moves, by its hand."""  # [N, H_seat]
    hands = len(tree.hands[seat])
    values = at_endings(tree, reach(tree, policy, 1 - seat), seat)
    gains = np.zeros_like(values)
    for positions, children in tree.families():
        starts, below = tree.first_children(children), values[children]
        own = tree.seat[positions] == seat
        counts = np.diff([*starts, len(below)])
        mine = np.repeat(own, counts)
        summed = np.add.reduceat(np.where(mine[:, None], below * policy[children, :hands], below), starts)
        gains[children] = np.where(mine[:, None], below - np.repeat(summed, counts, axis=0), 0.0)
        values[positions] = summed
    return gains


def _match(tree: PublicTree, weights: Floats, policy: Floats, seat: int) -> None:
    """Set a seat's moves in proportion to their weights; evenly where all are 0."""
    hands = len(tree.hands[seat])
    for positions, children in tree.families():
        starts = tree.first_children(children)
        counts = np.diff([*starts, children.stop - children.start])
        mine = np.repeat(tree.seat[positions] == seat, counts)
        sums = np.repeat(np.add.reduceat(weights[children, :hands], starts), counts, axis=0)
        even = 1.0 / np.repeat(counts, counts)[:, None]
        shares = np.where(sums > 0.0, weights[children, :hands] / np.where(sums > 0.0, sums, 1.0), even)
        policy[children, :hands] = np.where(mine[:, None], shares, policy[children, :hands])
