"""The tables ``[credit]`` and ``[critic]``: how returns become advantages, and how value heads are trained."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from pydantic import Field, create_model

from games.common.section import LearningRate, Positive, Section
from learners.advantages import DEFAULT_RULE, RULES, rule_named
from learners.advantages.rule import Need

if TYPE_CHECKING:  # a type checker cannot follow tables that are made at run time
    RuleTables = Section
else:
    RuleTables = create_model(
        "RuleTables",
        __base__=Section,
        __module__=__name__,
        **{name: (rule.settings, rule.settings()) for name, rule in RULES.items() if rule.settings.model_fields},
    )


class CreditConfig(RuleTables):
    """How returns become advantages: each role's rule, and a table for each rule that has settings."""

    rule: str = Field(DEFAULT_RULE, description="credit rule of every role; for the list see: league docs credit")
    rules: dict[str, str] = Field({}, description='another rule for a role, as "game/role" = "rule"')
    scale_returns: bool = Field(True, description="divide returns by half the game's range of returns first")

    def rule_for(self, game: str, role: str) -> str:
        """Return the name of a role's rule."""
        return self.rules.get(f"{game}/{role}", self.rule)

    def needs(self, game: str, role: str) -> AbstractSet[Need]:
        """Return the needs of a role's rule."""
        return rule_named(self.rule_for(game, role)).needs

    def settings_of(self, rule: str) -> Section:
        """Return a rule's own settings."""
        settings: Section | None = getattr(self, rule, None)
        return rule_named(rule).settings() if settings is None else settings


class CriticConfig(Section):
    """The value heads of rules that need values: one per role, on the policy's last hidden state."""

    hidden_size: Positive = Field(64, description="width of a head's hidden layer")
    learning_rate: LearningRate = Field(1e-3, description="its own AdamW's rate")
    steps: Positive = Field(8, description="optimiser steps on one batch")
