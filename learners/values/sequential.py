"""Sequential advantages of teammates, which sum to the joint advantage (ReAd, arXiv 2405.14314).

R is the mean return of the trained seats of a team's match. Let h_i be everything they saw and said up to the match's
i-th turn. A critic of the joint history, Q(h_i) ≈ E[R | h_i], is fitted to the returns of the remembered matches, and
turn i has

    A_i = Q(h_i) − Q(h_{i−1}),   Σ_i A_i = Q(h_n) − Q(h_0), the joint advantage

so each member's advantage is conditioned on what the earlier ones did, and nothing is credited twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from games.common.errors import UsageError
from games.spec import Utility
from learners.keys import join_names, split_names
from learners.trajectories import Trajectory
from learners.values.estimator import Estimated, Estimates, Remembering, State, ValueEstimator, ValueFacts
from learners.values.features import Features, action_features, action_of, hashed, state_features
from learners.values.memory import by_key
from learners.values.regression import NO_WEIGHTS, FeatureWeights, Floats, design

TurnIndex = tuple[int, int]  # the index of a trajectory and of a turn in it
START: Features = (hashed("start"),)


class Settings(Remembering):
    """``sequential``'s settings."""


def check(facts: ValueFacts, _settings: Settings) -> None:
    """Raise UsageError for a game whose seats are not paid alike."""
    game = facts.game
    if game.utility is not Utility.IDENTICAL or game.seats < 2:
        raise UsageError(
            f"The estimator 'sequential' divides what a team earns among its members, but the seats of {game.alias} "
            "are not paid alike. Choose another values.estimator."
        )


def estimate(trajectories: Sequence[Trajectory], state: State, _settings: Settings) -> Estimates:
    """Return A_i at the trained seats' turns."""
    advantages = [[0.0] * len(t.turns) for t in trajectories]
    for key, indices in by_key(trajectories, _team_key):
        weights = FeatureWeights.from_json(state[key]["weights"]) if key in state else NO_WEIGHTS
        histories = [_history(trajectories, members) for members in _matches(trajectories, indices)]
        flat = design([row for rows, _ in histories for row in rows]).predict(weights)
        start = 0
        for rows, turn_indices in histories:
            gained = np.diff(flat[start : start + len(rows)])
            start += len(rows)
            for (i, k), gain in zip(turn_indices, gained.tolist(), strict=True):
                advantages[i][k] = gain
    return [tuple(row) for row in advantages]


def learn(trajectories: Sequence[Trajectory], state: State, settings: Settings) -> State:
    """Remember the matches, and fit Q again."""
    after = dict(state)
    for key, indices in by_key(trajectories, _team_key):
        old = state.get(key)
        matches = [[[tuple(row) for row in rows], total] for rows, total in old["matches"]] if old else []
        for members in _matches(trajectories, indices):
            total = fmean([trajectories[i].match_return for i in members])
            matches.append([_history(trajectories, members)[0], total])
        matches = matches[-settings.matches :]
        weights = FeatureWeights.from_json(old["weights"]) if old else NO_WEIGHTS
        after[key] = {"matches": matches, "weights": _fitted(matches, settings.shrink, weights).to_json()}
    return after


def forget(state: State, policy: str) -> State:
    """Return the state without the teams that a policy is in."""
    return {key: part for key, part in state.items() if policy not in split_names(key)[1:]}


def _team_key(trajectory: Trajectory) -> str:
    """Return the key of a game and the players in its seats."""
    return join_names(trajectory.game, *trajectory.players)


def _matches(trajectories: Sequence[Trajectory], indices: Sequence[int]) -> list[list[int]]:
    """Return the indices of each match's trajectories."""
    members: dict[int, list[int]] = {}
    for index in indices:
        members.setdefault(trajectories[index].match, []).append(index)
    return list(members.values())


def _history(trajectories: Sequence[Trajectory], members: Sequence[int]) -> tuple[list[Features], list[TurnIndex]]:
    """Return the features of a match's h_0, h_1 …, and the turn that ends each of them but the first."""
    order = {
        (i, k): (trajectories[i].order[k] if trajectories[i].order else k, trajectories[i].seat)
        for i in members
        for k in range(len(trajectories[i].turns))
    }
    ordered = sorted(order, key=order.__getitem__)
    rows, joint = [START], START[0]
    apart: Features = START
    for i, k in ordered:
        turn, seat = trajectories[i].turns[k], trajectories[i].seat
        joint = hashed(joint, seat, turn.observation, action_of(turn))
        actor = tuple(hashed(seat, feature) for feature in action_features(turn)[len(state_features(turn)) :])
        apart += (hashed(seat, turn.observation, action_of(turn)),)
        rows.append((*apart, *actor, joint))
    return rows, ordered


def _fitted(matches: Sequence[Sequence[object]], shrink: float, start: FeatureWeights) -> FeatureWeights:
    """Return the weights of Q for the returns after every h_i, merging equal histories."""
    totals: dict[Features, list[float]] = {}
    for rows, total in matches:
        for row in rows:  # type: ignore[attr-defined]
            totals.setdefault(row, []).append(total)  # type: ignore[arg-type]
    counts: Floats = np.array([len(values) for values in totals.values()], np.float64)
    means: Floats = np.array([sum(values) / len(values) for values in totals.values()])
    return design(list(totals)).fit(means, counts, shrink, start)


ESTIMATOR = ValueEstimator(estimate, Settings, check=check, kind=Estimated.CONTRIBUTIONS, learn=learn, forget=forget)
