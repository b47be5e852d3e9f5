"""Flat groups (DAPO, arXiv 2503.14476): matches of a start that all paid the same teach nothing.

With group-relative advantages they add zeros to the sum and turns to its divisor. The rule ``dapo`` of credit is
``grpo`` with this one. Where no group varies, none is left out, so that entropy and divergences still have a batch.
"""

from __future__ import annotations

from games.common.errors import UsageError
from games.common.section import Section
from learners.advantages.rule import State
from learners.groups import group_numbers, varying
from learners.selection.rule import CreditedBatch, Selection, SelectionFacts, SelectionRule, by_trajectory


def flat(batch: CreditedBatch, _state: State, _settings: Section) -> Selection:
    """Leave out groups whose returns are all equal.

    Raises UsageError as ``groups_of``.
    """
    return Selection(by_trajectory(batch, varying(batch.trajectories, group_numbers("flat", batch.trajectories))))


def check_groups(rule: str, facts: SelectionFacts) -> None:
    """Raise UsageError for a run without groups."""
    if facts.group_size < 2:
        raise UsageError(
            f"The rule of selection {rule!r} compares matches from one start, but matchmaking.group_size = "
            f"{facts.group_size}. Set it to 2 or more (8 is usual), or leave {rule} out of selection.rules."
        )


RULE = SelectionRule(
    flat, check=lambda facts: check_groups("flat", facts), reason="All matches of its group ended with the same return."
)
