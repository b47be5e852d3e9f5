"""What an observer is, and what a figure of the board is: the types of the families "monitors" and "figures".

An observer measures an iteration, and a figure draws what was measured. Where a figure has an observer of its own, both
stand in one file of ``league.training.board.observers``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arena.records import Episode
from games.common.registry import Entry
from games.spec import GameSpec
from league.config.context import RunContext
from league.population.evaluation.strategies import GameStrategy
from league.population.results.payoffs import Result
from league.population.results.ratings import Ratings
from league.population.storage.population import Snapshot
from league.training.board.comparison import Comparison
from league.training.board.figures.canvas import Drawing
from league.training.board.questions import Chart
from league.training.interfaces import LearnResult
from league.training.monitors.alarms import Alarm
from league.training.starts.pool import StartPool

Metrics = dict[str, float]


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


class Record(NamedTuple):
    """What is known of an iteration once it was played and learned from."""

    context: RunContext
    iteration: int
    episodes: Sequence[Episode]  # forks included
    results: Sequence[Result]  # of the matches that are no forks, as the payoff table has them
    learned: LearnResult
    starts: StartPool | None = None  # of a run with ``starts.rule``
    conducts: Sequence[RoleConduct] = ()  # of an iteration that froze a snapshot


@dataclass(frozen=True, slots=True)
class Observer(Entry[Callable[[Record], Mapping[str, float]]]):
    """A measurement of each iteration. ``make`` returns metrics by name, and leaves out what was not computed.

    It neither changes what it is given nor draws a random number, so that a run is the same with or without it.
    """

    of_snapshots: bool = False  # only iterations that froze a snapshot are measured
    charts: Callable[[RunContext, str], Mapping[str, Chart]] | None = None  # of a game, in the tab of custom scalars


class FigureData(NamedTuple):
    """Everything that figures are drawn from."""

    iteration: int
    specs: Mapping[str, GameSpec]
    history: Sequence[Mapping[str, Any]]  # by iteration, of the metrics that figures name
    mixtures: Sequence[Mapping[str, Any]]  # by snapshot's iteration: game, seat, player
    alarms: Sequence[Alarm]  # that ring now
    strategies: Mapping[str, GameStrategy]
    comparisons: Mapping[str, Comparison]
    conducts: Sequence[RoleConduct]
    snapshots: Sequence[Snapshot]
    retired: set[str]
    ratings: Ratings
    anchors: Sequence[str]

    def of_game(self, game: str) -> list[RoleConduct]:
        """Return the conduct of a game's roles."""
        return [conduct for conduct in self.conducts if conduct.game == game]

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Return the iterations and values of a metric."""
        found = [(line["iteration"], line[name]) for line in self.history if name in line]
        return [step for step, _ in found], [value for _, value in found]

    def names(self, prefix: str) -> list[str]:
        """Return the names of metrics with a prefix, each once, in the order in which they appeared."""
        return list(dict.fromkeys(name for line in self.history for name in line if name.startswith(prefix)))

    def by_number(self, prefix: str) -> list[dict[int, float]]:
        """Return what follows a prefix with a number, by that number: in the newest iteration that has it, then the
        first. The first one is left out where it is the newest.
        """
        found: list[dict[int, float]] = []
        for line in self.history:
            numbers = {name.removeprefix(prefix): value for name, value in line.items() if name.startswith(prefix)}
            if mine := {int(number): numbers[number] for number in sorted(numbers, key=len) if number.isdecimal()}:
                found.append(dict(sorted(mine.items())))
        return [found[-1], *([found[0]] if len(found) > 1 else [])] if found else []


def of_the_run(_: FigureData) -> tuple[str, ...]:
    """Return that a figure is drawn once, of all games together."""
    return ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Entry[Callable[[FigureData, str], Drawing]]):
    """A figure of the board. ``make`` draws it of one game; of "", where it is one of the whole run.

    The board calls it "QUESTION/NAME", with "/GAME" where it is of a game.
    """

    question: str  # of ``league.training.board.questions``
    games: Callable[[FigureData], Iterable[str]] = of_the_run  # of which there is something to draw
    metrics: tuple[str, ...] = ()  # patterns of the names of the metrics whose history it needs, whole names
    pinned: bool = False  # on the opening page
