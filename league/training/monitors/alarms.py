"""Alarms: early warnings of a policy that is going wrong. They read a finished iteration and change nothing.

What a policy does in a role is judged by itself: another that plays the role, such as an exploiter, has other returns
and other words. The first ``warmup`` iterations in which it has turns there define what is normal for it; its last
``WINDOW`` iterations are compared with that. Everything is kept as sums, which add up over iterations, so that small
batches are judged together. There are five alarms here, others in ``strategy_alarms``, ``reply_alarms`` and
``reasoning``:

reasoning   the tokens before the answer of a free reply fall to a share of their number in the warmup;
echo_trap   free replies repeat each other's phrases while the variance of returns falls: the policy has
            collapsed to one template (RAGEN, https://arxiv.org/abs/2504.20073);
drift       a role's mean advantage leaves zero, and not because its returns move: its baseline is missing,
            shared or stuck, so that the probabilities of all of its turns are pushed up, or down, together;
entropy     a policy's entropy leaves its band;
language    a pretrained model has moved far from the untrained one on prompts that have nothing to do with the games.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from league.config.context import RunContext
from league.config.learning import AlarmsConfig
from league.training.monitors.reasoning import judge_reasoning
from league.training.monitors.reply_alarms import PHRASE, judge_replies, reply_stats
from league.training.monitors.strategy_alarms import Verdict, judge_roles
from learners.keys import join_names, split_names
from learners.trajectories import Trajectory
from roles.role import Role

WINDOW = 5  # iterations that are judged together
CHANCE = 3.0  # standard errors that a mean may be off by chance
FOLLOWING = 0.05  # share of its distance to the returns that a working baseline closes in a window (decay 0.95: 0.2)
LEAST_SPREAD = 1e-6  # of half a game's range; anything below is rounding

State = dict[str, Any]
Verdicts = Iterator[tuple[str, str]]  # the name of an alarm that could be judged, and its message, "" if it is off


class Alarm(NamedTuple):
    """An alarm that rings."""

    name: str  # one of ``league.config.learning.AlarmName``
    subject: str  # "game/role", with the policy in brackets if it is not the role's own; the policy, or the game
    message: str  # what was measured, and what is normal
    since: int  # the iteration since which it rings without a pause

    def __str__(self) -> str:
        return f"Alarm since iteration {self.since}, {self.name} of {self.subject}: {self.message}"


class RoleStats(NamedTuple):
    """The sums of a policy's trajectories and turns in a role; those of several iterations add up."""

    trajectories: int
    deals: int  # different deals, which are drawn independently
    returns: float
    squared_returns: float
    turns: int
    turn_returns: float  # of the match's return, over turns
    advantages: float
    squared_advantages: float
    reasoning: float  # tokens before the answer, over free replies
    replies: int  # free replies
    repeats: int  # phrases equal to an earlier phrase, in the free replies compared
    phrases: int  # in the free replies compared


def check_alarms(
    context: RunContext,
    state: State,
    iteration: int,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    metrics: Mapping[str, float],
    of_population: Sequence[Verdict] = (),
) -> tuple[list[Alarm], dict[str, float], State]:
    """Return the alarms that ring, a metric ``alarms/NAME`` (0 or 1) for each that could be judged, and the new state.

    ``advantages`` hold one number a turn, ``metrics`` the updates' ``POLICY/entropy`` and, where a snapshot was
    measured, ``POLICY/language_kl``; ``of_population`` are the verdicts on the snapshots, where they were compared.
    ``state`` is plain JSON data, empty at first.
    """
    settings, roles = context.config.alarms, context.roles
    histories, entropies = dict(state.get("roles", {})), dict(state.get("entropies", {}))
    verdicts: list[tuple[str, str, str]] = []  # subject, name, message
    for (game, role, policy), stats in _role_stats(trajectories, advantages, roles).items():
        key, subject = join_names(game, role, policy), _subject(game, role, policy, roles)
        before = histories.get(key, {"warmup": [], "recent": []})
        histories[key] = _extended(before, stats, settings.warmup) | {"subject": subject}
        verdicts += [(subject, *verdict) for verdict in _judge_role(histories[key], settings)]
    for policy in sorted({trajectory.policy for trajectory in trajectories}):
        if f"{policy}/entropy" in metrics:
            entropies[policy] = [*entropies.get(policy, []), metrics[f"{policy}/entropy"]][-WINDOW:]
            verdicts += [(policy, *verdict) for verdict in _judge_entropy(entropies[policy], settings)]
        if f"{policy}/language_kl" in metrics:
            verdicts.append((policy, "language", _judge_language(metrics[f"{policy}/language_kl"], settings)))
    seen, name_of = state.get("windows", {}), partial(_subject, roles=roles)
    of_roles, windows = judge_roles(trajectories, advantages, seen, settings, name_of)
    of_replies, replies = judge_replies(trajectories, roles, state.get("replies", {}), settings, name_of)
    verdicts += [*of_roles, *of_replies, *judge_reasoning(trajectories, roles, settings, name_of), *of_population]
    ringing = _ringing([Alarm(*alarm) for alarm in state.get("ringing", [])], verdicts, iteration)
    measured = {f"alarms/{name}": 0.0 for _, name, _ in verdicts} | {f"alarms/{alarm.name}": 1.0 for alarm in ringing}
    new_state = {"roles": histories, "entropies": entropies, "windows": windows, "replies": replies}
    return ringing, measured, new_state | {"ringing": [list(alarm) for alarm in ringing]}


def forget_alarms(state: State, policy: str) -> State:
    """Return the state without what it holds of a policy, which begins anew; its alarms ring no more."""
    histories, entropies = state.get("roles", {}), state.get("entropies", {})
    forgotten = {key for key in histories if split_names(key)[-1] == policy}
    subjects = {histories[key].get("subject") for key in forgotten} | {policy}
    return state | {
        "roles": {key: history for key, history in histories.items() if key not in forgotten},
        "entropies": {name: values for name, values in entropies.items() if name != policy},
        "windows": {key: rows for key, rows in state.get("windows", {}).items() if split_names(key)[-1] != policy},
        "replies": {key: rows for key, rows in state.get("replies", {}).items() if split_names(key)[-1] != policy},
        "ringing": [alarm for alarm in state.get("ringing", []) if alarm[1] not in subjects],
    }


def _subject(game: str, role: str, policy: str, roles: Mapping[str, Sequence[Role]]) -> str:
    """Return how an alarm names a policy in a role: by the role alone if it is bound to the policy."""
    own = any(card.name == role and card.policy == policy for card in roles[game])
    return f"{game}/{role}" if own else f"{game}/{role} ({policy})"


def _ringing(before: Sequence[Alarm], verdicts: Sequence[tuple[str, str, str]], iteration: int) -> list[Alarm]:
    """Return the alarms that ring now. An alarm that was not judged, because its game was not due, rings on."""
    since = {(alarm.subject, alarm.name): alarm.since for alarm in before}
    judged = {(subject, name) for subject, name, _ in verdicts}
    not_judged = [alarm for alarm in before if (alarm.subject, alarm.name) not in judged]
    ringing = [
        Alarm(name, subject, message, since.get((subject, name), iteration))
        for subject, name, message in verdicts
        if message
    ]
    return sorted(not_judged + ringing, key=lambda alarm: (alarm.since, alarm.name, alarm.subject))


def _role_stats(
    trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]], roles: Mapping[str, Sequence[Role]]
) -> dict[tuple[str, str, str], RoleStats]:
    """Return the sums of one iteration for each (game, role, policy) that had a turn."""
    indices: dict[tuple[str, str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        indices.setdefault((trajectory.game, trajectory.role, trajectory.policy), []).append(index)
    stats = {}
    for key, group in indices.items():
        role_trajectories = [trajectories[i] for i in group]
        role_advantages = [advantage for i in group for advantage in advantages[i]]
        if role_advantages:
            returns = [trajectory.match_return for trajectory in role_trajectories]
            stats[key] = RoleStats(
                len(role_trajectories),
                len({trajectory.deal_seed for trajectory in role_trajectories}),
                sum(returns),
                sum(value * value for value in returns),
                len(role_advantages),
                sum(trajectory.match_return * len(trajectory.turns) for trajectory in role_trajectories),
                sum(role_advantages),
                sum(advantage * advantage for advantage in role_advantages),
                *reply_stats(roles[key[0]][role_trajectories[0].seat], role_trajectories),
            )
    return stats


def _extended(history: Mapping[str, Any], stats: RoleStats, warmup: int) -> dict[str, Any]:
    """Return a role's history with one more iteration: the first ``warmup``, and the last ``2 WINDOW`` after them."""
    if len(history["warmup"]) < warmup:
        return {"warmup": [*history["warmup"], list(stats)], "recent": []}
    return {"warmup": history["warmup"], "recent": [*history["recent"], list(stats)][-2 * WINDOW :]}


def _judge_role(history: Mapping[str, Any], settings: AlarmsConfig) -> Verdicts:
    """Yield a verdict for each alarm that applies to this role, once there is enough to compare."""
    recent = history["recent"]
    if len(recent) < 2 * WINDOW:
        return
    warmup, previous, current = (_total(part) for part in (history["warmup"], recent[:WINDOW], recent[WINDOW:]))
    yield "drift", _judge_drift(warmup, previous, current, settings)
    if warmup.replies and current.replies:
        yield "reasoning", _judge_reasoning(warmup, current, settings)
        yield "echo_trap", _judge_echo_trap(warmup, current, settings)


def _total(iterations: Sequence[Sequence[float]]) -> RoleStats:
    """Return the sums over iterations."""
    return RoleStats(*map(sum, zip(*iterations, strict=True)))


def _judge_reasoning(warmup: RoleStats, current: RoleStats, settings: AlarmsConfig) -> str:
    before, length = warmup.reasoning / warmup.replies, current.reasoning / current.replies
    if before < 1.0 or length >= settings.reasoning * before:  # below a token there was no reasoning to lose
        return ""
    return f"its reasoning fell to {length:.1f} tokens a reply, from {before:.1f} in the warmup."


def _judge_echo_trap(warmup: RoleStats, current: RoleStats, settings: AlarmsConfig) -> str:
    """Judge which share of the phrases that were new in the warmup repeats now: early templates are no collapse."""
    before, share = warmup.repeats / warmup.phrases, current.repeats / current.phrases
    variance_before = _variance(warmup.returns, warmup.squared_returns, warmup.trajectories)
    variance = _variance(current.returns, current.squared_returns, current.trajectories)
    repeated = share - before > settings.repetition * (1 - before)
    if not repeated or variance >= settings.variance * variance_before:
        return ""
    return (
        f"{share:.0%} of its {PHRASE}-word phrases repeat earlier ones ({before:.0%} in the warmup), while the "
        f"variance of its returns fell to {variance:.3f} from {variance_before:.3f}."
    )


def _judge_drift(warmup: RoleStats, previous: RoleStats, current: RoleStats, settings: AlarmsConfig) -> str:
    """Judge a role's mean advantage A by its standard deviation σ: more than a share of σ, and than σ/√deals by chance.

    Over few deals σ may be small by chance, so it counts as no smaller than in the warmup. A running baseline
    lags where returns move, and then all advantages have one sign without fault. So the alarm rings only if
    the baseline, b = mean return − A, has also failed to close the gap.
    """
    mean = current.advantages / current.turns
    variances = [_variance(stats.advantages, stats.squared_advantages, stats.turns) for stats in (warmup, current)]
    spread = math.sqrt(max(variances))
    moved = _baseline(current) - _baseline(previous)
    beyond = abs(mean) > (settings.drift + CHANCE / math.sqrt(current.deals)) * max(spread, LEAST_SPREAD)
    following = moved * mean >= FOLLOWING * abs(mean) * abs(mean + moved)
    if not beyond or following:
        return ""
    return (
        f"the mean of its advantages is {mean:+.3f}, their standard deviation {spread:.3f}: beyond {settings.drift:g} "
        f"of it and chance over {current.deals} deals, and its baseline does not follow its returns."
    )


def _baseline(stats: RoleStats) -> float:
    """Return the mean baseline: what was subtracted from the return of a turn."""
    return (stats.turn_returns - stats.advantages) / stats.turns


def _judge_entropy(entropies: Sequence[float], settings: AlarmsConfig) -> Verdicts:
    """Yield the verdict on the entropies of a policy's last updates."""
    if len(entropies) < WINDOW:
        return
    mean = sum(entropies) / len(entropies)
    if mean < settings.entropy_low:
        yield "entropy", f"it fell to {mean:.3f} nats a turn, below alarms.entropy_low = {settings.entropy_low:g}."
    elif settings.entropy_high is not None and mean > settings.entropy_high:
        yield "entropy", f"it rose to {mean:.3f} nats a turn, above alarms.entropy_high = {settings.entropy_high:g}."
    else:
        yield "entropy", ""


def _judge_language(divergence: float, settings: AlarmsConfig) -> str:
    """Judge how far a policy has moved on ordinary prompts, as it was measured when it was frozen."""
    if divergence <= settings.language:
        return ""
    return (
        f"on ordinary prompts it is {divergence:.2f} nats a token from the untrained model, above alarms.language = "
        f"{settings.language:g}: it may play, but it speaks differently."
    )


def _variance(total: float, squares: float, count: int) -> float:
    mean = total / count
    return max(squares / count - mean * mean, 0.0)
