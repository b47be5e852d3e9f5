"""CORY (arXiv 2410.06101): a pioneer and an observer of one task earn the sum of what both are paid.

    R = r_pioneer + r_observer    A = (R - mean R) / (std R + epsilon)

over the matches from one start. The paper's critic is replaced by the group. The two swap roles every
m updates: ``roles.swap_every``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from games.errors import UsageError
from learners.advantages.grpo import broadcast
from learners.advantages.sums import standardised
from learners.groups import group_numbers
from learners.trajectories import Trajectory


def cory(
    trajectories: Sequence[Trajectory], state: dict[str, Any], _settings: Any
) -> tuple[list[list[float]], dict[str, Any]]:
    """Return z-scores of a match's summed returns. Raises UsageError for uneven groups, or seats that do not train."""
    sums, seats = dict[int, float](), Counter[int]()
    for one in trajectories:
        sums[one.match] = sums.get(one.match, 0.0) + one.match_return
        seats[one.match] += 1
    for one in trajectories:
        if seats[one.match] != len(one.players):
            raise UsageError(
                f"Credit rule 'cory' adds up what all seats of a match are paid, and of match {one.match}, "
                f"{one.game}, {seats[one.match]} of {len(one.players)} seats train by it. Give every role the rule "
                "and a policy that trains, and matchmaking.self_play all the weight."
            )
    shared = [sums[one.match] for one in trajectories]
    return broadcast(trajectories, standardised(shared, group_numbers("cory", trajectories))), state
