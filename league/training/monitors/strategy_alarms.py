"""Alarms about strategy: a role that always does the same, a role without signal, a population that cycles.

collapse    a role plays one action wherever it could choose, whatever it observes;
signal      almost no turn of a role has an advantage, of those in which it was not certain of its reply: nothing tells
            its better replies from its worse ones;
cycle       three or more snapshots beat each other in a circle, each by a margin that matters.

The first two judge ``WINDOW`` iterations together; a lack of signal is reported immediately, over as many as there are.
Their state is plain JSON data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from arena.records import Turn
from league.training.monitors.alarm import AlarmRule, Kept, Ledger, Readings, Sensitivity, Watched, Win
from learners.keys import join_names
from learners.trajectories import Trajectory

WINDOW = 5  # iterations that are judged together
MOST_TRAJECTORIES = 256  # of a role, examined in an iteration
OBSERVATIONS = 3  # a role with fewer distinct observations may rightly always do the same
LEAST_TURNS = 64  # of a role, before there are ``WINDOW`` iterations: fewer may lack signal by chance
LEAST_SIGNAL = 1e-3  # of the greatest return: a smaller advantage counts as none
CERTAIN = -0.01  # log-prob (nats) of a reply above which its turn needs no advantage

# The usual limits, which ``alarms.sensitivity`` moves.
OTHERWISE = 0.02  # share of a role's choices that are not its commonest action
WITH_SIGNAL = 0.05  # share of a role's turns that have an advantage
WIN = 0.05  # of half the game's range: the narrowest win of a cycle that matters

Window = list[Any]  # of each iteration [turns, turns with signal, choices, commonest action, its count, observations]


def read_windows(watched: Watched, memory: Kept) -> tuple[Readings, Kept]:
    """Return the last iterations of each policy in each role that had a turn, if there is enough to judge."""
    windows, readings = dict(memory), Readings()
    for names, indices in watched.by_role.items():
        key = join_names(*names)
        chosen = indices[:: -(-len(indices) // MOST_TRAJECTORIES)]
        numbers = _observe([watched.trajectories[i] for i in chosen], [watched.advantages[i] for i in chosen])
        windows[key] = [*windows.get(key, []), numbers][-WINDOW:]
        if len(windows[key]) == WINDOW or sum(row[0] for row in windows[key]) >= LEAST_TURNS:
            readings[watched.subject(*names)] = windows[key]
    return readings, windows


def _observe(trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> list[Any]:
    """Return the sums of one iteration of a role."""
    greatest = max((abs(trajectory.match_return) for trajectory in trajectories), default=0.0)
    numbers = [
        advantage
        for trajectory, row in zip(trajectories, advantages, strict=True)
        for turn, advantage in zip(trajectory.turns, row, strict=True)
        if not _is_certain(turn)
    ]
    with_signal = sum(abs(advantage) > LEAST_SIGNAL * max(greatest, 1e-9) for advantage in numbers)
    actions: Counter[str] = Counter()
    observations: set[str] = set()
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if len(turn.legal) > 1 and turn.action is not None and not turn.tool:
                actions[turn.action] += 1
                if len(observations) < OBSERVATIONS:
                    observations.add(turn.observation)
    action, count = actions.most_common(1)[0] if actions else ("", 0)
    return [len(numbers), with_signal, actions.total(), action, count, len(observations)]


def _is_certain(turn: Turn) -> bool:
    """Return whether the reply was as good as the only one: where play is settled nothing is left to tell."""
    return turn.trace is not None and sum(turn.trace.logprobs) > CERTAIN


def judge_signal(window: Window, settings: Sensitivity) -> str | None:
    """Judge the share of a role's turns that have an advantage."""
    turns, with_signal = (sum(row[column] for row in window) for column in (0, 1))
    if not turns:
        return None
    share = with_signal / turns
    message = (
        f"only {share:.1%} of its turns have an advantage: nothing separates its better replies from its worse ones."
    )
    return message if share < settings.least(WITH_SIGNAL) else ""


def judge_collapse(window: Window, settings: Sensitivity) -> str | None:
    """Judge whether a role plays one action wherever it can choose, over a whole window."""
    choices, most, observations = (sum(row[column] for row in window) for column in (2, 4, 5))
    if len(window) < WINDOW or not choices or observations < OBSERVATIONS * len(window):
        return None
    same = len({row[3] for row in window}) == 1 and most / choices > 1.0 - settings.least(OTHERWISE)
    return f"it plays {window[-1][3]!r} in {most / choices:.1%} of the turns where it could choose." if same else ""


def read_cycles(watched: Watched, _: Kept) -> tuple[Readings, Kept]:
    """Return the cycles of each game whose population was compared."""
    return dict(watched.wins), {}


def judge_cycles(cycles: Sequence[Win], settings: Sensitivity) -> str:
    """Judge the cycles of a game: the narrowest win of one must matter."""
    wide = [cycle for cycle in cycles if cycle.margin >= settings.most(WIN)]
    if not wide:
        return ""
    widest = max(wide, key=lambda cycle: cycle.margin)
    circle = " beats ".join([*widest.players, widest.players[0]])
    return f"its results are cyclic: {circle}, each by {widest.margin:.0%} of half the game's range or more."


WINDOWS = Ledger(read_windows, "windows")
SIGNAL = AlarmRule(judge_signal, Sensitivity, ledger=WINDOWS)
COLLAPSE = AlarmRule(judge_collapse, Sensitivity, ledger=WINDOWS)
CYCLE = AlarmRule(judge_cycles, Sensitivity, ledger=Ledger(read_cycles))
