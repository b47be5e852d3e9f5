"""Alarms: a policy that is going wrong, told early. They read a finished iteration and change nothing.

Each role's first ``warmup`` iterations with turns in them fix what is normal for it; the last ``WINDOW`` after
them are held against that. Everything is kept as sums, which add up over iterations, so that small batches are
judged together. Four faults are looked for:

reasoning   a free reply's tokens before its answer shrink to a share of what they were;
echo_trap   free replies repeat each other's phrases while the variance of returns falls: the policy has
            settled on one template (RAGEN, https://arxiv.org/abs/2504.20073);
drift       a role's mean advantage leaves zero, and not because its returns move: its baseline is missing,
            shared or stuck, so that all of its turns are pushed up, or down, together;
entropy     a policy's entropy leaves its band.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from league.config_learning import AlarmsConfig
from learners.trajectories import Trajectory
from roles.role import ReplyForm, Role

WINDOW = 5  # iterations that are judged together
PHRASE = 4  # words in a phrase, as in seq-rep-4 (Welleck et al. 2020, https://arxiv.org/abs/1908.04319)
READ = 256  # most replies of a role read for repeats in an iteration: the more are read, the more of them repeat
CERTAIN = 3.0  # standard errors that a mean may lie off by chance
FOLLOWING = 0.05  # of its gap to the returns, what a live baseline closes in a window (decay 0.95: 0.2 of it)
LEAST_SPREAD = 1e-6  # of half a game's range: below it lies rounding

State = dict[str, Any]
Verdicts = Iterator[tuple[str, str]]  # an alarm that could be judged, and its message: "" where all is well


class Alarm(NamedTuple):
    """A fault that lasts."""

    name: str  # reasoning, echo_trap, drift or entropy
    where: str  # "game/role", or the policy
    message: str  # what was measured, beside what is normal
    since: int  # the first iteration that rang without a pause

    def __str__(self) -> str:
        return f"Alarm since iteration {self.since}, {self.name} of {self.where}: {self.message}"


class Seen(NamedTuple):
    """What a role did, as sums over its trajectories, or over its turns. Sums of iterations add up."""

    trajectories: int
    deals: int  # different deals: what is drawn independently
    returns: float
    squared_returns: float
    turns: int
    turn_returns: float  # the match's return, over turns
    advantages: float
    squared_advantages: float
    reasoning: float  # tokens before the answer, over its free replies
    replies: int  # free ones
    repeats: int  # phrases of the free replies that were read that an earlier phrase equals
    phrases: int


def watch(
    iteration: int,
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    metrics: Mapping[str, float],
    roles: Mapping[str, Sequence[Role]],
    state: State,
    settings: AlarmsConfig,
) -> tuple[list[Alarm], dict[str, float], State]:
    """Return the alarms that ring, a metric ``alarms/NAME`` (0 or 1) for each that could be judged, and the new state.

    ``advantages`` hold one number a turn, ``metrics`` the updates' ``POLICY/entropy``, ``roles`` the cards by
    game and seat. ``state`` is plain JSON data; an empty one begins.
    """
    seen, entropies = dict(state.get("roles", {})), dict(state.get("entropies", {}))
    verdicts: list[tuple[str, str, str]] = []  # where, name, message
    for where, now in _seen(trajectories, advantages, roles).items():
        seen[where] = _remembered(seen.get(where, {"warmup": [], "recent": []}), now, settings.warmup)
        verdicts += [(where, *verdict) for verdict in _judge_role(seen[where], settings)]
    for policy in sorted({trajectory.policy for trajectory in trajectories}):
        if f"{policy}/entropy" in metrics:
            entropies[policy] = [*entropies.get(policy, []), metrics[f"{policy}/entropy"]][-WINDOW:]
            verdicts += [(policy, *verdict) for verdict in _judge_entropy(entropies[policy], settings)]
    ringing = _ringing([Alarm(*alarm) for alarm in state.get("ringing", [])], verdicts, iteration)
    measured = {f"alarms/{name}": 0.0 for _, name, _ in verdicts} | {f"alarms/{one.name}": 1.0 for one in ringing}
    return ringing, measured, {"roles": seen, "entropies": entropies, "ringing": [list(one) for one in ringing]}


def _ringing(before: Sequence[Alarm], verdicts: Sequence[tuple[str, str, str]], iteration: int) -> list[Alarm]:
    """Return the alarms that ring now. What was not judged, its game not being due, rings on."""
    since = {(one.where, one.name): one.since for one in before}
    judged = {(where, name) for where, name, _ in verdicts}
    kept = [one for one in before if (one.where, one.name) not in judged]
    rung = [
        Alarm(name, where, message, since.get((where, name), iteration)) for where, name, message in verdicts if message
    ]
    return sorted(kept + rung, key=lambda one: (one.since, one.name, one.where))


def _seen(
    trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]], roles: Mapping[str, Sequence[Role]]
) -> dict[str, Seen]:
    """Return what each role that had a turn did in one iteration, by game/role."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(trajectories):
        places.setdefault((one.game, one.role), []).append(place)
    seen = {}
    for (game, role), own in places.items():
        mine = [trajectories[i] for i in own]
        given = [advantage for i in own for advantage in advantages[i]]
        if given:
            returns = [one.match_return for one in mine]
            seen[f"{game}/{role}"] = Seen(
                len(mine),
                len({one.deal_seed for one in mine}),
                sum(returns),
                sum(one * one for one in returns),
                len(given),
                sum(one.match_return * len(one.turns) for one in mine),
                sum(given),
                sum(one * one for one in given),
                *_read(roles[game][mine[0].seat], mine),
            )
    return seen


def _read(role: Role, trajectories: Sequence[Trajectory]) -> tuple[float, int, int, int]:
    """Return a role's tokens of reasoning, free replies, repeated phrases and phrases read."""
    if role.reply is ReplyForm.CHOICE:  # it has nothing to say but an action, and there are few of those
        return 0.0, 0, 0, 0
    turns = [turn for one in trajectories for turn in one.turns]
    lengths = [reasoning(role, turn.reply, len(turn.trace.reply_ids)) for turn in turns if turn.trace]
    read = [turn.reply for turn in turns[:: -(-len(turns) // READ)]]  # evenly spread: neighbours may share a start
    return sum(lengths), len(lengths), *repeats(read)


def reasoning(role: Role, reply: str, tokens: int) -> float:
    """Return how many of a free reply's tokens stand before its last answer mark; all, if it has none.

    They are counted by the share of the reply's characters, because tokens may cross the mark.
    """
    before = reply.rfind(role.answer_open)
    return float(tokens) if before < 0 else tokens * before / len(reply)


def repeats(replies: Sequence[str]) -> tuple[int, int]:
    """Return how many phrases of the replies equal an earlier phrase, in the same reply or another, and of how many.

    A phrase is ``PHRASE`` words in a row; a shorter reply is one phrase. The share is 1 − distinct-n
    (Li et al. 2016, https://arxiv.org/abs/1510.03055).
    """
    phrases = [
        tuple(islice(words, start, start + PHRASE))
        for words in (reply.split() for reply in replies)
        for start in range(max(len(words) - PHRASE + 1, 1))
    ]
    return len(phrases) - len(set(phrases)), len(phrases)


def _remembered(was: Mapping[str, Any], now: Seen, warmup: int) -> dict[str, Any]:
    """Return a role's memory with one more iteration: the first ``warmup``, and the last ``2 WINDOW`` after them."""
    if len(was["warmup"]) < warmup:
        return {"warmup": [*was["warmup"], list(now)], "recent": []}
    return {"warmup": was["warmup"], "recent": [*was["recent"], list(now)][-2 * WINDOW :]}


def _judge_role(memory: Mapping[str, Any], settings: AlarmsConfig) -> Verdicts:
    """Yield a verdict for each alarm that this role can be judged by, once there is enough to compare."""
    recent = memory["recent"]
    if len(recent) < 2 * WINDOW:
        return
    normal, before, now = (_total(part) for part in (memory["warmup"], recent[:WINDOW], recent[WINDOW:]))
    yield "drift", _drift(normal, before, now, settings)
    if normal.replies and now.replies:
        yield "reasoning", _shrunk(normal, now, settings)
        yield "echo_trap", _echo(normal, now, settings)


def _total(parts: Sequence[Sequence[float]]) -> Seen:
    """Return the sums over iterations."""
    return Seen(*map(sum, zip(*parts, strict=True)))


def _shrunk(normal: Seen, now: Seen, settings: AlarmsConfig) -> str:
    before, length = normal.reasoning / normal.replies, now.reasoning / now.replies
    if before < 1.0 or length >= settings.reasoning * before:  # below a token there was no reasoning to lose
        return ""
    return f"its reasoning fell to {length:.1f} tokens a reply, from {before:.1f} in the warmup."


def _echo(normal: Seen, now: Seen, settings: AlarmsConfig) -> str:
    """Judge repeats by how much of what was new in the warmup repeats now: templates of old are no sign of decay."""
    before, share = normal.repeats / normal.phrases, now.repeats / now.phrases
    variance_before = _variance(normal.returns, normal.squared_returns, normal.trajectories)
    variance = _variance(now.returns, now.squared_returns, now.trajectories)
    repeated = share - before > settings.repetition * (1 - before)
    if not repeated or variance >= settings.variance * variance_before:
        return ""
    return (
        f"{share:.0%} of its {PHRASE}-word phrases repeat earlier ones ({before:.0%} in the warmup), while the "
        f"variance of its returns fell to {variance:.3f} from {variance_before:.3f}."
    )


def _drift(normal: Seen, before: Seen, now: Seen, settings: AlarmsConfig) -> str:
    """Judge a role's mean advantage A against its own spread, and against chance: 1/√deals of it.

    Of a few deals the spread may be small by chance, so it counts as no smaller than in the warmup. A running
    baseline lags where returns move, and all of its advantages lean one way without fault. So what was
    subtracted, b = mean return − A, must also have failed to close the gap.
    """
    mean = now.advantages / now.turns
    spread = math.sqrt(max(_variance(one.advantages, one.squared_advantages, one.turns) for one in (normal, now)))
    moved = _baseline(now) - _baseline(before)
    beyond = abs(mean) > (settings.drift + CERTAIN / math.sqrt(now.deals)) * max(spread, LEAST_SPREAD)
    following = moved * mean >= FOLLOWING * abs(mean) * abs(mean + moved)
    if not beyond or following:
        return ""
    return (
        f"the mean of its advantages is {mean:+.3f}, their standard deviation {spread:.3f}: beyond {settings.drift:g} "
        f"of it and chance over {now.deals} deals, and its baseline does not follow its returns."
    )


def _baseline(seen: Seen) -> float:
    """Return what was subtracted from the return of a turn, on average."""
    return (seen.turn_returns - seen.advantages) / seen.turns


def _judge_entropy(entropies: Sequence[float], settings: AlarmsConfig) -> Verdicts:
    """Yield the verdict on a policy's last updates."""
    if len(entropies) < WINDOW:
        return
    mean = sum(entropies) / len(entropies)
    if mean < settings.entropy_low:
        yield "entropy", f"it fell to {mean:.3f} nats a turn, below alarms.entropy_low = {settings.entropy_low:g}."
    elif settings.entropy_high is not None and mean > settings.entropy_high:
        yield "entropy", f"it rose to {mean:.3f} nats a turn, above alarms.entropy_high = {settings.entropy_high:g}."
    else:
        yield "entropy", ""


def _variance(total: float, squares: float, count: int) -> float:
    mean = total / count
    return max(squares / count - mean * mean, 0.0)
