"""Group-relative advantages: GRPO (DeepSeekMath, arXiv 2402.03300).

With R the returns of a group, the trajectories of one role from one start:

    A = (R - mean R) / (std R + epsilon)

Every turn has its trajectory's A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from games.common.section import Section
from learners.advantages.common import Floats, Labels, standardised
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.groups import group_numbers
from learners.trajectories import Evidence, Trajectory


def grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return z-scores of the returns within groups. Raises UsageError for uneven or short groups."""
    return unweighted(broadcast(trajectories, in_groups("grpo", trajectories, standardised)), state)


def in_groups(rule: str, trajectories: Sequence[Trajectory], compare: Callable[[ArrayLike, Labels], Floats]) -> Floats:
    """Return ``compare`` of the returns and their group ids [N]."""
    return compare([t.match_return for t in trajectories], group_numbers(rule, trajectories))


def broadcast(trajectories: Sequence[Trajectory], advantages_N: Floats) -> list[list[float]]:
    """Return each trajectory's advantage once for each of its turns."""
    return [[a] * len(t.turns) for t, a in zip(trajectories, advantages_N.tolist(), strict=True)]


RULE = CreditRule(grpo, Section, needs={Need.GROUPS})
