"""The types of the families "monitors" and "figures": the board's observers and figures.

An observer measures an iteration, and a figure draws what was measured. A figure that has its own observer shares a
file with it in ``league.training.board.observers``.
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
    """One role's turns in an iteration. "By turn" is by index in the trajectory, the last and later ones together."""

    game: str
    role: str
    advantages: list[float]  # of all turns
    advantages_by_turn: list[list[float]]
    entropies_by_turn: list[list[float]]  # −log p of the sampled replies, in nats; their mean estimates the entropy
    actions_by_turn: list[Counter[str]]  # only where there was a choice
    lengths: list[int]  # tokens of free replies
    reasoning: list[float]  # tokens of them before the answer
    replies: Counter[str]  # legal, retried, illegal, truncated, tool; empty where replies are masked and no tool exists


class Record(NamedTuple):
    """What is known about an iteration after it was played and learned from."""

    context: RunContext
    iteration: int
    episodes: Sequence[Episode]  # forks included
    results: Sequence[Result]  # of the matches that are not forks, as in the payoff table
    learned: LearnResult
    starts: StartPool | None = None  # of a run with ``starts.rule``
    conducts: Sequence[RoleConduct] = ()  # only in an iteration that froze a snapshot


@dataclass(frozen=True, slots=True)
class Observer(Entry[Callable[[Record], Mapping[str, float]]]):
    """A measurement of each iteration. ``make`` returns metrics by name, without those that were not computed.

    It neither changes its arguments nor draws a random number, so that a run is the same with or without it.
    """

    of_snapshots: bool = False  # only iterations that froze a snapshot are measured
    charts: Callable[[RunContext, str], Mapping[str, Chart]] | None = None  # of a game, in the tab of custom scalars


class FigureData(NamedTuple):
    """The data from which figures are drawn."""

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
        points = [(line["iteration"], line[name]) for line in self.history if name in line]
        return [step for step, _ in points], [value for _, value in points]

    def names(self, prefix: str) -> list[str]:
        """Return the names of metrics with a prefix, each once, in the order in which they appeared."""
        return list(dict.fromkeys(name for line in self.history for name in line if name.startswith(prefix)))

    def by_number(self, prefix: str) -> list[dict[int, float]]:
        """Return metrics that are named by a prefix and a number, by that number: of the newest iteration that has any,
        then of the first, unless that is also the newest.
        """
        iterations: list[dict[int, float]] = []
        for line in self.history:
            numbers = {name.removeprefix(prefix): value for name, value in line.items() if name.startswith(prefix)}
            if by_number := {int(number): numbers[number] for number in sorted(numbers, key=len) if number.isdecimal()}:
                iterations.append(dict(sorted(by_number.items())))
        return [iterations[-1], *([iterations[0]] if len(iterations) > 1 else [])] if iterations else []


@dataclass(frozen=True, slots=True)
class OfTheRun:
    """The single name "": a figure is drawn once for all games together, when there is something to draw."""

    when: Callable[[FigureData], bool] = lambda _: True

    def __call__(self, data: FigureData) -> tuple[str, ...]:
        """Return that name, or none."""
        return ("",) if self.when(data) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Entry[Callable[[FigureData, str], Drawing]]):
    """A figure of the board. ``make`` draws it for one game, or for "" if it shows the whole run.

    The board calls it "QUESTION/NAME", plus "/GAME" if it shows one game.
    """

    question: str  # of ``league.training.board.questions``
    games: Callable[[FigureData], Iterable[str]] = OfTheRun()  # the games with something to draw
    metrics: tuple[str, ...] = ()  # patterns for whole names of the metrics whose history it needs
    pinned: bool = False  # on the opening page
