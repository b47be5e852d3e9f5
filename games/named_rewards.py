"""Rewards that a game pays beside its return, each under a name: a judge's score, whether an answer was right.

A seat's return stays what wins, is rated and is measured; a named reward is there for credit rules that weigh several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class PaysNamedRewards(Protocol):
    """A Game that pays named rewards; ``spec.reward_names`` names them all."""

    def named_rewards(self) -> Mapping[str, tuple[float, ...]]:
        """Return by name what the last ``apply`` paid to each seat; a name that is absent paid nothing."""
        ...
