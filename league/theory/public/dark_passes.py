"""The loops of dark board games (``dark_boards.py``), which numba, an optional library, turns into machine code.

A seat's tries form a trie: a node is an information state, an edge a try there, and below an edge stands one node for
"the stone was placed" and one for "the cell was taken". One walk over the orders in which stones are placed serves both
seats: given the order, which tries of the one failed says nothing about the other's, so a match's chance is the
product of two sums, each over a seat's sequences of tries that fit the order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

NOBODY = -1


class Rules(NamedTuple):
    """A board of C cells; sets of cells are bits."""

    cells: int
    abrupt: bool  # a try at a taken cell ends the turn
    room: int  # most sequences of tries that fit one order of stones
    wins: NDArray[np.bool_]  # whether these stones have won  # [2, 2^C]
    rank: NDArray[np.int8]  # how many cells of a set come before a cell  # [2^C, C]


class Trie(NamedTuple):
    """A seat's information states, I nodes with E edges, parents before children; -1: nothing is there."""

    untried: NDArray[np.int32]  # cells that are legal  # [I]
    first: NDArray[np.int32]  # the edge of the lowest of them; the others follow  # [I]
    parent: NDArray[np.int32]  # the edge above  # [I]
    placed: NDArray[np.int32]  # the node after a stone was placed  # [E]
    taken: NDArray[np.int32]  # the node after the cell was taken  # [E]
    size: NDArray[np.int64]  # nodes and edges in use  # [2]


@njit(cache=True)
def _below(rules, trie, table, edge, untried):  # type: ignore[no-untyped-def]
    """Return the node below an edge in ``table``, which is made if it is new; -1: there is no room for it."""
    node = table[edge]
    if node < 0:
        node, first = trie.size
        last = first + rules.rank[untried, rules.cells - 1] + (untried >> (rules.cells - 1))
        if node >= len(trie.first) or last > len(trie.placed):
            return -1
        trie.untried[node], trie.first[node], trie.parent[node] = untried, first, edge
        trie.size[0], trie.size[1] = node + 1, last
        table[edge] = node
    return node


@njit(cache=True)
def walk(rules, tries, reach, own, gains):  # type: ignore[no-untyped-def]
    """Return seat 0's expected return, and whether there was room; walks every order of stones.

    ``reach`` [2][E] is how likely a seat comes to an edge and takes it, as far as it decides. With ``own`` a seat,
    ``gains`` [E] gets what that seat earns where a match ends after an edge of its, times the other's reach. What is
    missing in ``tries`` is added to them.
    """
    turns = 2 * rules.cells + 1
    nodes = np.zeros((turns, rules.room), np.int32)  # at which the seat to move may be
    edges = np.zeros((turns, rules.room), np.int32)  # that it may have taken
    left = np.zeros((turns, rules.room), np.int32)  # what it has not tried then
    count, taken, branch = np.zeros(turns, np.int64), np.zeros(turns, np.int64), np.zeros(turns, np.int64)
    stones = np.zeros((turns + 1, 2), np.int64)  # before the turn
    weight = np.ones(turns + 1)  # weight[k + 1]: the sum of reaches of edges[k]
    value, turn, entering = 0.0, 0, True
    while turn >= 0:
        seat = turn & 1
        trie, reaches, board, other = tries[seat], reach[seat], stones[turn, seat], stones[turn, 1 - seat]
        if entering:
            n = 1
            if turn >= 2:
                n = taken[turn - 2]
                for i in range(n):
                    edge = edges[turn - 2, i]
                    failed = branch[turn - 2] == rules.cells
                    node = _below(rules, trie, trie.taken if failed else trie.placed, edge, left[turn - 2, i])
                    if node < 0:
                        return value, False
                    nodes[turn, i] = node
            else:
                nodes[turn, 0] = 0
            if not rules.abrupt:  # it tries until it has placed a stone
                i = 0
                while i < n:
                    node = nodes[turn, i]
                    untried = trie.untried[node]
                    for cell in range(rules.cells):
                        if (untried & other) >> cell & 1:
                            edge = trie.first[node] + rules.rank[untried, cell]
                            below = _below(rules, trie, trie.taken, edge, untried & ~(1 << cell))
                            if below < 0:
                                return value, False
                            nodes[turn, n] = below
                            n += 1
                    i += 1
            count[turn], branch[turn], entering = n, -1, False
        branch[turn] += 1
        cell = branch[turn]
        if cell > rules.cells or (cell == rules.cells and not rules.abrupt):
            turn -= 1
            continue
        n, total = 0, 0.0
        if cell == rules.cells:  # a try that failed
            for i in range(count[turn]):
                untried = trie.untried[nodes[turn, i]]
                for c in range(rules.cells):
                    if (untried & other) >> c & 1:
                        edge = trie.first[nodes[turn, i]] + rules.rank[untried, c]
                        edges[turn, n], left[turn, n] = edge, untried & ~(1 << c)
                        total += reaches[edge]
                        n += 1
            if n == 0:
                continue
        elif (board | other) >> cell & 1:
            continue
        else:
            board |= 1 << cell
            for i in range(count[turn]):
                node = nodes[turn, i]
                untried = trie.untried[node]
                edge = trie.first[node] + rules.rank[untried, cell]
                edges[turn, i], left[turn, i] = edge, untried & ~(1 << cell)
                total += reaches[edge]
            n = count[turn]
        taken[turn], weight[turn + 1] = n, total
        won = rules.wins[seat, board]
        if not won and (board | other) != (1 << rules.cells) - 1:
            stones[turn + 1, seat], stones[turn + 1, 1 - seat] = board, other
            turn, entering = turn + 1, True
        elif won:
            paid = 1.0 - 2.0 * seat  # to seat 0
            value += paid * total * weight[turn]
            if own == seat:
                for i in range(n):
                    gains[edges[turn, i]] += weight[turn]
            elif own >= 0 and turn > 0:
                for i in range(taken[turn - 1]):
                    gains[edges[turn - 1, i]] -= total
    return value, True


@njit(cache=True)
def reaches(trie, policy, reach):  # type: ignore[no-untyped-def]
    """Write a policy's reach of each edge [E] into ``reach``."""
    for node in range(trie.size[0]):
        before = 1.0 if node == 0 else reach[trie.parent[node]]
        last = trie.size[1] if node + 1 == trie.size[0] else trie.first[node + 1]
        for edge in range(trie.first[node], last):
            reach[edge] = before * policy[edge]


@njit(cache=True)
def best_response(trie, gains):  # type: ignore[no-untyped-def]
    """Return the most that a seat can expect, from its gains [E]."""
    worth = np.zeros(trie.size[0])
    last = trie.size[1]
    for node in range(trie.size[0] - 1, -1, -1):
        best = -np.inf
        for edge in range(trie.first[node], last):
            below = gains[edge]
            if trie.placed[edge] >= 0:
                below += worth[trie.placed[edge]]
            if trie.taken[edge] >= 0:
                below += worth[trie.taken[edge]]
            best = max(best, below)
        worth[node], last = best, trie.first[node]
    return worth[0]


@njit(cache=True)
def learn(trie, gains, policy, regret, summed, reach, share):  # type: ignore[no-untyped-def]
    """Take a step of CFR+ (Tammelin 2014) from a seat's gains [E]: update ``regret`` and ``policy`` [E].

    ``summed`` [E] gets ``share`` times the reach of the policy before the step.
    """
    worth = np.zeros(trie.size[0])
    last = trie.size[1]
    for node in range(trie.size[0] - 1, -1, -1):
        first, mean = trie.first[node], 0.0
        for edge in range(first, last):
            if trie.placed[edge] >= 0:
                gains[edge] += worth[trie.placed[edge]]
            if trie.taken[edge] >= 0:
                gains[edge] += worth[trie.taken[edge]]
            mean += policy[edge] * gains[edge]
            summed[edge] += share * reach[edge]
        total = 0.0
        for edge in range(first, last):
            regret[edge] = max(0.0, regret[edge] + gains[edge] - mean)
            total += regret[edge]
        for edge in range(first, last):
            policy[edge] = regret[edge] / total if total > 0.0 else 1.0 / (last - first)
        worth[node], last = mean, first
