"""Advantage alignment (Duque et al., arXiv 2406.14662), for two seats in social dilemmas.

Advantages that only ask what pays a seat itself teach both seats of an iterated prisoner's dilemma to
defect. This rule also asks what the other seat will learn from the match: where the seat has fared
well so far, it favours replies that are good for the other, and where it has fared badly, replies
that are bad for the other. So whoever did something good for the seat learns to do it again:

    A*_k = A1_k + beta gamma (sum over j < k of gamma^(k-j) A1_j) A2_k

A1 and A2 are the two seats' advantages at their k-th turns, which are one round of the game. They need
no critic: as in "Learning Robust Social Strategies with Large Language Models" (Piche et al., arXiv
2511.19405) each is the reward to go less its mean at turn k over the group, the matches with the same
start and players. At beta = 0 only that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from games.errors import UsageError
from learners.advantages.sums import Floats, Labels, by_turn, centred, rewards_to_go, turn_counts
from learners.groups import group_numbers
from learners.trajectories import Trajectory

SEATS = 2


def advantage_alignment(
    trajectories: Sequence[Trajectory], state: dict[str, Any], settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return A*; uses ``settings.gamma`` and ``settings.alignment`` (beta).

    A2 is 0 at turns that the other seat did not live to see, and where it is not trained: who does not
    learn from the match cannot be taught. Raises UsageError for uneven or short groups, and for a game
    of more or fewer seats than two.
    """
    others = _others(trajectories)
    lengths = turn_counts(trajectories)
    present = np.arange(lengths.max(initial=0)) < lengths[:, None]  # [N, K]
    groups = group_numbers("advantage_alignment", trajectories)
    labels = groups[:, None] * present.shape[1] + np.arange(present.shape[1])  # one for each (group, k)  # [N, K]
    own = np.zeros(present.shape)
    own[present] = centred(rewards_to_go(trajectories, settings.gamma), labels[present])
    weights = settings.alignment * settings.gamma * _past(own, settings.gamma)
    other = np.where(others[:, None] < 0, 0.0, own[others])
    return by_turn((own + weights * other)[present], trajectories), state


def _past(advantages_NK: Floats, gamma: float) -> Floats:
    """Return for each turn k the sum over j < k of gamma^(k-j) A_j [N, K]."""
    sums = np.zeros_like(advantages_NK)
    for k in range(1, sums.shape[1]):
        sums[:, k] = gamma * (sums[:, k - 1] + advantages_NK[:, k - 1])
    return sums


def _others(trajectories: Sequence[Trajectory]) -> Labels:
    """Return for each trajectory the place of the one in the other seat of its match, -1 for none.  # [N]"""
    places = {(one.match, one.seat): place for place, one in enumerate(trajectories)}
    for one in trajectories:
        if len(one.players) != SEATS:
            raise UsageError(
                f"Credit rule 'advantage_alignment' weighs two seats against each other, and {one.game} has "
                f"{len(one.players)}. Set another credit.rule for it."
            )
    return np.array([places.get((one.match, 1 - one.seat), -1) for one in trajectories], np.intp)
