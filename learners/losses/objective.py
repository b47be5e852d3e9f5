"""The objective that an update minimises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from games.common.registry import family
from games.common.section import Section
from learners.losses.term import LossNeed
from learners.normalisation import CONSTANT, Mismatch, Normalisation


class Surrogate(NamedTuple):
    """A surrogate by name, and its settings; those left out have the defaults of its entry."""

    name: str = "ppo"
    settings: Mapping[str, Any] = {}

    @property
    def table(self) -> Section:
        """All its settings. Raises UsageError for a name that no surrogate has."""
        settings: type[Section] = family("losses")[self.name].settings
        return settings.model_validate(dict(self.settings))


class EntropyBand(NamedTuple):
    """EPO (arXiv 2509.22576): a token's entropy outside [low, high] times its running mean costs ``weight`` a nat."""

    weight: float = 0.0
    low: float = 0.8
    high: float = 1.2
    decay: float = 0.9  # weight of the old mean when an update folds in a new one
    roles: Mapping[str, float] = {}  # weights of single roles, by "GAME/ROLE"

    @property
    def on(self) -> bool:
        """Whether any role's entropy is kept in it."""
        return bool(self.weight or any(self.roles.values()))


class Objective(NamedTuple):
    """The loss of an update; weights of divergences and entropy are per token (``choice``: per reply) and nat."""

    surrogate: Surrogate
    entropy: Mapping[str, float]  # weight of the entropy bonus by game
    kl_old: float = 0.0
    magnet: float = 0.0
    magnet_uniform: float = 0.0
    normalisation: Normalisation = CONSTANT
    truncate: float | None = None  # upper bound of the importance weights; None: no importance weights
    kl_reference: float = 0.0
    kl_estimator: str = "k2"
    band: EntropyBand = EntropyBand()
    mismatch: Mismatch = Mismatch()

    @property
    def needs_reference(self) -> bool:
        """Whether the loss compares the policy with its weights from before training."""
        return self.kl_reference > 0.0 or LossNeed.REFERENCE in family("losses")[self.surrogate.name].needs
