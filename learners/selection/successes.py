"""Replay of successes (ARPO, arXiv 2505.16282): a kept success enters a group in which every match failed.

A success is a match that pays more than ``above``. Of each start the last one is kept, with the log-probs of the
weights that played it and its age in iterations. Where all matches of that start fail, it joins their group:

    A = (R - mean) / std over the group and the success

for the success and for the failures, which alone would teach nothing. Its tokens weigh exp(log π - stored), truncated
at ``objective.truncate``, as any off-policy draw's. It is dropped when it is older than ``oldest``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from games.common.errors import UsageError
from games.common.section import Positive, Section
from learners.advantages.common import standardised
from learners.advantages.rule import State
from learners.groups import GroupKey, groups_of
from learners.keys import join_names
from learners.selection.flat import check_groups
from learners.selection.rule import CreditedBatch, Replayed, Selection, SelectionFacts, SelectionRule, keep_all
from learners.trajectories import Trajectory
from learners.trajectory_buffer import trajectory_from_record, trajectory_to_record


class Successes(Section):
    """Which successes are kept, and for how long."""

    above: float = Field(0.0, description="scaled return above which a match is a success")
    oldest: Positive = Field(20, description="iterations after which a success is dropped")
    size: Positive = Field(256, description="how many successes are kept, newest first")


class _Kept(NamedTuple):
    """A success in the state."""

    policy: str
    iteration: int
    record: dict[str, Any]  # of its trajectory


def successes(batch: CreditedBatch, state: State, settings: Successes) -> Selection:
    """Let a kept success join each group in which all failed.

    Raises UsageError as ``groups_of``.
    """
    iteration = int(state.get("iteration", 0)) + 1
    kept = {key: _Kept(*entry) for key, entry in state.get("kept", {}).items()}
    kept = {key: entry for key, entry in kept.items() if iteration - entry.iteration <= settings.oldest}
    advantages, replayed = [list(row) for row in batch.advantages], list[Replayed]()
    for group, indices in groups_of("successes", batch.trajectories).items():
        key, members = _key(group), [batch.trajectories[i] for i in indices]
        best = max(members, key=lambda t: t.match_return)
        if best.match_return > settings.above:
            if best.turns:
                kept[key] = _Kept(group.policy, iteration, trajectory_to_record(best))
            continue
        if key not in kept:
            continue
        joined = trajectory_from_record(kept[key].record)
        scores = _scores([*members, joined])
        for i, score in zip(indices, scores, strict=False):
            advantages[i] = [score] * len(batch.trajectories[i].turns)
        replayed.append(Replayed(joined, (scores[-1],) * len(joined.turns)))
    newest = sorted(kept.items(), key=lambda item: item[1].iteration)[-settings.size :]
    memory = {"iteration": iteration, "kept": {key: list(entry) for key, entry in newest}}
    return Selection(keep_all(batch), memory, advantages, replayed)


def _scores(trajectories: list[Trajectory]) -> list[float]:
    returns = [trajectory.match_return for trajectory in trajectories]
    scores: list[float] = standardised(returns, np.zeros(len(returns), np.intp)).tolist()
    return scores


def _key(group: GroupKey) -> str:
    """Return a start's key: whom the success was played against does not matter."""
    return join_names(group.game, group.role, str(group.seat), group.policy, str(group.start))


def forget(state: State, policy: str) -> State:
    """Return the state without a policy's successes."""
    kept = {key: entry for key, entry in state.get("kept", {}).items() if _Kept(*entry).policy != policy}
    return state | {"kept": kept}


def check(facts: SelectionFacts) -> None:
    """Raise UsageError for a run whose starts never return, or that does not weigh old draws."""
    check_groups("successes", facts)
    if not facts.starts_return:
        raise UsageError(
            "The rule of selection 'successes' replays a match when its start comes up again, but here every deal is "
            "new. Set starts.rule = 'uniform' (or another), or leave successes out of selection.rules."
        )
    if not facts.truncates:
        raise UsageError(
            "The rule of selection 'successes' learns from replies that older weights drew, which must be weighted by "
            "exp(log π - stored). Set objective.truncate = 2, and optimizer.max_gap to how far log-probs may move "
            "(say, 1 nat), or leave successes out of selection.rules."
        )


RULE = SelectionRule(successes, Successes, check=check, forget=forget)
