"""A search for the text that costs a player most, in the tree of ``games.wrappers.injections``.

After AgentVigil (Wang et al. 2025, arXiv:2505.05849): seeds are mutated, and chosen by UCT (Kocsis and Szepesvari 2006)
on the gains of each and its mutants so far. All seeds are tried first; then the search walks down from the best seed,
and tries a new mutation of the text at which it stops.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from games.wrappers.injections import MUTATIONS, SEEDS, WISHES, Injection

EXPLORATION = 0.7  # in units of the greatest loss so far
DEEPEST = 4  # mutations on the way to a text


@dataclass(slots=True)
class _Node:
    """A text that was tried, with the gains of it and all texts below it."""

    text: Injection
    left: list[int]  # mutations that were not tried, in the order of trying
    total: float = 0.0
    visits: int = 0
    children: list[_Node] = field(default_factory=list)


class InjectionSearch:
    """Tries one text after another; the same seed and losses give the same texts."""

    def __init__(self, loss_of: Callable[[int], float], seed: int) -> None:
        """``loss_of`` measures the loss by the text with a given number."""
        self._loss_of, self._rng = loss_of, random.Random(seed)
        roots = [Injection(number, wish, ()) for number in range(len(SEEDS)) for wish in range(WISHES)]
        self._rng.shuffle(roots)
        self._roots, self._nodes = roots, list[_Node]()
        self._greatest = 1e-9

    def step(self) -> int | None:
        """Try one more text and return its number; None when the whole tree was tried."""
        if self._roots:
            node = self._node(self._roots.pop())
            self._nodes.append(node)
            self._record([node])
            return node.text.number
        path = self._path()
        if path is None:
            return None
        mutation = path[-1].left.pop()
        parent = path[-1].text
        child = self._node(parent._replace(path=(*parent.path, mutation)))
        path[-1].children.append(child)
        self._record([*path, child])
        return child.text.number

    def _node(self, text: Injection) -> _Node:
        mutations = list(range(len(MUTATIONS))) if len(text.path) < DEEPEST else []
        self._rng.shuffle(mutations)
        return _Node(text, mutations)

    def _record(self, path: list[_Node]) -> None:
        loss = self._loss_of(path[-1].text.number)
        self._greatest = max(self._greatest, loss)
        for node in path:
            node.total += max(loss, 0.0)
            node.visits += 1

    def _path(self) -> list[_Node] | None:
        """Return the path to the text to mutate next."""
        path: list[_Node] = []
        nodes = [node for node in self._nodes if _open(node)]
        while nodes:
            visits = sum(node.visits for node in nodes)
            path.append(max(nodes, key=lambda node: self._bound(node, visits)))
            below = [node for node in path[-1].children if _open(node)]
            nodes = [] if path[-1].left and not self._better_below(path[-1], below) else below
        return path or None

    def _bound(self, node: _Node, visits: int) -> float:
        spread = EXPLORATION * self._greatest * math.sqrt(math.log(visits + 1.0) / node.visits)
        return node.total / node.visits + spread

    def _better_below(self, node: _Node, below: list[_Node]) -> bool:
        """Return whether some mutant wins more than any text tried at a node, so that the search continues below it."""
        return any(child.total / child.visits > node.total / node.visits for child in below)


def _open(node: _Node) -> bool:
    return bool(node.left) or any(map(_open, node.children))
