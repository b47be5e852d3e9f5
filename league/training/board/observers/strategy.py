"""The figure of a strategy: probabilities at information states over iterations, beside the equilibria's."""

from __future__ import annotations

from functools import partial

from league.training.board.figures.canvas import Drawing
from league.training.board.figures.strategy import ActionLine, StatePanel, draw_strategy
from league.training.board.observer import Figure, FigureData
from league.training.board.questions import DOING


def strategy(data: FigureData, game: str) -> Drawing:
    """Draw what it does: the probabilities of actions at the information states that matter most."""
    played = data.strategies[game]
    panels = [
        StatePanel(
            state.title,
            [
                ActionLine(action.label, played.steps, values, action.low, action.high)
                for action, values in zip(state.actions, rows, strict=True)
            ],
        )
        for state, rows in zip(played.states, played.probabilities, strict=True)
    ]
    return partial(draw_strategy, f"{game}: what does it do?", panels, played.named)


STRATEGY_FIGURE = Figure(strategy, question=DOING, games=lambda data: data.strategies, pinned=True)
