"""The advantage of every legal reply in the game as the matches so far have shown it: an empirical game tree.

Every match adds its path, who saw and replied what, to a tree (arXiv 2302.01366). What comes after a reply has the
frequency that it had: no policy can bias it, so matches of all iterations count alike. Policies are read again:

    V(h) = Σ_a π(a | h) Q(h, a) / Σ_a π(a | h)    over the replies that were tried at h
    A(I, a) = Σ_h ρ(h) (Q(h, a) − V(h)) / Σ_h ρ(h)    over the histories of I at which a was tried

with ρ the probability of h by chance and the other seats. At a state met in fewer than ``least`` matches, replies weigh
by how often they were tried, and a turn has the return less the seat's value at the start, times the probability of
what was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from games.common.errors import UsageError
from games.common.section import Positive, Section
from learners.keys import join_names
from learners.normalisation import trace_of
from learners.trajectories import Trajectory
from learners.values.estimator import Columns, Estimated, How, RememberedState, State, ValueEstimator, ValueFacts
from learners.values.exact import check_all_replies, check_rewards
from learners.values.memory import by_key
from roles.role import ReplyForm

Floats = NDArray[np.float64]
_ROOT = 0  # the edge before a match's first turn
_COLUMNS = ("state", "edge", "met", "last", "paid", "node", "reply", "tried", "earned")


class Settings(Section):
    """``empirical``'s settings."""

    turns: Positive = Field(
        20_000, description="how many positions of matches are remembered, but for the newest; those met longest ago go"
    )
    least: Positive = Field(
        4, description="matches that an information state was met in before the tree values its replies"
    )


class _Tree:
    """A tree that grows by matches. Parents come before children; all fields are columns, ready for JSON."""

    def __init__(self, saved: dict[str, Any] | None, seats: int) -> None:
        data = saved or {}
        self.clock: int = data.get("clock", 0) + 1
        self.states = [RememberedState.from_json(row) for row in data.get("states", [])]
        self.state: list[int] = list(data.get("state", []))  # of each node, a seat's turn  # [D]
        self.edge: list[int] = list(data.get("edge", []))  # that leads to it  # [D]
        self.met: list[int] = list(data.get("met", []))  # matches that came to it  # [D]
        self.last: list[int] = list(data.get("last", []))  # when it was met last  # [D]
        self.paid: list[list[float]] = [list(row) for row in data.get("paid", [])]  # returns of these matches  # [D, S]
        self.node: list[int] = list(data.get("node", [-1]))  # that the edge leaves  # [E]
        self.reply: list[int] = list(data.get("reply", [-1]))  # of the state's mask  # [E]
        self.tried: list[int] = list(data.get("tried", [0]))  # matches that took it  # [E]
        # returns of the matches that ended after it  # [E, S]
        self.earned: list[list[float]] = [list(row) for row in data.get("earned", [[0.0] * seats])]
        self._states = {state: index for index, state in enumerate(self.states)}
        self._nodes = {pair: index for index, pair in enumerate(zip(self.edge, self.state, strict=True))}
        self._edges = {pair: index for index, pair in enumerate(zip(self.node, self.reply, strict=True))}

    def to_json(self) -> dict[str, Any]:
        """Return what ``__init__`` reads."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return {"clock": self.clock, "states": self.states, **columns}

    def add(self, path: Sequence[tuple[RememberedState, int]], returns: Sequence[float]) -> None:
        """Add a match: the state and reply of each turn, and the returns of the trained seats."""
        edge = _ROOT
        self.tried[edge] += 1
        for state, reply in path:
            number = self._states.setdefault(state, len(self.states))
            if number == len(self.states):
                self.states.append(state)
            node = self._nodes.setdefault((edge, number), len(self.state))
            if node == len(self.state):
                for column, value in ((self.state, number), (self.edge, edge), (self.met, 0), (self.last, 0)):
                    column.append(value)
                self.paid.append([0.0] * len(returns))
            self.met[node] += 1
            self.paid[node] = _sum(self.paid[node], returns)
            self.last[node] = self.clock
            edge = self._edges.setdefault((node, reply), len(self.node))
            if edge == len(self.node):
                self.node.append(node)
                self.reply.append(reply)
                self.tried.append(0)
                self.earned.append([0.0] * len(returns))
            self.tried[edge] += 1
        self.earned[edge] = _sum(self.earned[edge], returns)

    def forget(self, most: int) -> None:
        """Forget the nodes that were met longest ago, until ``most`` are left or all are of this iteration.

        A node was met no later than the one before it, so nothing is left without its path. Matches through a node that
        is forgotten count as if they had ended before it, with their returns.
        """
        newest = sum(last == self.clock for last in self.last)
        if len(self.state) <= max(most, newest):
            return
        ranked = sorted(range(len(self.state)), key=lambda node: (-self.last[node], node))
        kept = sorted(ranked[: max(most, newest)])
        nodes = {-1: -1} | {old: new for new, old in enumerate(kept)}
        for node, edge in enumerate(self.edge):
            if node not in nodes and self.node[edge] in nodes:
                self.earned[edge] = _sum(self.earned[edge], self.paid[node])
        edges = {old: new for new, old in enumerate(edge for edge, node in enumerate(self.node) if node in nodes)}
        states = {old: new for new, old in enumerate(dict.fromkeys(self.state[node] for node in kept))}
        columns = {
            "clock": self.clock - 1,
            "states": [self.states[old] for old in states],
            "state": [states[self.state[node]] for node in kept],
            "edge": [edges[self.edge[node]] for node in kept],
            **{name: [getattr(self, name)[node] for node in kept] for name in ("met", "last", "paid")},
            "node": [nodes[self.node[edge]] for edge in edges],
            **{name: [getattr(self, name)[edge] for edge in edges] for name in ("reply", "tried", "earned")},
        }
        self.__init__(columns, len(self.earned[_ROOT]))  # type: ignore[misc]

    def met_states(self) -> list[int]:
        """Return in how many matches each state was met."""
        counts = [0] * len(self.states)
        for number, met in zip(self.state, self.met, strict=True):
            counts[number] += met
        return counts

    def number_of(self, state: RememberedState) -> int:
        """Return the number of a state that is remembered."""
        return self._states[state]


def _sum(totals: Sequence[float], more: Sequence[float]) -> list[float]:
    return [total + one for total, one in zip(totals, more, strict=True)]


def empirical(
    trajectories: Sequence[Trajectory],
    state: State,
    probabilities: Callable[[Sequence[RememberedState]], list[tuple[float, ...] | None]],
    settings: Settings,
) -> tuple[Columns, State]:
    """Add the matches to the tree, and value every legal reply of their turns by it."""
    credits_N: list[tuple[tuple[float, ...], ...]] = [()] * len(trajectories)
    after = dict(state)
    for key, indices in by_key(trajectories, lambda t: join_names(t.game, *t.players)):
        tree = _Tree(state.get(key), len({trajectories[i].seat for i in indices}))
        for path, returns in _paths([trajectories[i] for i in indices]):
            tree.add(path, returns)
        tree.forget(settings.turns)
        seats = {seat: place for place, seat in enumerate(sorted({trajectories[i].seat for i in indices}))}
        often = [number for number, met in enumerate(tree.met_states()) if met >= settings.least]
        policy = dict(zip(often, probabilities([tree.states[number] for number in often]), strict=True))
        values = _Values(tree, [seats[one.seat] for one in tree.states], policy)
        for i in indices:
            credits_N[i] = tuple(_credits(trajectories[i], tree, values, seats))
        after[key] = tree.to_json()
    return {"reply_credits": credits_N}, after


def _credits(
    trajectory: Trajectory, tree: _Tree, values: _Values, seats: dict[int, int]
) -> Iterator[tuple[float, ...]]:
    """Yield the credits of the legal replies of each turn."""
    gain = trajectory.match_return - float(values.start[seats[trajectory.seat]])
    for turn in trajectory.turns:
        state = remembered(trajectory, turn)
        by_reply = values.credits.get(tree.number_of(state))
        if by_reply is None:
            drawn = gain * exp(fsum(trace_of(trajectory, turn).logprobs))
            by_reply = tuple([drawn if reply == turn.reply else 0.0 for reply in state.mask])
        yield by_reply


def remembered(trajectory: Trajectory, turn: Any) -> RememberedState:
    """Return the information state of a turn: all that its replies' probabilities depend on, and whose turn it is."""
    trace = trace_of(trajectory, turn)
    return RememberedState(trajectory.policy, trajectory.seat, trace.prompt_ids, trace.mask or (), trace.temperature)


def _paths(
    trajectories: Sequence[Trajectory],
) -> Iterator[tuple[list[tuple[RememberedState, int]], list[float]]]:
    """Yield the path and the trained seats' returns of each match."""
    known: dict[tuple[int, str], tuple[RememberedState, int]] = {}  # by trace: turns that were drawn from one are equal
    for members in dict(by_key(trajectories, lambda t: str(t.match))).values():
        of_match = sorted((trajectories[i] for i in members), key=lambda t: t.seat)
        ordered = []
        for one in of_match:
            for place, turn in zip(one.order, one.turns, strict=True):
                key = id(turn.trace), turn.reply
                if (step := known.get(key)) is None:
                    state = remembered(one, turn)
                    step = known[key] = state, state.mask.index(turn.reply)
                ordered.append((place, step))
        ordered.sort(key=lambda pair: pair[0])
        yield [step for _, step in ordered], [one.match_return for one in of_match]


class _Values:
    """What a tree says under the policies: the credits of all replies of the states in ``policy``, and the values at
    the start. At other states, and where probabilities are not known, replies weigh by how often they were tried.
    """

    def __init__(self, tree: _Tree, seat: list[int], policy: Mapping[int, tuple[float, ...] | None]) -> None:
        sizes = np.array([len(one.mask) for one in tree.states])
        first = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        state, reply = np.array(tree.state), np.array(tree.reply)
        node, edge = np.array(tree.node), np.array(tree.edge)
        met, tried, earned = np.array(tree.met, float), np.array(tree.tried, float), np.array(tree.earned)
        slot = np.concatenate(([0], first[state[node[1:]]] + reply[1:]))  # of each edge, among all states' replies
        count = int(sizes.sum())
        takes = np.bincount(slot[1:], tried[1:], count)
        flat = takes / np.maximum(np.repeat(np.add.reduceat(takes, first), sizes), 1.0)
        for number, row in policy.items():
            if row is not None:
                flat[first[number] : first[number] + sizes[number]] = row
        p = np.concatenate(([1.0], np.maximum(flat[slot[1:]], 1e-12)))
        depth = np.zeros(len(state), int)
        for d, e in enumerate(tree.edge):
            depth[d] = depth[tree.node[e]] + 1 if e else 0
        nodes_at = [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]
        edge_depth = np.concatenate(([-1], depth[node[1:]]))
        edges_at = [np.flatnonzero(edge_depth == level) for level in range(len(nodes_at))]
        q, v = earned.copy(), np.zeros((len(state), earned.shape[1]))
        mass = np.bincount(node[1:], p[1:], len(state))
        for nodes, edges in zip(reversed(nodes_at), reversed(edges_at), strict=True):
            q[edges] /= tried[edges, None]
            np.add.at(v, node[edges], q[edges] * p[edges, None])
            v[nodes] /= mass[nodes, None]
            np.add.at(q, edge[nodes], v[nodes] * met[nodes, None])
        self.start = q[_ROOT] / tried[_ROOT]
        seat_of = np.array(seat)[state]
        reach = np.ones((len(state), earned.shape[1]))  # by chance and all seats but one
        for level, nodes in enumerate(nodes_at):
            chance = met[nodes] / tried[edge[nodes]]
            if level:
                before = node[edge[nodes]]
                own = np.eye(earned.shape[1], dtype=bool)[seat_of[before]]
                reach[nodes] = reach[before] * np.where(own, 1.0, p[edge[nodes], None])
            reach[nodes] *= chance[:, None]
        at = node[1:]
        weight = reach[at, seat_of[at]]
        gain = q[np.arange(1, len(node)), seat_of[at]] - v[at, seat_of[at]]
        sums, weights = np.bincount(slot[1:], weight * gain, count), np.bincount(slot[1:], weight, count)
        advantage = np.divide(sums, weights, out=np.zeros(count), where=weights > 0)
        advantage -= np.repeat(np.add.reduceat(flat * advantage, first), sizes)
        rows = (flat * advantage).tolist()
        bounds = list(zip(first.tolist(), sizes.tolist(), strict=True))
        self.credits = {n: tuple(rows[bounds[n][0] : sum(bounds[n])]) for n in policy}


def check(facts: ValueFacts, _settings: Settings) -> None:
    """Raise UsageError where replies have no probabilities, or rewards are not those of the match."""
    name, instead = "The estimator 'empirical' of turn values", "choose another values.estimator"
    free = [role.name for role in facts.roles if role.reply is not ReplyForm.CHOICE]
    if facts.game.submatch_games or free:
        reason = f"{', '.join(free)} of {facts.game.name} answers in free text" if free else "it opens other matches"
        raise UsageError(
            f"{name} weighs the legal replies of {facts.game.name} by their probabilities, but {reason}. Set "
            f"roles.reply = 'choice' in a game without submatches, or {instead}."
        )
    check_all_replies(name, instead, facts)
    check_rewards(name, facts)


ESTIMATOR = ValueEstimator(empirical, Settings, check=check, kind=Estimated.CONTRIBUTIONS, how=How.REMEMBERED)
