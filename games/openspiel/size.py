"""Recognises a game that is far too large to be enumerated, from random matches instead of a walk through the game.

Two tests after each move of n random matches, both wrong with less than the chance ``ERROR``, and with the same answer
at every call, because the seed is fixed:

- Of n draws among N information states at most N(1 − (1 − 1/N)^n) are different on average, however they are drawn, and
  one draw changes their number by one at most. So a number above that by √(n ln(1/ERROR) / 2) shows more than N states
  (McDiarmid 1989).
- The product of the numbers of actions along a random match is on average the number of histories of its length (Knuth
  1975, "Estimating the efficiency of backtrack programs"), so it exceeds ``MARGIN`` times that number with a chance of
  1/MARGIN at most (Markov), and half of n matches exceed it with a chance of (4/MARGIN)^(n/2) at most.
"""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

from games.common.errors import NotEnumerable

ERROR = 1e-9
MARGIN = 5.0
FEW = 200  # matches: (4/MARGIN)^100 is below ERROR
MOST_MOVES = 100  # of a random match; a small game has fewer


def refuse_large(name: str, game: Any, renderer: Any, points: int, histories: int) -> None:
    """Raise NotEnumerable for a game with clearly more information states than ``points``, or more histories.

    ``game`` is a ``pyspiel.Game``. Boards that are reached in several ways count as one history.
    """
    rng = random.Random(name)
    for draws in (FEW, max(math.ceil((8.0 * points) ** (2 / 3)), FEW)):  # few are enough for most games
        states = [game.new_initial_state() for _ in range(draws)]
        paths = [1.0] * draws  # histories of this length, estimated by each match; 0 once it has ended
        for _ in range(MOST_MOVES):
            if _show_more(states, renderer, points):
                raise too_large(name, "information states", points)
            if not renderer.key_is_position and statistics.median(paths) > MARGIN * histories:
                raise too_large(name, "histories", histories)
            states, paths = _moved(states, paths, rng)
            if not states:
                break


def _moved(states: list[Any], paths: list[float], rng: random.Random) -> tuple[list[Any], list[float]]:
    """Make a random move in every state; return those that continue, and the paths by match, of which the first
    continue.
    """
    alive, longer = [], []
    for state, path in zip(states, paths, strict=False):
        actions = state.legal_actions()
        state.apply_action(rng.choice(actions))
        if not state.is_terminal():
            alive.append(state)
            longer.append(path * len(actions))
    return alive, longer + [0.0] * (len(paths) - len(longer))


def _show_more(states: list[Any], renderer: Any, points: int) -> bool:
    """Return whether the states, drawn independently, show that there are more information states than ``points``."""
    draws = len(states)
    expected = -points * math.expm1(draws * math.log1p(-1.0 / points)) if points > 1 else 1.0
    repeated_most = draws - expected - math.sqrt(draws * math.log(1.0 / ERROR) / 2.0)
    seen: set[tuple[int, str]] = set()
    for number, state in enumerate(states, 1):
        seat = state.current_player()
        if number - len(seen) - 1 > repeated_most or seat < 0:
            return False
        seen.add((seat, renderer.key(state, seat)))
    return draws - len(seen) <= repeated_most


def too_large(name: str, what: str, limit: int) -> NotEnumerable:
    """Return the error of a game with more than ``limit`` information states or histories."""
    return NotEnumerable(
        f"{name} is too large to enumerate: it has more than {limit:,} {what}. Choose a smaller game, or measure "
        "by matches instead."
    )
