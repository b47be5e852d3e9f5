"""Implicit step rewards from pairs of a won and a lost match (online process reward learning, arXiv 2509.19199).

A step reward is the log-ratio of an implicit policy φ to the one that played, and φ is learned as in DPO, on whole
matches: a better match's rewards should sum to more than those of a worse match of the same role,

    s(o, a) = log φ(a | o) / π(a | o) = u(o, a) − log Σ_b π(b | o) e^{u(o, b)}
    L = mean over pairs of −log σ(Σ_k s(o_k, a_k) − Σ_k s(o'_k, a'_k)) + shrink |u|² / pairs

u is linear in the turn's features and π(· | o) are the remembered frequencies. So an action is only compared with the
others at its observation, and luck cancels. Matches of one deal are paired if there are several, otherwise any of the
role. A contribution is s in units of return: s times the slope of the remembered returns on the sums of s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from games.common.section import Positive
from games.common.seeds import derive_seed
from learners.trajectories import Trajectory
from learners.values.estimator import Estimated, Estimates, Remembering, State, ValueEstimator
from learners.values.features import action_features, state_features
from learners.values.memory import Memory, by_key, forget_policy, numbered, remembered
from learners.values.regression import Design, FeatureWeights, Floats, design, weights_of


class Settings(Remembering):
    """``preferences``' settings."""

    steps: Positive = Field(40, description="steps of the optimiser (L-BFGS) after each iteration")


class _Turns(NamedTuple):
    """The distinct turns, E actions in S states, and the matches N as counts of them."""

    actions: Design  # [E]
    state: Any  # [E]
    log_played: Floats  # log π  # [E]
    counts: Any  # sparse  # [N, E]

    def rewards(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return s and φ [E] by the weights of u."""
        u = self.actions.matrix @ weights
        top = np.full(self.state.max() + 1, -np.inf)
        np.maximum.at(top, self.state, u + self.log_played)
        terms = np.exp(u + self.log_played - top[self.state])
        total = np.bincount(self.state, terms)
        return u - (top + np.log(total))[self.state], terms / total[self.state]


def estimate(trajectories: Sequence[Trajectory], state: State, _settings: Settings) -> Estimates:
    """Return the step rewards; 0 for a turn that is not remembered."""
    tables = {key: dict(zip(part["turns"], part["rewards"], strict=True)) for key, part in state.items()}
    contributions: Estimates = [()] * len(trajectories)
    for key, indices in by_key(trajectories):
        table, weights = tables.get(key, {}), FeatureWeights.from_json(state[key]["weights"]) if key in state else None
        for i in indices:
            contributions[i] = tuple([_reward(turn, table, weights) for turn in trajectories[i].turns])
    return contributions


def _reward(turn: Any, table: dict[int, float], weights: FeatureWeights | None) -> float:
    """Return a turn's step reward: the remembered one, or, for a new observation, the sum that its words contribute."""
    features = action_features(turn)
    if weights is None:
        return 0.0
    whole = features[len(state_features(turn)) + 1]  # the feature of observation and action as a whole
    if whole in table:
        return table[whole]
    new = np.array(features[len(state_features(turn)) :], np.int64)
    return float(weights_of(weights, new).sum())


def learn(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> State:
    """Remember the matches, and learn from their pairs."""
    after = dict(state)
    for key, indices in by_key(trajectories):
        old = state.get(key)
        memory = remembered(old, [trajectories[i] for i in indices], settings.matches)
        weights = FeatureWeights.from_json(old["fitted"]) if old else None
        fitted = _fitted(memory, settings, key, weights)
        after[key] = {"memory": memory.to_json(), **fitted}
    return after


def _fitted(memory: Memory, settings: Settings, key: str, start: FeatureWeights | None) -> dict[str, Any]:
    """Return the weights, and the step reward of each remembered turn by the id of its whole feature."""
    turns, totals = _turns(memory), np.array([seen.total for seen in memory.seen])
    won, lost = _pairs(memory, derive_seed("pairs", key, memory.clock))
    ids = turns.actions.ids
    first = np.zeros(len(ids)) if start is None else weights_of(start, ids)
    weights = _minimised(turns, turns.counts[won] - turns.counts[lost], settings, first) if len(won) else first
    rewards = turns.rewards(weights)[0]
    sums = turns.counts @ rewards
    spread = float(np.var(sums))
    slope = max(float(np.mean((sums - sums.mean()) * (totals - totals.mean()))) / spread, 0.0) if spread > 0.0 else 0.0
    wholes = [action[len(state) + 1] for state, action in memory.turns]
    return {
        "fitted": FeatureWeights(ids, weights).to_json(),
        "weights": FeatureWeights(ids, weights * slope).to_json(),
        "turns": wholes,
        "rewards": (rewards * slope).tolist(),
    }


def _turns(memory: Memory) -> _Turns:
    from scipy.sparse import csr_matrix

    state = np.array(numbered([state for state, _ in memory.turns])[0], np.intp)
    flat = [step.turn for seen in memory.seen for step in seen.steps]
    starts = np.cumsum([0, *(len(seen.steps) for seen in memory.seen)])
    counts = csr_matrix((np.ones(len(flat)), np.array(flat, np.intp), starts), (len(memory.seen), len(memory.turns)))
    played = np.bincount(flat, minlength=len(memory.turns)).astype(np.float64)
    log_played = np.log(played / np.bincount(state, played)[state])
    return _Turns(design([action for _, action in memory.turns]), state, log_played, counts)


def _pairs(memory: Memory, seed: int) -> tuple[Any, Any]:
    """Return the indices of better and of worse matches: each match with the next of its deal, or of all."""
    order = np.random.default_rng(seed).permutation(len(memory.seen))
    starts: dict[int, list[int]] = {}
    for index in order.tolist():
        starts.setdefault(memory.seen[index].start, []).append(index)
    alone = [members[0] for members in starts.values() if len(members) == 1]
    sets = [members for members in starts.values() if len(members) > 1] + [alone]
    pairs = [(members[i - 1], members[i]) for members in sets for i in range(len(members)) if len(members) > 1]
    total = [seen.total for seen in memory.seen]
    won = [a if total[a] > total[b] else b for a, b in pairs if total[a] != total[b]]
    lost = [b if total[a] > total[b] else a for a, b in pairs if total[a] != total[b]]
    return np.array(won, np.intp), np.array(lost, np.intp)


def _minimised(turns: _Turns, differences: Any, settings: Settings, first: Floats) -> Floats:
    """Return the weights after minimising L for ``settings.steps`` steps from ``first``."""
    from scipy.optimize import minimize

    pairs, states = differences.shape[0], int(turns.state.max()) + 1

    def loss(weights: Floats) -> tuple[float, Floats]:
        rewards, implicit = turns.rewards(weights)
        margins = differences @ rewards
        by_reward = differences.T @ (-1.0 / (1.0 + np.exp(np.clip(margins, -500.0, 500.0)))) / pairs  # dL/ds
        by_u = by_reward - implicit * np.bincount(turns.state, by_reward, states)[turns.state]
        value = np.logaddexp(0.0, -margins).mean() + settings.shrink * float(weights @ weights) / pairs
        return float(value), turns.actions.matrix.T @ by_u + 2.0 * settings.shrink * weights / pairs

    result = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": settings.steps})
    return np.asarray(result.x)


ESTIMATOR = ValueEstimator(estimate, Settings, kind=Estimated.CONTRIBUTIONS, learn=learn, forget=forget_policy)
