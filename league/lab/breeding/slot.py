"""A breeding rule's input and output: a slot of the next generation, and the descent of the run that fills it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from league.config.matchmaking import DescentConfig
from league.population.storage.population import Origin

if TYPE_CHECKING:  # slow to import
    from torch import Tensor

    from league.lab.breeding.gate import Gain

ROOT = "root"  # the run that all members of the first generation continue
Weights = Mapping[str, "Tensor"]  # of one policy, by parameter name


class Candidate(NamedTuple):
    """One member of a generation."""

    name: str  # "m0"
    run: Path
    settings: Mapping[str, float]  # the settings that may be mutated, by dotted name

    @property
    def newest(self) -> str:
        """The name of its newest snapshots: its run, below the population's folder."""
        return self.name if self.name == ROOT else f"{self.run.parent.name}/{self.name}"


class RunOperations(Protocol):
    """The operations of a rule on runs."""

    def weights(self, run: Path) -> dict[str, Weights]:
        """Return the newest weights of each policy."""
        ...

    def root(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights before training."""
        ...

    def distilled(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights after distilling the run's mixture into it."""
        ...

    def played(self, run: Path) -> Path:
        """Return a file of matches that a run plays with itself."""
        ...


class Slot(NamedTuple):
    """One slot of the next generation."""

    candidate: Candidate  # the member in the slot now
    ranking: tuple[Candidate, ...]  # all of this generation, the best first
    better: Callable[[Candidate, Candidate], Gain]  # whether the first is better than the second
    before: Candidate | None  # the member in the slot a generation ago
    settings: DescentConfig
    rng: random.Random
    operations: RunOperations

    @property
    def rank(self) -> int:
        """The candidate's place in the ranking, 0 for the best."""
        return self.ranking.index(self.candidate)

    @property
    def is_replaced(self) -> bool:
        """Whether the candidate is in the lower half, whose slots children take; the upper half continues."""
        return self.rank >= (len(self.ranking) + 1) // 2


class Descent(NamedTuple):
    """The descent of the run that fills a slot next."""

    source: Candidate  # whose run is continued: its population, matches and optimiser
    settings: Mapping[str, float]  # the mutable settings from now on
    weights: Mapping[str, Weights] | None = None  # by policy, in place of the source's newest; None: these
    origin: Origin = Origin.TRAINED
    parents: tuple[str, ...] = ()  # () if there is only the source
    how: str = ""
    imitate: Path | None = None  # matches to imitate, with falling weight
    reseed: bool = False  # play other matches than the source would
