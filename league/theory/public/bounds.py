"""A lower and an upper bound on exploitability from sampled public states, where a whole table would take too long.

Each information state of the opponent's may be replaced by one drawn action: a plan. K plans, drawn independently,
are a mixture σ̂ whose reach probabilities are right in expectation, and it visits few public states. For a best
response b and the value u of playing it (Mak, Morton and Wood 1999, "Monte Carlo bounding techniques"):

* E max_b u(b, σ̂) >= max_b E u(b, σ̂) = max_b u(b, σ): the best response to the plans knows their noise. **Above.**
* E u(b', σ̂) = u(b', σ) <= max_b u(b, σ) for any b' found without these plans. **Below**: b' answers others.

Both are means over independent draws, so they have intervals; the true exploitability lies between them. More plans
bring the two together, and when plans come to every state they meet in the exact figure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from league.theory.public.tree import CHANCE, NOWHERE, Floats, Integers, PublicTree
from league.theory.statistics import Estimate, student_quantile

Ask = Callable[
    [Integers, Integers], Sequence[Floats]
]  # (positions, hands of who moves) [Q] -> chances by child [Q][children]
LEAST_DRAWS = 6  # of an interval
MOST_PLANS = 4096
MOST_CELLS = 100_000_000  # sampled positions times plans times hands: bytes


class Bounds(NamedTuple):
    """Bounds of exploitability with 95 % confidence, in the game's units a match."""

    lower: Estimate  # of a response found from samples
    upper: Estimate  # of the responses that know their samples' noise
    plans: int  # of the opponent's in one draw
    draws: int

    @property
    def low(self) -> float:
        """The lower end, never below 0."""
        return max(0.0, self.lower.low or 0.0)

    @property
    def high(self) -> float:
        """The upper end."""
        return self.upper.high if self.upper.high is not None else math.inf


def bounds(tree: PublicTree, ask: Ask, seconds: float, seed: int = 0, plans: int | None = None) -> Bounds:
    """Return bounds after about this many seconds: plans are doubled until few draws are left, then drawn again.

    With ``plans`` given, ``LEAST_DRAWS`` are drawn whatever they take. Raises ValueError for a tree with public cards.
    """
    if np.any((tree.seat == CHANCE) & (tree.ending == NOWHERE)):
        raise ValueError(f"{tree.game} draws public cards, which plans do not follow")
    return bounds_of(_Sampler(tree, ask, np.random.default_rng(seed)), seconds, plans)


class BoundSampler(Protocol):
    """Draws plans of a game and answers them."""

    cells: int  # memory of the largest draw, in what ``MOST_CELLS`` counts

    def draw(self, plans: int) -> tuple[float, float]:
        """Return one draw of the lower and of the upper bound on exploitability."""
        ...


def bounds_of(sampler: BoundSampler, seconds: float, plans: int | None = None) -> Bounds:
    """Return ``bounds`` from a sampler's draws."""
    begun = time.monotonic()
    number, fits = plans or 1, True
    while plans is None and fits and number < MOST_PLANS:
        before = time.monotonic()
        sampler.draw(number)
        took, left = time.monotonic() - before, seconds - (time.monotonic() - begun)
        fits = 2.5 * took * LEAST_DRAWS < left and 2 * sampler.cells < MOST_CELLS
        number *= 2 if fits else 1
    drawn = [sampler.draw(number)]
    while len(drawn) < LEAST_DRAWS or (plans is None and time.monotonic() - begun < seconds):
        drawn.append(sampler.draw(number))
    lower, upper = (_mean(np.array(column)) for column in zip(*drawn, strict=True))
    return Bounds(lower, upper, number, len(drawn))


def _mean(values: Floats) -> Estimate:
    half = student_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half)


class _Level(NamedTuple):
    """Sampled positions of one depth, in the tree's order."""

    nodes: Integers  # [n]
    parents: Integers  # their places in the level above  # [n]
    alive: NDArray[np.bool_]  # whether a plan comes there with a hand of the opponent's  # [n, 2K, H]


class _Sampler:
    """Draws plans and best responses to them. Answers are kept, so further draws take less time."""

    def __init__(self, tree: PublicTree, ask: Ask, rng: np.random.Generator) -> None:
        self._tree, self._ask, self._rng = tree, ask, rng
        self._counts = np.bincount(tree.parent[1:], minlength=tree.positions)
        self._first = 1 + np.concatenate([[0], np.cumsum(self._counts)[:-1]])  # children stand in their parents' order
        self._known: dict[tuple[int, int], Floats] = {}
        self.cells = 0  # of the largest draw

    def draw(self, plans: int) -> tuple[float, float]:
        """Return one draw of the lower and of the upper bound on exploitability."""
        lower, upper = zip(*(self._answer(seat, plans) for seat in (0, 1)), strict=True)
        return sum(lower) / 2.0, sum(upper) / 2.0

    def _answer(self, seat: int, plans: int) -> tuple[float, float]:
        """Return what a response earns in a seat against 2 · ``plans`` plans of the other seat's."""
        levels = [
            _Level(
                np.zeros(1, np.intp),
                np.full(1, NOWHERE),
                np.ones((1, 2 * plans, len(self._tree.hands[1 - seat])), bool),
            )
        ]
        while len(levels[-1].nodes):
            levels.append(self._below(levels[-1], seat))
        self.cells = max(self.cells, sum(level.alive.size for level in levels))
        values = np.zeros((0, 5, len(self._tree.hands[seat])))
        for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
            values = self._values(level, below.parents, values, seat)
        _first, _second, both, crossed, back = values[0].sum(axis=1)
        return float(crossed + back) / 2.0, float(both)

    def _below(self, level: _Level, seat: int) -> _Level:
        """Return the positions to which a response or a plan leads."""
        tree = self._tree
        going = np.flatnonzero(tree.ending[level.nodes] == NOWHERE)
        counts = self._counts[level.nodes[going]]
        parents = np.repeat(going, counts)
        rank = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        nodes = self._first[level.nodes[parents]] + rank
        theirs = tree.seat[level.nodes] != seat
        choice = np.full(level.alive.shape, -1)
        moving = going[theirs[going]]
        if len(moving):
            choice[moving] = self._choices(level.nodes[moving], level.alive[moving])
        alive = level.alive[parents]
        chosen = theirs[parents]
        alive[chosen] &= choice[parents[chosen]] == rank[chosen, None, None]
        kept = alive.any(axis=(1, 2))
        return _Level(nodes[kept], parents[kept], alive[kept])

    def _choices(self, nodes: Integers, alive: NDArray[np.bool_]) -> Integers:
        """Draw which child each plan takes from a position with each hand.  # [m, 2K, H]"""
        rows, hands = np.nonzero(alive.any(axis=1))
        keys = list(zip(nodes[rows].tolist(), hands.tolist(), strict=True))
        new = [place for place, key in enumerate(keys) if key not in self._known]
        if new:
            answers = self._ask(nodes[rows[new]], hands[new])
            self._known.update((keys[place], np.cumsum(row)) for place, row in zip(new, answers, strict=True))
        choices = np.full(alive.shape, -1)
        drawn = self._rng.random((len(keys), alive.shape[1]))
        for row, hand, key, numbers in zip(rows, hands, keys, drawn, strict=True):
            last = self._counts[key[0]] - 1
            choices[row, :, hand] = np.minimum(np.searchsorted(self._known[key], numbers, side="right"), last)
        return choices

    def _values(self, level: _Level, parents: Integers, below: Floats, seat: int) -> Floats:
        """Return what positions are worth by the response's hand.  # [n, 5, H]

        Against the first K plans, the others, and all, each to their best response; then against the others to the
        first ones' best response, and the other way round.
        """
        tree, plans = self._tree, level.alive.shape[1] // 2
        values = np.zeros((len(level.nodes), *below.shape[1:]))
        endings = tree.ending[level.nodes]
        for kind in np.unique(endings[endings != NOWHERE]):
            ended = np.flatnonzero(endings == kind)
            payoff = tree.returns[kind] * tree.chances[kind]
            payoff = payoff.T if seat == 0 else -payoff  # [H_other, H]
            first, second = (level.alive[ended, part].mean(axis=1) for part in (slice(plans), slice(plans, None)))
            against = np.stack([first, second, (first + second) / 2.0, second, first], axis=1)
            values[ended] = against @ payoff
        if not len(parents):
            return values
        starts = np.flatnonzero(np.r_[True, parents[1:] != parents[:-1]])
        places = parents[starts]
        summed, best = np.add.reduceat(below, starts), np.maximum.reduceat(below, starts)
        for crossed, learned in ((3, 0), (4, 1)):
            taken = below[:, learned] == np.repeat(best[:, learned], np.diff([*starts, len(parents)]), axis=0)
            number = np.where(taken, np.arange(len(parents))[:, None], len(parents))
            child = np.minimum.reduceat(number, starts)  # the first of the best  # [p, H]
            best[:, crossed] = np.take_along_axis(below[:, crossed], child, axis=0)
        own = (tree.seat[level.nodes[places]] == seat)[:, None, None]
        values[places] = np.where(own, best, summed)
        return values
