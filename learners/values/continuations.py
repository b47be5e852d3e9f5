"""The value of a turn by Monte Carlo continuations of the match (IPR, "Watch Every Step!", arXiv 2406.11176).

A match is resumed before its turn k, with the same deal and the same actions so far, and its seats continue it
``count`` times. The mean return is an unbiased estimate of the value of that history under the policies that play, and
the mean after the turn less the mean before it estimates the turn's advantage. Later chance follows the deal, so luck
that is still to come is the same before and after the turn, and cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arena.records import Episode, MatchRequest
from arena.scheduler import Engine, play
from games.common.errors import UsageError
from games.common.section import Positive, Section
from games.common.seeds import derive_seed
from games.registry import make_game
from learners.trajectories import Trajectory
from learners.values.estimator import (
    Columns,
    Estimated,
    Estimates,
    How,
    PlayMatches,
    Simulator,
    ValueEstimator,
    ValueFacts,
)
from roles.role import Role

Floats = NDArray[np.float64]


class Settings(Section):
    """How matches are continued from before each turn."""

    count: Positive = Field(4, description="matches played on from before each turn")


Point = tuple[Episode, int]  # a match, and how many of its turns have been played


def plays(roles: tuple[Role, ...], engine_of: Callable[[str], Engine]) -> PlayMatches:
    """Return a function that plays matches of one game with these roles and engines."""

    def played(requests: list[MatchRequest]) -> list[Episode]:
        return play(requests, roles_of=lambda _: roles, engine_of=engine_of, make_game=make_game)

    return played


class Continuations:
    """Continues matches from the middle, with the players that they had."""

    def __init__(self, play: PlayMatches, count: int = 16, seed: int = 0) -> None:
        """Continue each point ``count`` times; ``seed`` fixes what players draw."""
        self.count = count
        self._play, self._seed = play, seed

    def returns(self, points: Sequence[Point]) -> Floats:
        """Return the returns by point, continuation and seat [N, count, seats], in the game's units.

        A match that is over has its own returns.
        """
        return np.array(
            [[episode.returns for episode in continuations] for continuations in self.matches(points)], np.float64
        )

    def matches(self, points: Sequence[Point]) -> list[list[Episode]]:
        """Return the continuations of each point [N][count]; of a match that is over, itself."""
        continuations = [[episode] * self.count for episode, _ in points]
        open_points = [number for number, (episode, played) in enumerate(points) if played < len(episode.turns)]
        requests = [
            self._request(*points[number], draw, index * self.count + draw)
            for index, number in enumerate(open_points)
            for draw in range(self.count)
        ]
        episodes = self._play(requests)
        for index, number in enumerate(open_points):
            continuations[number] = episodes[index * self.count : (index + 1) * self.count]
        return continuations

    def _request(self, episode: Episode, played: int, draw: int, index: int) -> MatchRequest:
        old = episode.request
        turns = episode.turns[:played]
        return old._replace(
            index=index,
            branch=(),
            start="",  # the stored start belongs to the whole match
            sample_seed=derive_seed(self._seed, "continuation", old.sample_seed, played, draw),
            prefix=old.prefix + tuple(turn.action for turn in turns if turn.action is not None and not turn.tool),
        )


class ContinuationValues:
    """Values of turns by continuations from before every one."""

    def __init__(
        self, continuations: Continuations, episodes: Mapping[int, Episode], scales: Mapping[str, float]
    ) -> None:
        """``episodes`` are the trajectories' matches by index, ``scales`` the divisors of each game's returns."""
        self._continuations, self._episodes, self._scales = continuations, episodes, scales

    def estimate(self, trajectories: Sequence[Trajectory]) -> Estimates:
        """Return a value for each turn, less the seat's rewards before it, in the trajectories' units."""
        turns_N = [turn_places(self._episodes[t.match], t.seat) for t in trajectories]
        points = [(self._episodes[t.match], k) for t, turns in zip(trajectories, turns_N, strict=True) for k in turns]
        means = self._continuations.returns(points).mean(axis=1) if points else np.zeros((0, 1))
        values, start = [], 0
        for trajectory, turns in zip(trajectories, turns_N, strict=True):
            totals = means[start : start + len(turns), trajectory.seat] / self._scales[trajectory.game]
            earlier = np.cumsum(trajectory.rewards) - np.array(trajectory.rewards)
            values.append(tuple((totals - earlier).tolist()))
            start += len(turns)
        return values


def turn_places(episode: Episode, seat: int) -> list[int]:
    """Return the indices of a seat's turns among all turns of a match."""
    return [number for number, turn in enumerate(episode.turns) if turn.seat == seat]


def continuations(trajectories: Sequence[Trajectory], simulator: Simulator, settings: Settings) -> Columns:
    """Continue matches from before every turn; nothing is learned."""
    runs = Continuations(simulator.play, settings.count, simulator.seed("continued"))
    values = ContinuationValues(runs, simulator.episodes, simulator.scales)
    return {Estimated.VALUES: values.estimate(trajectories)}


def check(facts: ValueFacts, _settings: Section) -> None:
    """Raise UsageError for a game whose matches cannot be resumed in the middle."""
    if facts.game.submatch_games:
        raise UsageError(
            f"{facts.game.name} opens other matches, and these cannot be played on from their middles. "
            "Choose another values.estimator."
        )


ESTIMATOR = ValueEstimator(continuations, Settings, check=check, how=How.PLAY)
