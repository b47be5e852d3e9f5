"""How roles behave in an iteration: replies, entropy, credit and actions by role and turn, in their trajectories.

Everything is measured of at most ``MOST_TURNS`` turns a role, evenly spread, so that it costs the same in large runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import NamedTuple

from arena.records import Episode, Turn, flatten_episodes
from league.training.monitors.reply_alarms import reasoning_tokens
from learners.trajectories import Trajectory
from roles.role import ReplyForm, Role

MOST_TURNS = 2_000  # of a role
LAST_TURN = 5  # turns from this one on are counted together
OPENINGS = 9  # first moves of a role that are logged
_NOT_IN_TAGS = re.compile(r"[^-\w.]+")


class RoleConduct(NamedTuple):
    """One role's turns of an iteration. "By turn" is by the turn's index in its trajectory, the last one and beyond."""

    game: str
    role: str
    advantages: list[float]  # of all turns
    advantages_by_turn: list[list[float]]
    entropies_by_turn: list[list[float]]  # −log p of what was sampled, in nats: its mean estimates the entropy
    actions_by_turn: list[Counter[str]]  # where there was a choice
    lengths: list[int]  # tokens of free replies
    reasoning: list[float]  # tokens of them before the answer
    replies: Counter[str]  # legal, retried, illegal, truncated, tool; empty where replies are masked and no tool exists


def observe_conduct(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    roles: Mapping[str, Sequence[Role]],
) -> list[RoleConduct]:
    """Return the conduct of each role that had a turn, by game and role. ``roles`` are by game and seat."""
    by_role: dict[tuple[str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.turns:
            by_role.setdefault((trajectory.game, trajectory.role), []).append(index)
    found = []
    for (game, name), indices in by_role.items():
        turns = sum(len(trajectories[i].turns) for i in indices)
        chosen = indices[:: -(-turns // MOST_TURNS)]
        role = roles[game][trajectories[indices[0]].seat]
        conduct = RoleConduct(game, name, [], [], [], [], [], [], Counter())
        for index in chosen:
            _add(conduct, trajectories[index], advantages[index], role)
        found.append(conduct)
    return found


def conduct_metrics(conducts: Sequence[RoleConduct]) -> dict[str, float]:
    """Return what roles do as metrics, ``GAME/WHAT/ROLE/…``; what a role cannot do is absent.

    ``advantage/ROLE/turn_K/mean`` and ``/spread`` in the units of the updates, ``entropy/ROLE/turn_K`` in nats a
    reply, ``opening/ROLE/ACTION`` as a share, ``replies/ROLE/KIND`` as a share of all replies,
    ``reply_length/ROLE`` and ``reasoning_length/ROLE`` in tokens. ``turn_5`` counts all turns from the fifth on.
    """
    metrics: dict[str, float] = {}
    for c in conducts:
        for turn, numbers in enumerate(c.advantages_by_turn, 1):
            name = f"{c.game}/advantage/{c.role}/turn_{turn}"
            metrics[f"{name}/mean"], metrics[f"{name}/spread"] = fmean(numbers), pstdev(numbers)
        for turn, numbers in enumerate(c.entropies_by_turn, 1):
            if numbers:
                metrics[f"{c.game}/entropy/{c.role}/turn_{turn}"] = fmean(numbers)
        openings = c.actions_by_turn[0] if c.actions_by_turn else Counter[str]()
        for action, count in openings.most_common(OPENINGS):
            metrics[f"{c.game}/opening/{c.role}/{tag_part(action)}"] = count / openings.total()
        for kind, count in c.replies.items():
            metrics[f"{c.game}/replies/{c.role}/{kind}"] = count / c.replies.total()
        if c.lengths:
            metrics[f"{c.game}/reply_length/{c.role}"] = fmean(c.lengths)
            metrics[f"{c.game}/reasoning_length/{c.role}"] = fmean(c.reasoning)
    return metrics


def tag_part(text: str) -> str:
    """Return a text, which a model may have written, as part of a metric's name."""
    return _NOT_IN_TAGS.sub("_", text)[:40].strip("_") or "_"


def _add(conduct: RoleConduct, trajectory: Trajectory, advantages: Sequence[float], role: Role) -> None:
    """Add one trajectory's turns."""
    before: Turn | None = None
    for index, (turn, advantage) in enumerate(zip(trajectory.turns, advantages, strict=True)):
        place = min(index, LAST_TURN - 1)
        for lists in (conduct.advantages_by_turn, conduct.entropies_by_turn):
            if len(lists) <= place:
                lists.append([])
        if len(conduct.actions_by_turn) <= place:
            conduct.actions_by_turn.append(Counter())
        conduct.advantages.append(advantage)
        conduct.advantages_by_turn[place].append(advantage)
        if turn.trace is not None:
            conduct.entropies_by_turn[place].append(-sum(turn.trace.logprobs))
            if role.reply is ReplyForm.FREE or turn.form:
                conduct.lengths.append(len(turn.trace.reply_ids))
                conduct.reasoning.append(reasoning_tokens(role, turn.reply, len(turn.trace.reply_ids), turn.form))
        if len(turn.legal) > 1 and turn.action is not None and not turn.tool:
            conduct.actions_by_turn[place][turn.action] += 1
        if role.reply is ReplyForm.FREE or role.tools or turn.form:
            conduct.replies[_kind(turn, before, role)] += 1
        before = turn


def _kind(turn: Turn, before: Turn | None, role: Role) -> str:
    """Return what a reply was: legal at once or after an illegal one, illegal, illegal at its longest, a call."""
    if turn.tool:
        return "tool"
    if turn.action is None:
        cut = turn.trace is not None and len(turn.trace.reply_ids) >= role.max_reply_tokens
        return "truncated" if cut else "illegal"
    return "retried" if before is not None and before.action is None else "legal"


def reply_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the rate of illegal replies in trained seats, and the number of tokens in all replies."""
    turns = [turn for e in flatten_episodes(episodes) for turn in e.turns if e.request.trained[turn.seat]]
    replies = [turn.trace.reply_ids for e in flatten_episodes(episodes) for turn in e.turns if turn.trace is not None]
    return {
        "illegal_rate": sum(turn.action is None for turn in turns) / max(len(turns), 1),
        "reply_tokens": float(sum(map(len, replies))),
    }
