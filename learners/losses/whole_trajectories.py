"""Whole trajectories for objectives that judge all that a seat said in a match at once (``kto``, ``dmpo``).

A trajectory is scored by its log-ratios, S = sum_k w_k (log pi(y_k | x_k) - log reference(y_k | x_k)) over its own
turns k, each reply y_k given its own prompt x_k; what others said stands in the prompts and has no term. Here is which
rows of a batch hold these turns, which trajectories are desirable or better than which, and the mismatched replies from
which ``kto`` estimates its reference point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena.records import Turn
from learners.batching import TrainBatch
from learners.groups import group_members, root_game_of
from learners.normalisation import trace_of
from learners.trajectories import (
    MismatchedReply,
    ReplyPlace,
    ScoredTrajectory,
    Trajectory,
    TrajectoryPair,
    WholeTrajectories,
)
from roles.truncation import Truncation


def labelled(
    batch: TrainBatch,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    weights: Sequence[float],
    loss_weights: Mapping[str, float],
    by_difference: bool = False,
) -> WholeTrajectories:
    """Return trajectories as desirable or not, by the sign of the sum of their turns' advantages, without those of 0.

    Under the default credit rule an advantage is the return less its role's baseline. A trajectory of weight w counts
    as w alike, and ``by_difference`` as w times the size of that sum; all of a game weigh its loss weight together. For
    the reference point each gets the replies of another of its role, half of them further on.
    """
    kept = [i for i, a in enumerate(advantages) if sum(a) and weights[i]]
    places, mismatched = _Places(batch), list[MismatchedReply]()
    counts = {i: weights[i] * (abs(sum(advantages[i])) if by_difference else 1.0) for i in kept}
    totals: dict[str, float] = {}
    for i in kept:
        game = root_game_of(trajectories[i])
        totals[game] = totals.get(game, 0.0) + counts[i]
    others = _others(trajectories, kept)
    scored = []
    for i in kept:
        trajectory, rows = trajectories[i], _mismatched(trajectories[i], trajectories[others[i]])
        game, first = root_game_of(trajectory), len(mismatched)
        mismatched += rows
        scored.append(
            ScoredTrajectory(
                f"{trajectory.game}/{trajectory.role}",
                places.of(trajectory),
                sum(advantages[i]) > 0,
                counts[i] * loss_weights.get(game, 1.0) / totals[game],
                tuple(range(first, len(mismatched))),
            )
        )
    return WholeTrajectories(tuple(scored), (), tuple(mismatched))


def paired(
    batch: TrainBatch,
    trajectories: Sequence[Trajectory],
    weights: Sequence[float],
    loss_weights: Mapping[str, float],
    by_difference: bool = False,
) -> WholeTrajectories:
    """Return every two trajectories of one role from one start, of which the first has the higher return.

    Two in which the seat said the same to the same make no pair, nor do those of weight 0. All pairs of a game weigh
    its loss weight together, each alike or ``by_difference`` of their returns.
    """
    found = [
        (chosen, rejected)
        for members in group_members(trajectories).values()
        for chosen in members
        for rejected in members
        if trajectories[chosen].match_return > trajectories[rejected].match_return
        if weights[chosen] and weights[rejected]
        if _said(trajectories[chosen]) != _said(trajectories[rejected])
    ]
    kept = sorted({index for pair in found for index in pair})
    place_of, places = {index: place for place, index in enumerate(kept)}, _Places(batch)
    returns = [trajectory.match_return for trajectory in trajectories]
    counts = [returns[chosen] - returns[rejected] if by_difference else 1.0 for chosen, rejected in found]
    totals: dict[str, float] = {}
    for (chosen, _), count in zip(found, counts, strict=True):
        game = root_game_of(trajectories[chosen])
        totals[game] = totals.get(game, 0.0) + count
    pairs = []
    for (chosen, rejected), count in zip(found, counts, strict=True):
        game = root_game_of(trajectories[chosen])
        weight = count * loss_weights.get(game, 1.0) / totals[game]
        pairs.append(TrajectoryPair(place_of[chosen], place_of[rejected], weight))
    scored = [
        ScoredTrajectory(f"{trajectories[i].game}/{trajectories[i].role}", places.of(trajectories[i])) for i in kept
    ]
    return WholeTrajectories(tuple(scored), tuple(pairs))


class _Places:
    """Finds the rows of turns. Rows that differ in the snapshot that drew them alone have the same log-probs."""

    def __init__(self, batch: TrainBatch) -> None:
        self._choice = {
            (row.game, row.root_game, row.prompt, row.legal, row.temperature): index
            for index, row in enumerate(batch.choice)
        }
        self._free = {
            (row.game, row.root_game, row.prompt, row.reply, row.temperature, row.truncation): index
            for index, row in enumerate(batch.free)
        }

    def of(self, trajectory: Trajectory) -> tuple[ReplyPlace | None, ...]:
        return tuple([self._of_turn(trajectory, turn) for turn in trajectory.turns])

    def _of_turn(self, trajectory: Trajectory, turn: Turn) -> ReplyPlace | None:
        trace, games = trace_of(trajectory, turn), (trajectory.game, root_game_of(trajectory))
        if trace.mask is None:
            truncation = Truncation(*trace.truncation)  # type: ignore[arg-type]  # top_k is whole
            free = self._free[(*games, trace.prompt_ids, trace.reply_ids, trace.temperature, truncation)]
            return ReplyPlace(free, 0, free=True)
        if len(trace.mask) == 1:
            return None
        row = self._choice[(*games, trace.prompt_ids, trace.mask, trace.temperature)]
        return ReplyPlace(row, trace.mask.index(turn.reply), free=False)


def _others(trajectories: Sequence[Trajectory], kept: Sequence[int]) -> dict[int, int]:
    """Return for each trajectory the one of its role, half of them further on."""
    by_role: dict[tuple[str, str], list[int]] = {}
    for index in kept:
        by_role.setdefault((trajectories[index].game, trajectories[index].role), []).append(index)
    return {
        index: mine[(number + max(1, len(mine) // 2)) % len(mine)]
        for mine in by_role.values()
        for number, index in enumerate(mine)
    }


def _mismatched(trajectory: Trajectory, other: Trajectory) -> list[MismatchedReply]:
    """Return the free replies of another trajectory behind this one's prompts, as far as both have such turns."""
    rows = []
    for turn, said in zip(trajectory.turns, other.turns, strict=False):  # one may have fewer turns
        asked, answered = trace_of(trajectory, turn), trace_of(other, said)
        if asked.mask is None and answered.mask is None:
            rows.append(MismatchedReply(asked.prompt_ids, answered.reply_ids, asked.temperature))
    return rows


def _said(trajectory: Trajectory) -> list[object]:
    traces = [(trace_of(trajectory, turn), turn) for turn in trajectory.turns]
    return [(trace.prompt_ids, turn.reply if trace.mask is not None else trace.reply_ids) for trace, turn in traces]
