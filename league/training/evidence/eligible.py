"""Which turns affected the outcome, according to the game, after its matches are replayed."""

from __future__ import annotations

from arena.records import Episode
from arena.submatches import play_again
from games.abilities import MarksEligible
from games.registry import make_game
from league.config.context import RunContext
from league.training.evidence.source import AfterPlay, Column, Source
from learners.trajectories import Trajectory

NAME = "eligible"  # of the column, as rules of selection need it


def eligible_turns(_context: RunContext, play: AfterPlay) -> Column:
    """Return for each trajectory whether its turns count; None where the game does not say.  # [N][K]"""
    marks: dict[int, list[bool] | None] = {}
    for index in dict.fromkeys(trajectory.match for trajectory in play.trajectories):
        marks[index] = marks_of(play.matches[index])
    return [_of_trajectory(trajectory, marks[trajectory.match]) for trajectory in play.trajectories]


def marks_of(episode: Episode) -> list[bool] | None:
    """Return whether each turn of a match counts, of all seats; None where its game does not say.

    A refused reply, or a call of a tool, counts as its seat's next move does, or if there is none.
    """
    game = make_game(episode.request.game)
    if not isinstance(game, MarksEligible):
        return None
    play_again(game, episode)
    moves = [turn.action is not None and not turn.tool for turn in episode.turns]
    marks = list(game.eligible()[-sum(moves) :] if any(moves) else ())  # a stored start's moves come before
    if len(marks) != sum(moves):
        return None
    following: dict[int, bool] = {}
    of_turns = [True] * len(moves)
    for number in reversed(range(len(moves))):
        seat = episode.turns[number].seat
        if moves[number]:
            following[seat] = marks.pop()
        of_turns[number] = following.get(seat, True)
    return of_turns


def _of_trajectory(trajectory: Trajectory, marks: list[bool] | None) -> tuple[bool, ...] | None:
    return None if marks is None else tuple([marks[place] for place in trajectory.order])


def _is_needed(context: RunContext, _game: str, _role: str) -> bool:
    return NAME in context.config.selection.needs


SOURCE = Source(eligible_turns, asked=_is_needed)
