"""Exact turn values: visit probability, V, Q and advantage of every information state under a joint policy.

For the seat s that decides at information state I, under the behaviour σ of all seats (any number),

    Q(I, a) = E[return of s | I is reached, s plays a there, then all follow σ]
    V(I) = Σ_a σ(a | I) Q(I, a),   A(I, a) = Q(I, a) − V(I),   visit(I) = P(I is reached in a match)

With softmax policies, σ(· | I) ∝ exp θ(I, ·), and V_s the expected return of seat s, the policy gradient (Sutton et al.
2000, "Policy gradient methods for reinforcement learning with function approximation") is

    ∂V_s / ∂θ(I, a) = visit(I) σ(a | I) A(I, a)

In sequence form, sums over the terminals below a sequence give Q times the probability that chance and the other seats
lead to I (the counterfactual value); in a board game V goes backward and visits go forward over positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import Behaviour, SequenceForm

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TurnValues:
    """The values of a game's I information states and of their actions, P of them in all, in the game's units.

    The actions of state i are ``first[i] : first[i + 1]``, by ascending id. Values are NaN at states that chance and
    the other seats never lead to: there they have no meaning.
    """

    seats: NDArray[np.intp]  # who decides  # [I]
    turns: NDArray[np.intp]  # how many decisions of the same seat come before, in every match that reaches it  # [I]
    first: NDArray[np.intp]  # [I + 1]
    probabilities: Floats  # σ  # [P]
    visits: Floats  # probability of getting there in a match  # [I]
    values: Floats  # V  # [I]
    action_values: Floats  # Q  # [P]

    @property
    def states(self) -> NDArray[np.intp]:
        """The information state of each action [P]."""
        return np.repeat(np.arange(len(self.values)), np.diff(self.first))

    @property
    def advantages(self) -> Floats:
        """A = Q − V [P]."""
        return np.asarray(self.action_values - self.values[self.states])

    @property
    def gradient(self) -> Floats:
        """The gradient of each seat's expected return in the softmax parameters of its own actions [P]."""
        weights = self.visits[self.states] * self.probabilities
        return np.where(weights > 0.0, weights * np.nan_to_num(self.advantages), 0.0)


def turn_values(form: SequenceForm | PositionGraph, behaviour: Behaviour) -> TurnValues:
    """Return the values of every turn when every seat follows ``behaviour`` [I][actions]."""
    first = np.cumsum([0, *map(len, form.legal)])
    seats = np.array([seat for seat, _ in form.keys], np.intp)
    probabilities = np.array([p for row in behaviour for p in row], np.float64)
    walk = _in_positions if isinstance(form, PositionGraph) else _in_sequences
    turns, visits, action_values = walk(form, behaviour)  # type: ignore[arg-type]
    values = np.add.reduceat(probabilities * action_values, first[:-1])
    return TurnValues(seats, turns, first, probabilities, visits, values, action_values)


def _in_sequences(form: SequenceForm, behaviour: Behaviour) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return the turn indices [I], visits [I] and action values [P]."""
    plan = form.plan(behaviour)
    earned, reached = np.zeros(form.sequences), np.zeros(form.sequences)  # by chance and the other seats, of terminals
    for seat in range(form.seats):
        weights = form.chance * plan[np.delete(form.last, seat, axis=1)].prod(axis=1)
        earned += np.bincount(form.last[:, seat], weights * form.returns[:, seat], form.sequences)
        reached += np.bincount(form.last[:, seat], weights, form.sequences)
    return _summed(form, behaviour, plan.tolist(), earned.tolist(), reached.tolist())


def _summed(
    form: SequenceForm, behaviour: Behaviour, plan: Sequence[float], earned: list[float], reached: list[float]
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Add up from the last states to the first; return turn indices [I], visits [I] and action values [P].

    For each sequence [Q] that ends a terminal for the seat, ``reached`` holds the terminals' probability by chance and
    the other seats, and ``earned`` that times the return. Both are added to in place.
    """
    count = len(form.keys)
    visits, action_values = np.zeros(count), [np.zeros(0)] * count
    for index in range(count - 1, -1, -1):
        actions = slice(form.first[index], form.first[index] + len(form.legal[index]))
        probabilities = behaviour[index]
        reach = reached[form.first[index]]  # the same after every action, as only the others and chance contribute
        action_values[index] = np.array(earned[actions]) / reach if reach > 0.0 else np.full(len(probabilities), np.nan)
        earned[form.parent[index]] += sum(p * value for p, value in zip(probabilities, earned[actions], strict=True))
        reached[form.parent[index]] += reach
        visits[index] = plan[form.parent[index]] * reach
    before = dict.fromkeys(range(form.seats), 0)  # decisions of the seat up to each of its sequences, that one included
    turns = np.zeros(count, np.intp)
    for index, (first, parent, legal) in enumerate(zip(form.first, form.parent, form.legal, strict=True)):
        turns[index] = before[parent]
        before.update(dict.fromkeys(range(first, first + len(legal)), before[parent] + 1))
    return turns, visits, np.concatenate(action_values)


def _in_positions(graph: PositionGraph, behaviour: Behaviour) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return the turn indices [I], visits [I] and action values [P]; a position comes after all that can follow it."""
    count = len(graph.keys)
    terminals = np.array(graph.returns)
    values, action_values = np.zeros((count, graph.seats)), []
    for index, ((seat, _), children) in enumerate(zip(graph.keys, graph.children, strict=True)):
        following = np.array([values[child] if child >= 0 else terminals[-1 - child] for child in children])
        values[index] = np.asarray(behaviour[index]) @ following
        action_values.append(following[:, seat])
    visits, turns = np.zeros(count), np.zeros((count, graph.seats), np.intp)
    visits[-1] = 1.0
    for index in range(count - 1, -1, -1):
        seat = graph.keys[index][0]
        for child, probability in zip(graph.children[index], behaviour[index], strict=True):
            if child >= 0:
                visits[child] += visits[index] * probability
                turns[child] = turns[index] + (np.arange(graph.seats) == seat)
    return turns[np.arange(count), [seat for seat, _ in graph.keys]], visits, np.concatenate(action_values)
