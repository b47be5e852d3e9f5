"""Dark hex and phantom tic-tac-toe as OpenSpiel plays them, exactly: values, exploitability of a policy, equilibria.

A seat sees its own stones, and one of the other's once it has tried to play there ("reveal-nothing"). In the classical
game it then tries again; in the abrupt one its turn is over. What a seat knows is the sequence of its own tries. In
3 × 3 cells there are about 10^10 histories, and yet an order of stones and two sequences of tries that fit say all of a
match (``dark_passes.py``), so a walk costs the number of pairs of an order and one seat's sequence: about 10^8.
OpenSpiel's strings of a classical game also count the other's failed tries, which the game does not reveal.

The loops need numba (BSD licence; ``pip install "llm-league[compiled]"``), and not an extension in C++, which would
need a wheel for each Python and system.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import LazyLoader, find_spec, module_from_spec
from math import perm
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from games.common.errors import UsageError
from games.openspiel.game import load_pyspiel
from league.theory.exact.states import is_native
from league.theory.public.tree import Floats


def _loops() -> ModuleType | None:
    """Return the loops, which are imported when one is first used, as numba takes half a second; None without numba."""
    spec = find_spec("league.theory.public.dark_passes")
    if find_spec("numba") is None or spec is None or spec.loader is None:
        return None
    spec.loader = LazyLoader(spec.loader)
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from league.theory.public import dark_passes as passes
else:
    passes = _loops()

MOST_CELLS = 9
NO_NUMBA = "{} is solved by compiled loops, which need numba, and it is not installed. Type: pip install numba"
Policies = tuple[Floats, Floats]  # by seat, the chance of each edge of its trie  # [E]


class DarkBoard(NamedTuple):
    """A game and both seats' information states."""

    name: str  # OpenSpiel's
    rules: passes.Rules
    tries: tuple[passes.Trie, passes.Trie]

    @property
    def information_states(self) -> int:
        """The number of information states of both seats."""
        return int(self.tries[0].size[0] + self.tries[1].size[0])

    @property
    def table_bytes(self) -> int:
        """The size of both tries."""
        return sum(part.nbytes for trie in self.tries for part in trie)

    def edges(self, seat: int) -> int:
        """Return the length of a policy of a seat's."""
        return int(self.tries[seat].size[1])

    def uniform(self) -> Policies:
        """Return the policies that try every cell that was not tried, with equal probability."""
        first, second = (np.repeat(1.0 / widths(trie), widths(trie)) for trie in self.tries)
        return first, second

    def drawn(self, rng: np.random.Generator) -> Policies:
        """Return random policies: at each information state, from the even distribution over all of them."""
        found = []
        for trie in self.tries:
            weights = rng.exponential(size=int(trie.size[1]))
            found.append(weights / np.repeat(np.add.reduceat(weights, trie.first), widths(trie)))
        return found[0], found[1]


class BoardShape(NamedTuple):
    """Which game it is, of how many cells."""

    name: str  # OpenSpiel's short one
    rows: int
    columns: int
    abrupt: bool

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def tells_tries(self) -> bool:
        """Whether OpenSpiel's text tells a seat how often the other failed, which the game does not reveal."""
        return self.name == "dark_hex" and not self.abrupt


def shape_of(game: str) -> BoardShape | None:
    """Return the shape of a game of this module; None for any other."""
    if is_native(game):
        return None
    loaded = load_pyspiel(game)
    given = loaded.get_parameters()
    name = loaded.get_type().short_name
    if name not in ("dark_hex", "phantom_ttt") or given.get("obstype") != "reveal-nothing":
        return None
    rows, columns = (3, 3) if name == "phantom_ttt" else (int(given["num_rows"]), int(given["num_cols"]))
    if rows * columns > MOST_CELLS:
        return None
    return BoardShape(name, rows, columns, given.get("gameversion") in ("adh", "abrupt"))


def dark_board(game: str) -> DarkBoard | None:
    """Return the game of an OpenSpiel name, all its information states found; None for a game not of this module.

    Raises UsageError without numba.
    """
    shape = shape_of(game)
    if shape is None:
        return None
    if passes is None:
        raise UsageError(NO_NUMBA.format(game))
    return _built(game, shape)


@lru_cache(maxsize=1)
def _built(game: str, shape: BoardShape) -> DarkBoard:
    name, rows, columns, abrupt = shape
    wins = np.array([[_wins(name, rows, columns, s, b) for b in range(1 << rows * columns)] for s in (0, 1)])
    cells = shape.cells
    rank = [[(held & ((1 << cell) - 1)).bit_count() for cell in range(cells)] for held in range(1 << cells)]
    rules = passes.Rules(cells, abrupt, _room(cells), wins, np.array(rank, np.int8))
    return DarkBoard(game, rules, _information_states(rules))


def mixture(board: DarkBoard, seat: int, members: Sequence[tuple[Floats, float]]) -> Floats:
    """Return the behaviour of a seat that draws one of several policies for each match (Kuhn's theorem).  # [E]"""
    if len(members) == 1:
        return members[0][0]
    trie, reached = board.tries[seat], np.zeros(board.edges(seat))
    even, one = np.zeros_like(reached), np.zeros_like(reached)
    for policy, weight in members:
        passes.reaches(trie, policy, one)
        reached += weight * one
        even += weight * policy
    sums = np.repeat(np.add.reduceat(reached, trie.first), widths(trie))
    weights = sum(weight for _, weight in members)
    return np.where(sums > 0.0, reached / np.where(sums > 0.0, sums, 1.0), even / weights)


def value(board: DarkBoard, policies: Policies) -> float:
    """Return what the first seat earns by these policies, in wins less losses a match."""
    return float(passes.walk(board.rules, board.tries, _reaches(board, policies), passes.NOBODY, np.zeros(0))[0])


def best_responses(board: DarkBoard, policies: Policies) -> tuple[float, float]:
    """Return the most that either seat can expect against the other's policy."""
    return _answers(board, _reaches(board, policies))


def exploitability(board: DarkBoard, policies: Policies) -> float:
    """Return the mean over seats of what a best response gains, in wins less losses a match."""
    return sum(best_responses(board, policies)) / 2.0


class Solved(NamedTuple):
    """The result of CFR+ after a number of iterations: the value to the first seat lies between ``low`` and
    ``high``.
    """

    iterations: int
    low: float
    high: float


def solve(board: DarkBoard, iterations: int, every: int) -> Iterator[Solved]:
    """Yield bounds of the game's value at intervals of predictive CFR+ iterations. Seats learn in turns, and iteration
    t has weight t^4 in their averages. The bounds are the worst cases of the average policies or the newest, whichever
    were the best so far, so they hold at any time.
    """
    policies = board.uniform()
    regrets, summed, reach, gained = ([np.zeros(len(policy)) for policy in policies] for _ in range(4))
    for trie, policy, reached in zip(board.tries, policies, reach, strict=True):
        passes.reaches(trie, policy, reached)
    total, low, high = 0.0, -np.inf, np.inf
    for iteration in range(1, iterations + 1):
        share = float(iteration**4)
        total += share
        for seat, trie in enumerate(board.tries):
            gained[seat][:] = 0.0
            passes.walk(board.rules, board.tries, (reach[0], reach[1]), seat, gained[seat])
            passes.learn(trie, gained[seat], policies[seat], regrets[seat], summed[seat], reach[seat], share)
            passes.reaches(trie, policies[seat], reach[seat])
        if iteration % every == 0:
            for played in ((summed[0] / total, summed[1] / total), (reach[0], reach[1])):
                first, second = _answers(board, played)
                low, high = max(low, -second), min(high, first)
            yield Solved(iteration, low, high)


def is_compiled() -> bool:
    """Return whether the loops can be had."""
    return passes is not None


def gains(board: DarkBoard, seat: int, others: Floats) -> Floats:
    """Return what a seat earns where a match ends after an edge of its, times the other's reach, ``others`` [E']."""
    found, own = np.zeros(board.edges(seat)), np.zeros(board.edges(seat))
    passes.walk(board.rules, board.tries, (own, others) if seat == 0 else (others, own), seat, found)
    return found


def response(board: DarkBoard, seat: int, learned: Floats, scored: Floats | None = None) -> float:
    """Return what a best response to the gains ``learned`` earns with them, or with the gains ``scored``."""
    trie = board.tries[seat]
    return float(passes.best_response(trie, learned) if scored is None else passes.answer_to(trie, learned, scored))


def _answers(board: DarkBoard, reach: Policies) -> tuple[float, float]:
    """Return ``best_responses`` from the policies' reaches [E] by seat."""
    first, second = (response(board, seat, gains(board, seat, reach[1 - seat])) for seat in (0, 1))
    return first, second


def _reaches(board: DarkBoard, policies: Policies) -> Policies:
    reach = (np.zeros(len(policies[0])), np.zeros(len(policies[1])))
    for trie, policy, reached in zip(board.tries, policies, reach, strict=True):
        passes.reaches(trie, policy, reached)
    return reach


def widths(trie: passes.Trie) -> np.ndarray:
    """Return how many tries are legal at each node.  # [I]"""
    return np.diff(trie.first, append=np.int32(trie.size[1]))


def _information_states(rules: passes.Rules) -> tuple[passes.Trie, passes.Trie]:
    """Return both seats' tries, found by walks that restart with more room until there is enough."""
    nodes, tries = 1 << 10, (_root(rules.cells, 0), _root(rules.cells, 1))
    while True:
        tries = (_enlarged(tries[0], nodes), _enlarged(tries[1], nodes))
        none = tuple(np.zeros(len(trie.placed)) for trie in tries)
        if passes.walk(rules, tries, none, passes.NOBODY, np.zeros(0))[1]:
            return _enlarged(tries[0], 0), _enlarged(tries[1], 0)
        nodes *= 2


def _root(cells: int, seat: int) -> passes.Trie:
    """Return a trie of the root alone, to which one stone on the first cell leads the second seat."""
    first, nothing, size = np.zeros(1, np.int32), np.full(cells, -1, np.int32), np.array([1, cells])
    return passes.Trie(first + (1 << cells) - 1, first, first - 1, nothing, nothing.copy(), np.array([seat]), size)


def _enlarged(trie: passes.Trie, nodes: int) -> passes.Trie:
    """Return a trie with room for this many nodes and four edges each; never less than what it holds."""
    held, edges = (int(size) for size in trie.size)
    more, wide = max(held, nodes), max(edges, 4 * nodes)

    def with_room(part: np.ndarray, used: int, size: int, empty: int) -> np.ndarray:
        return np.concatenate([part[:used], np.full(size - used, empty, part.dtype)])

    return passes.Trie(
        untried=with_room(trie.untried, held, more, 0),
        first=with_room(trie.first, held, more, 0),
        parent=with_room(trie.parent, held, more, 0),
        placed=with_room(trie.placed, edges, wide, -1),
        taken=with_room(trie.taken, edges, wide, -1),
        course=with_room(trie.course, held, more, 0),
        size=trie.size,
    )


def _room(cells: int) -> int:
    """Return the most sequences of tries that fit one order of stones."""
    fitting = Counter({0: 1})  # by how many of the other's stones were not tried
    for _ in range((cells + 1) // 2):
        tried: Counter[int] = Counter()
        for left, many in fitting.items():
            for k in range(left + 2):
                tried[left + 1 - k] += many * perm(left + 1, k)
        fitting = tried
    return fitting.total()


def _wins(name: str, rows: int, columns: int, seat: int, stones: int) -> bool:
    """Return whether a seat's stones have won: three in a line, or a path between the seat's two sides of the board."""
    held = {divmod(cell, columns) for cell in range(rows * columns) if stones >> cell & 1}
    if name == "phantom_ttt":
        lines = [[(i, j) for j in range(3)] for i in range(3)] + [[(j, i) for j in range(3)] for i in range(3)]
        lines += [[(i, i) for i in range(3)], [(i, 2 - i) for i in range(3)]]
        return any(held.issuperset(line) for line in lines)
    across = seat  # seat 0 joins the top and the bottom, seat 1 the left and the right
    waiting = [cell for cell in held if cell[across] == 0]
    joined = set(waiting)
    while waiting:
        row, column = waiting.pop()
        for step in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)):
            cell = (row + step[0], column + step[1])
            if cell in held and cell not in joined:
                joined.add(cell)
                waiting.append(cell)
    return any(cell[across] == (rows, columns)[across] - 1 for cell in joined)
