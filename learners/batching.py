"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns that ask the same prompt under the same mask differ only in which reply was drawn, what it earned
and what its tokens weigh, so a row keeps, for each reply, how often it was drawn and the weighted sums
of its positive and of its negative advantages. Every objective here is linear in those sums for a
given sign, and its other terms in the sum of the weights, so the gradient is exactly that of the turns
taken one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arena.chunks import Tokens
from arena.records import TokenTrace
from learners.normalisation import CONSTANT, Normalisation, token_weights, trace_of
from learners.trajectories import Trajectory


class ChoiceRow(NamedTuple):
    """All turns that asked one prompt for one of its legal replies. Lists run over the replies."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # [A]
    temperature: float
    counts: list[float]  # turns that drew each reply  # [A]
    weights: list[float]  # sum of their weights in the batch's loss  # [A]
    gains: list[float]  # sum of their positive advantages, each times its weight  # [A]
    losses: list[float]  # sum of their negative advantages, each times its weight  # [A]
    sampled: list[float | None]  # log-prob (nats) it was sampled with; None: never drawn  # [A]


class FreeRow(NamedTuple):
    """All turns with one prompt and one free reply."""

    game: str
    prompt: Tokens
    reply: Tokens  # [T]
    temperature: float
    visits: float  # turns that drew it
    weight: float  # sum over them of the weight of each token in the batch's loss
    gain: float  # sum of their positive advantages, each times its weight
    loss: float  # sum of their negative advantages, each times its weight
    sampled: tuple[float, ...]  # nats  # [T]


class TrainBatch(NamedTuple):
    """One policy's update."""

    policy: str
    choice: tuple[ChoiceRow, ...]
    free: tuple[FreeRow, ...]
    turns: int  # before merging
    snapshots: tuple[str, ...]  # whose samples these are


def to_batch(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    *,
    merge: bool = True,
) -> TrainBatch:
    """Pack one policy's trajectories; tokens weigh as ``normalisation`` says, times their game's loss weight.

    Trajectories of weight 0 are left out. ``merge=False`` keeps a row for every turn. Raises ValueError for
    advantages that do not fit.
    """
    choice: dict[object, ChoiceRow] = {}
    free: dict[object, FreeRow] = {}
    snapshots: dict[str, None] = {}
    weights, turns = token_weights(trajectories, normalisation), 0
    for trajectory, advantages_K, weights_K in zip(trajectories, advantages, weights, strict=True):
        if not trajectory.weight:
            continue
        turns += len(trajectory.turns)
        scale = loss_weights.get(trajectory.game, 1.0)
        for turn, advantage, weight in zip(trajectory.turns, advantages_K, weights_K, strict=True):
            trace = trace_of(trajectory, turn)
            snapshots[trace.snapshot] = None
            distinct = None if merge else len(choice) + len(free)
            credit = _Credit(scale * weight, scale * weight * advantage)
            if trace.mask is None:
                _add_free(free, distinct, trajectory.game, trace, credit)
            elif len(trace.mask) > 1:  # a forced reply has probability 1 whatever the weights
                _add_choice(choice, distinct, trajectory.game, trace, turn.reply, credit)
    return TrainBatch(policy, tuple(choice.values()), tuple(free.values()), turns, tuple(snapshots))


class _Credit(NamedTuple):
    """What one turn adds to its row."""

    weight: float
    advantage: float  # times the weight


def _add_choice(
    rows: dict[object, ChoiceRow], distinct: int | None, game: str, trace: TokenTrace, reply: str, credit: _Credit
) -> None:
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


def _add_free(rows: dict[object, FreeRow], distinct: int | None, game: str, trace: TokenTrace, credit: _Credit) -> None:
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
