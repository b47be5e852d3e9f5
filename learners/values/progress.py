"""Progress attribution (SPA-RL, arXiv 2505.20732): each turn's part of the return, learned so that the parts add up.

A return is modelled as a sum over the match's turns, R ≈ Σ_k c(o_k, a_k), fitted to all remembered matches. With ridge
weights a state that many matches share explains what it can, and a later one only the rest, so c approximates how much
a turn changed the expected return. The residual, the luck of the match, is divided evenly:

    c_k = c(o_k, a_k) + residual (R − Σ_j c(o_j, a_j)) / K

With ``residual`` = 1 the contributions sum to the return; with 0 they leave luck out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from games.common.section import Share
from learners.trajectories import Trajectory
from learners.values.estimator import Estimated, Estimates, Remembering, State, ValueEstimator
from learners.values.features import action_features
from learners.values.memory import Memory, by_key, forget_policy, numbered, remembered
from learners.values.regression import NO_WEIGHTS, FeatureWeights, design


class Settings(Remembering):
    """``progress``'s settings."""

    residual: Share = Field(1.0, description="share of the unexplained return that is divided among the turns")


def estimate(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> Estimates:
    """Return c_k."""
    contributions: Estimates = [()] * len(trajectories)
    for key, indices in by_key(trajectories):
        rows = [action_features(turn) for i in indices for turn in trajectories[i].turns]
        weights = FeatureWeights.from_json(state[key]["weights"]) if key in state else NO_WEIGHTS
        flat, start = (design(rows).predict(weights) if rows else np.zeros(0)), 0
        for i in indices:
            parts = flat[start : start + len(trajectories[i].turns)]
            start += len(parts)
            missed = trajectories[i].match_return - parts.sum()
            contributions[i] = tuple((parts + settings.residual * missed / max(len(parts), 1)).tolist())
    return contributions


def learn(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> State:
    """Remember the matches, and fit their returns again."""
    after = dict(state)
    for key, indices in by_key(trajectories):
        old = state.get(key)
        memory = remembered(old, [trajectories[i] for i in indices], settings.matches)
        weights = FeatureWeights.from_json(old["weights"]) if old else NO_WEIGHTS
        after[key] = {
            "memory": memory.to_json(),
            "weights": (_fitted(memory, settings.shrink, weights) if memory.turns else weights).to_json(),
        }
    return after


def _fitted(memory: Memory, shrink: float, start: FeatureWeights) -> FeatureWeights:
    """Return the weights for the returns of the remembered matches, equal ones merged."""
    played = [seen for seen in memory.seen if seen.steps]
    labels, numbers = numbered([tuple(step.turn for step in seen.steps) for seen in played])
    rows = [tuple(i for turn in turns for i in memory.turns[turn][1]) for turns in numbers]
    counts = np.bincount(labels).astype(np.float64)
    means = np.bincount(labels, [seen.total for seen in played]) / counts
    return design(rows).fit(means, counts, shrink, start)


ESTIMATOR = ValueEstimator(estimate, Settings, kind=Estimated.CONTRIBUTIONS, learn=learn, forget=forget_policy)
