"""Group-relative advantages with dynamic sampling (DAPO, arXiv 2503.14476): groups that teach nothing are left out.

    A = (R − mean) / std of the group's returns, as grpo's; the weight is 0 where all returns of a group are equal

Such groups have no advantage, but would count in the mean over replies that an update follows: the fewer groups vary,
the smaller its step. Where no group varies, none is left out, so that entropy and divergences still have a batch.
The paper keeps sampling until the batch is full; here the batch is smaller instead. The share that is kept is reported
as ``credit/dapo/kept``. With any other rule, ``selection.rules = ["flat"]`` does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from games.common.section import Section
from learners.advantages.common import standardised
from learners.advantages.grpo import broadcast
from learners.advantages.rule import Credited, CreditRule, Need, State
from learners.groups import group_numbers, varying
from learners.trajectories import Evidence, Trajectory


def dapo(
    trajectories: Sequence[Trajectory], _evidence: Sequence[Evidence], state: State, _settings: Section
) -> Credited:
    """Return grpo's advantages; the weight is 1 where the returns of a group differ, else 0.

    Raises UsageError as ``groups_of``.
    """
    groups = group_numbers("dapo", trajectories)
    scores = standardised([t.match_return for t in trajectories], groups)
    return Credited(broadcast(trajectories, scores), varying(trajectories, groups), state)


def metrics(_trajectories: Sequence[Trajectory], credited: Credited) -> dict[str, float]:
    """Return the share of matches that are kept."""
    return {"kept": fmean(credited.weights)} if credited.weights else {}


RULE = CreditRule(dapo, Section, needs={Need.GROUPS}, metrics=metrics)
