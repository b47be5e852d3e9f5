"""Trees: trajectories whose replies may be compared, because they answer the same observation.

From one start the seat that speaks first replies n times, the next n times to each of these, and so on
(``matchmaking.tree`` = n): matches share their turns as far as their branches are equal. The value of a reply is the
mean outcome of the matches that go through it, and its siblings are the other replies to the same turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from games.common.errors import UsageError
from learners.advantages.common import Floats, Labels, label_ids
from learners.trajectories import Trajectory


class Tree(NamedTuple):
    """The replies of a batch, each with the trajectories that hold it."""

    replies: Labels  # the label of each trajectory's reply  # [N]
    parents: Labels  # the label of the node that it answers, equal for siblings  # [N]
    matches: Labels  # how many trajectories hold the same reply  # [N]


def tree_of(trajectories: Sequence[Trajectory]) -> Tree:
    """Return which trajectories share a reply or a parent. Raises UsageError unless they form whole trees."""
    roots = [(t.game, t.deal_seed, t.players, t.seat) for t in trajectories]
    replies = label_ids([(*r, t.branch[: t.seat + 1]) for r, t in zip(roots, trajectories, strict=True)])
    parents = label_ids([(*r, t.branch[: t.seat]) for r, t in zip(roots, trajectories, strict=True)])
    matches = np.bincount(replies)[replies]
    siblings = np.bincount(parents)[parents] / np.maximum(matches, 1)
    for index, t in enumerate(trajectories):
        depth, n = len(t.branch), siblings[index]
        if t.seat >= depth or n < 2 or n ** (depth - t.seat - 1) != matches[index]:
            raise UsageError(
                f"Sibling replies are compared within whole trees, but match {t.match} of {t.game}, role {t.role}, "
                f"has a branch of {depth} turns, and {matches[index]} matches go through its reply, which has {n:g} "
                "siblings. Set matchmaking.tree to 2 or more, give every role of the game the rule, and pass whole "
                "trees."
            )
    return Tree(replies, parents, matches)


def sibling_pairs(trajectories: Sequence[Trajectory], thresholds: Mapping[str, float]) -> list[tuple[int, int]]:
    """Return pairs of siblings, of which only the first is good, as indices of trajectories that hold them.

    A reply is good if its value lies above its game's threshold, e.g. 1/2 where a match is right (1) or wrong (0).
    Every reply is represented by the first of its trajectories. Siblings with equal texts make no pair, since a policy
    cannot prefer one of them. Raises UsageError as ``tree_of``, and for a seat with more than one turn.
    """
    tree, returns = tree_of(trajectories), np.array([t.match_return for t in trajectories])
    good = means_by_label(returns, tree.replies) > np.array([thresholds[t.game] for t in trajectories])
    siblings: dict[int, list[int]] = {}
    for index in np.unique(tree.replies, return_index=True)[1].tolist():
        siblings.setdefault(int(tree.parents[index]), []).append(index)
    return [
        (chosen, rejected)
        for replies in siblings.values()
        for chosen in replies
        for rejected in replies
        if good[chosen] and not good[rejected]
        if _only_reply(trajectories[chosen]) != _only_reply(trajectories[rejected])
    ]


def flat_siblings(trajectories: Sequence[Trajectory]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (game, role) the number of sets of siblings whose values are all equal, and of all sets.

    Every advantage within a flat set is 0, so nothing is learned from it. Raises UsageError as ``tree_of``.
    """
    tree, returns = tree_of(trajectories), np.array([trajectory.match_return for trajectory in trajectories])
    values = means_by_label(returns, tree.replies)
    sets: dict[tuple[str, str], dict[int, set[float]]] = {}
    for trajectory, parent, value in zip(trajectories, tree.parents.tolist(), values.tolist(), strict=True):
        sets.setdefault((trajectory.game, trajectory.role), {}).setdefault(parent, set()).add(value)
    return {
        key: (sum(len(distinct) == 1 for distinct in by_parent.values()), len(by_parent))
        for key, by_parent in sets.items()
    }


def _only_reply(trajectory: Trajectory) -> str | None:
    """Return a seat's only reply; None if the match ended before its turn. Raises UsageError if there are several."""
    if len(trajectory.turns) > 1:
        raise UsageError(
            f"Objective 'dpo' is for seats that speak once, but {trajectory.role} of {trajectory.game} has "
            f"{len(trajectory.turns)} turns in match {trajectory.match}. Set objective.name = 'ppo'."
        )
    return trajectory.turns[0].reply if trajectory.turns else None


def means_by_label(values_N: Floats, labels_N: Labels) -> Floats:
    """Return, at each index, the mean of the values with its label.  # [N]"""
    return np.asarray((np.bincount(labels_N, values_N) / np.bincount(labels_N))[labels_N])
