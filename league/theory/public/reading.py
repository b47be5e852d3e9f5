"""Asking a player at every information state of a public tree, in batches, positions that begin alike side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from games.openspiel.game import OpenSpielGame
from games.spec import ChoiceGame
from league.theory.public.from_openspiel import dealt
from league.theory.public.tree import CHANCE, NOWHERE, Floats, PublicTree

BATCH = 4096  # information states that are asked at once
Position = tuple[int, ChoiceGame]  # (seat, a position in which it is that seat's turn)
Hands = tuple[tuple[OpenSpielGame, ...], tuple[OpenSpielGame, ...]]  # by seat and hand: a match that has come here


def read_policy(
    tree: PublicTree,
    distributions: Callable[[Sequence[Position]], Sequence[Sequence[float]]],
    tell: Callable[[int], object] = lambda asked: None,
) -> Floats:
    """Return a player's policy over a tree without public chance.

    ``distributions`` maps positions (which it must not change) to probabilities over ``game.legal_ids()``, in that
    order; it is asked once for each information state. ``tell`` gets the number that was asked, now and then.  # [N, H]
    """
    policy = tree.uniform()
    asked = 0
    batch: list[tuple[int, int, Position]] = []  # (position, hand, what is asked)
    first = _first_children(tree)

    def ask() -> None:
        nonlocal asked
        answers = distributions([question for _, _, question in batch])
        for (node, hand, (_, game)), answer in zip(batch, answers, strict=True):
            by_action = dict(zip(game.legal_ids(), answer, strict=True))
            children = slice(first[node], first[node] + len(by_action))
            policy[children, hand] = [by_action[action] for action in tree.action[children].tolist()]
        asked += len(batch)
        batch.clear()
        tell(asked)

    for node, seat, games in _in_depth(tree, first):
        batch.extend((node, hand, (seat, game)) for hand, game in enumerate(games[seat]))
        if len(batch) >= BATCH:
            ask()
    if batch:
        ask()
    return policy


def _first_children(tree: PublicTree) -> np.ndarray:
    """Return where the children of each position begin; NOWHERE where it has none."""  # [N]
    first = np.full(tree.positions, NOWHERE)
    for positions, children in tree.families():
        first[positions] = children.start + tree.first_children(children)
    return first


def _in_depth(tree: PublicTree, first: np.ndarray) -> Iterator[tuple[int, int, Hands]]:
    """Yield each position where a seat moves, whose turn it is, and a match that came there for each hand."""
    if np.any((tree.seat == CHANCE) & (tree.ending == NOWHERE)):
        raise ValueError(f"{tree.game} draws public cards, which this walk does not follow")
    counts = np.bincount(tree.parent[1:], minlength=tree.positions)
    seats, going = tree.seat.tolist(), (tree.ending == NOWHERE).tolist()
    waiting = [(0, _roots(tree))]
    while waiting:
        node, games = waiting.pop()
        yield node, seats[node], games
        for child in range(first[node], first[node] + counts[node]):
            if going[child]:
                action = int(tree.action[child])
                waiting.append((child, (_moved(games[0], action), _moved(games[1], action))))


def _roots(tree: PublicTree) -> Hands:
    """Return for each hand of each seat a match in which it has just been dealt."""
    _, deals, _ = dealt(tree.game)
    by_hand: tuple[dict[int, OpenSpielGame], dict[int, OpenSpielGame]] = ({}, {})
    for hands, state in deals.items():
        for seat in (0, 1):
            by_hand[seat].setdefault(hands[seat], OpenSpielGame.from_state(tree.game, state))
    first, second = (tuple(found[hand] for hand in range(len(found))) for found in by_hand)
    return first, second


def _moved(games: tuple[OpenSpielGame, ...], action: int) -> tuple[OpenSpielGame, ...]:
    """Return the matches after a move, which is legal and means the same in all."""
    moved = []
    for game in games:
        choices = game.actions()
        after = game.copy()
        after.apply(choices.labels[choices.ids.index(action)])
        moved.append(after)
    return tuple(moved)
