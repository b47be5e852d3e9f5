"""Asking a player at every information state of a dark board game, and at some of them.

A seat's view is its board and the order of its tries. States of one board stand beside each other, and boards that
begin alike, so that the texts of neighbours share their beginnings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from games.openspiel.game import OpenSpielGame, load_pyspiel
from games.spec import ChoiceGame
from league.theory.public.dark_boards import DarkBoard, widths
from league.theory.public.tree import Floats, Integers

if TYPE_CHECKING:
    from league.theory.public.dark_passes import Trie

FIRST_BATCH, BATCH = 1024, 32_768  # information states that are asked at once, at first and then
Position = tuple[int, ChoiceGame]  # (seat, a position in which it is that seat's turn)
Distributions = Callable[[Sequence[Position]], Sequence[Sequence[float]]]


def positions(board: DarkBoard, seat: int, first: int = 0) -> Iterator[tuple[int, Position]]:
    """Yield each information state of a seat from the ``first`` on, its node and a match that has come there."""
    match = _Matches(board, seat)
    for node in match.order[first:].tolist():
        yield node, match.at(node)


def typical_positions(board: DarkBoard) -> Iterator[Position]:
    """Yield positions of the first seat from the middle on, which are about as long as most."""
    return (position for _, position in positions(board, 0, len(board.tries[0].first) // 2))


def read_policy(
    board: DarkBoard,
    seat: int,
    distributions: Distributions,
    tell: Callable[[int], object] = lambda asked: None,
    begun: tuple[Floats, int] | None = None,
) -> Floats:
    """Return a player's policy in a seat; arguments are as of ``reading.read_policy``.  # [E]"""
    policy, asked = begun or (board.uniform()[seat], 0)
    trie, size = board.tries[seat], FIRST_BATCH
    waiting = positions(board, seat, asked)
    while part := list(itertools.islice(waiting, size)):
        answers = distributions([position for _, position in part])
        for (node, _), answer in zip(part, answers, strict=True):
            policy[trie.first[node] : trie.first[node] + len(answer)] = answer  # legal ids are the cells, ascending
        asked += len(part)
        size = BATCH
        tell(asked)
    return policy


def asker(board: DarkBoard, distributions: Distributions) -> Callable[[int, Integers], list[Sequence[float]]]:
    """Return a function of a seat and nodes of its trie, which returns the chances of each node's edges."""
    matches = [_Matches(board, seat) for seat in (0, 1)]

    def ask(seat: int, nodes: Integers) -> list[Sequence[float]]:
        found: list[Sequence[float]] = []
        for begin in range(0, len(nodes), BATCH):
            found += distributions([matches[seat].at(node) for node in nodes[begin : begin + BATCH].tolist()])
        return found

    return ask


class LastTries(NamedTuple):
    """What leads to each node of a trie; nothing, 0, leads to the root."""

    above: Integers  # [I]
    cell: Integers  # that was tried  # [I]
    placed: np.ndarray  # whether the stone was placed  # [I]


def steps(trie: Trie) -> LastTries:
    """Return what leads to each node."""
    owner = np.repeat(np.arange(len(trie.first)), widths(trie))  # of each edge
    rank = np.arange(len(owner)) - trie.first[owner]
    cell = np.zeros(len(owner), np.intp)
    before = np.zeros(len(owner), np.intp)  # legal cells below the one that is looked at
    for tried in range(int(trie.untried[0]).bit_length()):
        legal = trie.untried[owner] >> tried & 1
        cell[(legal == 1) & (before == rank)] = tried
        before += legal
    above, own = trie.parent.copy(), slice(1, None)
    above[0] = 0
    placed = trie.placed[above] == np.arange(len(above))
    placed[0] = False
    found = LastTries(owner[above], cell[above], placed)
    found.above[0] = 0
    assert np.all(placed[own] | (trie.taken[above[own]] == np.arange(1, len(above))))
    return found


class _Matches:
    """Matches that have come to the nodes of one seat, in ``order``: by board, then as they were found."""

    def __init__(self, board: DarkBoard, seat: int) -> None:
        self._seat, self._rules, trie = seat, board.rules, board.tries[seat]
        self._name, self._loaded = board.name, load_pyspiel(board.name)
        found = steps(trie)
        self._above, self._cell, self._placed = (part.tolist() for part in found)
        self._course = trie.course.tolist()
        view = np.zeros(len(trie.first), np.intp)
        place = 3 ** np.arange(board.rules.cells)[::-1]  # the first cell counts most
        node = np.arange(len(view))
        while node.any():
            view += np.where(node > 0, place[found.cell[node]] * np.where(found.placed[node], 1, 2), 0)
            node = found.above[node]
        self.order: Integers = np.argsort(view, kind="stable")

    def at(self, node: int) -> Position:
        """Return the seat, and a match in which it has come to a node."""
        tries = []
        own = node
        while own:
            tries.append(self._cell[own])
            own = self._above[own]
        state = self._loaded.new_initial_state()
        for move in self._moves(self._turns(self._course[node]), tries):
            state.apply_action(move)
        return self._seat, OpenSpielGame.from_state(self._name, state)

    def _turns(self, code: int) -> list[int]:
        """Return where the stone of each turn was placed; C: the try failed."""
        turns = []
        while code:
            code, digit = divmod(code, self._rules.cells + 2)
            turns.append(digit - 1)
        return turns[::-1]

    def _moves(self, turns: list[int], tries: list[int]) -> Iterator[int]:
        """Yield the moves of both seats; ``tries``, the seat's own, are used up from the end."""
        stones: tuple[set[int], set[int]] = (set(), set())
        known: set[int] = set()  # the seat's stones that the other has tried
        for turn, cell in enumerate(turns):
            mover = turn & 1
            failed = cell == self._rules.cells
            if mover == self._seat:
                yield (tried := tries.pop())
                while not self._rules.abrupt and tried != cell:
                    yield (tried := tries.pop())
            elif failed:  # any stone that it does not know
                tried = min(stones[self._seat] - known)
                known.add(tried)
                yield tried
            else:
                yield cell
            if not failed:
                stones[mover].add(cell)
        yield from reversed(tries)
