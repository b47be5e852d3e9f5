"""Step filters (STeP, arXiv 2505.20023): a good match does not make its bad steps likelier.

STeP masks the erroneous steps of the trajectories it imitates. Here a turn with a positive advantage is left out if it
is an error: a refused reply, or, with ``repeats``, the same reply to the same observation as an earlier turn of the
match, which changed nothing. With a negative advantage it stays, as there the error is rightly made less likely.
"""

from __future__ import annotations

from pydantic import Field

from games.common.section import Section
from learners.advantages.rule import State
from learners.selection.rule import CreditedBatch, Selection, SelectionRule
from learners.trajectories import Trajectory


class Steps(Section):
    """Which turns are errors."""

    repeats: bool = Field(True, description="a reply that repeats an earlier one to the same observation is an error")


def steps(batch: CreditedBatch, _state: State, settings: Steps) -> Selection:
    """Leave out erroneous turns that would be made likelier."""
    return Selection(
        [
            [float(not (is_error and advantage > 0.0)) for is_error, advantage in zip(errors_K, row, strict=True)]
            for errors_K, row in zip(
                [_errors(trajectory, settings) for trajectory in batch.trajectories], batch.advantages, strict=True
            )
        ]
    )


def _errors(trajectory: Trajectory, settings: Steps) -> list[bool]:
    """Return whether each turn is an error.  # [K]"""
    before, errors = set[tuple[str, str]](), []
    for turn in trajectory.turns:
        said = turn.observation, turn.reply
        errors.append(turn.action is None or (settings.repeats and said in before))
        before.add(said)
    return errors


RULE = SelectionRule(
    steps, Steps, reason="The step is an error of a match that went well: a refused or repeated reply."
)
