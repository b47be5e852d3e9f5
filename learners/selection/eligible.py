"""Eligibility: a turn counts only if what it bears on came about.

An offer that was never answered, a claim that nobody could doubt any more: such a turn is credited with what others did
without it. A game says which moves count (``games.abilities.MarksEligible``); all turns of other games do. A refused
reply or a call of a tool counts as the move that it led to. Delayed credit with this gate won the MindGames contest of
NeurIPS 2025.
"""

from __future__ import annotations

from games.common.section import Section
from learners.advantages.rule import State
from learners.selection.rule import CreditedBatch, Selection, SelectionRule, keep_all


def eligible(batch: CreditedBatch, _state: State, _settings: Section) -> Selection:
    """Leave out turns that bear on something that never came about, as the game says."""
    factors = keep_all(batch)
    for i, evidence in enumerate(batch.evidence):
        if (cell := evidence.eligible) is not None:
            factors[i] = [float(counts) for counts in cell]
    return Selection(factors)


RULE = SelectionRule(eligible, needs={"eligible"}, reason="By the game's rules, the move did not affect the outcome.")
