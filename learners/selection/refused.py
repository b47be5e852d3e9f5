"""Refused turns: replies that were illegal are left out, or trained away from.

A refused reply gets its match's credit like any other, so a seat that blundered and won learns to blunder. Left out, it
weighs 0; with ``advantage``, such as -1, it is made less likely whatever the match paid.
"""

from __future__ import annotations

from pydantic import Field

from games.common.section import Section
from learners.advantages.rule import State
from learners.selection.rule import CreditedBatch, Selection, SelectionRule, keep_all


class RefusedTurns(Section):
    """What becomes of refused turns."""

    advantage: float | None = Field(
        None, lt=0.0, description="advantage of refused turns, to train away from them; None: they are left out"
    )


def refused(batch: CreditedBatch, _state: State, settings: RefusedTurns) -> Selection:
    """Leave out illegal replies, or train away from them."""
    legal = [[turn.action is not None for turn in trajectory.turns] for trajectory in batch.trajectories]
    if settings.advantage is None:
        return Selection([[float(is_legal) for is_legal in legal_K] for legal_K in legal])
    given = settings.advantage
    advantages = [
        [advantage if is_legal else given for advantage, is_legal in zip(*rows, strict=True)]
        for rows in zip(batch.advantages, legal, strict=True)
    ]
    return Selection(keep_all(batch), advantages=advantages)


RULE = SelectionRule(refused, RefusedTurns, reason="The reply was refused as illegal.")
