"""Dr. GRPO (arXiv 2503.20783): GRPO without the division by std R, which favours starts whose returns differ little.

With R the returns of a group, the trajectories of one role from one start: A = R - mean R, for every turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from games.common.section import Section
from learners.advantages.common import centred
from learners.advantages.grpo import broadcast, in_groups
from learners.advantages.rule import Credited, CreditRule, Need, State, unweighted
from learners.trajectories import Evidence, Trajectory


def dr_grpo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return returns less their group's mean. Raises UsageError for uneven or short groups."""
    return unweighted(broadcast(trajectories, in_groups("dr_grpo", trajectories, centred)), state)


RULE = CreditRule(dr_grpo, Section, needs={Need.GROUPS})
