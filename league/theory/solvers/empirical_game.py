"""The empirical game among a population's players: measured payoffs, their errors, and which are missing.

A profile names one strategy (a snapshot, say) for each player of the meta-game. A profile that was
never played is nan, and "not measured" is not zero: each solver says how it fills such cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from games.common.errors import UsageError

Matrix = NDArray[np.float64]  # row's mean return or score against column, nan where the pair never met  # [N, N]
Mixture = NDArray[np.float64]  # sums to one  # [N]
Joint = NDArray[np.float64]  # a distribution over profiles, sums to one  # [n_1, …, n_P]

Criterion = Literal["gini", "entropy"]  # how an equilibrium is selected: greatest 1 - Σ x², or -Σ x ln x in nats
Missing = Literal["refuse", "zero", "mean"]
"""What fills a profile that was never played: an error, a tie, or the player's mean over the profiles played.

``zero`` is right for a symmetric zero-sum game, where not knowing who is better means a tie; ``mean`` elsewhere,
where 0 may lie outside the game's payoffs. Both make an unplayed profile look like a measured one, so ``refuse``
is the default wherever the answer is a claim of equilibrium.
"""


ROUNDING = 1e-12  # of the largest payoff: more than the rounding of sums of thousands of doubles


@dataclass(frozen=True, slots=True, eq=False)
class EmpiricalGame:
    """Mean payoffs of P players by profile, in the game's units a match.

    Raises ValueError for shapes that do not fit, infinite payoffs, or a payoff without a standard error.
    """

    values: NDArray[np.float64]  # nan where a profile was never played  # [P, n_1, …, n_P]
    errors: NDArray[np.float64] | None = None  # standard errors of the means; None: exact  # [P, n_1, …, n_P]

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) < 2 or shape[0] != len(shape) - 1 or 0 in shape:
            raise ValueError(f"expected payoffs of shape [P, n_1, …, n_P] without a zero, got {list(shape)}")
        if np.isinf(self.values).any():
            raise ValueError("expected finite payoffs, or nan for a profile that was never played, got infinite ones")
        if self.errors is None:
            return
        if self.errors.shape != shape:
            raise ValueError(f"expected standard errors of shape {list(shape)}, got {list(self.errors.shape)}")
        errors = self.errors[~np.isnan(self.values)]
        if not (np.isfinite(errors).all() and (errors >= 0.0).all()):
            raise ValueError("expected a finite, non-negative standard error for every known payoff")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return how many strategies each player has."""  # [P]
        return self.values.shape[1:]

    def filled(self, missing: Missing) -> NDArray[np.float64]:
        """Return the payoffs [P, n_1, …, n_P], profiles that were never played filled as ``missing`` says.

        Raises UsageError under ``refuse``, and under ``mean`` when a player has no known payoff at all.
        """
        unknown = np.isnan(self.values)
        if not unknown.any():
            return self.values
        if missing == "zero":
            return np.where(unknown, 0.0, self.values)
        profiles = int(unknown.any(axis=0).sum())
        measured = (~unknown).reshape(len(unknown), -1).sum(axis=1)  # profiles  # [P]
        if missing == "refuse" or not measured.all():
            raise UsageError(
                f"{profiles} of {unknown[0].size} profiles were never played, so their payoffs are not known. "
                "Play them, or say what to fill in: 'zero', or 'mean' where each player has a known payoff."
            )
        means = np.nansum(self.values.reshape(len(unknown), -1), axis=1) / measured
        return np.where(unknown, means.reshape(-1, *[1] * len(self.sizes)), self.values)

    def draw(self, generator: np.random.Generator) -> EmpiricalGame:
        """Return a game with every payoff drawn from a normal distribution around its mean, by its standard error.

        Solving many draws shows how certain a meta-strategy is. Cells are drawn independently, so a zero-sum
        game stays one only if it is drawn as a matrix and made antisymmetric afterwards.
        """
        errors = np.zeros_like(self.values) if self.errors is None else np.nan_to_num(self.errors)
        return EmpiricalGame(self.values + errors * generator.standard_normal(self.values.shape))


def antisymmetric(payoffs: Matrix) -> Matrix:
    """Return (P - P') / 2 [N, N], zero on the diagonal and where either side was not measured.

    Differences that are rounding of the payoffs, or of returns near 1, are zero too: equal players are level.
    Raises ValueError for infinite payoffs.
    """
    greatest = largest(np.where(np.isnan(payoffs), 0.0, payoffs))
    if math.isinf(greatest):
        raise ValueError("expected finite payoffs, or nan for a pair that never met, got infinite ones")
    halves = payoffs / 2.0
    margins = halves - halves.T
    margins[np.isnan(margins)] = 0.0
    return without_rounding(margins, max(greatest, np.finfo(float).eps / ROUNDING))


def without_rounding(differences: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return ``differences`` of payoffs up to ``scale``, with those within rounding error of 0 set to 0."""
    return np.asarray(np.where(np.abs(differences) <= ROUNDING * scale, 0.0, differences))


def largest(values: NDArray[np.float64]) -> float:
    """Return the largest absolute value, for relative tolerances; never 0, so that one can divide by it."""
    return max(float(np.abs(values).max(initial=0.0)), 1e-300)


def symmetric_game(payoffs: Matrix) -> EmpiricalGame:
    """Return the two-player game in which both choose from one population: the row's payoffs and their transpose."""
    return EmpiricalGame(np.stack([payoffs, payoffs.T]))
