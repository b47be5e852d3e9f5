"""Spread: only the groups whose returns differ most (RAGEN's StarPO-S, arXiv 2504.20073).

    keep group g of a role if std(g) is among the greatest ``share`` of the role's groups, and above ``least``

StarPO-S trains on the most uncertain quarter of its prompts, which delays the collapse into one template. Each role is
ranked by itself, so that none is starved, and groups that tie with the last one kept are kept too: the order of a batch
changes nothing. A role of which no group passes keeps all.
"""

from __future__ import annotations

import math
from statistics import pstdev

from pydantic import Field

from games.common.section import NonNegative, Section
from learners.advantages.rule import State
from learners.groups import GroupKey, groups_of
from learners.selection.flat import check_groups
from learners.selection.rule import CreditedBatch, Selection, SelectionRule, by_trajectory


class Spread(Section):
    """Which groups are kept."""

    share: float = Field(0.25, gt=0.0, le=1.0, description="share of a role's groups that is kept: the most spread")
    least: NonNegative = Field(0.0, description="standard deviation of returns that a group must exceed")


def spread(batch: CreditedBatch, _state: State, settings: Spread) -> Selection:
    """Keep the groups with the greatest standard deviation of returns.

    Raises UsageError as ``groups_of``.
    """
    by_role: dict[tuple[str, str, str], dict[GroupKey, float]] = {}
    groups = groups_of("spread", batch.trajectories)
    for key, indices in groups.items():
        deviation = pstdev([batch.trajectories[i].match_return for i in indices])
        by_role.setdefault((key.game, key.role, key.policy), {})[key] = deviation
    factors = [1.0] * len(batch.trajectories)
    for deviations in by_role.values():
        ranked = sorted(deviations.values(), reverse=True)
        cut = ranked[max(math.ceil(settings.share * len(ranked)), 1) - 1]
        passing = {key for key, std in deviations.items() if std >= cut and std > settings.least}
        for key in deviations.keys() - passing if passing else ():
            for i in groups[key]:
                factors[i] = 0.0
    return Selection(by_trajectory(batch, factors))


RULE = SelectionRule(
    spread,
    Spread,
    check=lambda facts: check_groups("spread", facts),
    reason="The returns of its group differ less than other groups'.",
)
