"""Alarms about strategy: a role that always does the same, a role without signal, a population that goes in circles.

collapse    a role plays one action wherever it could choose, whatever it observes;
signal      almost no turn of a role has an advantage: nothing tells its better replies from its worse ones;
cycle       three or more snapshots beat each other in a circle, each by a margin that matters.

The first two judge ``WINDOW`` iterations together; a lack of signal is told at once, of as many as there are. Their
states are plain JSON data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from league.config.learning import AlarmsConfig
from learners.keys import join_names
from learners.trajectories import Trajectory

WINDOW = 5  # iterations that are judged together
MOST_TRAJECTORIES = 256  # of a role, looked at in an iteration
OBSERVATIONS = 3  # a role that observes fewer different things may rightly always do the same
LEAST_TURNS = 64  # of a role, before there are ``WINDOW`` iterations: fewer may lack signal by chance
LEAST_SIGNAL = 1e-3  # of the greatest return: an advantage below this is none

Verdict = tuple[str, str, str]  # subject, name, message: "" if it is off
Window = list[Any]  # of each iteration [turns, turns with signal, choices, commonest action, its count, observations]


class Win(NamedTuple):
    """A cycle of a game's players, each of whom beats the next."""

    game: str
    players: tuple[str, ...]
    margin: float  # of the narrowest win, as a share of half the game's range


def judge_roles(
    trajectories: Sequence[Trajectory],
    advantages: Sequence[Sequence[float]],
    state: Mapping[str, Window],
    settings: AlarmsConfig,
    subject_of: Callable[[str, str, str], str],
) -> tuple[list[Verdict], dict[str, Window]]:
    """Return the verdicts on each policy in each role that can be judged, and the new state.

    ``subject_of`` names a game, role and policy as alarms do.
    """
    by_role: dict[tuple[str, str, str], list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        if trajectory.turns:
            by_role.setdefault((trajectory.game, trajectory.role, trajectory.policy), []).append(index)
    windows, verdicts = dict(state), list[Verdict]()
    for names, indices in by_role.items():
        key, subject = join_names(*names), subject_of(*names)
        chosen = indices[:: -(-len(indices) // MOST_TRAJECTORIES)]
        numbers = _observe([trajectories[i] for i in chosen], [advantages[i] for i in chosen])
        windows[key] = [*windows.get(key, []), numbers][-WINDOW:]
        if len(windows[key]) == WINDOW or sum(row[0] for row in windows[key]) >= LEAST_TURNS:
            verdicts += [(subject, *verdict) for verdict in _judge(windows[key], settings)]
    return verdicts, windows


def judge_cycles(games: Sequence[str], cycles: Sequence[Win], settings: AlarmsConfig) -> list[Verdict]:
    """Return a verdict on each game whose population was compared: the narrowest win of a cycle must matter."""
    verdicts = []
    for game in games:
        mine = [cycle for cycle in cycles if cycle.game == game and cycle.margin >= settings.cycle]
        message = ""
        if mine:
            widest = max(mine, key=lambda cycle: cycle.margin)
            circle = " beats ".join([*widest.players, widest.players[0]])
            message = f"it goes in circles: {circle}, each by {widest.margin:.0%} of half the game's range or more."
        verdicts.append((game, "cycle", message))
    return verdicts


def _observe(trajectories: Sequence[Trajectory], advantages: Sequence[Sequence[float]]) -> list[Any]:
    """Return the sums of one iteration of a role."""
    greatest = max((abs(trajectory.match_return) for trajectory in trajectories), default=0.0)
    numbers = [advantage for row in advantages for advantage in row]
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


def _judge(window: Window, settings: AlarmsConfig) -> Iterator[tuple[str, str]]:
    """Yield a role's verdicts, of what can be judged."""
    turns, with_signal, choices, most, observations = (sum(row[column] for row in window) for column in (0, 1, 2, 4, 5))
    if turns:
        share = with_signal / turns
        message = f"only {share:.1%} of its turns have an advantage: nothing tells its better replies from its worse."
        yield "signal", message if share < settings.signal else ""
    if len(window) == WINDOW and choices and observations >= OBSERVATIONS * len(window):
        same = len({row[3] for row in window}) == 1 and most / choices > settings.collapse
        message = f"it plays {window[-1][3]!r} in {most / choices:.1%} of the turns where it could choose."
        yield "collapse", message if same else ""
