"""The rules that are compared, with their settings, and the credit that they give to the turns of batches.

A rule is written as in a configuration, or with settings of its own: ``NAME:KEY=VALUE``, separated by commas.
After an ``@`` comes the estimator of turn values, written the same way: ``gae_turn:trace_decay=0@archer:shrink=8``.
``@central`` gives the exact values of all seats' joint information; without an ``@`` they are the seat's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError, unknown_name
from games.common.section import Section
from games.common.validation import validated
from league.config.credit import CreditConfig, ValuesConfig
from league.config.load import parse_override
from league.lab.credit.matches import PlayedBatch
from learners.advantages import RULES
from learners.advantages.rule import CreditFacts, CreditRule, Need, State
from learners.trajectories import Evidence
from learners.values import ESTIMATORS
from learners.values.estimator import How, ValueFacts

Floats = NDArray[np.float64]

NO_SETTINGS = Section()
CENTRAL = "central"  # the exact values of a critic that sees all seats' observations
NO_ESTIMATOR = "it takes an estimator of what each turn added: append one, as NAME@ESTIMATOR"
SETTLING = 20  # passes over all batches before a rule that remembers is measured
TRACE = "trace_decay"  # of a rule that weighs later turns' surprises; 0: only the turn's own
_UNFIT = {
    Need.TREE: "it compares sibling replies within whole trees (matchmaking.tree), and these matches have none",
    Need.COUNTERFACTUALS: "it follows what other actions would have paid against the others' moves, not the return",
    Need.PREFERENCES: "it follows which of two matches a judge prefers, not the return",
}


class RuleVariant(NamedTuple):
    """A rule with its settings."""

    text: str  # as it is shown, and may be selected by
    rule: CreditRule
    settings: Section
    estimator: str | None = None  # None: the exact value of every turn, where the rule needs one
    estimator_settings: Section = NO_SETTINGS

    @property
    def given_values(self) -> bool:
        """Whether the rule needs the value of every turn, and gets the exact one."""
        return Need.VALUES in self.rule.needs and self.estimator in (None, CENTRAL)


def all_variants(credit: CreditConfig) -> list[RuleVariant]:
    """Return all rules with a configuration's settings; rules that trace later turns also without the trace.

    Rules that need turn values come again with every estimator that learns them.
    """
    variants, learned = [], []
    for name in RULES.names():
        settings, rule = credit.settings_of(name), RULES[name]
        untraced = f"{name}:{TRACE}=0" if getattr(settings, TRACE, 0.0) > 0.0 else name
        if Need.CONTRIBUTIONS not in rule.needs:
            variants.append(RuleVariant(name, rule, settings))
        if untraced != name:
            variants.append(parse_variant(untraced, credit))
        learners = [
            estimator_name
            for estimator_name, entry in ESTIMATORS.items()
            if entry.how is How.LEARNED and entry.kind in rule.needs
        ]
        learned += [parse_variant(f"{untraced}@{estimator}", credit) for estimator in learners]
    return variants + learned


def parse_variant(text: str, credit: CreditConfig) -> RuleVariant:
    """Parse a rule as a user writes it. Raises UsageError for a rule, key or value that does not exist."""
    written, _, estimator_text = text.partition("@")
    name, _, changes = written.partition(":")
    rule = RULES[name]
    settings = _changed(name, credit.settings_of(name), changes, text, f"league show settings credit.{name}")
    if not estimator_text:
        return RuleVariant(text, rule, settings)
    estimator, _, changes = estimator_text.partition(":")
    if estimator != CENTRAL:
        ESTIMATORS[estimator]
    defaults = NO_SETTINGS if estimator == CENTRAL else ValuesConfig().settings_of(estimator)
    return RuleVariant(
        text,
        rule,
        settings,
        estimator,
        _changed(estimator, defaults, changes, text, f"league show settings values.{estimator}"),
    )


def _changed(name: str, settings: Section, changes: str, text: str, command: str) -> Section:
    """Return settings with the changes that a user writes. Raises UsageError."""
    values = settings.model_dump()
    for change in filter(None, changes.split(",")):
        if "=" not in change:
            raise UsageError(f"{text}: a rule's settings are written NAME:KEY=VALUE, several with commas between.")
        keys, value = parse_override(change)
        if len(keys) != 1 or keys[0] not in values:
            raise unknown_name(f"setting of {name}", ".".join(keys), values, f"{command} lists them.")
        values[keys[0]] = value
    return validated(type(settings), values, f"The rule {text}")


def reason_against(variant: RuleVariant, facts: CreditFacts) -> str | None:
    """Return why a rule cannot be measured on groups of matches of a game; None if it can."""
    for need, reason in _UNFIT.items():
        if need in variant.rule.needs:
            return reason
    unfit = _estimator_unfit(variant)
    if unfit is not None:
        return unfit
    if Need.GROUPS in variant.rule.needs and facts.group_size < 2:
        return f"it compares the matches of one start, and --group {facts.group_size} plays each start once"
    try:
        if variant.rule.check is not None:
            variant.rule.check(facts)
        if variant.estimator not in (None, CENTRAL):
            estimator = ESTIMATORS[variant.estimator]
            if estimator.check is not None:
                estimator.check(ValueFacts(facts.game, facts.credited), variant.estimator_settings)
    except UsageError as error:
        return str(error)
    return None


def _estimator_unfit(variant: RuleVariant) -> str | None:
    """Return why a rule cannot have its estimator, or lack one; None if it can."""
    needs, name = variant.rule.needs, variant.estimator
    if name is None:
        return NO_ESTIMATOR if Need.CONTRIBUTIONS in needs else None
    if name == CENTRAL:
        return None if Need.VALUES in needs else f"it does not take the {Need.VALUES} that {name} estimates"
    estimator = ESTIMATORS[name]
    if estimator.how in (How.CRITIC, How.REMEMBERED):
        others = [other_name for other_name, entry in ESTIMATORS.items() if entry.how in (How.PLAY, How.LEARNED)]
        return (
            f"the estimator {name} reads the policies of a run in training: estimators that learn from replies are "
            f"{', '.join(others)}"
        )
    if estimator.how is How.EXACT:
        return f"the row {name} has the exact advantages"
    return None if estimator.kind in needs else f"it does not take the {estimator.kind} that {name} estimates"


def credit_batches(
    variant: RuleVariant, batches: Sequence[PlayedBatch], evidence: Sequence[Sequence[Evidence]]
) -> list[Floats]:
    """Return, by batch, the credit of every turn times the weight of its trajectory [T].

    A rule's memory has settled first: it sees the batches, in their order, ``SETTLING`` times before.
    """
    advantages, state = _credit_all(variant, batches, evidence, {})
    for _ in range(SETTLING if state else 0):
        advantages, state = _credit_all(variant, batches, evidence, state)
    return advantages


def _credit_all(
    variant: RuleVariant, batches: Sequence[PlayedBatch], evidence: Sequence[Sequence[Evidence]], state: State
) -> tuple[list[Floats], State]:
    """Return each batch's credit, one batch after the other, and the rule's memory at the end."""
    credit = []
    for batch, row_evidence in zip(batches, evidence, strict=True):
        credited = variant.rule.make(batch.trajectories, row_evidence, state, variant.settings)
        weighted = zip(credited.advantages, credited.weights, strict=True)
        credit.append(np.array([advantage * weight for row, weight in weighted for advantage in row]))
        state = credited.state
    return credit, state
