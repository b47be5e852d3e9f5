"""Alarms that compare a policy in a role with its own early iterations, and alarms about its updates.

The first ``warmup`` iterations in which it has turns there define what is normal for it; its last ``WINDOW`` iterations
are compared with them. Everything is kept as sums, which add up over iterations, so that small batches are judged
together.

reasoning   the tokens before the answer of a free reply fall to a share of their number in the warmup;
echo_trap   free replies repeat each other's phrases while the variance of returns falls: the policy has
            collapsed to one template (RAGEN, https://arxiv.org/abs/2504.20073);
drift       a role's mean advantage leaves zero, and not because its returns move: its baseline is missing,
            shared or stuck, so that the probabilities of all of its turns are pushed up, or down, together;
entropy     a policy is all but certain of what it does;
spike       an update's gradient is many times those before it: a bad batch, of which clipping leaves the direction;
language    a pretrained model has moved far from the untrained one on prompts that have nothing to do with the games.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from games.common.section import Section
from league.training.monitors.alarm import AlarmRule, Kept, Ledger, Readings, Sensitivity, Watched
from league.training.monitors.reply_alarms import PHRASE, reply_stats
from learners.keys import join_names

LANGUAGE_KL = "/language_kl"  # after a policy's name: the metric of how far it has moved on ordinary prompts
WINDOW = 5  # iterations that are judged together
CHANCE = 3.0  # standard errors by which a mean may be off by chance
FOLLOWING = 0.05  # share of the gap to the returns that a working baseline closes in a window (decay 0.95: 0.2)
LEAST_SPREAD = 1e-6  # of half a game's range; anything below is rounding

# The usual limits, which ``alarms.sensitivity`` moves.
SHORTER = 0.25  # of the reasoning's length in the warmup, in tokens
REPEATED = 0.5  # of the phrases that were new in the warmup
LESS_VARIANCE = 0.5  # of the variance of returns in the warmup
DRIFTED = 0.3  # a role's mean advantage, in its own standard deviations
CERTAIN = 0.02  # nats a turn
SPIKED = 10.0  # times the median gradient norm of the updates before
MOVED = 0.5  # nats a token on ordinary prompts, between a pretrained model and the untrained one
MOVED_AT_FIRST = 0.2  # the same before the first iteration


class RoleStats(NamedTuple):
    """The sums of a policy's trajectories and turns in a role; several iterations' sums add up."""

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


def read_histories(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return the history of each policy in each role that had a turn; keep the other histories too."""
    histories, readings = dict(memory), Readings()
    for names in watched.by_role:
        key, subject = join_names(*names), watched.subject(*names)
        before = histories.get(key, {"warmup": [], "recent": []})
        stats = _role_stats(watched, names[0], watched.seated[names])
        histories[key] = _extended(before, stats, watched.settings.warmup) | {"subject": subject}
        readings[subject] = histories[key]
    return readings, histories


def _role_stats(watched: Watched, game: str, indices: Sequence[int]) -> RoleStats:
    """Return the sums of one iteration of a policy in a role."""
    trajectories = [watched.trajectories[i] for i in indices]
    advantages = [advantage for i in indices for advantage in watched.advantages[i]]
    returns = [trajectory.match_return for trajectory in trajectories]
    return RoleStats(
        len(trajectories),
        len({trajectory.deal_seed for trajectory in trajectories}),
        sum(returns),
        sum(value * value for value in returns),
        len(advantages),
        sum(trajectory.match_return * len(trajectory.turns) for trajectory in trajectories),
        sum(advantages),
        sum(advantage * advantage for advantage in advantages),
        *reply_stats(watched.roles[game][trajectories[0].seat], trajectories),
    )


def _extended(history: Mapping[str, Any], stats: RoleStats, warmup: int) -> dict[str, Any]:
    """Return a role's history with one more iteration: the first ``warmup``, and the last ``2 WINDOW`` after them."""
    if len(history["warmup"]) < warmup:
        return {"warmup": [*history["warmup"], list(stats)], "recent": []}
    return {"warmup": history["warmup"], "recent": [*history["recent"], list(stats)][-2 * WINDOW :]}


def _compared(history: Mapping[str, Any]) -> tuple[RoleStats, RoleStats, RoleStats] | None:
    """Return the sums over the warmup, the window before the last, and the last; None until there are enough."""
    recent = history["recent"]
    if len(recent) < 2 * WINDOW:
        return None
    warmup, previous, current = (_total(part) for part in (history["warmup"], recent[:WINDOW], recent[WINDOW:]))
    return warmup, previous, current


def _total(iterations: Sequence[Sequence[float]]) -> RoleStats:
    """Return the sums over iterations."""
    return RoleStats(*map(sum, zip(*iterations, strict=True)))


def judge_reasoning_length(history: Mapping[str, Any], settings: Sensitivity) -> str | None:
    """Judge how many tokens precede the answer of a free reply, compared with the warmup."""
    if (compared := _compared(history)) is None:
        return None
    warmup, _, current = compared
    if not (warmup.replies and current.replies):
        return None
    before, length = warmup.reasoning / warmup.replies, current.reasoning / current.replies
    if before < 1.0 or length >= settings.least(SHORTER) * before:  # below a token there was no reasoning to lose
        return ""
    return f"its reasoning fell to {length:.1f} tokens a reply, from {before:.1f} in the warmup."


def judge_echo_trap(history: Mapping[str, Any], settings: Sensitivity) -> str | None:
    """Judge how many of the phrases that were new in the warmup repeat now: early templates are no collapse."""
    if (compared := _compared(history)) is None:
        return None
    warmup, _, current = compared
    if not (warmup.replies and current.replies):
        return None
    before, share = warmup.repeats / warmup.phrases, current.repeats / current.phrases
    variance_before = _variance(warmup.returns, warmup.squared_returns, warmup.trajectories)
    variance = _variance(current.returns, current.squared_returns, current.trajectories)
    repeated = share - before > settings.most(REPEATED) * (1 - before)
    if not repeated or variance >= settings.least(LESS_VARIANCE) * variance_before:
        return ""
    return (
        f"{share:.0%} of its {PHRASE}-word phrases repeat earlier ones ({before:.0%} in the warmup), while the "
        f"variance of its returns fell to {variance:.3f} from {variance_before:.3f}."
    )


def judge_drift(history: Mapping[str, Any], settings: Sensitivity) -> str | None:
    """Judge a role's mean advantage, once there is enough to compare."""
    compared = _compared(history)
    return None if compared is None else _judge_drift(*compared, settings)


def _judge_drift(warmup: RoleStats, previous: RoleStats, current: RoleStats, settings: Sensitivity) -> str:
    """Judge a role's mean advantage A by its standard deviation σ: more than a share of σ, and than σ/√deals by chance.

    Over few deals σ may be small by chance, so it counts as no smaller than in the warmup. A running baseline
    lags where returns move, and then all advantages rightly have one sign. So the alarm rings only if
    the baseline, b = mean return − A, has also failed to close the gap.
    """
    mean = current.advantages / current.turns
    variances = [_variance(stats.advantages, stats.squared_advantages, stats.turns) for stats in (warmup, current)]
    spread = math.sqrt(max(variances))
    moved = _baseline(current) - _baseline(previous)
    most = settings.most(DRIFTED)
    beyond = abs(mean) > (most + CHANCE / math.sqrt(current.deals)) * max(spread, LEAST_SPREAD)
    following = moved * mean >= FOLLOWING * abs(mean) * abs(mean + moved)
    if not beyond or following:
        return ""
    return (
        f"the mean of its advantages is {mean:+.3f}, their standard deviation {spread:.3f}: beyond {most:g} "
        f"of it and chance over {current.deals} deals, and its baseline does not follow its returns."
    )


def _baseline(stats: RoleStats) -> float:
    """Return the mean baseline: what was subtracted from the return of a turn."""
    return (stats.turn_returns - stats.advantages) / stats.turns


def read_entropies(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return the entropies of the last updates of each policy that had trajectories."""
    entropies, readings = dict(memory), Readings()
    for policy in sorted({trajectory.policy for trajectory in watched.trajectories}):
        if f"{policy}/entropy" in watched.metrics:
            entropies[policy] = [*entropies.get(policy, []), watched.metrics[f"{policy}/entropy"]][-WINDOW:]
            readings[policy] = entropies[policy]
    return readings, entropies


def judge_entropy(entropies: Sequence[float], settings: Sensitivity) -> str | None:
    """Judge the entropies of a policy's last updates."""
    if len(entropies) < WINDOW:
        return None
    mean = sum(entropies) / len(entropies)
    least = settings.least(CERTAIN)
    return f"it fell to {mean:.3f} nats a turn, below {least:g}." if mean < least else ""


def read_norms(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return the gradient norms of the last updates of each policy, before clipping."""
    norms, readings, ending = dict(memory), Readings(), "/grad_norm"
    for name in sorted(name for name in watched.metrics if name.endswith(ending)):
        policy = name.removesuffix(ending)
        norms[policy] = [*norms.get(policy, []), watched.metrics[name]][-WINDOW - 1 :]
        readings[policy] = norms[policy]
    return readings, norms


def judge_spike(norms: Sequence[float], settings: Sensitivity) -> str | None:
    """Judge an update's gradient norm by the median of those before it."""
    *before, now = norms
    if len(before) < WINDOW:
        return None
    usual, most = median(before), settings.most(SPIKED)
    if now <= most * usual:
        return ""
    times = now / usual if usual else math.inf
    return f"its gradient's norm is {now:.3g}, {times:.0f} times the median of {WINDOW} updates before, over {most:g}."


def read_language(watched: Watched, _: Kept) -> tuple[Readings, Kept]:
    """Return how far each policy has moved on ordinary prompts, where a snapshot of it was measured."""
    return {
        name.removesuffix(LANGUAGE_KL): moved
        for name, moved in sorted(watched.metrics.items())
        if name.endswith(LANGUAGE_KL)
    }, {}


def read_cold_start(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return how far each policy had moved on ordinary prompts before any match was played."""
    return read_language(watched, memory) if not watched.trajectories else ({}, {})


def judge_cold_start(divergence: float, settings: Sensitivity) -> str:
    """Judge what a cold start has done to a pretrained model's language."""
    if divergence <= (most := settings.most(MOVED_AT_FIRST)):
        return ""
    return (
        f"its cold start has moved it {divergence:.2f} nats a token from the untrained model on ordinary prompts, "
        f"above {most:g}: it is forgetting. Set fewer cold_start.steps or a lower "
        "cold_start.learning_rate."
    )


def judge_language(divergence: float, settings: Sensitivity) -> str:
    """Judge how far a policy has moved on ordinary prompts, as measured when it was frozen."""
    if divergence <= (most := settings.most(MOVED)):
        return ""
    return (
        f"on ordinary prompts it is {divergence:.2f} nats a token from the untrained model, above "
        f"{most:g}: it may still play well, but its language has changed."
    )


def read_dropped(watched: Watched, _memory: Kept) -> tuple[Readings, Kept]:
    """Return the gap of each policy whose batch was left out."""
    metrics, ending = watched.metrics, "/dropped"
    policies = [name.removesuffix(ending) for name in metrics if name.endswith(ending)]
    return {policy: metrics[f"{policy}/gap"] for policy in policies if f"{policy}/gap" in metrics}, {}


def judge_dropped(gap: float, _settings: Section) -> str:
    """Return what was left out: it rings whenever ``optimizer.gap_action`` leaves a batch out."""
    return (
        f"its batch was left out: log-probs of engine and learner differ by {gap:.3f} nats a turn, above "
        "optimizer.max_gap."
    )


def _variance(total: float, squares: float, count: int) -> float:
    mean = total / count
    return max(squares / count - mean * mean, 0.0)


HISTORIES = Ledger(read_histories, "roles")
ENTROPIES = Ledger(read_entropies, "entropies")
DRIFT = AlarmRule(judge_drift, Sensitivity, ledger=HISTORIES)
REASONING = AlarmRule(judge_reasoning_length, Sensitivity, ledger=HISTORIES)
ECHO_TRAP = AlarmRule(judge_echo_trap, Sensitivity, ledger=HISTORIES)
ENTROPY = AlarmRule(judge_entropy, Sensitivity, ledger=ENTROPIES)
LANGUAGE = AlarmRule(judge_language, Sensitivity, ledger=Ledger(read_language))
COLD_START = AlarmRule(judge_cold_start, Sensitivity, ledger=Ledger(read_cold_start), lasts=False)
SPIKE = AlarmRule(judge_spike, Sensitivity, ledger=Ledger(read_norms, "norms"), lasts=False)
DROPPED_BATCH = AlarmRule(judge_dropped, ledger=Ledger(read_dropped), lasts=False)
