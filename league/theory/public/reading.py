"""Asking a player at every information state of a public tree, in batches, with positions that share a beginning side
by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from games.openspiel.game import OpenSpielGame
from games.spec import ChoiceGame
from league.theory.public.from_openspiel import dealt
from league.theory.public.tree import CHANCE, NOWHERE, Floats, Integers, PublicTree

FIRST_BATCH, BATCH = 1024, 32_768  # information states that are asked at once, at first and at most
QUICK = 5.0  # seconds; a batch that takes less is followed by one of twice its size
Position = tuple[int, ChoiceGame]  # (seat, a position in which it is that seat's turn)
Hands = tuple[tuple[OpenSpielGame, ...], tuple[OpenSpielGame, ...]]  # by seat and hand: a match that has come here


def read_policy(
    tree: PublicTree,
    distributions: Callable[[Sequence[Position]], Sequence[Sequence[float]]],
    tell: Callable[[int], object] = lambda asked: None,
    begun: tuple[Floats, int] | None = None,
) -> Floats:
    """Return a player's policy over a tree; hands that a public card rules out keep the uniform one.

    ``distributions`` maps positions (which it must not change) to probabilities over ``game.legal_ids()``, in that
    order; it is asked once for each information state. ``tell`` gets the number that was asked, after every batch.
    With ``begun``, a policy and how many states ``tell`` was given for it, that policy is filled from there.  # [N, H]
    """
    policy, known = begun or (tree.uniform(), 0)
    asked, size = 0, FIRST_BATCH
    batch: list[tuple[int, int, Position]] = []  # (position, hand, what is asked)
    first = _first_children(tree)

    def ask() -> None:
        nonlocal asked, size
        before = time.monotonic()
        answers = distributions([question for _, _, question in batch])
        for (node, hand, (_, game)), answer in zip(batch, answers, strict=True):
            by_action = dict(zip(game.legal_ids(), answer, strict=True))
            children = slice(first[node], first[node] + len(by_action))
            policy[children, hand] = [by_action[action] for action in tree.action[children].tolist()]
        asked += len(batch)
        batch.clear()
        tell(asked)
        if time.monotonic() - before < QUICK:
            size = min(2 * size, BATCH)

    for asking in _questions(tree, first):
        if asked < known:  # the walk is the same
            asked += 1
            continue
        batch.append(asking)
        if len(batch) >= size:
            ask()
    if batch:
        ask()
    return policy


def first_positions(tree: PublicTree) -> Iterator[Position]:
    """Yield the information states in the order of ``read_policy``."""
    return (position for _, _, position in _questions(tree, _first_children(tree)))


def asker(
    tree: PublicTree, distributions: Callable[[Sequence[Position]], Sequence[Sequence[float]]]
) -> Callable[[Integers, Integers], list[Floats]]:
    """Return a function of positions and hands of who moves there, which asks a player as ``read_policy`` does.

    It returns the chances of each position's children.  # [Q], [Q] -> [Q][children]
    """
    match = _Matches(tree)
    first, counts = _first_children(tree), np.bincount(tree.parent[1:], minlength=tree.positions)

    def ask(nodes: Integers, hands: Integers) -> list[Floats]:
        found = []
        for begin in range(0, len(nodes), BATCH):
            part = nodes[begin : begin + BATCH].tolist()
            asked = [match.at(*pair) for pair in zip(part, hands[begin : begin + BATCH].tolist(), strict=True)]
            for node, (_, game), answer in zip(part, asked, distributions(asked), strict=True):
                by_action = dict(zip(game.legal_ids(), answer, strict=True))
                moves = tree.action[first[node] : first[node] + counts[node]].tolist()
                found.append(np.array([by_action[action] for action in moves]))
        return found

    return ask


class _Matches:
    """Matches at the positions of a tree, each played from its deal."""

    def __init__(self, tree: PublicTree) -> None:
        self._tree = tree
        self._deals: dict[tuple[int, int], list[Any]] = {}  # by seat and hand
        for hands, state in dealt(tree.game)[1].items():
            for seat in (0, 1):
                self._deals.setdefault((seat, hands[seat]), []).append(state)

    def at(self, node: int, hand: int) -> Position:
        """Return who moves in a position, and a match that came there with that hand. Raises ValueError for none."""
        tree, seat, path = self._tree, int(self._tree.seat[node]), list[int]()
        while node:
            path.append(int(tree.action[node]))
            node = int(tree.parent[node])
        for deal in self._deals[seat, hand]:
            state = deal.clone()
            if all(_applied(state, action) for action in reversed(path)):
                return seat, OpenSpielGame.from_state(tree.game, state)
        raise ValueError(f"no deal of {tree.game} comes to this position with hand {hand} of seat {seat}")


def _applied(state: Any, action: int) -> bool:
    """Apply an action if it is legal: a card that was dealt cannot be drawn."""
    legal = action in state.legal_actions()
    if legal:
        state.apply_action(action)
    return legal


def _questions(tree: PublicTree, first: np.ndarray) -> Iterator[tuple[int, int, Position]]:
    """Yield (position, hand, what is asked) for each information state, such that beginnings are shared."""
    if not np.any((tree.seat == CHANCE) & (tree.ending == NOWHERE)):
        for node, seat, games in _in_depth(tree, first):
            yield from ((node, hand, (seat, game)) for hand, game in enumerate(games[seat]))
        return
    matches, going = _Matches(tree), tree.ending == NOWHERE
    for seat in (0, 1):
        held = tree.possible(seat) & (going & (tree.seat == seat))[:, None]
        for hand in range(held.shape[1]):
            for node in np.flatnonzero(held[:, hand]).tolist():
                yield node, hand, matches.at(node, hand)


def _first_children(tree: PublicTree) -> np.ndarray:
    """Return where the children of each position begin; NOWHERE where it has none."""  # [N]
    first = np.full(tree.positions, NOWHERE)
    for positions, children in tree.families():
        first[positions] = children.start + tree.first_children(children)
    return first


def _in_depth(tree: PublicTree, first: np.ndarray) -> Iterator[tuple[int, int, Hands]]:
    """Yield each position where a seat moves, whose turn it is, and a match that came there for each hand.

    Without public cards all hands come everywhere.
    """
    counts = np.bincount(tree.parent[1:], minlength=tree.positions)
    seats, going = tree.seat.tolist(), (tree.ending == NOWHERE).tolist()
    waiting = [(0, _roots(tree))]
    while waiting:
        node, games = waiting.pop()
        yield node, seats[node], games
        for child in range(first[node], first[node] + counts[node]):
            if going[child]:
                action = int(tree.action[child])
                first_seat = _moved(games[0], action)
                second_seat = first_seat if games[1] is games[0] else _moved(games[1], action)
                waiting.append((child, (first_seat, second_seat)))


def _roots(tree: PublicTree) -> Hands:
    """Return for each hand of each seat a match in which it has just been dealt.

    Where both can hold the same, it is the same for both, and so are the matches that come after it.
    """
    hands, deals, _ = dealt(tree.game)
    if hands[0] == hands[1] and all((hand, hand) in deals for hand in range(len(hands[0]))):
        alike = tuple(OpenSpielGame.from_state(tree.game, deals[hand, hand]) for hand in range(len(hands[0])))
        return alike, alike
    by_hand: tuple[dict[int, OpenSpielGame], dict[int, OpenSpielGame]] = ({}, {})
    for pair, state in deals.items():
        for seat in (0, 1):
            by_hand[seat].setdefault(pair[seat], OpenSpielGame.from_state(tree.game, state))
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
