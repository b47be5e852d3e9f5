"""Rules of selection: what a batch learns from. One rule a file, pure functions between credit and update.

May import advantages and the files at the root of learners.

A rule is ``rule(batch, state, settings) -> Selection``: a factor for each turn's weight in the loss, 0 to leave it out,
and, where it changes them, other advantages. Several run in a row, as ``selection.rules`` lists them. A turn of weight
0 is not in the batch at all: neither in the sum of the loss nor in its divisor. The first rule that left a turn out is
the reason that replays, reports and the board show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from games.common.registry import Registry
from games.common.section import Section
from learners import advantages
from learners.advantages.rule import State
from learners.selection.eligible import RULE as ELIGIBLE
from learners.selection.fewest_errors import RULE as FEWEST_ERRORS
from learners.selection.flat import RULE as FLAT
from learners.selection.refused import RULE as REFUSED
from learners.selection.rule import CreditedBatch, Replayed, Selection, SelectionRule
from learners.selection.spread import RULE as SPREAD
from learners.selection.steps import RULE as STEPS
from learners.selection.stratified import RULE as STRATIFIED
from learners.selection.successes import RULE as SUCCESSES
from learners.trajectories import TurnSelection

SELECTION = Registry(
    "selection",
    "rule of selection",
    SelectionRule,
    "selection.rules",
    {
        "refused": REFUSED,
        "eligible": ELIGIBLE,
        "flat": FLAT,
        "spread": SPREAD,
        "fewest_errors": FEWEST_ERRORS,
        "steps": STEPS,
        "successes": SUCCESSES,
        "stratified": STRATIFIED,
    },
    reserved=("rules",),
)
register = SELECTION.register
STATE = "selection/"  # before a rule's name, in the saved state of credit


class Selected(NamedTuple):
    """A batch's turns after all rules."""

    turns: list[TurnSelection]  # [N]
    replayed: list[Replayed]
    state: State  # by ``STATE`` and a rule's name


def select(batch: CreditedBatch, rules: Sequence[str], state: State, settings_of: Callable[[str], Section]) -> Selected:
    """Return what the rules, in their order, make of a batch; each sees what those before it left.

    Raises ValueError for a rule that does not return one factor, 0 or more, for every turn.
    """
    reasons = [[""] * len(trajectory.turns) for trajectory in batch.trajectories]
    replayed, after = list[Replayed](), dict(state)
    for name in rules:
        selection = SELECTION[name].make(batch, state.get(STATE + name, {}), settings_of(name))
        _check(name, batch, selection)
        for weights_K, factors_K, reasons_K in zip(batch.weights, selection.factors, reasons, strict=True):
            for k, factor in enumerate(factors_K):
                if not factor and weights_K[k]:
                    reasons_K[k] = name
        weights = [
            [weight * factor for weight, factor in zip(*rows, strict=True)]
            for rows in zip(batch.weights, selection.factors, strict=True)
        ]
        batch = batch._replace(weights=weights)
        if selection.advantages is not None:
            batch = batch._replace(advantages=selection.advantages)
        replayed += selection.replayed
        if selection.state:
            after[STATE + name] = selection.state
    turns = [
        TurnSelection(tuple(weights_K), tuple(reasons_K), tuple(advantages_K))
        for weights_K, reasons_K, advantages_K in zip(batch.weights, reasons, batch.advantages, strict=True)
    ]
    return Selected(turns, replayed, after)


def forget_policy(state: State, policy: str) -> State:
    """Return the state of credit and selection without what it holds about a policy, whose weights are reset."""
    state = advantages.forget_policy(state, policy)
    forgetting = {STATE + name: rule.forget for name, rule in SELECTION.loaded().items() if rule.forget is not None}
    return {key: forgetting[key](part, policy) if key in forgetting else part for key, part in state.items()}


def _check(name: str, batch: CreditedBatch, selection: Selection) -> None:
    for numbers in (selection.factors, selection.advantages):
        lengths = None if numbers is None else list(map(len, numbers))
        if lengths is not None and lengths != (wanted := [len(t.turns) for t in batch.trajectories]):
            raise ValueError(
                f"The rule of selection {name!r} returned {sum(lengths)} numbers for {len(lengths)} trajectories; it "
                f"must return one for each of the {sum(wanted)} turns of all {len(wanted)}."
            )
    if any(not factor >= 0.0 for factors_K in selection.factors for factor in factors_K):
        raise ValueError(f"The rule of selection {name!r} returned a factor below 0; 0 leaves a turn out.")
