"""The figures of the population: who descends from whom, each player's weight in the mixture, and ratings."""

from __future__ import annotations

from functools import partial

from league.training.board.figures.canvas import Drawing
from league.training.board.figures.population import Descendant, Rated, draw_mixture_of_seats, draw_ratings, draw_tree
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import BEATS, LEARNING


def population(data: FigureData, _: str) -> Drawing:
    """Draw who descends from whom, and how: one row per policy, an edge from each parent."""
    snapshots = [
        Descendant(s.id, s.policy, s.step, s.parent, str(s.origin), s.id in data.retired) for s in data.snapshots
    ]
    return partial(draw_tree, "Who descends from whom, and how?", snapshots)


def mixture(data: FigureData, game: str) -> Drawing:
    """Draw the weight of each player in the meta-strategy, over iterations."""
    lines = [line for line in data.mixtures if line.get(game)]
    steps, seats = [line["iteration"] for line in lines], [line[game] for line in lines]
    return partial(draw_mixture_of_seats, f"{game}: meta-strategy", steps, seats)  # which takes the means elsewhere


def ratings(data: FigureData, game: str) -> Drawing:
    """Draw the ratings of snapshots, with bands of 95 %, and of anchors."""
    rated = {rating.player: rating for rating in data.ratings.ranking(game)}
    players = [Rated(name, name, None, rated[name].mu, 0.0) for name in data.anchors if name in rated]
    players += [
        Rated(s.id, s.policy, s.step, rated[s.id].mu, rated[s.id].sigma) for s in data.snapshots if s.id in rated
    ]
    return partial(draw_ratings, f"{game}: ratings", players)


POPULATION_FIGURE = Figure(population, question=BEATS, pinned=True)
MIXTURE_FIGURE = Figure(
    mixture,
    question=BEATS,
    games=lambda data: [game for game in data.specs if any(line.get(game) for line in data.mixtures)],
)
RATINGS_FIGURE = Figure(
    ratings,
    question=LEARNING,
    games=lambda data: [game for game in data.specs if data.ratings.ranking(game)],
)
