"""Every rule on the same matches, compared with the exact gradient: over all turns, by role and by turn index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from games.common.errors import UsageError
from games.registry import make_game
from league.config.credit import CreditConfig
from league.lab.credit.accuracy import Accuracy, accuracy, batch_gradient, select, share_of_wrong_signs
from league.lab.credit.central import central_evidence
from league.lab.credit.fidelity import Fidelity, fidelity
from league.lab.credit.learned import LearnedEvidence
from league.lab.credit.matches import BatchPlan, PlayedBatch, play_batches
from league.lab.credit.rules import (
    CENTRAL,
    Floats,
    RuleVariant,
    all_variants,
    credit_batches,
    parse_variant,
    reason_against,
)
from league.theory.exact.exploitability import PolicyTable, exact_form
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.turn_values import TurnValues, turn_values
from learners.advantages.rule import CreditFacts
from learners.trajectories import Evidence, return_scale
from roles.role import Role

EXACT = "exact"  # the row of the exact advantage


class RuleAccuracy(NamedTuple):
    """A rule's accuracy over all turns, by role, and by how many of its turns a seat has had before."""

    rule: str
    overall: Accuracy
    roles: dict[str, Accuracy]
    turns: dict[int, Accuracy]
    given_values: bool = False  # the rule needs the value of every turn, and was given the exact one
    faithful: Fidelity = Fidelity(None, None)  # of the credit of single turns


class Play(NamedTuple):
    """The policy, its exact values, and the batches on which rules are compared."""

    turns: TurnValues
    roles: tuple[Role, ...]  # [seats]
    batches: list[PlayedBatch]
    scale: float  # of returns


def compare_rules(
    table: PolicyTable,
    roles: tuple[Role, ...],
    credit: CreditConfig,
    plan: BatchPlan,
    names: Sequence[str] = (),
    given: Sequence[RuleVariant] = (),
) -> tuple[list[RuleAccuracy], dict[str, str]]:
    """Return the accuracy of the exact advantage and of the rules that ``choose`` does, and why some are left out.

    Raises UsageError for a rule that was asked for and cannot be measured, and for a game that cannot be enumerated.
    """
    spec = make_game(table.game).spec
    facts = CreditFacts(spec, roles, tuple(role for role in roles if not role.fixed), plan.group, None)
    variants, left_out = choose(names, credit, facts, given)
    play, form = play_out(table, roles, credit, plan), exact_form(table.game)
    learn = LearnedEvidence(table, roles, form.keys, plan)
    exact = [exact_evidence(play, batch) for batch in play.batches]
    accuracies = [measure_credit(play, EXACT, [play.turns.advantages[batch.actions] for batch in play.batches])]
    for variant in variants:
        if variant.estimator == CENTRAL and not isinstance(form, PositionGraph):  # on boards all see all
            evidence = central_evidence(table, play.scale, play.batches)
        else:
            evidence = exact if variant.estimator in (None, CENTRAL) else learn.of(variant, play.batches)
        measured = measure_credit(play, variant.text, credit_batches(variant, play.batches, evidence))
        accuracies.append(measured._replace(given_values=variant.given_values))
    return accuracies, left_out


def play_out(table: PolicyTable, roles: tuple[Role, ...], credit: CreditConfig, plan: BatchPlan) -> Play:
    """Return a plan's matches of a table that plays all seats. Raises UsageError if the game cannot be enumerated."""
    form = exact_form(table.game)
    turns = turn_values(form, [table.probabilities[key] for key in form.keys])
    scale = return_scale(make_game(table.game).spec) if credit.scale_returns else 1.0
    return Play(turns, roles, play_batches(table, roles, form.keys, plan), scale)


def choose(
    names: Sequence[str], credit: CreditConfig, facts: CreditFacts, given: Sequence[RuleVariant] = ()
) -> tuple[list[RuleVariant], dict[str, str]]:
    """Return the rules to measure, and why others are left out: the ``given`` and the named ones, or, of neither, all.

    Raises UsageError for a rule that was asked for and does not fit.
    """
    named = [parse_variant(text, credit) for text in names if text != EXACT]
    variants = [*given, *named] if names or given else all_variants(credit)
    reasons = {v.text: reason for v in variants if (reason := reason_against(v, facts)) is not None}
    if (names or given) and reasons:
        name, reason = next(iter(reasons.items()))
        raise UsageError(f"{name} cannot be measured on matches of {facts.game.alias}: {reason}.")
    return [v for v in variants if v.text not in reasons], reasons


def exact_evidence(play: Play, batch: PlayedBatch) -> list[Evidence]:
    """Return the exact value of each turn, less the rewards that its seat had before, in the trajectories' units."""
    evidence, start = [], 0
    values = play.turns.values[batch.states] / play.scale
    for trajectory in batch.trajectories:
        stop = start + len(trajectory.turns)
        paid = np.cumsum(trajectory.rewards) - np.array(trajectory.rewards)
        evidence.append(Evidence(values=tuple((values[start:stop] - paid).tolist())))
        start = stop
    return evidence


def measure_credit(play: Play, name: str, credit: Sequence[Floats]) -> RuleAccuracy:
    """Return the accuracy of the credit of all batches [B][T], shown under a name."""
    turns, batches = play.turns, play.batches
    trained = np.isin(turns.seats, [role.seat for role in play.roles if not role.fixed])
    gradients = [batch_gradient(turns, batch, given) for batch, given in zip(batches, credit, strict=True)]
    states, actions = (np.concatenate([getattr(b, name) for b in batches]) for name in ("states", "actions"))
    exact, given = turns.advantages[actions], np.concatenate(credit)

    def within(mask: np.ndarray) -> Accuracy:
        """Return the accuracy within some of the information states [I]."""
        compared = select(mask[turns.states], gradients, turns.gradient, batches[0].matches)
        counted = mask[states]
        return accuracy(compared, share_of_wrong_signs(given[counted], exact[counted]))

    seats_of = _seats_by_role(play.roles)
    by_role = {role: within(np.isin(turns.seats, seats)) for role, seats in seats_of.items()}
    indices = np.unique(turns.turns[states])
    by_turn = {int(index): within(trained & (turns.turns == index)) for index in indices}
    faithful = fidelity(given, exact, actions)
    return RuleAccuracy(name, within(trained), by_role, by_turn, faithful=faithful)


def _seats_by_role(roles: Iterable[Role]) -> dict[str, list[int]]:
    """Return the trained seats of each role."""
    seats: dict[str, list[int]] = {}
    for role in roles:
        if not role.fixed:
            seats.setdefault(role.name, []).append(role.seat)
    return seats
