"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns that ask the same prompt under the same mask differ only in which reply was drawn, what it earned
and what its tokens weigh, so a row keeps, for each reply, how often it was drawn and the weighted sums
of its positive and of its negative advantages. Every objective here is linear in those sums for a
given sign, and its other terms in the sum of the weights, so the gradient is exactly that of the turns
taken one by one. Pairs of replies (``dpo``) that are equal in both are one, their weights summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arena.chunks import Tokens
from arena.records import TokenTrace
from learners.normalisation import CONSTANT, Normalisation, token_weights, trace_of
from learners.trajectories import Trajectory


class Pair(NamedTuple):
    """Two replies to one prompt, the better one first, by their places in a choice row or among the free rows."""

    chosen: int
    rejected: int
    number: float  # pairs that were merged into it
    weight: float  # sum of their weights in the batch's loss


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
    pairs: tuple[Pair, ...] = ()


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
    free_pairs: tuple[Pair, ...] = ()


def to_batch(
    policy: str,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    loss_weights: Mapping[str, float],
    normalisation: Normalisation = CONSTANT,
    *,
    pairs: Sequence[tuple[int, int]] = (),
    merge: bool = True,
) -> TrainBatch:
    """Pack one policy's trajectories; tokens weigh as ``normalisation`` says, times their game's loss weight.

    Trajectories of weight 0 are left out. ``pairs`` are places of trajectories of one turn, the better one first;
    all pairs of a game weigh alike, together its loss weight. ``merge=False`` keeps a row for every turn. Raises
    ValueError for advantages that do not fit, and for a pair whose prompts differ.
    """
    rows = _Rows({}, {}, {})
    snapshots: dict[str, None] = {}
    weights, turns = token_weights(trajectories, normalisation), 0
    for place, (trajectory, advantages_K, weights_K) in enumerate(zip(trajectories, advantages, weights, strict=True)):
        if not trajectory.weight:
            continue
        turns += len(trajectory.turns)
        scale = loss_weights.get(trajectory.game, 1.0)
        for turn, advantage, weight in zip(trajectory.turns, advantages_K, weights_K, strict=True):
            trace = trace_of(trajectory, turn)
            snapshots[trace.snapshot] = None
            distinct = None if merge else len(rows.choice) + len(rows.free)
            credit = _Credit(scale * weight, scale * weight * advantage)
            if trace.mask is None:
                rows.keys[place] = _add_free(rows.free, distinct, trajectory.game, trace, credit)
            elif len(trace.mask) > 1:  # a forced reply has probability 1 whatever the weights
                rows.keys[place] = _add_choice(rows.choice, distinct, trajectory.game, trace, turn.reply, credit)
    free_pairs = _add_pairs(rows, trajectories, pairs, loss_weights)
    return TrainBatch(
        policy, tuple(rows.choice.values()), tuple(rows.free.values()), turns, tuple(snapshots), free_pairs
    )


class _Rows(NamedTuple):
    """The rows of a batch while it is packed."""

    choice: dict[object, ChoiceRow]
    free: dict[object, FreeRow]
    keys: dict[int, object]  # of the row of a trajectory's last turn, by the trajectory's place


class _Credit(NamedTuple):
    """What one turn adds to its row."""

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
    """Give choice rows their pairs, and return those of free rows. A choice row knows all replies: one is enough."""
    numbers = {key: number for number, key in enumerate(rows.free)}
    found: dict[object, dict[tuple[int, int], Pair]] = {}  # by the row of choice, None: of free; by the two places
    of_game = Counter(trajectories[chosen].game for chosen, _ in pairs)
    for pair in pairs:
        keys, own = [rows.keys[place] for place in pair], [trajectories[place] for place in pair]
        prompts = [trace_of(one, one.turns[-1]).prompt_ids for one in own]
        if prompts[0] != prompts[1]:
            raise ValueError(f"matches {own[0].match} and {own[1].match}: replies to different prompts make no pair")
        if (row := rows.choice.get(keys[0])) is not None:
            key, places = keys[0], [row.legal.index(one.turns[-1].reply) for one in own]
        else:
            key, places = None, [numbers[one] for one in keys]
        weight = loss_weights.get(own[0].game, 1.0) / of_game[own[0].game]
        _add_pair(found.setdefault(key, {}), places[0], places[1], weight)
    free_pairs = tuple(found.pop(None, {}).values())
    for key, merged in found.items():
        rows.choice[key] = rows.choice[key]._replace(pairs=tuple(merged.values()))
    return free_pairs


def _add_pair(pairs: dict[tuple[int, int], Pair], chosen: int, rejected: int, weight: float) -> None:
    known = pairs.get((chosen, rejected), Pair(chosen, rejected, 0.0, 0.0))
    pairs[chosen, rejected] = known._replace(number=known.number + 1, weight=known.weight + weight)
