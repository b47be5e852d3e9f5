"""How a batch's tokens are averaged: what each token of each turn weighs in the loss.

Within a turn all tokens weigh the same, so a weight is one number a turn. A ``choice`` reply counts as
one token: its probability is exact over the legal replies, however many tokens spell it. Every game is
normalised by itself; trajectories without turns weigh nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arena.records import TokenTrace, Turn
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
    ``rollout_mean`` these are the tokens of the rollouts that began in the game.
    """
    return _WEIGHTS[normalisation.name](trajectories, normalisation.length)


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
    turns = Counter[str]()
    for one in trajectories:
        turns[one.game] += len(one.turns)
    return [[1 / (turns[one.game] * length) for _ in one.turns] for one in trajectories]


def _token_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    tokens = Counter[str]()
    for one in trajectories:
        tokens[one.game] += sum(_tokens(one))
    return [[1 / tokens[one.game] for _ in one.turns] for one in trajectories]


def _sequence_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    turns = Counter[str]()
    for one in trajectories:
        turns[one.game] += len(one.turns)
    return [[1 / (turns[one.game] * tokens) for tokens in _tokens(one)] for one in trajectories]


def _role_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    roles: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by game: trajectories of each role
    for one in trajectories:
        if one.turns:
            roles[one.game][one.role] += 1
    return [
        [1 / (len(roles[one.game]) * roles[one.game][one.role] * len(one.turns) * tokens) for tokens in _tokens(one)]
        for one in trajectories
    ]


def _rollout_mean(trajectories: Sequence[Trajectory], _length: int) -> Weights:
    parents = {one.match: one.parent for one in trajectories}
    games = {one.match: one.game for one in trajectories}
    roots = [_root(one.match, parents) for one in trajectories]
    tokens = Counter[int]()
    for one, root in zip(trajectories, roots, strict=True):
        tokens[root] += sum(_tokens(one))
    began = {root: games.get(root, one.game) for one, root in zip(trajectories, roots, strict=True)}
    rollouts = Counter([began[root] for root, count in tokens.items() if count])
    return [
        [1 / (rollouts[began[root]] * tokens[root]) for _ in one.turns]
        for one, root in zip(trajectories, roots, strict=True)
    ]


def _root(match: int, parents: dict[int, int | None]) -> int:
    """Return the match that a rollout began with; one that others trained on is named, but not looked into."""
    parent = parents.get(match)
    return match if parent is None else _root(parent, parents)


_WEIGHTS: dict[str, Callable[[Sequence[Trajectory], int], Weights]] = {
    "constant": _constant,
    "token_mean": _token_mean,
    "sequence_mean": _sequence_mean,
    "role_mean": _role_mean,
    "rollout_mean": _rollout_mean,
}
