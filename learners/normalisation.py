"""How a batch's tokens are averaged: what each token of each turn weighs in the loss.

Within a turn all tokens weigh the same, so a weight is one number a turn. A ``choice`` reply counts as
one token: its probability is exact over the legal replies, however many tokens spell it. Every game is
normalised by itself; trajectories without turns weigh nothing. A trajectory of weight w counts as w
that are alike, both in what is summed and in what the sum is divided by.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arena.records import TokenTrace, Turn
from learners.groups import is_root, rollout_of
from learners.trajectories import Trajectory

Weights = list[list[float]]  # of each token of turn k of trajectory i


class Normalisation(NamedTuple):
    """Which average; ``length`` is what ``constant`` divides a reply's sum over tokens by."""

    name: str = "constant"
    length: int = 1


CONSTANT = Normalisation()


def token_weights(trajectories: Sequence[Trajectory], normalisation: Normalisation) -> Weights:
    """Return the weight of each token of each turn: ``weights[i][k]`` is that of every token of turn k.

    constant: every reply's sum over tokens, divided by a fixed length, averaged over turns (Dr. GRPO,
    arXiv 2503.20783). token_mean: all tokens alike. sequence_mean: the mean over replies of the mean
    over tokens. role_mean: the mean over roles of the mean over trajectories of the mean over turns of
    the mean over tokens (MARS, arXiv 2510.15414), so that a talkative role does not outvote a terse
    one. rollout_mean: the mean over rollouts, a match with all that it opened, of the mean over all
    their tokens (MATPO, arXiv 2510.04678). All but ``constant`` sum to 1 over a game's tokens; for
    ``rollout_mean`` these are the tokens of the rollouts that began in the game, and where
    ``with_rollout_tokens`` has counted them, also those of other policies than the batch's.
    """
    return _WEIGHTS[normalisation.name](trajectories, normalisation.length)


def with_rollout_tokens(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return all policies' trajectories, each with the number of tokens that its whole rollout generated."""
    tokens = _rollout_tokens(trajectories)
    return [one._replace(rollout_tokens=tokens[rollout_of(one)]) for one in trajectories]


def trace_of(trajectory: Trajectory, turn: Turn) -> TokenTrace:
    """Return the tokens of a turn. Raises ValueError where there are none: a scripted player cannot be trained."""
    if turn.trace is None:
        raise ValueError(
            f"Match {trajectory.match} trains role {trajectory.role} on a turn of {turn.player!r}, which kept "
            "no tokens: only language models can be trained."
        )
    return turn.trace


def _tokens(trajectory: Trajectory) -> list[int]:
    """Return how many tokens are weighed, by turn.  # [K]"""
    traces = [trace_of(trajectory, turn) for turn in trajectory.turns]
    return [len(trace.reply_ids) if trace.mask is None else 1 for trace in traces]


def _constant(trajectories: Sequence[Trajectory], length: int) -> Weights:
    turns = _turns(trajectories)
    return [[_share(one, turns[one.game] * length) for _ in one.turns] for one in trajectories]


def _token_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    tokens: defaultdict[str, float] = defaultdict(float)
    for one in trajectories:
        tokens[one.game] += one.weight * sum(_tokens(one))
    return [[_share(one, tokens[one.game]) for _ in one.turns] for one in trajectories]


def _sequence_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    turns = _turns(trajectories)
    return [[_share(one, turns[one.game] * tokens) for tokens in _tokens(one)] for one in trajectories]


def _role_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    roles: dict[str, dict[str, float]] = {}  # by game, the trajectories of each role
    for one in trajectories:
        own = roles.setdefault(one.game, {})
        if one.turns and one.weight:
            own[one.role] = own.get(one.role, 0.0) + one.weight
    return [
        [
            _share(one, len(roles[one.game]) * roles[one.game].get(one.role, 0.0) * len(one.turns) * tokens)
            for tokens in _tokens(one)
        ]
        for one in trajectories
    ]


def _rollout_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    own = _rollout_tokens(trajectories)
    games = {one.match: one.game for one in trajectories if is_root(one)}
    began = {rollout_of(one): games.get(rollout_of(one), one.game) for one in trajectories}
    rollouts = Counter([began[rollout] for rollout, tokens in own.items() if tokens])
    whole = {rollout_of(one): one.rollout_tokens or own[rollout_of(one)] for one in trajectories}
    return [
        [_share(one, rollouts[began[rollout_of(one)]] * whole[rollout_of(one)]) for _ in one.turns]
        for one in trajectories
    ]


def _turns(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return how many turns each game has, those of a trajectory of weight w w times."""
    turns: defaultdict[str, float] = defaultdict(float)
    for one in trajectories:
        turns[one.game] += one.weight * len(one.turns)
    return turns


def _rollout_tokens(trajectories: Sequence[Trajectory]) -> dict[int, float]:
    """Return how many tokens each rollout has, by the match that it began with."""
    tokens: defaultdict[int, float] = defaultdict(float)
    for one in trajectories:
        tokens[rollout_of(one)] += one.weight * sum(_tokens(one))
    return tokens


def _share(one: Trajectory, of: float) -> float:
    """Return a trajectory's weight as a share of a total; one that weighs nothing has none, even of nothing."""
    return one.weight / of if one.weight else 0.0


_WEIGHTS: dict[str, Callable[[Sequence[Trajectory], int], Weights]] = {
    "constant": _constant,
    "token_mean": _token_mean,
    "sequence_mean": _sequence_mean,
    "role_mean": _role_mean,
    "rollout_mean": _rollout_mean,
}
