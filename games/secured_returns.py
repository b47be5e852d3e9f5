"""What each seat is sure of from a position on: the least that a forfeit by another seat may pay it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from games.abilities import BoundsReturns
from games.openspiel import repeated
from games.openspiel.game import OpenSpielGame
from games.spec import Choices, Game

_POSITIONS = 300  # that are visited to see every course of a match
_COURSES = 50  # that are drawn where there are more positions
_MOVES = 3_000  # of all drawn courses together, so that a long game does not hold up play


def secured_returns(game: Game) -> tuple[float, ...]:  # [seats]
    """Return what each seat has been paid so far or, if that is more, the least with which it can still end."""
    floor = [max(paid, game.spec.min_return) for paid in game.returns()]
    return tuple(map(max, floor, least_returns(game, floor)))


def least_returns(game: Game, floor: Sequence[float] = ()) -> tuple[float, ...]:  # [seats]
    """Return the least with which each seat can still end; less than ``floor`` does not matter.

    A game that is ``BoundsReturns`` says it itself. For any other, copies of the match are played to the end by
    legal actions: in every way where at most ``_POSITIONS`` positions are left, else also along ``_COURSES`` random
    courses of a fixed seed. Chance falls as it would in this match. The least of some courses can be more than the
    least of all, and is never less. Where no copy comes to an end, as in a game of free text that lists no examples or
    one that opens submatches, the least is ``spec.min_return``.
    """
    if isinstance(game, BoundsReturns):
        return tuple(game.least_returns())
    if isinstance(game, OpenSpielGame) and repeated.is_repeated(game.spec.name):
        return tuple(repeated.least_returns(game))
    floor = floor or (game.spec.min_return,) * game.spec.seats
    least: tuple[float, ...] = ()
    for ending in _endings(game):
        least = tuple(map(min, least, ending)) if least else ending
        if all(low <= bound for low, bound in zip(least, floor, strict=True)):
            break  # no further course could change the answer
    return least or (game.spec.min_return,) * game.spec.seats


def _endings(game: Game) -> Iterator[tuple[float, ...]]:
    """Yield the returns of legal courses from here: of each once, or of some."""
    if game.spec.submatch_games:
        return
    moves, visited = [(game, action) for action in reversed(_legal(game))], 0
    while moves and visited < _POSITIONS:
        before, action = moves.pop()
        match, visited = before.copy(), visited + 1
        match.apply(action)
        if match.to_act() is None:
            yield match.returns()
        else:
            moves += [(match, action) for action in reversed(_legal(match))]
    if moves:
        yield from _drawn_endings(game)


def _drawn_endings(game: Game) -> Iterator[tuple[float, ...]]:
    """Yield the returns of ``_COURSES`` random courses, as far as they take ``_MOVES`` moves together."""
    rng, match, courses = random.Random(0), game.copy(), 0
    for _ in range(_MOVES):
        if not (legal := _legal(match)):
            return
        match.apply(rng.choice(legal))
        if match.to_act() is None:
            yield match.returns()
            match, courses = game.copy(), courses + 1
        if courses == _COURSES:
            return


def _legal(game: Game) -> Sequence[str]:
    """Return legal actions of the seat to act; of free text, the examples that the game lists, if it lists any."""
    actions = game.actions()
    if isinstance(actions, Choices):
        return actions.labels
    listed: Sequence[str] = getattr(game, "legal_actions", tuple)()
    return listed
