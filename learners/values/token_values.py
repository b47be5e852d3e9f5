"""Token values with turn boundaries: policy optimisation with action decomposition (POAD, arXiv 2405.15821).

The Bellman equation with action decomposition: within a turn's reply w_1 … w_n there is no reward and no discounting,

    V(o_k, w_1:j) ← E over w_{j+1} of V(o_k, w_1:j+1),   V(o_k, w_1:n) = r_k + γ V(o_{k+1}),   V(o_k) = V(o_k, no token)

so V(o_k), which credit rules use, is the value at the first boundary, and the tokens' advantages, each the value after
the token less the value before it, sum to the turn's r_k + γ V(o_{k+1}) − V(o_k). Tokens are those
that an engine sampled, or else the words of the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from arena.records import Turn
from games.common.section import Positive, Share
from learners.trajectories import Trajectory
from learners.values.archer import values_of
from learners.values.estimator import Estimates, Remembering, State, ValueEstimator
from learners.values.features import Features, action_of, hashed, state_features
from learners.values.memory import by_key, forget_policy, numbered, role_key
from learners.values.regression import NO_WEIGHTS, Design, FeatureWeights, design


class Settings(Remembering):
    """``token_values``' settings."""

    gamma: Share = Field(1.0, description="discount of later turn rewards within a match")
    sweeps: Positive = Field(8, description="how often all values are solved for after each iteration")


class _Prefixes(NamedTuple):
    """The remembered prefixes of replies as arrays [T]."""

    rows: Design  # of P distinct prefixes  # [P]
    index: Any  # which of them  # [T]
    following: Any  # the prefix one token longer; at the end, the next turn's empty one; P after the last  # [T]
    rewards: Any  # the reward of the step  # [T]
    ends: Any  # whether the step ends a turn, and γ applies  # [T]


def estimate(trajectories: Sequence[Trajectory], state: State, _settings: Settings) -> Estimates:
    """Return V(o_k)."""
    return values_of(trajectories, _weights(state))


def token_values(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> list[list[list[float]]]:
    """Return, by trajectory and turn, the values before the first token and after each token.

    The last is r_k + γ V(o_{k+1}), the first V(o_k).
    """
    weights, at_turns = _weights(state), estimate(trajectories, state, settings)
    values_NK = []
    for trajectory, values in zip(trajectories, at_turns, strict=True):
        role_weights, following = weights.get(role_key(trajectory), NO_WEIGHTS), [*values[1:], 0.0]
        values_NK.append(
            [
                [*design(_prefixes(turn)).predict(role_weights).tolist(), reward + settings.gamma * after]
                for turn, reward, after in zip(trajectory.turns, trajectory.rewards, following, strict=True)
            ]
        )
    return values_NK


def learn(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> State:
    """Remember the matches, and solve for the values again."""
    after = dict(state)
    for key, indices in by_key(trajectories):
        old = state.get(key)
        new = [trajectories[i] for i in indices]
        matches = old["matches"] if old else []
        matches = [*matches, *([_paths(t), list(t.rewards)] for t in new if t.turns)][-settings.matches :]
        weights = FeatureWeights.from_json(old["weights"]) if old else NO_WEIGHTS
        if matches:
            weights = _solved(_arrays(matches), settings, weights)
        after[key] = {"matches": matches, "weights": weights.to_json()}
    return after


def _weights(state: State) -> dict[str, FeatureWeights]:
    return {key: FeatureWeights.from_json(part["weights"]) for key, part in state.items()}


def _tokens(turn: Turn) -> Sequence[object]:
    """Return the tokens of a reply; at least one."""
    if turn.trace is not None and turn.trace.reply_ids:
        return turn.trace.reply_ids
    return action_of(turn).split() or ("",)


def _prefixes(turn: Turn) -> list[Features]:
    """Return the features of a reply's proper prefixes, the empty one included: as many as it has tokens."""
    tokens, state = _tokens(turn), state_features(turn)
    rows = [state]
    for count in range(1, len(tokens)):
        prefix = hashed("said", *tokens[:count])
        rows.append((*state, prefix, *(hashed(feature, prefix) for feature in state)))
    return rows


def _paths(trajectory: Trajectory) -> list[list[Features]]:
    return [_prefixes(turn) for turn in trajectory.turns]


def _arrays(matches: Sequence[Any]) -> _Prefixes:
    flat = [tuple(row) for paths, _ in matches for rows in paths for row in rows]
    index, numbers = numbered(flat)
    following, rewards, ends, at = [], [], [], 0
    for paths, rewards_K in matches:
        for k, (rows, reward) in enumerate(zip(paths, rewards_K, strict=True)):
            for j in range(len(rows)):
                last = j == len(rows) - 1
                over = last and k == len(paths) - 1
                following.append(len(numbers) if over else index[at + 1])
                rewards.append(reward if last else 0.0)
                ends.append(last)
                at += 1
    arrays = (np.array(index), np.array(following), np.array(rewards), np.array(ends))
    return _Prefixes(design(list(numbers)), *arrays)


def _solved(prefixes: _Prefixes, settings: Settings, weights: FeatureWeights) -> FeatureWeights:
    count = prefixes.rows.matrix.shape[0]
    times = np.bincount(prefixes.index, minlength=count).astype(np.float64)
    discounts = np.where(prefixes.ends, settings.gamma, 1.0)
    for _ in range(settings.sweeps):
        values = np.append(prefixes.rows.predict(weights), 0.0)
        targets = prefixes.rewards + discounts * values[prefixes.following]
        means = np.bincount(prefixes.index, targets, count) / times
        weights = prefixes.rows.fit(means, times, settings.shrink, weights)
    return weights


ESTIMATOR = ValueEstimator(estimate, Settings, learn=learn, forget=forget_policy)
