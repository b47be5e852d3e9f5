"""The rules that are compared, with their settings, and the credit that they give to the turns of batches.

A rule is written as in a configuration, or with settings of its own: ``NAME:KEY=VALUE``, several with commas between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from games.common import plugins
from games.common.errors import UsageError, unknown_name
from games.common.section import Section
from games.common.validation import validated
from league.config.credit import CreditConfig
from league.config.load import parse_override
from league.credit.matches import PlayedBatch
from learners.advantages import RULES, rule_named
from learners.advantages.rule import CreditFacts, CreditRule, Need, State
from learners.trajectories import Evidence

Floats = NDArray[np.float64]

SETTLING = 20  # passes over all batches before a rule that remembers is measured
TRACE = "trace_decay"  # of a rule that weighs later turns' surprises; with 0 a turn's own alone
_UNFIT = {
    Need.TREE: "it compares sibling replies within whole trees (matchmaking.tree), and these matches have none",
    Need.COUNTERFACTUALS: "it follows what other actions would have paid against the others' moves, and not the return",
}


class RuleVariant(NamedTuple):
    """A rule with its settings."""

    text: str  # as it is shown, and may be asked for
    rule: CreditRule[Section]
    settings: Section


def all_variants(credit: CreditConfig) -> list[RuleVariant]:
    """Return all rules with a configuration's settings; those that trace later turns a second time, without that."""
    variants = []
    for name in [*RULES, *plugins.names("credit")]:
        settings = credit.settings_of(name)
        variants.append(RuleVariant(name, rule_named(name), settings))
        if getattr(settings, TRACE, 0.0) > 0.0:
            variants.append(parse_variant(f"{name}:{TRACE}=0", credit))
    return variants


def parse_variant(text: str, credit: CreditConfig) -> RuleVariant:
    """Return the rule that a person writes. Raises UsageError for a rule, key or value that does not exist."""
    name, _, changes = text.partition(":")
    rule, settings = rule_named(name), credit.settings_of(name)
    values = settings.model_dump()
    for change in filter(None, changes.split(",")):
        if "=" not in change:
            raise UsageError(f"{text}: a rule's settings are written NAME:KEY=VALUE, several with commas between.")
        keys, value = parse_override(change)
        if len(keys) != 1 or keys[0] not in values:
            raise unknown_name(
                f"setting of {name}", ".".join(keys), values, f"league settings credit.{name} lists them."
            )
        values[keys[0]] = value
    return RuleVariant(text, rule, validated(type(settings), values, f"The rule {text}"))


def reason_against(variant: RuleVariant, facts: CreditFacts) -> str | None:
    """Return why a rule cannot be measured on groups of matches of a game; None if it can."""
    for need, reason in _UNFIT.items():
        if need in variant.rule.needs:
            return reason
    if Need.GROUPS in variant.rule.needs and facts.group_size < 2:
        return f"it compares the matches of one start, and --group {facts.group_size} plays each start once"
    try:
        if variant.rule.check is not None:
            variant.rule.check(facts)
    except UsageError as error:
        return str(error)
    return None


def credit_batches(
    variant: RuleVariant, batches: Sequence[PlayedBatch], evidence: Sequence[Sequence[Evidence]]
) -> list[Floats]:
    """Return, by batch, the credit of every turn times the weight of its trajectory [T].

    What a rule remembers is what it has settled at: it sees the batches, in their order, ``SETTLING`` times before.
    """
    advantages, state = _credit_all(variant, batches, evidence, {})
    for _ in range(SETTLING if state else 0):
        advantages, state = _credit_all(variant, batches, evidence, state)
    return advantages


def _credit_all(
    variant: RuleVariant, batches: Sequence[PlayedBatch], evidence: Sequence[Sequence[Evidence]], state: State
) -> tuple[list[Floats], State]:
    """Return each batch's credit, one batch after the other, and what the rule remembers then."""
    found = []
    for batch, known in zip(batches, evidence, strict=True):
        credited = variant.rule.credit(batch.trajectories, known, state, variant.settings)
        weighted = zip(credited.advantages, credited.weights, strict=True)
        found.append(np.array([advantage * weight for row, weight in weighted for advantage in row]))
        state = credited.state
    return found, state
