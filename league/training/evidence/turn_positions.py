"""The place of each turn in a small game: its information state and the action that was played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from arena.records import Episode
from arena.submatches import begin_match
from games.registry import make_game
from games.spec import Game, choice_game
from league.theory.exact.states import Key
from learners.trajectories import Trajectory


class PlaceOfTurn(NamedTuple):
    """A turn's place in a game."""

    state: int  # of the information state
    legal: tuple[str, ...]  # actions there, by ascending id
    action: int  # of those, the one that was played


def locate(
    episodes: Sequence[Episode], trajectories: Sequence[Trajectory], places: Mapping[Key, int]
) -> list[PlaceOfTurn]:
    """Return where each trajectory's turns were, in order; ``places`` numbers the information states.

    Matches are replayed from their records, since a seat's observation need not contain all it knows.
    """
    turns: dict[tuple[int, int], list[PlaceOfTurn]] = {}  # by match and seat
    game = make_game(episodes[0].request.game)
    for episode in episodes:
        for seat, place in places_in(game, episode, places):
            turns.setdefault((episode.request.index, seat), []).append(place)
    return list(chain.from_iterable(turns.get((t.match, t.seat), []) for t in trajectories))


def places_in(game: Game, episode: Episode, places: Mapping[Key, int]) -> Iterator[tuple[int, PlaceOfTurn]]:
    """Yield the seat and the place of each turn of a match, which ``game`` replays; no reply may be illegal."""
    choices = choice_game(game)
    begin_match(choices, episode.request)
    for turn in episode.turns:
        assert turn.action is not None
        by_id = sorted(zip(choices.legal_ids(), choices.legal_actions(), strict=True))
        legal = tuple([action for _, action in by_id])
        yield (
            turn.seat,
            PlaceOfTurn(places[turn.seat, choices.information_state(turn.seat)], legal, legal.index(turn.action)),
        )
        choices.apply(turn.action)
