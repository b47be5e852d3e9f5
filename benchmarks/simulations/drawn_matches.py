"""Matches of a policy table, drawn at once from its distribution over a small game's ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from arena.records import Turn
from games.registry import make_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.credit.matches import PlayedBatch
from league.theory.exact.exploitability import exact_form, information_positions
from league.theory.exact.position_graph import PositionGraph
from league.theory.exact.sequence_form import SequenceForm
from learners.trajectories import Trajectory, return_scale

ExactForm = SequenceForm | PositionGraph


class Ends(NamedTuple):
    """A game's ends, with each seat's trajectory and its turns' states and actions."""

    form: SequenceForm
    trajectories: list[list[Trajectory]]  # [Z][seats]
    states: list[list[list[int]]]  # [Z][seats][turns]
    actions: list[list[list[int]]]  # as ``TurnValues`` numbers them

    def draw(self, probabilities: Sequence[Sequence[float]], matches: int, rng: np.random.Generator) -> PlayedBatch:
        """Return matches of the policy [I][actions] with itself."""
        reach = self.form.chance * self.form.plan(probabilities)[self.form.last].prod(axis=1)
        drawn = rng.choice(len(reach), size=matches, p=reach / reach.sum()).tolist()
        first = int(rng.integers(2**40))
        batch = [
            t._replace(match=first + number, deal_seed=first + number)
            for number, end in enumerate(drawn)
            for t in self.trajectories[end]
        ]
        states = list(chain.from_iterable(chain.from_iterable(self.states[end] for end in drawn)))
        actions = list(chain.from_iterable(chain.from_iterable(self.actions[end] for end in drawn)))
        return PlayedBatch(matches, batch, np.array(states, np.intp), np.array(actions, np.intp))


def ends_of(game: str) -> Ends:
    """Return all ends of a game."""
    form = exact_form(game)
    assert isinstance(form, SequenceForm)
    spec = make_game(game).spec
    roles, scale = seat_roles(RolesConfig(), spec), return_scale(spec)
    state_of = {
        first + k: i for i, (first, ids) in enumerate(zip(form.first, form.legal, strict=True)) for k in range(len(ids))
    }
    offset = np.cumsum([0, *map(len, form.legal)])
    seen, labels = shown_states(form)
    ends = Ends(form, [], [], [])
    for last, returns in zip(form.last.tolist(), form.returns.tolist(), strict=True):
        rows: tuple[list[Trajectory], list[list[int]], list[list[int]]] = ([], [], [])
        for seat in range(form.seats):
            path = _path(form, state_of, last[seat])
            paid = [0.0] * (len(path) - 1) + [returns[seat] / scale] * bool(path)
            turns = tuple(
                Turn(seat, roles[seat].name, "main", seen[i], tuple(labels[i]), labels[i][k], labels[i][k], r, None)
                for (i, k), r in zip(path, paid, strict=True)
            )
            facts = (game, roles[seat].name, "main", seat, 0, 0, ("main",) * form.seats)
            rows[0].append(Trajectory(*facts, turns, tuple(paid), returns[seat] / scale))
            rows[1].append([i for i, _ in path])
            rows[2].append([int(offset[i]) + k for i, k in path])
        ends.trajectories.append(rows[0])
        ends.states.append(rows[1])
        ends.actions.append(rows[2])
    return ends


def shown_states(form: ExactForm) -> tuple[list[str], list[list[str]]]:
    """Return what is seen at each information state, and its actions by ascending id."""
    positions, labels, seen = information_positions(form.game), [], []
    for key in form.keys:
        by_id = sorted(zip(positions[key].legal_ids(), positions[key].legal_actions(), strict=True))
        labels.append([label for _, label in by_id])
        seen.append(positions[key].observe(key[0]))
    return seen, labels


def _path(form: SequenceForm, state_of: dict[int, int], sequence: int) -> list[tuple[int, int]]:
    """Return the information states of a seat up to a sequence, each with the place of the action taken there."""
    path = []
    while sequence in state_of:
        path.append((state_of[sequence], sequence - int(form.first[state_of[sequence]])))
        sequence = form.parent[path[-1][0]]
    return path[::-1]
