"""Which predictions of cards' slots came true (``roles.slots.prediction``), from what their seats were shown.

A prediction is of the first act of another seat that the predicting seat has not been shown yet: in a game of turns
the next one, in a round in which all choose at once the others' choice of this round. An act is shown when the seat's
information state has changed since, and its view then names the act; what is never shown is no outcome.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from arena.records import Episode
from arena.submatches import positions
from games.registry import make_game
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from roles.role import Role
from roles.slots import prediction_slots


class Stated(NamedTuple):
    """A prediction, and what it was of."""

    turn: int  # its index among the match's turns
    said: str
    act: str | None  # what the other did; None: the seat was never shown it, or nobody else acted

    @property
    def right(self) -> float | None:
        """Its 0/1 score: case and white space make no difference; None where it has no outcome."""
        return None if self.act is None else float(_folded(self.said) == _folded(self.act))


def stated_predictions(role: Role, episode: Episode) -> list[Stated]:
    """Return the predictions that a role's seat made in a match, in their order."""
    slots, seat, turns = prediction_slots(role.slots), role.seat, episode.turns
    made = [i for i, turn in enumerate(turns) if turn.seat == seat and turn.tool in slots]
    if not made:
        return []
    seen = [(at.information_state(seat), at.observe(seat)) for at in positions(make_game(role.game), episode)]
    acts = [
        (turn.action, shown)
        for i, turn in enumerate(turns)
        if turn.seat != seat and turn.action is not None and not turn.tool
        if (shown := shown_after(seen, i, turn.action)) is not None
    ]
    outcomes = [next((act for act, shown in acts if shown > i), None) for i in made]
    return [Stated(i, turns[i].action or "", act) for i, act in zip(made, outcomes, strict=True)]


def shown_after(seen: Sequence[tuple[str, str]], turn: int, act: str) -> int | None:
    """Return how many turns had been when a seat was first shown a turn's act; None: never."""
    for after in range(turn + 1, len(seen)):
        if seen[after][0] != seen[after - 1][0] and _names(seen[after][1], act):
            return after
    return None


def _names(view: str, act: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_folded(act))}(?!\w)", _folded(view)) is not None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _asked(context: RunContext, game: str, role: str) -> bool:
    """Return whether a role's predictions are credited."""
    term = context.config.shaping.prediction
    own = [one.slots for one in context.roles[game] if one.name == role]
    return term.on and bool(term.factor(game, role)) and any(map(prediction_slots, own))


def _stated(context: RunContext, play: AfterPlay) -> Column:
    """Return the score of each turn that is a prediction, None for the others.  # [N][K]"""
    column = []
    for trajectory in play.trajectories:
        role = context.roles[trajectory.game][trajectory.seat]
        scores = {one.turn: one.right for one in stated_predictions(role, play.matches[trajectory.match])}
        column.append(tuple([scores.get(turn) for turn in trajectory.order]))
    return column


SOURCE = Source(_stated, asked=_asked)
