"""Successes by fewest errors (GRPO-RoC, rStar2-Agent, arXiv 2508.20722): of a group's successes, only the cleanest.

A return says nothing of the errors on the way, so a success with three refused replies is as good as a clean one. Of a
group's successes, the matches above its mean return, a ``share`` is kept: those with the fewest refused replies. All
its failures stay, as the paper keeps them diverse. What is kept weighs for what is left out, n / kept, so that
successes and failures stay in balance. Matches that tie with the last one kept are kept too.
"""

from __future__ import annotations

import math
from statistics import fmean

from pydantic import Field

from games.common.section import Section
from learners.advantages.rule import State
from learners.groups import groups_of
from learners.selection.flat import check_groups
from learners.selection.rule import CreditedBatch, Selection, SelectionRule, by_trajectory
from learners.trajectories import Trajectory


class FewestErrors(Section):
    """How many successes are kept."""

    share: float = Field(0.5, gt=0.0, le=1.0, description="share of a group's successes that is kept")


def fewest_errors(batch: CreditedBatch, _state: State, settings: FewestErrors) -> Selection:
    """Keep, of each group's successes, those with the fewest refused replies.

    Raises UsageError as ``groups_of``.
    """
    factors = [1.0] * len(batch.trajectories)
    for indices in groups_of("fewest_errors", batch.trajectories).values():
        mean = fmean(batch.trajectories[i].match_return for i in indices)
        errors = {
            i: _errors(batch.trajectories[i])
            for i in indices
            if batch.trajectories[i].match_return > mean and batch.trajectories[i].turns
        }
        if not errors:
            continue
        most = sorted(errors.values())[math.ceil(settings.share * len(errors)) - 1]
        kept = [i for i, number in errors.items() if number <= most]
        for i in errors:
            factors[i] = len(errors) / len(kept) if errors[i] <= most else 0.0
    return Selection(by_trajectory(batch, factors))


def _errors(trajectory: Trajectory) -> int:
    return sum(turn.action is None for turn in trajectory.turns)


RULE = SelectionRule(
    fewest_errors,
    FewestErrors,
    check=lambda facts: check_groups("fewest_errors", facts),
    reason="Other matches of its group succeeded with fewer errors.",
)
