"""A critic of turns with replay and off-policy targets (ArCHer, arXiv 2402.19446), as regressions on what was said.

Two functions are learned from the remembered turns (o_k, a_k, r_k, o_{k+1}):

    Q(o_k, a_k) ← r_k + γ V(o_{k+1})    over all of them: what follows an action does not depend on who chose it
    V(o) ← E over a of Q(o, a)          over the actions that the policy chose lately: a turn weighs recency^age

so old matches keep teaching Q while V is the present policy's, which makes the targets off-policy. Each sweep solves
both regressions. V = 0 after the last turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from games.common.section import Positive, Share
from learners.trajectories import Trajectory
from learners.values.estimator import Estimates, Remembering, State, ValueEstimator
from learners.values.features import state_features
from learners.values.memory import Memory, by_key, forget_policy, numbered, remembered
from learners.values.regression import NO_WEIGHTS, Design, FeatureWeights, Floats, design


class Settings(Remembering):
    """``archer``'s settings."""

    gamma: Share = Field(1.0, description="discount of later turn rewards within a match")
    recency: Share = Field(0.9, description="weight of an iteration's actions in V, relative to the next iteration's")
    sweeps: Positive = Field(6, description="how often Q and V are solved for in turn after each iteration")


class _Steps(NamedTuple):
    """The remembered turns as arrays [T], with the numbers of S states and E actions in states."""

    states: Design  # [S]
    actions: Design  # [E]
    state: Any  # [T]
    action: Any  # [T]
    following: Any  # the next turn's state; S after the last  # [T]
    rewards: Floats  # [T]
    recency: Floats  # weight in V  # [T]


def estimate(trajectories: Sequence[Trajectory], state: State, _settings: Settings) -> Estimates:
    """Return V(o_k), 0 for a role that nothing is known about."""
    return values_of(trajectories, {key: FeatureWeights.from_json(part["v"]) for key, part in state.items()})


def values_of(trajectories: Sequence[Trajectory], weights: dict[str, FeatureWeights]) -> Estimates:
    """Return the value of each turn by its role's weights."""
    values: Estimates = [()] * len(trajectories)
    for key, indices in by_key(trajectories):
        rows = [state_features(turn) for i in indices for turn in trajectories[i].turns]
        flat = design(rows).predict(weights.get(key, NO_WEIGHTS)).tolist() if rows else []
        for i in indices:
            count = len(trajectories[i].turns)
            values[i], flat = tuple(flat[:count]), flat[count:]
    return values


def learn(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> State:
    """Remember the matches, and solve for Q and V again, starting from the last solution."""
    after = dict(state)
    for key, indices in by_key(trajectories):
        old = state.get(key)
        memory = remembered(old, [trajectories[i] for i in indices], settings.matches)
        q, v = (
            (FeatureWeights.from_json(old["q"]), FeatureWeights.from_json(old["v"]))
            if old
            else (NO_WEIGHTS, NO_WEIGHTS)
        )
        if memory.turns:
            q, v = _solved(_steps(memory, settings.recency), settings, q, v)
        after[key] = {"memory": memory.to_json(), "q": q.to_json(), "v": v.to_json()}
    return after


def _steps(memory: Memory, recency: float) -> _Steps:
    state_of, numbers = numbered([state for state, _ in memory.turns])
    steps = [step for past in memory.seen for step in past.steps]
    end = len(numbers)
    following = [
        number
        for past in memory.seen
        for number in [*(state_of[step.turn] for step in past.steps[1:]), *[end] * bool(past.steps)]
    ]
    ages = [memory.clock - past.clock for past in memory.seen for _ in past.steps]
    return _Steps(
        design(list(numbers)),
        design([action for _, action in memory.turns]),
        np.array([state_of[step.turn] for step in steps], np.intp),
        np.array([step.turn for step in steps], np.intp),
        np.array(following, np.intp),
        np.array([step.reward for step in steps]),
        np.float64(recency) ** np.array(ages),
    )


def _solved(
    steps: _Steps, settings: Settings, q: FeatureWeights, v: FeatureWeights
) -> tuple[FeatureWeights, FeatureWeights]:
    """Return the weights of Q and V after the sweeps."""
    states, actions = steps.states.matrix.shape[0], steps.actions.matrix.shape[0]
    counts: Floats = np.bincount(steps.action, minlength=actions).astype(np.float64)
    recent: Floats = np.bincount(steps.state, steps.recency, states).astype(np.float64)
    for _ in range(settings.sweeps):
        following = np.append(steps.states.predict(v), 0.0)[steps.following]
        targets = np.bincount(steps.action, steps.rewards + settings.gamma * following, actions) / counts
        q = steps.actions.fit(targets, counts, settings.shrink, q)
        means = np.bincount(steps.state, steps.recency * steps.actions.predict(q)[steps.action], states)
        v = steps.states.fit(means / np.maximum(recent, 1e-300), recent, settings.shrink, v)
    return q, v


ESTIMATOR = ValueEstimator(estimate, Settings, learn=learn, forget=forget_policy)
