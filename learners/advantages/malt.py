"""MALT (arXiv 2412.01928): credit for generator, verifier and refiner from a tree of their replies.

From one start the generator replies n times, the verifier n times to each of these, the refiner n times to each of
those: n^3 matches, of which those whose branches begin alike begin alike (``matchmaking.tree`` = n). The value of a
reply is the mean outcome of the matches that go through it:

    V(refinement) = outcome    V(critique) = mean of its refinements' V    V(answer) = mean of its critiques' V
    A = V - mean V of its siblings, itself among them

This is the policy-gradient form. The paper's own calls a reply good if V > 1/2, and prefers every good reply to every
other one of its siblings (``sibling_pairs``, for the objective ``dpo``). Both hold for any number of seats that speak
once each, in the order of the seats, and all earn the same. A reply that many matches go through counts once: each of
its trajectories weighs 1 / their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from games.errors import UsageError
from learners.advantages.grpo import broadcast
from learners.advantages.sums import Floats, Labels, numbered
from learners.trajectories import Trajectory


class Tree(NamedTuple):
    """The replies of a batch, each with the trajectories that hold it."""

    replies: Labels  # the number of each trajectory's reply  # [N]
    parents: Labels  # the number of what it replies to, the same for siblings  # [N]
    matches: Labels  # trajectories that hold the same reply  # [N]


def malt(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return each reply's value less its siblings' mean. Raises UsageError for what is not whole trees."""
    tree, returns = tree_of(trajectories), np.array([one.match_return for one in trajectories])
    return broadcast(trajectories, _means(returns, tree.replies) - _means(returns, tree.parents)), state


def once(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[float], dict[str, Any]]:
    """Return 1 / the number of matches that go through a trajectory's reply. Raises UsageError as ``malt``."""
    return (1.0 / tree_of(trajectories).matches).tolist(), state


def tree_of(trajectories: Sequence[Trajectory]) -> Tree:
    """Return who shares a reply, and who replies to the same. Raises UsageError for what is not whole trees."""
    roots = [(one.game, one.deal_seed, one.players, one.seat) for one in trajectories]
    replies = numbered([(*r, one.branch[: one.seat + 1]) for r, one in zip(roots, trajectories, strict=True)])
    parents = numbered([(*r, one.branch[: one.seat]) for r, one in zip(roots, trajectories, strict=True)])
    matches = np.bincount(replies)[replies]
    siblings = np.bincount(parents)[parents] / np.maximum(matches, 1)
    for place, one in enumerate(trajectories):
        depth, n = len(one.branch), siblings[place]
        if one.seat >= depth or n < 2 or n ** (depth - one.seat - 1) != matches[place]:
            raise UsageError(
                f"Credit rule 'malt' compares replies to the same within whole trees, but match {one.match} of "
                f"{one.game}, role {one.role}, has a branch of {depth} turns, and {matches[place]} matches go through "
                f"its reply, which has {n:g} siblings. Set matchmaking.tree to 2 or more, give every role of the game "
                "the rule, and hand over whole trees."
            )
    return Tree(replies, parents, matches)


def sibling_pairs(trajectories: Sequence[Trajectory], middles: Mapping[str, float]) -> list[tuple[int, int]]:
    """Return the places of the trajectories that hold two siblings of which the first alone is good.

    A reply is good if its value lies above its game's ``middles``, 1/2 where a match comes out right (1) or wrong (0).
    Every reply is held by the first of its trajectories. Siblings that say the same make no pair: nothing tells them
    apart. Raises UsageError as ``malt``, and for a seat that has spoken more than once.
    """
    tree, returns = tree_of(trajectories), np.array([one.match_return for one in trajectories])
    good = _means(returns, tree.replies) > np.array([middles[one.game] for one in trajectories])
    siblings: dict[int, list[int]] = {}
    for place in np.unique(tree.replies, return_index=True)[1].tolist():
        siblings.setdefault(int(tree.parents[place]), []).append(place)
    return [
        (chosen, rejected)
        for own in siblings.values()
        for chosen in own
        for rejected in own
        if good[chosen] and not good[rejected] and _said(trajectories[chosen]) != _said(trajectories[rejected])
    ]


def flat_siblings(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) how many sets of siblings teach nothing, their values being equal, and how many there are.

    Raises UsageError as ``malt``.
    """
    tree, returns = tree_of(trajectories), np.array([one.match_return for one in trajectories])
    values = _means(returns, tree.replies)
    sets: dict[tuple[str, str], dict[int, set[float]]] = {}
    for one, parent, value in zip(trajectories, tree.parents.tolist(), values.tolist(), strict=True):
        sets.setdefault((one.game, one.role), {}).setdefault(parent, set()).add(value)
    return {key: (sum(len(found) == 1 for found in own.values()), len(own)) for key, own in sets.items()}


def _said(one: Trajectory) -> str | None:
    """Return a seat's only reply; None if the match ended before it. Raises UsageError if there are several."""
    if len(one.turns) > 1:
        raise UsageError(
            f"Objective 'dpo' is for seats that speak once, but {one.role} of {one.game} has {len(one.turns)} turns "
            f"in match {one.match}. Set objective.name = 'ppo'."
        )
    return one.turns[0].reply if one.turns else None


def _means(values_N: Floats, labels_N: Labels) -> Floats:
    """Return at each place the mean of the values with its label."""
    return np.asarray((np.bincount(labels_N, values_N) / np.bincount(labels_N))[labels_N])
