"""Matches of a policy table, played in groups of one start: of any exact game, with what it pays in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.records import Turn
from benchmarks.simulations.drawn_matches import ExactForm, shown_states
from games.registry import make_game
from games.spec import ChoiceGame, choice_game
from league.config import RolesConfig
from league.config.load import seat_roles
from league.lab.credit.matches import PlayedBatch
from league.theory.exact.exploitability import exact_form
from league.theory.exact.states import Key
from learners.trajectories import Trajectory, return_scale

Floats = NDArray[np.float64]
GROUP = 4  # matches of each start


class Plays(NamedTuple):
    """A small game, whose rewards come after turns, with what its seats see and may do."""

    game: ChoiceGame
    form: ExactForm
    places: dict[Key, int]  # of the information states
    roles: tuple[str, ...]  # [seats]
    seen: list[str]  # the observation at each information state  # [I]
    labels: list[list[str]]  # its actions by ascending id  # [I]
    scale: float  # of returns

    def draw(self, probabilities: Sequence[Sequence[float]], matches: int, rng: np.random.Generator) -> PlayedBatch:
        """Return matches of the policy [I][actions] with itself, ``GROUP`` of each start."""
        bounds = [np.cumsum(row) / sum(row) for row in probabilities]
        first = np.cumsum([0, *map(len, self.labels)])
        number = int(rng.integers(2**40))
        played = [self._play(number + match, number + match // GROUP, bounds, rng) for match in range(matches)]
        trajectories = [trajectory for match in played for trajectory, _ in match]
        where = [place for match in played for _, path in match for place in path]
        states = np.array([state for state, _ in where], np.intp)
        return PlayedBatch(matches, trajectories, states, first[states] + np.array([k for _, k in where], np.intp))

    def _play(
        self, match: int, deal: int, bounds: Sequence[Floats], rng: np.random.Generator
    ) -> list[tuple[Trajectory, list[tuple[int, int]]]]:
        """Return each seat's trajectory, and the information state and the place of the action of its turns."""
        game, count = self.game, 0
        game.reset(deal)
        paths: list[list[tuple[int, int]]] = [[] for _ in self.roles]
        paid: list[list[float]] = [[] for _ in self.roles]
        order: list[list[int]] = [[] for _ in self.roles]
        while (seat := game.to_act()) is not None:
            state = self.places[seat, game.information_state(seat)]
            action = min(int(np.searchsorted(bounds[state], rng.random(), side="right")), len(bounds[state]) - 1)
            paths[seat].append((state, action))
            paid[seat].append(0.0)
            order[seat].append(count)
            count += 1
            game.apply(self.labels[state][action])
            for rewards, amount in zip(paid, game.rewards(), strict=True):
                if rewards:
                    rewards[-1] += amount / self.scale
        found = []
        for seat, total in enumerate(game.returns()):
            facts = (self.form.game, self.roles[seat], "main", seat, match, deal, ("main",) * len(self.roles))
            turns = self._turns(seat, paths[seat], paid[seat])
            trajectory = Trajectory(*facts, turns, tuple(paid[seat]), total / self.scale, order=tuple(order[seat]))
            found.append((trajectory, paths[seat]))
        return found

    def _turns(self, seat: int, path: Sequence[tuple[int, int]], paid: Sequence[float]) -> tuple[Turn, ...]:
        rows = [(self.seen[i], tuple(self.labels[i]), self.labels[i][k]) for i, k in path]
        return tuple(
            Turn(seat, self.roles[seat], "main", seen, labels, action, action, reward, None)
            for (seen, labels, action), reward in zip(rows, paid, strict=True)
        )


def plays_of(game: str) -> Plays:
    """Return a game to be played."""
    form, spec = exact_form(game), make_game(game).spec
    seen, labels = shown_states(form)
    roles = tuple(role.name for role in seat_roles(RolesConfig(), spec))
    places = {key: index for index, key in enumerate(form.keys)}
    return Plays(choice_game(make_game(game)), form, places, roles, seen, labels, return_scale(spec))
