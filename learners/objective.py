"""What an update minimises, and the sums that it reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from learners.losses import Surrogate
from learners.normalisation import CONSTANT, Normalisation


class EntropyBand(NamedTuple):
    """EPO (arXiv 2509.22576): a token's entropy outside [low, high] times its running mean costs ``weight`` a nat."""

    weight: float = 0.0
    low: float = 0.8
    high: float = 1.2
    decay: float = 0.9  # what an update keeps of the old mean


class Objective(NamedTuple):
    """What an update minimises; weights of divergences and entropy are per token (``choice``: per reply), in nats."""

    surrogate: Surrogate
    entropy: Mapping[str, float]  # weight of the entropy bonus by game
    kl_old: float = 0.0
    magnet: float = 0.0
    magnet_uniform: float = 0.0
    normalisation: Normalisation = CONSTANT
    truncate: float | None = None  # the most that an importance weight may be; None: no weights
    kl_reference: float = 0.0
    kl_estimator: str = "k2"
    band: EntropyBand = EntropyBand()

    @property
    def needs_reference(self) -> bool:
        """Whether it compares the policy with its weights from before training."""
        return self.kl_reference > 0.0 or self.surrogate.name == "dpo"


class Sums:
    """Sums over a batch's turns, for the means that are reported."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}

    def add(self, name: str, values: Tensor) -> None:
        """Add the sum of ``values`` to what ``name`` has."""
        self.totals[name] = self.totals.get(name, 0.0) + float(values.detach().sum())

    def mean(self, name: str, over: str = "turns") -> float:
        """Return the mean over turns, or over another of the sums."""
        return self.totals.get(name, 0.0) / max(self.totals.get(over, 0.0), 1.0)
