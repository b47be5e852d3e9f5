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
    course: NDArray[np.int64]  # turns that lead to it, as ``Course.code`` has them  # [I]
    size: NDArray[np.int64]  # nodes and edges in use  # [2]


@njit(cache=True)
def _below(rules, trie, table, edge, untried, code):  # type: ignore[no-untyped-def]
    """Return the node below an edge in ``table``, which is made if it is new; -1: there is no room for it."""
    node = table[edge]
    if node < 0:
        node, first = trie.size
        last = first + rules.rank[untried, rules.cells - 1] + (untried >> (rules.cells - 1))
        if node >= len(trie.first) or last > len(trie.placed):
            return -1
        trie.untried[node], trie.first[node], trie.parent[node] = untried, first, edge
        trie.course[node] = code
        trie.size[0], trie.size[1] = node + 1, last
        table[edge] = node
    return node


class Course(NamedTuple):
    """Where a walk is, turn by turn: T turns, room for R sequences of tries that fit the stones so far."""

    nodes: NDArray[np.int32]  # at which the seat to move may be  # [T, R]
    here: NDArray[np.int64]  # how many these are  # [T]
    edges: NDArray[np.int32]  # that it may have taken  # [T, R]
    left: NDArray[np.int32]  # what it has not tried after each  # [T, R]
    gone: NDArray[np.int64]  # how many these are  # [T]
    branch: NDArray[np.int64]  # the cell where its stone was placed; C: the try failed  # [T]
    stones: NDArray[np.int64]  # before the turn, by seat  # [T, 2]
    code: NDArray[np.int64]  # the branches before the turn, each plus 1, as digits to the base C + 2  # [T]


@njit(cache=True)
def _arrive(rules, trie, course, turn, other):  # type: ignore[no-untyped-def]
    """Write at which nodes the seat to move may be; return whether there was room in its trie."""
    nodes, n, code = course.nodes[turn], 1, course.code[turn]
    nodes[0] = 0
    if turn >= 2:
        n = course.gone[turn - 2]
        table = trie.taken if course.branch[turn - 2] == rules.cells else trie.placed
        for i in range(n):
            nodes[i] = _below(rules, trie, table, course.edges[turn - 2, i], course.left[turn - 2, i], code)
            if nodes[i] < 0:
                return False
    i = 0
    while i < n and not rules.abrupt:  # it tries until it has placed a stone
        untried = trie.untried[nodes[i]]
        for cell in range(rules.cells):
            if (untried & other) >> cell & 1:
                edge = trie.first[nodes[i]] + rules.rank[untried, cell]
                nodes[n] = _below(rules, trie, trie.taken, edge, untried & ~(1 << cell), code)
                if nodes[n] < 0:
                    return False
                n += 1
        i += 1
    course.here[turn] = n
    return True


@njit(cache=True)
def _try(rules, trie, course, turn, branch, other, reach):  # type: ignore[no-untyped-def]
    """Write which edges this branch of a turn leads along, and return the sum of their reaches."""
    n, total = 0, 0.0
    failed = branch == rules.cells
    low, high, cells = (0, branch, other) if failed else (branch, branch + 1, 1 << branch)
    for i in range(course.here[turn]):
        node = course.nodes[turn, i]
        untried = trie.untried[node]
        for cell in range(low, high):
            if (untried & cells) >> cell & 1:
                edge = trie.first[node] + rules.rank[untried, cell]
                course.edges[turn, n], course.left[turn, n] = edge, untried & ~(1 << cell)
                total += reach[edge]
                n += 1
    course.gone[turn] = n
    return total


@njit(cache=True)
def _course(rules):  # type: ignore[no-untyped-def]
    """Return a course at its beginning."""
    turns = 2 * rules.cells + 1
    wide = (turns, rules.room)
    nodes, edges, left = np.zeros(wide, np.int32), np.zeros(wide, np.int32), np.zeros(wide, np.int32)
    counts = np.zeros(turns, np.int64), np.zeros(turns, np.int64), np.full(turns, -1)
    stones, code = np.zeros((turns + 1, 2), np.int64), np.zeros(turns + 1, np.int64)
    return Course(nodes, counts[0], edges, left, counts[1], counts[2], stones, code)


@njit(cache=True)
def walk(rules, tries, reach, own, gains):  # type: ignore[no-untyped-def]
    """Return seat 0's expected return, and whether there was room in the tries; walks every order of stones.

    ``reach`` [2][E] is how likely a seat comes to an edge and takes it, as far as it decides. With ``own`` a seat,
    ``gains`` [E] gets what that seat earns where a match ends after an edge of its, times the other's reach:
    where that is 0, nothing is walked. What is missing in ``tries`` is added to them.
    """
    course, full = _course(rules), (1 << rules.cells) - 1
    weight = np.ones(2 * rules.cells + 2)  # weight[k + 1]: the sum of the reaches of turn k's edges
    value, turn = 0.0, 0
    while turn >= 0:
        seat = turn & 1
        mine, other = course.stones[turn, seat], course.stones[turn, 1 - seat]
        if course.branch[turn] < 0 and not _arrive(rules, tries[seat], course, turn, other):
            return value, False
        course.branch[turn] += 1
        cell = course.branch[turn]
        if cell > rules.cells - (not rules.abrupt):
            course.branch[turn] = -1
            turn -= 1
            continue
        if cell < rules.cells and (mine | other) >> cell & 1:
            continue
        weight[turn + 1] = _try(rules, tries[seat], course, turn, cell, other, reach[seat])
        mine |= (1 << cell) & full
        if rules.wins[seat, mine]:
            value += (1.0 - 2.0 * seat) * weight[turn + 1] * weight[turn]
            if own >= 0:
                last, paid = (turn, weight[turn]) if own == seat else (turn - 1, -weight[turn + 1])
                for i in range(course.gone[last]):
                    gains[course.edges[last, i]] += paid
        elif (mine | other) != full and course.gone[turn] and (own in (seat, NOBODY) or weight[turn + 1] > 0.0):
            course.stones[turn + 1, seat], course.stones[turn + 1, 1 - seat] = mine, other
            course.code[turn + 1] = course.code[turn] * (rules.cells + 2) + cell + 1
            turn += 1
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
def answer_to(trie, learned, scored):  # type: ignore[no-untyped-def]
    """Return what the best response to the gains ``learned`` [E] earns with the gains ``scored`` [E]."""
    worth, score = np.zeros(trie.size[0]), np.zeros(trie.size[0])
    last = trie.size[1]
    for node in range(trie.size[0] - 1, -1, -1):
        best, its = -np.inf, 0.0
        for edge in range(trie.first[node], last):
            below, found = learned[edge], scored[edge]
            if trie.placed[edge] >= 0:
                below += worth[trie.placed[edge]]
                found += score[trie.placed[edge]]
            if trie.taken[edge] >= 0:
                below += worth[trie.taken[edge]]
                found += score[trie.taken[edge]]
            if below > best:
                best, its = below, found
        worth[node], score[node], last = best, its, trie.first[node]
    return score[0]


@njit(cache=True)
def learn(trie, gains, policy, regret, summed, reach, share):  # type: ignore[no-untyped-def]
    """Take a step of predictive CFR+ from a seat's gains [E]: update ``regret`` and ``policy`` [E].

    The next gains are foreseen to be these (Farina, Kroer and Sandholm 2021, arXiv 2007.14358).

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
            gain = gains[edge] - mean
            regret[edge] = max(0.0, regret[edge] + gain)
            policy[edge] = max(0.0, regret[edge] + gain)
            total += policy[edge]
        for edge in range(first, last):
            policy[edge] = policy[edge] / total if total > 0.0 else 1.0 / (last - first)
        worth[node], last = mean, first
