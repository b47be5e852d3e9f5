"""The questions at each of a seat's turns: who is the opponent, and what will it do next?"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from arena.records import Episode

Seen = tuple[int, str]  # a seat and what it was shown


class Question(StrEnum):
    """The quantity that is predicted."""

    TYPE = "type"  # which of the known players the other is
    ACTION = "action"  # what the other does at its next turn


class AskedTurn(NamedTuple):
    """One question at one turn of a seat, with its answer."""

    deal: int  # matches of one deal are either all learned from or all held out
    turn: int  # how many turns the seat had before
    seen: Seen
    answer: str


def asked_in(episode: Episode, seat: int, deal: int, kind: str) -> Iterator[tuple[Question, AskedTurn]]:
    """Yield the questions at a seat's turns of a match with the player ``kind``, and their answers.

    Turns count if an action was read. The other's next action is its next choice from a list, whenever that is; if none
    follows, or free text does, there is no question about it.
    """
    turns = [turn for turn in episode.turns if turn.action is not None and not turn.tool]
    own_turn = 0
    for index, turn in enumerate(turns):
        if turn.seat != seat:
            continue
        seen = (seat, turn.observation)
        yield Question.TYPE, AskedTurn(deal, own_turn, seen, kind)
        following = next((later for later in turns[index + 1 :] if later.seat != seat), None)
        if following is not None and not following.form:
            yield Question.ACTION, AskedTurn(deal, own_turn, seen, str(following.action))
        own_turn += 1
