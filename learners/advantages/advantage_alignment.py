"""Advantage alignment (Duque et al., arXiv 2406.14662), for two seats in social dilemmas.

Advantages computed from a seat's own returns teach both seats of an iterated prisoner's dilemma to defect. This rule
also accounts for what the other seat will learn from the match: where the seat's past advantages are positive, it
favours replies that are good for the other seat, and where they are negative, replies that are bad for it. So the other
seat learns to repeat what was good for this one:

    A*_k = A1_k + beta gamma (sum over j < k of gamma^(k-j) A1_j) A2_k

A1 and A2 are the two seats' advantages at their k-th moves, which are one round of the game. They need
no critic: as in "Learning Robust Social Strategies with Large Language Models" (Piche et al., arXiv
2511.19405) each is the reward to go less its mean at move k over the group, the matches with the same
start and players. Refused replies and tool calls are turns but not moves: they take no
time, match no turn of the other seat, and have the advantage of the move that they led to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from games.common.errors import UsageError
from learners.advantages.common import Floats, Labels, centred, moves_of, rewards_to_go, split_by_turn, turn_counts
from learners.advantages.rule import Credited, CreditFacts, CreditRule, Discounted, Need, State, unweighted
from learners.groups import group_numbers
from learners.trajectories import Evidence, Trajectory

SEATS = 2


class Settings(Discounted):
    """``advantage_alignment``'s settings."""

    weight: float = Field(1.0, description="weight beta of the other seat's advantages")


def advantage_alignment(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, settings: Settings
) -> Credited:
    """Return A*.

    A2 is 0 at moves that the other seat does not have, and where the other seat is not trained, since it learns
    nothing from the match. Raises UsageError for uneven or short groups, and for a game without exactly two seats.
    """
    by_move = _by_move([_merge_moves(trajectory) for trajectory in trajectories], settings)
    advantages = [
        [advantages_M[move] for move in moves_of(trajectory)]
        for trajectory, advantages_M in zip(trajectories, by_move, strict=True)
    ]
    return unweighted(advantages, state)


def _merge_moves(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory with one turn for each move, its last, which gets the rewards of all its turns."""
    moves = moves_of(trajectory)
    if moves[-1:] == [len(moves) - 1]:  # every turn is a move
        return trajectory
    turns = dict(zip(moves, trajectory.turns, strict=True))
    rewards = [0.0] * len(turns)
    for move, reward in zip(moves, trajectory.rewards, strict=True):
        rewards[move] += reward
    return trajectory._replace(turns=tuple(turns.values()), rewards=tuple(rewards))


def _by_move(trajectories: Sequence[Trajectory], settings: Settings) -> list[list[float]]:
    """Return A* of trajectories in which every turn is a move."""
    opponents = _opponents(trajectories)
    lengths = turn_counts(trajectories)
    present = np.arange(lengths.max(initial=0)) < lengths[:, None]  # [N, K]
    groups = group_numbers("advantage_alignment", trajectories)
    labels = groups[:, None] * present.shape[1] + np.arange(present.shape[1])  # one for each (group, k)  # [N, K]
    advantages = np.zeros(present.shape)
    advantages[present] = centred(rewards_to_go(trajectories, settings.gamma), labels[present])
    weights = settings.weight * settings.gamma * _past(advantages, settings.gamma)
    other_advantages = np.where(opponents[:, None] < 0, 0.0, advantages[opponents])
    return split_by_turn((advantages + weights * other_advantages)[present], trajectories)


def check(facts: CreditFacts) -> None:
    """Raise UsageError for a game without two seats that both have the rule."""
    if not len(facts.credited) == len(facts.roles) == SEATS:
        raise UsageError(
            f"advantage_alignment multiplies the advantages of two seats; {facts.game.name} has {len(facts.roles)} "
            f"seats, of which {len(facts.credited)} use it. Give both roles of a two-seat game the rule, or neither."
        )


def _past(advantages_NK: Floats, gamma: float) -> Floats:
    """Return for each turn k the sum over j < k of gamma^(k-j) A_j [N, K]."""
    sums = np.zeros_like(advantages_NK)
    for k in range(1, sums.shape[1]):
        sums[:, k] = gamma * (sums[:, k - 1] + advantages_NK[:, k - 1])
    return sums


def _opponents(trajectories: Sequence[Trajectory]) -> Labels:
    """Return for each trajectory the index of the other seat's trajectory in its match, -1 for none.  # [N]"""
    indices = {(trajectory.match, trajectory.seat): index for index, trajectory in enumerate(trajectories)}
    for trajectory in trajectories:
        if len(trajectory.players) != SEATS:
            raise UsageError(
                f"Credit rule 'advantage_alignment' multiplies the advantages of two seats, and {trajectory.game} has "
                f"{len(trajectory.players)}. Set another credit.rule for it."
            )
    return np.array([indices.get((trajectory.match, 1 - trajectory.seat), -1) for trajectory in trajectories], np.intp)


RULE = CreditRule(advantage_alignment, Settings, needs={Need.GROUPS}, check=check, across_roles=True)
