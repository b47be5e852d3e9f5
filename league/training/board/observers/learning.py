"""The figures of progress: what each game's players have learned, and how well they do over all games."""

from __future__ import annotations

from functools import partial

from league.theory.statistics import PERCENTILES
from league.training.board.figures.canvas import Drawing
from league.training.board.figures.charts import Curve, draw_curves
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import LEARNING

EARNED = {  # first where interests are common or mixed
    "return": "joint return",
    "welfare": "welfare",
    "best_welfare": "best possible",
    "pareto_share": "Pareto share",
    "ce_gap": "CE gap",
}
MEASURES = {
    "exploitability": "exploitability",
    "mixture_exploitability": "… of mixture",
    "equilibrium_distance": "from equilibria",
    "return": "joint return",
    "judge/agreement": "judge right",
    "judge/position_bias": "judge's position bias",
}


def learning(data: FigureData, _: str) -> Drawing:
    """Draw whether it is learning: each game's measures of its players, at first and now."""
    panels: dict[str, list[Curve]] = {}
    for game, spec in data.specs.items():
        measures = MEASURES if spec.competitive else EARNED | MEASURES
        names = {f"{game}/{name}": label for name, label in measures.items()}
        curves = [Curve(label, *data.series(name)) for name, label in names.items()]
        curves = [curve for curve in curves if curve.steps]
        if not curves:
            against = sorted(data.names(f"{game}/score_against_"))
            labels = {name: name.removeprefix(f"{game}/").replace("_", " ") for name in against}
            curves = [Curve(label, *data.series(name)) for name, label in labels.items()]
        if curves:
            panels[game] = curves
    rating = Curve("rating", *data.series("rating"))
    if rating.steps:
        panels["newest snapshot"] = [rating]
    return partial(draw_curves, "Is it learning?", panels)


def games(data: FigureData, _: str) -> Drawing:
    """Draw how well it does over all games: percentiles of normalised scores, and how many games are trained."""
    panels = {
        "score as a share of the best so far": _percentiles(data),
        "games that are trained": [Curve("games", *data.series("curriculum/active"))],
    }
    return partial(draw_curves, "How well over all games?", panels)


def _judged(data: FigureData) -> tuple[str, ...]:
    """Return the single name "" if games are judged, and nothing otherwise."""
    return ("",) if any(curve.steps for curve in _percentiles(data)) else ()


def _percentiles(data: FigureData) -> list[Curve]:
    return [Curve(f"{p}th percentile", *data.series(f"curriculum/percentile_{p}")) for p in PERCENTILES]


LEARNING_FIGURE = Figure(
    learning,
    question=LEARNING,
    metrics=(*(rf".+/{name}" for name in EARNED | MEASURES), r".+/score_against_.+", r"rating"),
    pinned=True,
)
GAMES_FIGURE = Figure(games, question=LEARNING, games=_judged, metrics=(r"curriculum/.+",))
