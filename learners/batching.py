"""Trajectories and advantages to a TrainBatch: equal prompts become one row, their weights summed.

Turns that ask the same prompt under the same mask differ only in which reply was drawn and what it
earned, so a row keeps, for each reply, how often it was drawn and the sums of its positive and of its
negative advantages. Every objective here is linear in those sums for a given sign, so the gradient
is exactly that of the turns taken one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arena.chunks import Tokens
from arena.records import TokenTrace
from learners.trajectories import Trajectory


class ChoiceRow(NamedTuple):
    """All turns that asked one prompt for one of its legal replies. Lists run over the replies."""

    game: str
    prompt: Tokens
    legal: tuple[str, ...]  # [A]
    temperature: float
    weight: float  # of one turn in the batch's loss
    counts: list[float]  # turns that drew each reply  # [A]
    gains: list[float]  # sum of their positive advantages  # [A]
    losses: list[float]  # sum of their negative advantages  # [A]
    sampled: list[float | None]  # log-prob (nats) it was sampled with; None: never drawn  # [A]


class FreeRow(NamedTuple):
    """All turns with one prompt and one free reply."""

    game: str
    prompt: Tokens
    reply: Tokens  # [T]
    temperature: float
    weight: float
    visits: float  # turns that drew it
    gain: float
    loss: float
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
    *,
    merge: bool = True,
) -> TrainBatch:
    """Pack one policy's trajectories. A game's turns share its weight in ``loss_weights`` evenly.

    ``merge=False`` keeps a row for every turn. Raises ValueError for advantages that do not fit.
    """
    turns = Counter[str]()
    for trajectory in trajectories:
        turns[trajectory.game] += len(trajectory.turns)
    choice: dict[object, ChoiceRow] = {}
    free: dict[object, FreeRow] = {}
    snapshots: dict[str, None] = {}
    for trajectory, advantages_K in zip(trajectories, advantages, strict=True):
        weight = loss_weights.get(trajectory.game, 1.0) / turns[trajectory.game]
        for turn, advantage in zip(trajectory.turns, advantages_K, strict=True):
            if turn.trace is None:
                raise ValueError(
                    f"Match {trajectory.match} trains role {trajectory.role} on a turn of {turn.player!r}, which kept "
                    "no tokens: only language models can be trained."
                )
            snapshots[turn.trace.snapshot] = None
            distinct = None if merge else len(choice) + len(free)
            if turn.trace.mask is None:
                _add_free(free, distinct, trajectory.game, turn.trace, weight, advantage)
            elif len(turn.trace.mask) > 1:  # a forced reply has probability 1 whatever the weights
                _add_choice(choice, distinct, trajectory.game, turn.trace, turn.reply, weight, advantage)
    total = sum(turns.values())
    return TrainBatch(policy, tuple(choice.values()), tuple(free.values()), total, tuple(snapshots))


def _add_choice(
    rows: dict[object, ChoiceRow],
    distinct: int | None,
    game: str,
    trace: TokenTrace,
    reply: str,
    weight: float,
    advantage: float,
) -> None:
    mask = trace.mask or ()
    key = (game, trace.snapshot, trace.prompt_ids, mask, trace.temperature, distinct)
    row = rows.get(key)
    if row is None:
        zeros = [0.0] * len(mask)
        row = ChoiceRow(
            game, trace.prompt_ids, mask, trace.temperature, weight, zeros, zeros[:], zeros[:], [None] * len(mask)
        )
        rows[key] = row
    drawn = mask.index(reply)
    row.counts[drawn] += 1
    (row.gains if advantage > 0 else row.losses)[drawn] += advantage
    row.sampled[drawn] = sum(trace.logprobs)


def _add_free(
    rows: dict[object, FreeRow], distinct: int | None, game: str, trace: TokenTrace, weight: float, advantage: float
) -> None:
    key = (game, trace.snapshot, trace.prompt_ids, trace.reply_ids, trace.temperature, distinct)
    row = rows.get(key)
    if row is None:
        row = FreeRow(game, trace.prompt_ids, trace.reply_ids, trace.temperature, weight, 0.0, 0.0, 0.0, trace.logprobs)
    rows[key] = row._replace(
        visits=row.visits + 1, gain=row.gain + max(advantage, 0.0), loss=row.loss + min(advantage, 0.0)
    )
