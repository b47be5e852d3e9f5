"""Values by the policy's own value heads, on its hidden states (``learners.update.critic``, the table ``[critic]``).

The heads are fitted with the policy's update, to the targets that its turns' advantages imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from games.common.section import Section
from learners.trajectories import Evidence, Trajectory
from learners.values.estimator import Estimates, How, ValueEstimator


def critic(policy: Any, trajectories: Sequence[Trajectory], evidence: Sequence[Evidence]) -> Estimates:
    """Read the policy's hidden states before its turns."""
    estimates: Estimates = policy.critic.values(policy.lm, trajectories, evidence)
    return estimates


ESTIMATOR = ValueEstimator(critic, Section, how=How.CRITIC)
