"""How a batch's tokens are averaged: the weight of each token of each turn in the loss.

All tokens of a turn have the same weight, so there is one weight per turn. A ``choice`` reply counts as
one token: its probability is exact over the legal replies, however many tokens spell it. Every game is
normalised separately, and so are its submatches in the rollouts of another game; trajectories without turns have no
weight. A trajectory with the weight w from its credit rule counts as w equal trajectories, and a turn with the weight w
from the rules of selection as w equal turns, in the sum and in its divisor.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arena.records import TokenTrace, Turn
from learners.groups import rollout_of, root_game_of
from learners.trajectories import Evidence, Trajectory

TokenWeights = list[list[float]]  # of each token of turn k of trajectory i
_Pool = tuple[str, str]  # averaged separately: a game, and the game that its rollouts began in

_Prompt = tuple[tuple[int, ...], tuple[str, ...] | None]  # token ids, and the legal replies to choose from


class Normalisation(NamedTuple):
    """Which average; ``length`` is what ``constant`` divides a reply's sum over tokens by."""

    name: str = "constant"
    length: int = 1


CONSTANT = Normalisation()


class _Batch(NamedTuple):
    """The trajectories of all games that are averaged."""

    trajectories: Sequence[Trajectory]  # [N]
    weights: Sequence[float]  # of each trajectory in the loss  # [N]
    turn_weights: Sequence[Sequence[float]]  # [N][K]
    rollout_tokens: Sequence[float | None]  # counted over all policies; None: not counted  # [N]
    length: int

    @property
    def weighted(self) -> list[_Weighted]:
        """Return each trajectory with its weight, and those of its turns."""
        return list(zip(self.trajectories, self.weights, self.turn_weights, strict=True))


_Weighted = tuple[Trajectory, float, Sequence[float]]  # with a trajectory's weight, and those of its turns


def token_weights(
    trajectories: Sequence[Trajectory],
    normalisation: Normalisation,
    weights: Sequence[float] | None = None,
    evidence: Sequence[Evidence] | None = None,
) -> TokenWeights:
    """Return the weight of each token of each turn: ``[i][k]`` for every token of turn k of trajectory i.

    constant: every reply's sum over tokens, divided by a fixed length, averaged over turns (Dr. GRPO,
    arXiv 2503.20783). token_mean: all tokens have the same weight. sequence_mean: the mean over replies of the
    mean over tokens. role_mean: the mean over roles of the mean over trajectories of the mean over turns of
    the mean over tokens (MARS, arXiv 2510.15414), so that a role with long replies does not outweigh one with
    short replies. rollout_mean: the mean over rollouts, a match with all its submatches, of the mean over all
    their tokens (MATPO, arXiv 2510.04678). prompt_mean: the mean over prompts of the mean over their turns of the
    mean over tokens, so that a situation that is seldom reached moves as far as one that every match reaches, as in
    tabular updates. All but ``constant`` sum to 1 over a game's tokens; for ``rollout_mean`` these are the tokens
    of the rollouts that began in the game, including other policies' tokens where ``count_rollout_tokens`` has counted
    them.

    ``weights`` are the trajectories' weights; None: all 1.
    """
    counted = [None] * len(trajectories) if evidence is None else [e.rollout_tokens for e in evidence]
    of_turns = turn_weights(trajectories, evidence)
    batch = _Batch(trajectories, _or_ones(weights, len(trajectories)), of_turns, counted, normalisation.length)
    return _WEIGHTS[normalisation.name](batch)


def count_rollout_tokens(
    trajectories: Sequence[Trajectory], evidence: Sequence[Evidence], weights: Sequence[float] | None = None
) -> list[Evidence]:
    """Return all policies' evidence with the weighted number of tokens that each whole rollout generated."""
    of_turns = turn_weights(trajectories, evidence)
    tokens = _rollout_tokens(list(zip(trajectories, _or_ones(weights, len(trajectories)), of_turns, strict=True)))
    return [
        facts.with_cells(rollout_tokens=tokens[rollout_of(trajectory)])
        for trajectory, facts in zip(trajectories, evidence, strict=True)
    ]


def turn_weights(trajectories: Sequence[Trajectory], evidence: Sequence[Evidence] | None) -> list[Sequence[float]]:
    """Return the weight of each turn that the rules of selection gave; all 1 where there was none.  # [N][K]"""
    selections = [None] * len(trajectories) if evidence is None else [facts.selection for facts in evidence]
    ones = [
        [1.0] * turns for turns in range(1 + max([len(trajectory.turns) for trajectory in trajectories], default=0))
    ]
    return [
        ones[len(trajectory.turns)] if selection is None else selection.weights
        for trajectory, selection in zip(trajectories, selections, strict=True)
    ]


def trace_of(trajectory: Trajectory, turn: Turn) -> TokenTrace:
    """Return a turn's trace. Raises ValueError if it has none: a scripted player cannot be trained."""
    if turn.trace is None:
        raise ValueError(
            f"Match {trajectory.match} trains role {trajectory.role} on a turn of {turn.player!r}, which has "
            "no tokens: only language models can be trained."
        )
    return turn.trace


def _tokens(trajectory: Trajectory) -> list[int]:
    """Return the number of tokens of each turn.  # [K]"""
    traces = [trace_of(trajectory, turn) for turn in trajectory.turns]
    return [len(trace.reply_ids) if trace.mask is None else 1 for trace in traces]


def _or_ones(weights: Sequence[float] | None, count: int) -> Sequence[float]:
    return [1.0] * count if weights is None else weights


def _constant(batch: _Batch) -> TokenWeights:
    turns, weights = _turns(batch), TokenWeights()
    known: dict[object, list[float]] = {}  # of trajectories alike: many, whose turns all weigh 1
    for t, w, f_K in batch.weighted:
        pool = _pool(t)
        like = pool, w, id(f_K)
        if like not in known:
            total = turns[pool] * batch.length
            known[like] = [_share(w * f, total) for f in f_K]
        weights.append(known[like])
    return weights


def _token_mean(batch: _Batch) -> TokenWeights:
    tokens: defaultdict[_Pool, float] = defaultdict(float)
    for t, w, f_K in batch.weighted:
        tokens[_pool(t)] += w * _weighted_tokens(t, f_K)
    return [[_share(w * f, tokens[_pool(t)]) for f in f_K] for t, w, f_K in batch.weighted]


def _sequence_mean(batch: _Batch) -> TokenWeights:
    turns = _turns(batch)
    return [
        [_share(w * f, turns[_pool(t)] * tokens) for f, tokens in zip(f_K, _tokens(t), strict=True)]
        for t, w, f_K in batch.weighted
    ]


def _role_mean(batch: _Batch) -> TokenWeights:
    roles: dict[_Pool, dict[str, float]] = {}  # by pool, the trajectories of each role
    for t, w, f_K in batch.weighted:
        sums = roles.setdefault(_pool(t), {})
        if any(f_K) and w:
            sums[t.role] = sums.get(t.role, 0.0) + w
    return [
        [
            _share(w * f, len(roles[_pool(t)]) * roles[_pool(t)].get(t.role, 0.0) * sum(f_K) * tokens)
            for f, tokens in zip(f_K, _tokens(t), strict=True)
        ]
        for t, w, f_K in batch.weighted
    ]


def _rollout_mean(batch: _Batch) -> TokenWeights:
    tokens_of = _rollout_tokens(batch.weighted)
    game_of = {rollout_of(t): root_game_of(t) for t in batch.trajectories}
    rollouts = Counter([game_of[rollout] for rollout, tokens in tokens_of.items() if tokens])
    totals = {
        rollout_of(t): total or tokens_of[rollout_of(t)]
        for t, total in zip(batch.trajectories, batch.rollout_tokens, strict=True)
    }
    divisors = {rollout: rollouts[game_of[rollout]] * total for rollout, total in totals.items()}
    return [[_share(w * f, divisors[rollout_of(t)]) for f in f_K] for t, w, f_K in batch.weighted]


def _prompt_mean(batch: _Batch) -> TokenWeights:
    turns: defaultdict[_Pool, Counter[_Prompt]] = defaultdict(Counter)
    for t, w, f_K in batch.weighted:
        for turn, f in zip(t.turns, f_K, strict=True):
            if w * f:
                turns[_pool(t)][_prompt(t, turn)] += w * f  # type: ignore[assignment]  # a weighted count
    return [
        [
            _share(w * f, len(turns[_pool(t)]) * turns[_pool(t)][_prompt(t, turn)] * tokens)
            for turn, f, tokens in zip(t.turns, f_K, _tokens(t), strict=True)
        ]
        for t, w, f_K in batch.weighted
    ]


def _prompt(trajectory: Trajectory, turn: Turn) -> _Prompt:
    trace = trace_of(trajectory, turn)
    return trace.prompt_ids, trace.mask


def _pool(trajectory: Trajectory) -> _Pool:
    return trajectory.game, root_game_of(trajectory)


def _turns(batch: _Batch) -> dict[_Pool, float]:
    """Return the number of turns of each pool, times their trajectory's weight."""
    turns: defaultdict[_Pool, float] = defaultdict(float)
    for t, w, f_K in batch.weighted:
        turns[_pool(t)] += w * sum(f_K)
    return turns


def _weighted_tokens(trajectory: Trajectory, turn_weights_K: Sequence[float]) -> float:
    """Return how many tokens a trajectory's turns have, each times its turn's weight."""
    return sum([f * tokens for f, tokens in zip(turn_weights_K, _tokens(trajectory), strict=True)])


def _rollout_tokens(weighted: Sequence[_Weighted]) -> dict[int, float]:
    """Return the weighted number of tokens of each rollout, by the match that it began with."""
    tokens: defaultdict[int, float] = defaultdict(float)
    for t, w, f_K in weighted:
        tokens[rollout_of(t)] += w * _weighted_tokens(t, f_K)
    return tokens


def _share(weight: float, total: float) -> float:
    """Return a trajectory's weight divided by a total; 0 for weight 0, even if the total is 0."""
    return weight / total if weight else 0.0


_WEIGHTS: dict[str, Callable[[_Batch], TokenWeights]] = {
    "constant": _constant,
    "token_mean": _token_mean,
    "sequence_mean": _sequence_mean,
    "role_mean": _role_mean,
    "rollout_mean": _rollout_mean,
    "prompt_mean": _prompt_mean,
}


class Mismatch(NamedTuple):
    """What becomes of tokens whose ratio, p learner / p sampler, is far from 1; no gradient goes through it.

    ``truncate``: all weigh min(ratio, ``truncate``); with None nothing is weighed. The others weigh by the ratio, and
    leave out what is outside of ``low`` to ``high``: ``mask`` a token, ``sequence_mask`` a reply by its tokens'
    geometric mean, ``drop`` a reply of which one token is outside. A ``choice`` reply is one token here.
    """

    kind: str = "truncate"
    low: float = 0.5
    high: float = 2.0
