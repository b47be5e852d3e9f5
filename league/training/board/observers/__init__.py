"""Observers, which measure each iteration, and figures, which draw it: the families "monitors" and "figures".

May import evidence, learning and everything below them, and from this room the types, the questions and the canvas.

An observer, ``observe(record) -> metrics``, and the figures of what it measures share a file, sometimes with short
relatives. Figures are drawn in the order of their family, the most important first, and the opening page pins the
``pinned`` ones in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial

from games.common.registry import Registry
from league.training.board.figures.canvas import Drawing
from league.training.board.observer import Figure, FigureData, Metrics, Observer, OfTheRun, Record
from league.training.board.observers.alarms import ALARMS_FIGURE
from league.training.board.observers.beliefs import BELIEFS, BELIEFS_FIGURE
from league.training.board.observers.conduct import ACTIONS_FIGURE, CONDUCT, CREDIT_FIGURE, REPLIES_FIGURE
from league.training.board.observers.contexts import CONTEXTS
from league.training.board.observers.learning import GAMES_FIGURE, LEARNING_FIGURE
from league.training.board.observers.payoffs import PAYOFFS_FIGURE, WINS_FIGURE
from league.training.board.observers.play import CREDIT, GAMES, MATCHES, REPLIES, SCORES
from league.training.board.observers.population import MIXTURE_FIGURE, POPULATION_FIGURE, RATINGS_FIGURE
from league.training.board.observers.selection import SELECTION
from league.training.board.observers.shaping import AGREEMENT, PREDICTIONS
from league.training.board.observers.strategy import STRATEGY_FIGURE
from league.training.board.observers.tasks import STARTS, TASKS
from league.training.board.observers.time import TIME_FIGURE

MOST_PINNED = 10  # figures of the opening page

MONITORS: Registry[Observer] = Registry(
    "monitors",
    "monitor",
    Observer,
    "plugins",
    {
        "credit": CREDIT,
        "selection": SELECTION,
        "matches": MATCHES,
        "scores": SCORES,
        "games": GAMES,
        "beliefs": BELIEFS,
        "agreement": AGREEMENT,
        "predictions": PREDICTIONS,
        "replies": REPLIES,
        "tasks": TASKS,
        "starts": STARTS,
        "conduct": CONDUCT,
        "contexts": CONTEXTS,
    },
)
FIGURES: Registry[Figure] = Registry(
    "figures",
    "figure",
    Figure,
    "plugins",
    {
        "alarms": ALARMS_FIGURE,
        "learning": LEARNING_FIGURE,
        "games": GAMES_FIGURE,
        "strategy": STRATEGY_FIGURE,
        "actions": ACTIONS_FIGURE,
        "beliefs": BELIEFS_FIGURE,
        "payoffs": PAYOFFS_FIGURE,
        "wins": WINS_FIGURE,
        "population": POPULATION_FIGURE,
        "credit": CREDIT_FIGURE,
        "time": TIME_FIGURE,
        "replies": REPLIES_FIGURE,
        "ratings": RATINGS_FIGURE,
        "mixture": MIXTURE_FIGURE,
    },
)
register_monitor, register_figure = MONITORS.register, FIGURES.register


def observe(record: Record, *, of_snapshots: bool = False) -> Metrics:
    """Return the metrics of all observers of iterations, or of all observers of snapshots."""
    metrics: Metrics = {}
    for observer in MONITORS.loaded().values():
        if observer.of_snapshots == of_snapshots:
            metrics |= observer.make(record)
    return metrics


def figures(data: FigureData) -> dict[str, Callable[[], Drawing]]:
    """Return, by name, how to draw each figure that has data, the most important first."""
    return {
        f"{figure.question}/{name}{'/' if game else ''}{game}": partial(figure.make, data, game)
        for name, figure in FIGURES.loaded().items()
        for game in figure.games(data)
    }


def possible_figures(game: str) -> list[str]:
    """Return the names of the figures that the opening page may show of a run whose first game this is."""
    return [
        f"{figure.question}/{name}" + ("" if isinstance(figure.games, OfTheRun) else f"/{game}")
        for name, figure in FIGURES.loaded().items()
        if figure.pinned
    ]


def pinned_figures(names: Iterable[str]) -> list[str]:
    """Return the figures that the opening page shows, in its order; with many games, the first games' figures."""
    distinct = list(dict.fromkeys(names))
    pinned = [f"{figure.question}/{name}" for name, figure in FIGURES.loaded().items() if figure.pinned]
    chosen = [name for start in pinned for name in distinct if name == start or name.startswith(f"{start}/")]
    return chosen[:MOST_PINNED]


def drawn_metrics() -> Callable[[str], bool]:
    """Return a test of whether some figure shows a metric, whose history must then be kept."""
    patterns = [pattern for figure in FIGURES.loaded().values() for pattern in figure.metrics]
    any_pattern = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    return cache(lambda name: any_pattern.fullmatch(name) is not None)
