"""The large games that are counted out, by OpenSpiel's names: liar's dice, and goofspiel with hidden bids."""

from __future__ import annotations

from league.theory.public import liars_dice
from league.theory.public.goofspiel import Goofspiel, goofspiel_of
from league.theory.public.tree import MOST_STATES, PublicTree

LargeGame = PublicTree | Goofspiel


def states_of(game: str) -> int | None:
    """Return how many information states such a game has; None for any other."""
    bids = goofspiel_of(game)
    return liars_dice.states_of(game) if bids is None else bids.information_states


def large_game(game: str, most: int = MOST_STATES) -> LargeGame | None:
    """Return the game in arrays; None for one that this module does not know or that has more than ``most`` states."""
    states = states_of(game)
    if states is None or states > most:
        return None
    return goofspiel_of(game) or liars_dice.tree_of(game)
