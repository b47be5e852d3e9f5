"""What a rule of descent sees, and what it answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from league.config.matchmaking import DescentConfig
from league.population.storage.population import Origin

if TYPE_CHECKING:  # which are slow to import
    from torch import Tensor

    from league.lab.breeding.gate import Gain

ROOT = "root"  # the run that all members of the first generation go on from
Weights = Mapping[str, "Tensor"]  # of one policy, by parameter name


class Candidate(NamedTuple):
    """One member of a generation."""

    name: str  # "m0"
    run: Path
    settings: Mapping[str, float]  # those that may be mutated, by dotted name

    @property
    def newest(self) -> str:
        """How others name its newest snapshots: by its run below the population's folder."""
        return self.name if self.name == ROOT else f"{self.run.parent.name}/{self.name}"


class RunOperations(Protocol):
    """What a rule can do with runs."""

    def weights(self, run: Path) -> dict[str, Weights]:
        """Return the newest weights of each policy."""
        ...

    def root(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights before training."""
        ...

    def distilled(self, run: Path) -> dict[str, Weights]:
        """Return each policy's weights after it was taught to play as the run's mixture."""
        ...

    def played(self, run: Path) -> Path:
        """Return a file of matches that a run plays with itself."""
        ...


class Slot(NamedTuple):
    """One place in the next generation."""

    candidate: Candidate  # who has the place now
    ranking: tuple[Candidate, ...]  # all of this generation, the best first
    better: Callable[[Candidate, Candidate], Gain]  # whether the first is better than the second
    before: Candidate | None  # who had the place a generation ago
    settings: DescentConfig
    rng: random.Random
    operations: RunOperations

    @property
    def rank(self) -> int:
        """The candidate's place in the ranking, 0 for the best."""
        return self.ranking.index(self.candidate)

    @property
    def is_replaced(self) -> bool:
        """Whether the candidate is of the lower half, whose places children take; the upper half goes on."""
        return self.rank >= (len(self.ranking) + 1) // 2


class Descent(NamedTuple):
    """Where the next holder of a place comes from."""

    source: Candidate  # whose run is gone on with: its population, matches and optimiser
    settings: Mapping[str, float]  # the mutable settings from now on
    weights: Mapping[str, Weights] | None = None  # by policy, in place of the source's newest; None: these
    origin: Origin = Origin.TRAINED
    parents: tuple[str, ...] = ()  # () if it is the source alone
    how: str = ""
    imitate: Path | None = None  # matches to imitate, ever less
    reseed: bool = False  # play other matches than the source would
