"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns with the same prompt and the same mask differ only in which reply was drawn, in its advantage and in the weight
of its tokens, so a row keeps, for each reply, how often it was drawn and the weighted sums of its positive and of its
negative advantages. Every objective here is linear in those sums for a given sign, and its other terms in the sum of
the weights, so the gradient is exactly that of the unmerged turns. Equal pairs of replies (``dpo``) are merged, too,
their weights summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arena.lm.chunks import Tokens
from arena.records import TokenTrace
from learners.normalisation import CONSTANT, Normalisation, token_weights, trace_of
from learners.trajectories import Evidence, Trajectory


class Pair(NamedTuple):
    """Two replies to one prompt, the better one first, as indices of a choice row's replies or of the free rows."""

    chosen: int
    rejected: int
    multiplicity: float  # equal pairs that were merged
    weight: float  # sum of their weights in the batch's loss


class ChoiceRow(NamedTuple):
    """All turns with one prompt and one set of legal replies. Lists run over the legal replies."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # [A]
    temperature: float
    counts: list[float]  # turns that drew each reply  # [A]
    weights: list[float]  # sum of their weights in the batch's loss  # [A]
    gains: list[float]  # sum of their positive advantages, each times its weight  # [A]
    losses: list[float]  # sum of their negative advantages, each times its weight  # [A]
    sampled: list[float | None]  # the sampler's log-prob (nats); None: never drawn  # [A]
    pairs: tuple[Pair, ...] = ()


class FreeRow(NamedTuple):
    """All turns with one prompt and one free reply."""

    game: str
    prompt: Tokens
    reply: Tokens  # [T]
    temperature: float
    visits: float  # turns that drew the reply
    weight: float  # sum over these turns of the weight of each token in the batch's loss
    gain: float  # sum of their positive advantages, each times its weight
    loss: float  # sum of their negative advantages, each times its weight
    sampled: tuple[float, ...]  # the sampler's log-probs (nats)  # [T]


class TrainBatch(NamedTuple):
    """The rows of one policy's update."""

    policy: str
    choice: tuple[ChoiceRow, ...]
    free: tuple[FreeRow, ...]
    turns: int  # before merging
    snapshots: tuple[str, ...]  # ids of the weights that sampled the turns
    free_pairs: tuple[Pair, ...] = ()


def to_batch(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    *,
    weights: Sequence[float] | None = None,
    evidence: Sequence[Evidence] | None = None,
    pairs: Sequence[tuple[int, int]] = (),
    merge: bool = True,
) -> TrainBatch:
    """Pack one policy's trajectories; tokens weigh as ``normalisation`` says, times their game's loss weight.

    ``weights`` are the trajectories' weights in the loss, None: all 1; those of weight 0 are left out. ``evidence`` has
    the numbers of tokens of whole rollouts, where they were counted. ``pairs`` are indices of trajectories of one turn,
    the better one first; all pairs of a game have the same weight, and their sum is the game's loss weight.
    ``merge=False`` keeps a row for every turn. Raises ValueError for advantages that do not fit the turns, and for a
    pair whose prompts differ.
    """
    rows = _Rows({}, {}, {})
    snapshots: dict[str, None] = {}
    token_weights_NK, turns = token_weights(trajectories, normalisation, weights, evidence), 0
    for index, (trajectory, advantages_K, weights_K) in enumerate(
        zip(trajectories, advantages, token_weights_NK, strict=True)
    ):
        if weights is not None and not weights[index]:
            continue
        turns += len(trajectory.turns)
        scale = loss_weights.get(trajectory.game, 1.0)
        for turn, advantage, weight in zip(trajectory.turns, advantages_K, weights_K, strict=True):
            trace = trace_of(trajectory, turn)
            snapshots[trace.snapshot] = None
            credit = _Credit(scale * weight, scale * weight * advantage)
            _add_turn(rows, index, trajectory.game, trace, turn.reply, credit, merge)
    free_pairs = _add_pairs(rows, trajectories, pairs, loss_weights)
    return TrainBatch(
        policy, tuple(rows.choice.values()), tuple(rows.free.values()), turns, tuple(snapshots), free_pairs
    )


class _Rows(NamedTuple):
    """The rows of a batch while it is packed."""

    choice: dict[object, ChoiceRow]
    free: dict[object, FreeRow]
    keys: dict[int, object]  # the key of the row of a trajectory's last turn, by the trajectory's index


def _add_turn(rows: _Rows, index: int, game: str, trace: TokenTrace, reply: str, credit: _Credit, merge: bool) -> None:
    """Add a turn of trajectory ``index`` to the row of its prompt, or to one of its own."""
    distinct = None if merge else len(rows.choice) + len(rows.free)
    if trace.mask is None:
        rows.keys[index] = _add_free(rows.free, distinct, game, trace, credit)
    elif len(trace.mask) > 1:  # a forced reply has probability 1 whatever the weights
        rows.keys[index] = _add_choice(rows.choice, distinct, game, trace, reply, credit)


class _Credit(NamedTuple):
    """The weight and the advantage that one turn adds to its row."""

    weight: float
    advantage: float  # times the weight


def _add_choice(
    rows: dict[object, ChoiceRow], distinct: int | None, game: str, trace: TokenTrace, reply: str, credit: _Credit
) -> object:
    """Add a turn to its row; return the row's key."""
    mask = trace.mask or ()
    key = (game, trace.snapshot, trace.prompt_ids, mask, trace.temperature, distinct)
    row = rows.get(key)
    if row is None:
        zeros = [0.0] * len(mask)
        row = ChoiceRow(
            game, trace.prompt_ids, mask, trace.temperature, zeros, zeros[:], zeros[:], zeros[:], [None] * len(mask)
        )
        rows[key] = row
    drawn = mask.index(reply)
    row.counts[drawn] += 1
    row.weights[drawn] += credit.weight
    (row.gains if credit.advantage > 0 else row.losses)[drawn] += credit.advantage
    row.sampled[drawn] = sum(trace.logprobs)
    return key


def _add_free(
    rows: dict[object, FreeRow], distinct: int | None, game: str, trace: TokenTrace, credit: _Credit
) -> object:
    """Add a turn to its row; return the row's key."""
    key = (game, trace.snapshot, trace.prompt_ids, trace.reply_ids, trace.temperature, distinct)
    row = rows.get(key)
    if row is None:
        row = FreeRow(game, trace.prompt_ids, trace.reply_ids, trace.temperature, 0.0, 0.0, 0.0, 0.0, trace.logprobs)
    rows[key] = row._replace(
        visits=row.visits + 1,
        weight=row.weight + credit.weight,
        gain=row.gain + max(credit.advantage, 0.0),
        loss=row.loss + min(credit.advantage, 0.0),
    )
    return key


def _add_pairs(
    rows: _Rows,
    trajectories: Sequence[Trajectory],
    pairs: Sequence[tuple[int, int]],
    loss_weights: Mapping[str, float],
) -> tuple[Pair, ...]:
    """Add its pairs to each choice row, which has both replies; return the pairs of free rows."""
    free_indices = {key: index for index, key in enumerate(rows.free)}
    in_choice: dict[object, dict[tuple[int, int], Pair]] = {}  # by row key, then by (chosen, rejected)
    in_free: dict[tuple[int, int], Pair] = {}  # by (chosen, rejected)
    pairs_of_game = Counter(trajectories[chosen].game for chosen, _ in pairs)
    for pair in pairs:
        chosen, rejected = (trajectories[index] for index in pair)
        keys = [rows.keys[index] for index in pair]
        prompts = [trace_of(trajectory, trajectory.turns[-1]).prompt_ids for trajectory in (chosen, rejected)]
        if prompts[0] != prompts[1]:
            raise ValueError(f"matches {chosen.match} and {rejected.match}: replies to different prompts make no pair")
        weight = loss_weights.get(chosen.game, 1.0) / pairs_of_game[chosen.game]
        if (row := rows.choice.get(keys[0])) is not None:
            replies = [row.legal.index(trajectory.turns[-1].reply) for trajectory in (chosen, rejected)]
            _add_pair(in_choice.setdefault(keys[0], {}), replies[0], replies[1], weight)
        else:
            _add_pair(in_free, free_indices[keys[0]], free_indices[keys[1]], weight)
    for key, merged in in_choice.items():
        rows.choice[key] = rows.choice[key]._replace(pairs=tuple(merged.values()))
    return tuple(in_free.values())


def _add_pair(pairs: dict[tuple[int, int], Pair], chosen: int, rejected: int, weight: float) -> None:
    pair = pairs.get((chosen, rejected), Pair(chosen, rejected, 0.0, 0.0))
    pairs[chosen, rejected] = pair._replace(multiplicity=pair.multiplicity + 1, weight=pair.weight + weight)


RowUnit = tuple[int, ...]  # the indices of rows that must go through the model in one pass
