"""The tables ``[credit]``, ``[selection]``, ``[values]`` and ``[critic]``: how returns become advantages, which turns a
batch learns from, what estimates the values of turns, and how value heads are trained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from games.common.registry import tables
from games.common.section import Count, LearningRate, Positive, Section
from games.common.validation import validated
from league.config.names import CreditRuleName, EstimatorName, SelectionRuleName
from league.config.teacher import PrivilegedName
from learners.advantages import DEFAULT_RULE, RULES
from learners.selection import SELECTION
from learners.values import DEFAULT_ESTIMATOR, ESTIMATORS


def _tables(name: str, entries: Mapping[str, Any]) -> Any:
    """Return a table that has one for each entry with settings."""
    return create_model(name, __base__=Section, __module__=__name__, **tables(entries))


if TYPE_CHECKING:  # a type checker cannot follow tables that are made at run time
    RuleTables = Section
    EstimatorTables = Section
    SelectionTables = Section
else:
    RuleTables, EstimatorTables = _tables("RuleTables", RULES), _tables("EstimatorTables", ESTIMATORS)
    SelectionTables = _tables("SelectionTables", SELECTION)


def _own_settings(table: Section, entries: Mapping[str, Any], name: str) -> Section:
    """Return an entry's own settings: those of its table, or its defaults where the configuration has none."""
    settings: Section | None = getattr(table, name, None)
    own: Section = entries[name].settings() if settings is None else settings
    return own


class CreditConfig(RuleTables):
    """How returns become advantages: each role's rule, and a table for each rule that has settings."""

    rule: CreditRuleName = Field(
        DEFAULT_RULE, description="credit rule of every role; for the list see: league show docs credit"
    )
    rules: dict[str, CreditRuleName] = Field({}, description='rules of single roles, as "game/role" = "rule"')
    settings: dict[str, dict[str, Any]] = Field(
        {}, description="settings of single roles' rules, as credit.settings.'game/role'.gamma = 0.9"
    )
    scale_returns: bool = Field(True, description="first divide returns by half the game's range of returns")

    def rule_for(self, game: str, role: str) -> str:
        """Return the name of a role's rule."""
        return self.rules.get(f"{game}/{role}", self.rule)

    def needs(self, game: str, role: str) -> AbstractSet[str]:
        """Return the needs of a role's rule."""
        return RULES[self.rule_for(game, role)].needs

    def rewards(self, game: str, role: str) -> Collection[str]:
        """Return the rewards that a role's rule weighs; none if it knows only the return."""
        name = self.rule_for(game, role)
        read = RULES[name].rewards
        return () if read is None else read(self.settings_for(game, role) or self.settings_of(name))

    def settings_for(self, game: str, role: str) -> Section | None:
        """Return a role's own settings of its rule; None for a role that has none. Raises UsageError for wrong ones."""
        changes = self.settings.get(f"{game}/{role}")
        if not changes:
            return None
        rule = self.rule_for(game, role)
        settings = self.settings_of(rule)
        what = f"credit.settings of {game}/{role}, whose rule is {rule},"
        return validated(type(settings), settings.model_dump() | changes, what)

    def settings_of(self, rule: str) -> Section:
        """Return a rule's own settings."""
        return _own_settings(self, RULES, rule)


class SelectionConfig(SelectionTables):
    """Which turns a batch learns from, and a table for each rule that has settings."""

    rules: tuple[SelectionRuleName, ...] = Field(
        (),
        description="rules of selection, in order; each weights the turns that earlier ones left; "
        "for the list see: league show docs selection; none: every turn counts",
    )

    @property
    def needs(self) -> frozenset[str]:
        """The sources of evidence that the rules need."""
        return frozenset(need for name in self.rules for need in SELECTION[name].needs)

    def settings_of(self, rule: str) -> Section:
        """Return a rule's own settings."""
        return _own_settings(self, SELECTION, rule)


class ValuesConfig(EstimatorTables):
    """What estimates turn values: each role's estimator, and a table for each that has settings."""

    estimator: EstimatorName = Field(
        DEFAULT_ESTIMATOR,
        description="what estimates the values of turns, for rules that need them; for the list see: league show docs "
        "credit",
    )
    estimators: dict[str, EstimatorName] = Field(
        {}, description='estimators of single roles, as "game/role" = "estimator"'
    )

    def estimator_for(self, game: str, role: str) -> str:
        """Return the name of a role's estimator."""
        return self.estimators.get(f"{game}/{role}", self.estimator)

    def settings_of(self, estimator: str) -> Section:
        """Return an estimator's own settings."""
        return _own_settings(self, ESTIMATORS, estimator)


class CriticConfig(Section):
    """The value heads of rules that need values: one per role, on the policy's last hidden state."""

    hidden_size: Positive = Field(64, description="width of a head's hidden layer")
    learning_rate: LearningRate = Field(1e-3, description="learning rate of its own AdamW")
    steps: Positive = Field(8, description="optimiser steps on one batch")
    value_clip: float | None = Field(
        None,
        gt=0.0,
        description="how far one batch may move a value, in the rewards' units, before moving further no longer "
        "lowers its loss (PPO-max); None: no bound",
    )
    warmup: Count = Field(
        0, description="first iterations in which only critics learn, while the policies of their roles wait (PPO-max)"
    )
    sees: tuple[PrivilegedName, ...] = Field(
        (),
        description="what the critic sees beyond the seat's own observation, only in training: seats, what every "
        "other seat is shown; teammates, what its teammates are shown; hidden, what the game hides from the seat",
    )
