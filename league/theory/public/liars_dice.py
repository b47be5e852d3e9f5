"""The public tree of liar's dice for two, with any numbers of dice and faces, as OpenSpiel plays it.

A history is the set of bids that were made, as each is higher than the last, and who moves is whether their number is
even. So with B bids there are 2^B positions in which somebody moves. A hand is what the dice came to, by face.
"""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb, factorial, prod

import numpy as np

from games.openspiel.game import load_pyspiel
from league.theory.exact.states import is_native
from league.theory.public.tree import NOWHERE, Floats, PublicTree


def states_of(game: str) -> int | None:
    """Return how many information states a game of liar's dice for two has; None for any other game."""
    dice = _liars_dice(game)
    if dice is None:
        return None
    count, faces = dice
    hands = comb(count + faces - 1, count)
    return int(hands * 2 ** min(2 * count * faces, 200))  # which is far too many


def tree_of(game: str) -> PublicTree:
    """Return the tree of a game that ``states_of`` counts."""
    dice = _liars_dice(game)
    assert dice is not None, f"{game} is not liar's dice for two"
    return liars_dice(*dice)


def _liars_dice(game: str) -> tuple[int, int] | None:
    """Return the numbers of dice and faces, if the game is liar's dice for two by the usual rule of bids."""
    if is_native(game):
        return None
    loaded = load_pyspiel(game)
    given = loaded.get_parameters()
    if loaded.get_type().short_name != "liars_dice" or loaded.num_players() != 2:
        return None
    if given.get("bidding_rule", "reset-face") != "reset-face":
        return None
    return int(given.get("numdice", 1)), int(given.get("dice_sides", 6))


def liars_dice(dice: int, faces: int) -> PublicTree:
    """Return the tree; with B = 2 · dice · faces it has some 2^(B + 1) positions."""
    bids = 2 * dice * faces
    hands = list(itertools.combinations_with_replacement(range(1, faces + 1), dice))
    nobody = np.full(1, NOWHERE)
    parents, actions, seats, endings, levels = [nobody], [nobody], [np.zeros(1, int)], [nobody], [0, 1]
    highest, mover = np.full(1, -1), 0  # the last bid of each position of a level; ``bids`` where it was called
    while True:
        going = np.flatnonzero(highest < bids)
        counts = bids - 1 - highest[going] + (highest[going] >= 0)  # higher bids and, if anything was bid, the call
        if not counts.sum():
            break
        row = np.repeat(going, counts)
        rank = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        move = highest[row] + 1 + rank
        called = move == bids
        parents.append(levels[-2] + row)
        actions.append(move)
        endings.append(np.where(called, 2 * highest[row] + mover, NOWHERE))
        mover = 1 - mover
        seats.append(np.full(len(row), mover))
        levels.append(levels[-1] + len(row))
        highest = move
    numbered = [np.concatenate(part).astype(np.intp) for part in (parents, actions, seats, endings)]
    chances, returns = _endings(hands, dice, faces)
    names = tuple("".join(map(str, hand)) for hand in hands)
    return PublicTree(
        f"liars_dice(dice_sides={faces},numdice={dice})",
        (names, names),
        parent=numbered[0],
        action=numbered[1],
        seat=numbered[2],
        ending=numbered[3],
        levels=np.array(levels, dtype=np.intp),
        chances=chances,
        returns=returns,
    )


def _endings(hands: list[tuple[int, ...]], dice: int, faces: int) -> tuple[Floats, Floats]:
    """Return the chance of hands, and seat 0's return where a seat calls a bid."""  # [2 B, H, H] both
    chances = np.array([factorial(dice) / prod(map(factorial, Counter(hand).values())) / faces**dice for hand in hands])
    returns = np.empty((4 * dice * faces, len(hands), len(hands)))
    for bid in range(2 * dice * faces):
        quantity, face = bid // faces + 1, bid % faces + 1
        held = np.array([sum(die in (face, faces) for die in hand) for hand in hands])  # the highest face is wild
        true = held[:, None] + held[None, :] >= quantity
        for caller in (0, 1):
            wins = true if caller == 1 else ~true  # seat 0 bid and it is true, or it called and it is not
            returns[2 * bid + caller] = np.where(wins, 1.0, -1.0)
    return np.broadcast_to(np.outer(chances, chances), returns.shape), returns
