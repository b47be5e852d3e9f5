"""Alarms about illegal free replies, from the first iteration on: a role that only says what is illegal learns nothing.

illegal   more than a share of a policy's replies in a role are illegal, over the last ``WINDOW`` iterations.

Where nearly all replies are illegal for ``ITERATIONS_TO_STOP`` iterations in a row, every match ends with the same
forfeit, no reply is better than another, and training only unlearns what was said: then the run is to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from league.config.learning import AlarmsConfig
from league.monitors.strategy_alarms import WINDOW, Verdict
from learners.keys import join_names, split_names
from learners.trajectories import Trajectory
from roles.role import ReplyForm, Role

ITERATIONS_TO_STOP = 3
LEAST_REPLIES = 20  # in an iteration, to say anything of it

Counts = Mapping[str, Sequence[Sequence[int]]]  # by game, role and policy: of each iteration [replies, illegal ones]


def judge_replies(
    trajectories: Sequence[Trajectory],
    roles: Mapping[str, Sequence[Role]],
    state: Counts,
    settings: AlarmsConfig,
    subject_of: Callable[[str, str, str], str],
) -> tuple[list[Verdict], dict[str, list[list[int]]]]:
    """Return the verdict on each policy in each role with free replies, and the new counts, which are JSON data."""
    counted: dict[tuple[str, str, str], list[int]] = {}
    for trajectory in trajectories:
        if roles[trajectory.game][trajectory.seat].reply is ReplyForm.FREE:
            numbers = counted.setdefault((trajectory.game, trajectory.role, trajectory.policy), [0, 0])
            numbers[0] += len(trajectory.turns)
            numbers[1] += sum(turn.action is None for turn in trajectory.turns)
    counts = {key: [list(row) for row in rows] for key, rows in state.items()}
    verdicts = []
    for names, numbers in counted.items():
        if numbers[0] < LEAST_REPLIES:
            continue
        key = join_names(*names)
        counts[key] = [*counts.get(key, []), numbers][-WINDOW:]
        share = sum(illegal for _, illegal in counts[key]) / sum(replies for replies, _ in counts[key])
        message = f"{share:.0%} of its replies are illegal, above alarms.illegal = {settings.illegal:g}."
        verdicts.append((subject_of(*names), "illegal", message if share > settings.illegal else ""))
    return verdicts, counts


def why_to_stop(state: Mapping[str, Any], settings: AlarmsConfig, pretrained: bool) -> str:
    """Return why a run should stop and what to set instead, from the state of alarms; "" if it may go on."""
    for key, rows in state.get("replies", {}).items():
        last = rows[-ITERATIONS_TO_STOP:]
        shares = [illegal / replies for replies, illegal in last]
        if len(last) == ITERATIONS_TO_STOP and min(shares) > settings.illegal_stop:
            game, role, policy = split_names(key)
            help_first = (
                "Set cold_start.own_replies = 32, which begins with imitation of its own legal replies, "
                "roles.demonstrations = 1, a lower roles.temperature, "
                if pretrained
                else "Set a longer cold start (cold_start.steps), "
            )
            return (
                f"In the last {ITERATIONS_TO_STOP} iterations at least {min(shares):.0%} of {policy}'s replies as "
                f"{game}/{role} were illegal, so that no reply was better than another and there is nothing to learn. "
                f"{help_first}or roles.reply = 'choice', which masks what is illegal. To go on all the same, set "
                "alarms.illegal_stop = 1."
            )
    return ""
